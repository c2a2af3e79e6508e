"""The laws of proposals, coins and choices, read off the code of `quantile_levels`.

Nothing is computed here that the code computes: which cells a level has, how often a cell is
proposed, and with what chance it is kept.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from fractions import Fraction
from unittest import mock

import numpy as np

from dither.privacy.mechanisms import quantile_levels
from dither.privacy.mechanisms.additive import exact_integers
from dither.privacy.mechanisms.quantile_levels import (
    RankLevels,
    by_flips,
    count_missed,
    is_kept,
    list_levels,
    put_on_grid,
)
from dither.privacy.noise.enclosure import Enclosure
from tests.sources import TestSource


def levels_of(counts, q, scale, shift=0) -> RankLevels:
    """The levels of a histogram that has all cells of a grid."""
    filled = np.flatnonzero(counts)
    rows = exact_integers(list(map(int, counts)))[filled]
    return list_levels(put_on_grid(filled, rows, 0, len(counts) - 1), q, Fraction(scale), shift)


def list_cells(levels: RankLevels) -> range:
    return range(int(levels.grid.fence[0]), int(levels.grid.fence[-1]) + 1)


def list_scores(counts, q, goal_shift=0) -> list[int]:
    """The scores of all cells, as the code has them; the rank is `goal_shift` rows above the
    share."""
    levels = levels_of(counts, q, 1, goal_shift)
    return [-count_missed(levels, cell) for cell in list_cells(levels)]


def proposal_law(levels: RankLevels) -> list[Fraction]:
    """How often each cell is proposed: by the sizes of levels that the code found."""
    places: Counter[int] = Counter()
    for level, (first, weight) in enumerate(zip(levels.firsts, levels.weights, strict=True)):
        unit = 1 << max(0, levels.last - 1 - level)
        places.update(dict.fromkeys(range(first, first + weight // unit), unit))
    return [Fraction(places[cell], levels.total) for cell in list_cells(levels)]


def coin_of(levels: RankLevels, missed: int) -> Enclosure:
    """The chance with which the code keeps a proposed cell that misses by so much, in 256 bits."""
    thrown: list[Enclosure] = []

    def throw(chance, drawn, source):
        thrown.append(chance(256))
        return True

    with mock.patch.object(quantile_levels, "decide", throw):
        kept = is_kept(levels, missed, TestSource([], after=0))
    bound = thrown[0] if thrown else Enclosure(kept << 256, kept << 256)
    assert 0 <= bound.low <= bound.high <= (1 << 256) + 1 and bound.high - bound.low <= 4
    return bound


def kept_chance(levels: RankLevels, missed: int) -> float:
    """The same, rounded."""
    return float(Fraction(coin_of(levels, missed).low, 1 << 256))


def weight_law(levels: RankLevels) -> list[float]:
    """The law of `by_weight`: of proposals that are kept."""
    chances = [
        float(proposed) * kept_chance(levels, count_missed(levels, cell))
        for cell, proposed in zip(list_cells(levels), proposal_law(levels), strict=True)
    ]
    return [chance / sum(chances) for chance in chances]


class CutOff(Exception):
    """A path whose chance is too small to follow."""


class Branches:
    """Replays a program, each time along another path of its choices, until paths get unlikely."""

    def __init__(self, least: float = 0.0) -> None:
        self.path: list[tuple[int, int]] = []  # (taken, of)
        self.at, self.chance, self.least, self.lost = 0, 1.0, least, 0.0

    def choose(self, chances: list[float]) -> int:
        live = [i for i, p in enumerate(chances) if p > 0]
        if self.at == len(self.path):
            self.path.append((0, len(live)))
        taken = self.path[self.at][0]
        self.at += 1
        self.chance *= chances[live[taken]]
        if self.chance < self.least:
            self.lost += self.chance
            raise CutOff
        return live[taken]

    def next(self) -> bool:
        while self.path and self.path[-1][0] + 1 == self.path[-1][1]:
            self.path.pop()
        if not self.path:
            return False
        taken, of = self.path[-1]
        self.path[-1] = (taken + 1, of)
        self.at, self.chance = 0, 1.0
        return True


def flip_law(levels: RankLevels, least: float = 1e-6) -> tuple[list[float], float]:
    """The law of `by_flips`, and the chance of all paths that were not followed to their end."""
    branches = Branches(least)
    proposals = list(map(float, proposal_law(levels)))

    def propose(levels, source):
        return list_cells(levels)[branches.choose(proposals)]

    def keep(levels, missed, source):
        chance = kept_chance(levels, missed)
        return branches.choose([chance, 1 - chance]) == 0

    def below(n, *, source):
        """Below the rate that is asked about, or not below it: all that `happens` looks at."""
        return rates[-1] * branches.choose([rates[-1] / n, 1 - rates[-1] / n])

    def happens(stretches, rate, source):
        rates.append(rate)
        return really_happens(stretches, rate, source)

    really_happens = quantile_levels.happens
    rates: list[int] = []
    found = [0.0] * len(proposals)
    with (
        mock.patch.object(quantile_levels, "propose", propose),
        mock.patch.object(quantile_levels, "is_kept", keep),
        mock.patch.object(quantile_levels, "happens", happens),
        mock.patch.object(quantile_levels, "uniform_below", below),
    ):
        while True:
            with suppress(CutOff):
                found[by_flips(levels, None) - list_cells(levels)[0]] += branches.chance
            if not branches.next():
                return found, branches.lost
