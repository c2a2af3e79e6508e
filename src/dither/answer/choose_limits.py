"""The clamp and the number of groups that err least, from noisy histograms of people.

With m groups a person and the clamp C the noise of one cell has the scale s = m C / epsilon, and
cutting off costs the sum of what lies above C: the integral of S from C on, where S(c) is how many
people add more than c. Noise and loss add up to at most G s + b over G cells, b for all of them,
which is least where G m / epsilon people lie above C (Amin, Kulesza, Munoz Medina and
Vassilvitskii, "Bounding user contributions", 2019, for one cell). But noise that points away from
the loss makes up for it: with Laplace noise X the median of |X - b| is s log(2 cosh(b / s)), since
P(|X - b| > t) = exp(-t / s) cosh(b / s) for t >= b. This is what is made least here. It is least at
a smaller clamp, which is searched for below that one.
Few people in the tail cannot be told from noise. What is read off the histogram ends with the
highest bin that stands out of its noise. Above it a bin is expected from the two below, and what
was counted in it weighs the less the more noise it has. Behind the last bin S falls exponentially,
at least as fast as the bins before it say. Values are integers: S is constant between them, so what
lies above C is the sum of S(c) over c = C, C + 1, ..., and not the integral.

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
_MOST_KEPT = 0.5
"""Of the people in a bin at most so many are expected in the next, above the certain ones."""
_FALL = 2.0
"""Bins double, and where people fall off exponentially the logarithm of the ratio doubles too. Long
tails, as of powers, keep their ratio, but they stand out of the noise."""
_STEPS = 8
"""How many clamps are tried between one and twice that."""
_FEWEST = 0.5
"""Of fewer people in a bin nothing is expected."""


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
        people_in = [max(0.0, float(count)) for count in self.counts[1 : certain[-1] + 1]]
        people_in += self._expect_tail(people_in)
        points: list[tuple[float, float]] = []
        people = 0.0
        for i in range(len(people_in), 0, -1):
            people += people_in[i - 1]
            points.append((float(self.edges[i - 1]), people))
        points.reverse()
        return PeopleAbove(tuple(points), self._find_scale(points))

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

    def _expect_tail(self, people_in: list[float]) -> list[float]:
        """How many people the bins above the highest certain one have, until there are none.

        A bin is expected to hold as much less than the one below as that one does, raised to
        _FALL. What was counted moves that by the weight it has beside its noise: an expectation of
        m people is wrong by about m, the count by the deviation of its noise.
        """
        tail: list[float] = []
        below = people_in[-1]
        ratio = _MOST_KEPT
        if len(people_in) > 1 and people_in[-2] > 0:
            ratio = min(_MOST_KEPT, below / people_in[-2])
        for count in self.counts[len(people_in) + 1 :]:
            expected = below * ratio**_FALL
            weight = expected**2 / (expected**2 + self.deviation**2)
            people = expected + weight * (max(0.0, float(count)) - expected)
            if people < _FEWEST:
                break
            tail.append(people)
            ratio = min(_MOST_KEPT, people / below)
            below = people
        return tail

    def _find_scale(self, points: list[tuple[float, float]]) -> float:
        """The distance over which the number of people falls to 1/e behind the last point."""
        last, people = points[-1]
        end = len(points)
        step = float(self.edges[end] - last) if end < len(self.edges) else max(last, 1.0)
        scale = step / math.log(max(people, 2 * _FEWEST) / _FEWEST)
        if len(points) > 1:
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
    wider_tails: Sequence[PeopleAbove] = (),
    averaged: Sequence[bool] = (),
) -> tuple[list[ChosenClamp], int | None]:
    """A clamp for each aggregate, and the number of groups, that err least together.

    Errors are compared as shares of the total, so that aggregates of different size count alike.
    `wider_tails` are what is expected of each aggregate, where its own histogram says nothing.
    `averaged` says which aggregates are counts of rows that are averaged.
    """
    tails = [histogram.read_tail() for histogram in histograms]
    if wider_tails:
        pairs = zip(tails, wider_tails, strict=True)
        tails = [tail if tail.points else expected for tail, expected in pairs]
    groups_each = 1.0 if groups is None else groups.find_mean()
    options = [(1, 0.0)] if groups is None else _list_group_losses(groups)
    best: tuple[float, list[ChosenClamp], int] | None = None
    for max_groups, lost_share in options:
        chosen = []
        error = 0.0
        for i, (histogram, tail) in enumerate(zip(histograms, tails, strict=True)):
            if not tail.points:
                chosen.append(ChosenClamp(None, 0))
                continue
            total = tail.sum_above(0.0)
            most = 2.0 * max(histogram.edges[-1], 1)
            people = cells * max_groups / epsilon
            if averaged and averaged[i]:
                clamp, least = _find_row_limit(tail, people, most, groups_each * (1 - lost_share))
                error += least
            else:
                clamp, least = _find_clamp(tail, people, most, lost_share * total)
                error += least / max(total, 1.0)
            chosen.append(ChosenClamp(math.ceil(clamp), round(total * groups_each)))
        if best is None or error < best[0]:
            best = (error, chosen, max_groups)
    assert best is not None
    return best[1], None if groups is None else best[2]


def _find_clamp(tail: PeopleAbove, people: float, most: float, lost: float) -> tuple[float, float]:
    """The clamp whose median error is least, and that error over all cells, where noise is `people`
    times the clamp and `lost` is lost whatever the clamp.

    Laplace noise of scale s beside a bias b errs by s log(2 cosh(b / s)) in the median.

    >>> tail = PeopleAbove(((0.0, 100.0), (8.0, 25.0), (16.0, 1.0)), 2.0)
    >>> [round(number, 2) for number in _find_clamp(tail, 10.0, 32.0, 0.0)]
    [9.42, 74.42]
    """
    highest = min(max(tail.find_crossing(people), 1.0), most)
    clamps = [max(1.0, highest / 2 ** (step / _STEPS)) for step in range(4 * _STEPS)]
    errors = []
    for clamp in clamps:
        bias = tail.sum_above(clamp) + lost
        noise = people * clamp
        errors.append((bias + noise * math.log1p(math.exp(-2 * bias / noise)), -clamp))
    error, clamp = min(errors)
    return -clamp, error


def _find_row_limit(
    tail: PeopleAbove, people: float, most: float, groups_each: float
) -> tuple[float, float]:
    """How many rows of a person in a group an average errs least with, and its error, in halves of
    the width between the bounds of values.

    With n rows in all and n' kept the noise of a cell's average has about the deviation
    2 c people / n', for c rows of a person, and rows that are left out move it by chance, with the
    variance (1 / n' - 1 / n) / 3 for each cell, as values do that are spread evenly.

    >>> few = PeopleAbove(((0.0, 500.0), (1.0, 20.0)), 1.0)
    >>> _find_row_limit(few, 40.0, 8.0, 1.0)[0]
    1.0
    """
    rows = max(tail.sum_above(0.0) * groups_each, 1.0)
    errors = []
    for limit in (step << power for power in range(_BINS) for step in (2, 3)):
        allowed = limit / 2
        if allowed != int(allowed) or allowed > max(most, 1.0):
            continue
        kept = max((tail.sum_above(0.0) - tail.sum_above(allowed)) * groups_each, 1.0)
        chance = max(0.0, 1 / kept - 1 / rows) / 3
        errors.append((math.hypot(2 * allowed * people / kept, math.sqrt(chance)), allowed))
    error, allowed = min(errors)
    return allowed, error


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

    def scale_people(self, factor: float) -> PeopleAbove:
        """The same shape with so many times the people."""
        points = tuple((value, people * factor) for value, people in self.points)
        return PeopleAbove(points, self.scale)

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
        """What people add above a value, together: the sum of `count` from there on."""
        if not self.points:
            return 0.0
        total = 0.0
        for (low, _), (high, fewer) in pairwise(self.points):
            if value < high:
                start = max(low, value)
                total += _add_up(self.count(start), fewer, high - start)
        last = max(self.points[-1][0], value)
        return total + self.count(last) / -math.expm1(-1 / self.scale)


def _add_up(first: float, last: float, width: float) -> float:
    """The sum of width numbers that fall exponentially from `first` to what `last` would be next.

    >>> _add_up(8.0, 1.0, 3.0), round(_add_up(100.0, 100 / math.e, 1e9) / 1e9, 1)
    (14.0, 63.2)
    """
    if first <= last or width <= 0:
        return first * width
    fall = math.log(first / last) / width
    return (first - last) / -math.expm1(-fall)
