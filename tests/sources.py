"""Words chosen by a test. Lives here, outside the wheel: nothing in `src` can reach it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dither.privacy.noise import Words


class Exhausted(Exception):
    """The code under test asked for more words than were fed."""


class TestSource(Words):
    """Feeds the given words, in order, then `after` for ever (or raises `Exhausted`). Counts what
    was asked."""

    __test__ = False  # not a test class, whatever its name says

    def __init__(self, words: Iterable[int], after: int | None = None) -> None:
        self.left = [int(word) for word in words]
        self.after = after
        self.asked = 0
        self.calls = 0

    def words(self, count: int, width: int = 64) -> NDArray[np.uint64]:
        self.calls += 1
        self.asked += count
        taken, self.left = self.left[:count], self.left[count:]
        if len(taken) < count:
            if self.after is None:
                raise Exhausted
            taken += [self.after] * (count - len(taken))
        if not all(0 <= word < 1 << width for word in taken):
            raise AssertionError(f"a word does not fit {width} bits")
        return np.array(taken, np.uint64)


class Refusing(Words):
    """Fails if one word is drawn: for parameters that must be refused before anything is drawn."""

    def words(self, count: int, width: int = 64) -> NDArray[np.uint64]:
        raise AssertionError("a word was drawn")


def enumerate_outcomes(
    run: Callable[[Words], Hashable], width: int, most_words: int, start: tuple[int, ...] = ()
) -> tuple[dict[Hashable, Fraction], Fraction]:
    """The exact law of `run` over *all* strings of up to `most_words` words: (mass of each outcome,
    mass undecided).

    Depth first: a run that is decided by its first words stands for all strings that begin with
    them.
    """
    mass: Counter[Hashable] = Counter()
    undecided = 0
    stack = [start]
    while stack:
        prefix = stack.pop()
        weight = 1 << (width * (most_words - len(prefix)))
        try:
            mass[run(TestSource(prefix))] += weight
        except Exhausted:
            if len(prefix) == most_words:
                undecided += weight
            else:
                stack += [(*prefix, word) for word in range(1 << width)]
    whole = 1 << (width * (most_words - len(start)))
    return {outcome: Fraction(count, whole) for outcome, count in mass.items()}, Fraction(
        undecided, whole
    )
