"""The clamp and the number of groups that err least, from noisy histograms of people.

With m groups a person and the clamp C the noise of one cell has the scale m C / epsilon, and
cutting off costs the sum of what lies above C: the integral of S from C on, where S(c) is how many
people add more than c. So the total over G cells errs least where G m / epsilon people lie above C
(Amin, Kulesza, Munoz Medina and Vassilvitskii, "Bounding user contributions", 2019, for one cell).
Few people in the tail cannot be told from noise. What is read off the histogram ends with the
highest bin that stands out of its noise, and those right above that are likely filled too: bins
above count as empty, and S falls exponentially from the last lower edge on, at least as fast as the
bins around it say.

Nothing here reads data: the same counts give the same limits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_BINS = 24
_CERTAIN = 6.0
"""How many deviations of its noise a bin must have to be believed by itself. Laplace noise exceeds
t deviations upwards with probability exp(-1.41 t) / 2: one of 24 empty bins in 1 of 400 histograms.
Two bins side by side need half of it each: 24 pairs do so by chance in 1 of 200.
"""
_LIKELY = 2.0
"""As many deviations do for a bin next to one that is believed: tails end gradually."""


@dataclass(frozen=True)
class BoughtHistogram:
    """Noisy counts of people by bin: bin i has those whose value exceeds exactly i edges."""

    edges: tuple[int, ...]
    counts: tuple[int, ...]
    deviation: float

    def read_tail(self) -> PeopleAbove:
        """How many people lie above each value, as far as the counts tell."""
        certain = [i for i in range(1, len(self.counts)) if self._is_certain(i)]
        if not certain:
            return PeopleAbove((), 1.0)
        highest = certain[-1]
        while (
            highest + 1 < len(self.counts) and self.counts[highest + 1] > _LIKELY * self.deviation
        ):
            highest += 1
        points: list[tuple[float, float]] = []
        people = 0.0
        for i in range(highest, 0, -1):
            people += max(0, self.counts[i])
            points.append((float(self.edges[i - 1]), people))
        points.reverse()
        return PeopleAbove(tuple(points), self._find_scale(points, highest))

    def find_mean(self) -> float:
        """What one person has on average, at least 1."""
        tail = self.read_tail()
        return max(1.0, tail.sum_above(0.0) / tail.points[0][1]) if tail.points else 1.0

    def _is_certain(self, i: int) -> bool:
        """Whether a bin stands out of its noise, by itself or together with one beside it."""
        halfway = _CERTAIN / 2 * self.deviation
        beside = max(self.counts[max(1, i - 1) : i] + self.counts[i + 1 : i + 2], default=0)
        is_pair = min(self.counts[i], beside) > halfway
        return is_pair or self.counts[i] > _CERTAIN * self.deviation

    def _find_scale(self, points: list[tuple[float, float]], highest: int) -> float:
        """The distance over which the number of people falls to 1/e behind the last point."""
        last, people = points[-1]
        step = float(self.edges[highest] - last) if highest < len(self.edges) else max(last, 1.0)
        above = max(0, self.counts[highest + 1]) if highest + 1 < len(self.counts) else 0
        rarest = min(people * 0.9, above + 1.5 * self.deviation)
        scale = step / math.log(people / max(rarest, 0.5))
        if len(points) > 1 and points[-2][0] > 0:
            before, more = points[-2]
            scale = min(scale, (last - before) / max(math.log(more / people), 0.1))
        return scale


@dataclass(frozen=True)
class ChosenClamp:
    """A clamp on the grid of its aggregate, and about what all people add together.

    No clamp and a total of 0 where no bin stands out of its noise.
    """

    clamp: int | None
    total: int


def list_magnitude_edges(largest: int) -> tuple[int, ...]:
    """Edges between bins: 0, then each twice the one before, up to the largest possible value.

    >>> list_magnitude_edges(8)
    (0, 1, 2, 4)
    """
    edges = {0, *(math.ceil(largest / (1 << i)) for i in range(1, _BINS))}
    return tuple(sorted(edge for edge in edges if edge < largest))


def list_group_edges(largest: int) -> tuple[int, ...]:
    """Numbers of groups between which people are told apart.

    >>> list_group_edges(20)
    (0, 1, 2, 3, 4, 6, 8, 12, 16)
    """
    edges = {0, 1, 2, 3} | {
        step << power for step in (2, 3) for power in range(largest.bit_length())
    }
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
    tails = [histogram.read_tail() for histogram in histograms]
    groups_each = 1.0 if groups is None else groups.find_mean()
    options = [(1, 0.0)] if groups is None else _list_group_losses(groups)
    best: tuple[float, list[ChosenClamp], int] | None = None
    for max_groups, lost_share in options:
        chosen = []
        error = 0.0
        for histogram, tail in zip(histograms, tails, strict=True):
            if not tail.points:
                chosen.append(ChosenClamp(None, 0))
                continue
            clamp = tail.find_crossing(cells * max_groups / epsilon)
            clamp = min(max(clamp, 1.0), 2.0 * max(histogram.edges[-1], 1))
            total = tail.sum_above(0.0)
            noise = cells * max_groups * clamp / epsilon
            error += (noise + tail.sum_above(clamp)) / max(total, 1.0) + lost_share
            chosen.append(ChosenClamp(math.ceil(clamp), round(total * groups_each)))
        if best is None or error < best[0]:
            best = (error, chosen, max_groups)
    assert best is not None
    return best[1], None if groups is None else best[2]


def _list_group_losses(groups: BoughtHistogram) -> list[tuple[int, float]]:
    """Numbers of groups, each with the share of all groups of people that it leaves out."""
    tail = groups.read_tail()
    total = max(tail.sum_above(0.0), 1.0)
    limits = range(1, min(64, 2 * max(groups.edges[-1], 1)) + 1)
    return [(limit, min(1.0, tail.sum_above(float(limit)) / total)) for limit in limits]


@dataclass(frozen=True)
class PeopleAbove:
    """How many people lie above a value: straight lines of the logarithm between known points.

    Behind the last point their number falls to 1/e over `scale`.

    >>> tail = PeopleAbove(((0.0, 100.0), (8.0, 25.0)), 4.0)
    >>> tail.count(4.0), tail.find_crossing(50.0), round(tail.count(12.0), 1)
    (50.0, 4.0, 9.2)
    """

    points: tuple[tuple[float, float], ...]
    scale: float

    def count(self, value: float) -> float:
        """How many people lie above a value."""
        if not self.points:
            return 0.0
        for (low, people), (high, fewer) in pairwise(self.points):
            if value <= high:
                share = (max(value, low) - low) / (high - low)
                return float(people * (fewer / people) ** share)
        last, people = self.points[-1]
        return people * math.exp(-max(value - last, 0.0) / self.scale)

    def find_crossing(self, people: float) -> float:
        """The value above which so many people lie, and no more than half of all of them."""
        if not self.points:
            return 0.0
        people = min(people, self.points[0][1] / 2)
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
        for (low, _), (high, fewer) in pairwise(self.points):
            if value < high:
                start = max(low, value)
                total += _integrate(self.count(start), fewer, high - start)
        last = max(self.points[-1][0], value)
        return total + self.count(last) * self.scale


def _integrate(first: float, last: float, width: float) -> float:
    """The integral of what falls exponentially from `first` to `last`."""
    return first * width if first <= last else width * (first - last) / math.log(first / last)
