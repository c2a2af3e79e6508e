"""The exact law of what a randomiser's *code* sends: every coin it tosses is played both ways.

The samplers of `dither.privacy.noise` are replaced, in the modules of `dither.local`, by a player
that tries all their outcomes in turn and multiplies their probabilities; the rest of the code runs
as it is. Nothing here looks at the law that a protocol states, so a wrong `law` and a wrong
`permanent` cannot cover for each other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from math import prod
from typing import Any
from unittest.mock import patch

import numpy as np

from dither.privacy.noise import Words


class NoWords(Words):
    """Refuses: every draw must go through a sampler that the player knows."""

    def words(self, count: int, width: int = 64) -> np.ndarray:
        raise AssertionError("a draw that the player does not know")


class Player:
    """Depth-first search over the outcomes of all draws of one run."""

    def __init__(self, depth: int = 10_000) -> None:
        self.path: list[int] = []
        self.options: list[int] = []
        self.place, self.weight, self.depth = 0, Fraction(1), depth

    def choose(self, weights: list[Fraction]) -> int:
        alive = [i for i, w in enumerate(weights) if w]
        if self.place == len(self.path):
            if len(alive) > 1 and self.place >= self.depth:
                raise TooDeep
            self.path.append(0)
            self.options.append(len(alive))
        found = alive[self.path[self.place]]
        self.place += 1
        self.weight *= weights[found]
        return found

    def next_path(self) -> bool:
        while self.path and self.path[-1] + 1 == self.options[-1]:
            self.path.pop()
            self.options.pop()
        if self.path:
            self.path[-1] += 1
        return bool(self.path)

    # the samplers
    def bernoulli(self, p: Any, size: Any = None, *, source: Any = None) -> Any:
        chance = Fraction(p)
        return _shape(size, lambda: bool(self.choose([1 - chance, chance])), np.bool_)

    def uniform_below(self, n: int, size: Any = None, *, source: Any = None) -> Any:
        few = 16 if n == 1 << 32 else int(n)  # Haar keeps low bits only: those of 2**32 are uniform
        return _shape(size, lambda: self.choose([Fraction(1, few)] * few), np.int64)

    # the draws of one report (dither.local.coins)
    def coin(self, odds: Any) -> bool:
        return bool(self.choose([1 - odds.exact, odds.exact]))

    def below(self, n: int) -> int:
        return int(self.uniform_below(n))

    def bits(self, p: Fraction, count: int) -> int:
        return sum(self.choose([1 - p, p]) << place for place in range(count))

    def source(self) -> Words:
        return NoWords()

    def random_rows(self, p: Fraction, rows: int, width: int, source: Any) -> Any:
        bits = np.array(
            [[self.choose([1 - p, p]) for _ in range(width)] for _ in range(rows)], np.uint8
        )
        return np.packbits(bits.reshape(rows, width), axis=1, bitorder="little")

    def round_at_random(self, grid: Any, steps: int, source: Any) -> Any:
        found = []
        for point in grid:
            down, rest = divmod(int(point) * steps, 1 << 32)
            up = Fraction(rest, 1 << 32)
            found.append(down + self.choose([1 - up, up]))
        return np.array(found, np.int64)


class TooDeep(Exception):
    """A run that was cut off; its probability is missing from the law."""


def _shape(size: Any, draw: Callable[[], Any], dtype: Any) -> Any:
    if size is None:
        return draw()
    shape = size if isinstance(size, tuple) else (size,)
    return np.array([draw() for _ in range(prod(shape))], dtype).reshape(shape)


@contextmanager
def _replaced(player: Player) -> Iterator[None]:
    with_patches = []
    for name, module in list(sys.modules.items()):
        if name.startswith("dither.local."):
            with_patches += [
                patch.object(module, sampler, getattr(player, sampler))
                for sampler in ("bernoulli", "uniform_below", "random_rows", "round_at_random")
                if sampler in vars(module)
            ]
    for one in with_patches:
        one.start()
    try:
        yield
    finally:
        for one in with_patches:
            one.stop()


def played_law(
    send: Callable[[Player], Any], depth: int = 10_000
) -> tuple[dict[Any, Fraction], Fraction]:
    """(the law of what `send(player)` returns, the probability of runs that were cut off at `depth`
    draws)."""
    player, law, lost = Player(depth), {}, Fraction(0)
    with _replaced(player):
        while True:
            player.place, player.weight = 0, Fraction(1)
            try:
                output = send(player)
                law[output] = law.get(output, Fraction(0)) + player.weight
            except TooDeep:
                lost += player.weight
            if not player.next_path():
                return law, lost
