"""The clamp and the number of groups that err least, from noisy histograms of people.

With m groups a person and the clamp C the noise of one cell has the scale m C / epsilon, and
cutting off costs the sum of what lies above C: the integral of S from C on, where S(c) is how many
people add more than c. So the total over G cells errs least where G m / epsilon people lie above C
(Amin, Kulesza, Munoz Medina and Vassilvitskii, "Bounding user contributions", 2019, for one cell).
Few people in the tail cannot be told from noise: S is read off the histogram as far as it is well
above its noise, and falls exponentially from there on, at the rate of its last part.

Nothing here reads data: the same counts give the same limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_BINS = 40
_CERTAIN = 3.0
"""How many deviations of its noise a count of people must have to be believed."""


@dataclass(frozen=True)
class BoughtHistogram:
    """Noisy counts of people by bin: bin i has those whose value exceeds exactly i edges."""

    edges: tuple[int, ...]
    counts: tuple[int, ...]
    deviation: float

    def count_above(self) -> list[tuple[float, float]]:
        """Edges with how many people lie above, from the lowest up, as far as they are certain.

        The noise of a sum of r bins has sqrt(r) times the deviation of one.
        """
        sums: list[float] = []
        total = 0.0
        for count in reversed(self.counts[1:]):
            total += count
            sums.append(total)
        above = list(zip(self.edges, reversed(sums), strict=True))
        certain = [
            (float(edge), people)
            for position, (edge, people) in enumerate(above)
            if people > _CERTAIN * self.deviation * math.sqrt(len(above) - position)
        ]
        return _make_decreasing(certain)


@dataclass(frozen=True)
class ChosenClamp:
    """A clamp on the grid of its aggregate, and about what all people add together."""

    clamp: int
    total: int


def list_magnitude_edges(largest: int) -> tuple[int, ...]:
    """Edges between bins, each sqrt(2) times the one before, up to the largest possible value.

    >>> list_magnitude_edges(8)
    (1, 2, 3, 4, 6)
    """
    edges = {math.ceil(largest / 2 ** (i / 2)) for i in range(1, _BINS + 1)}
    return tuple(sorted(edge for edge in edges if 0 < edge < largest))


def list_group_edges(largest: int) -> tuple[int, ...]:
    """Numbers of groups between which people are told apart.

    >>> list_group_edges(20)
    (1, 2, 3, 4, 6, 8, 12, 16)
    """
    edges = {1, 2, 3} | {step << power for step in (2, 3) for power in range(largest.bit_length())}
    return tuple(sorted(edge for edge in edges if edge < largest))


def choose_limits(
    histograms: Sequence[BoughtHistogram],
    groups: BoughtHistogram | None,
    epsilon: float,
    cells: int,
) -> tuple[list[ChosenClamp], int | None]:
    """A clamp for each aggregate, and the number of groups, that err least together.

    Errors are compared as shares of the total, so that aggregates of different size count alike.
    """
    tails = [_Tail(histogram.count_above()) for histogram in histograms]
    options = [(1, 0.0)] if groups is None else _list_group_losses(groups)
    best: tuple[float, list[ChosenClamp], int] | None = None
    for max_groups, lost_share in options:
        chosen = []
        error = 0.0
        for histogram, tail in zip(histograms, tails, strict=True):
            clamp = tail.find_crossing(cells * max_groups / epsilon)
            clamp = min(max(clamp, histogram.edges[0] if histogram.edges else 1), _top(histogram))
            total = tail.sum_above(0.0)
            noise = cells * max_groups * clamp / epsilon
            error += (noise + tail.sum_above(clamp)) / max(total, 1.0) + lost_share
            chosen.append(ChosenClamp(math.ceil(clamp), round(total)))
        if best is None or error < best[0]:
            best = (error, chosen, max_groups)
    assert best is not None
    return best[1], None if groups is None else best[2]


def _top(histogram: BoughtHistogram) -> float:
    """The largest possible value: the edges end sqrt(2) below it."""
    return math.ceil(histogram.edges[-1] * math.sqrt(2)) if histogram.edges else 1.0


def _list_group_losses(groups: BoughtHistogram) -> list[tuple[int, float]]:
    """Numbers of groups, each with the share of all groups of people that it leaves out."""
    tail = _Tail(groups.count_above(), everybody=max(1.0, float(sum(groups.counts))))
    total = max(tail.sum_above(0.0), 1.0)
    limits = [*groups.edges, groups.edges[-1] * 2] if groups.edges else [1]
    return [(limit, min(1.0, tail.sum_above(float(limit)) / total)) for limit in limits]


def _make_decreasing(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points with each count at least that of any point after it."""
    smoothed: list[tuple[float, float]] = []
    largest = 0.0
    for edge, people in reversed(points):
        largest = max(largest, people)
        smoothed.append((edge, largest))
    return smoothed[::-1]


class _Tail:
    """How many people lie above a value: straight lines of the logarithm between known points."""

    def __init__(self, points: list[tuple[float, float]], everybody: float | None = None) -> None:
        first = points[0][1] if points else 0.0
        start = first if everybody is None else max(everybody, first)
        self.points = [(0.0, start), *points] if start > 0 else []
        self.scale = _find_scale(self.points)

    def count(self, value: float) -> float:
        """How many people lie above a value."""
        if not self.points:
            return 0.0
        for (low, people), (high, fewer) in pairwise(self.points):
            if value <= high:
                share = (value - low) / (high - low)
                return people * (fewer / people) ** share
        last, people = self.points[-1]
        return people * math.exp(-(value - last) / self.scale)

    def find_crossing(self, people: float) -> float:
        """The value above which so many people lie."""
        if not self.points or people >= self.points[0][1]:
            return 0.0
        for (low, more), (high, fewer) in pairwise(self.points):
            if fewer <= people < more:
                return low + (high - low) * math.log(more / people) / math.log(more / fewer)
        last, fewest = self.points[-1]
        return last + self.scale * math.log(fewest / people)

    def sum_above(self, value: float) -> float:
        """What people add above a value, together: the integral of `count` from there on."""
        if not self.points:
            return 0.0
        total = 0.0
        for (low, people), (high, fewer) in pairwise(self.points):
            if value >= high:
                continue
            start = max(low, value)
            middle = math.sqrt(self.count(start) * fewer)
            total += middle * (high - start)
        last = max(self.points[-1][0], value)
        return total + self.count(last) * self.scale


def _find_scale(points: list[tuple[float, float]]) -> float:
    """The distance over which the number of people falls to 1/e, by the last part of the points."""
    if len(points) < 2:
        return 1.0
    last, fewest = points[-1]
    for edge, people in reversed(points[:-1]):
        if people >= fewest * math.e:
            return (last - edge) / math.log(people / fewest)
    edge, people = points[0]
    return (last - edge) / max(math.log(people / fewest), 0.25)
