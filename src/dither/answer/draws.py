"""The known noise law as a fixed set of points: no generator, no seed, the same interval for the
same release always.

Points fill the unit cube evenly (a Kronecker sequence with the generalised golden ratio, Roberts
2018, and its mirror image) and go through the inverse distribution function of each noise. A share
of the points estimates a probability with an error far below that of as many random draws.

>>> from dither.laws import LaplaceErrorLaw
>>> law = make_noise_law(LaplaceErrorLaw(Fraction(2)))
>>> law.inverse(np.array([0.01, 0.5, 0.99])).tolist(), round(law.deviation, 2)
([-8.0, 0.0, 8.0], 2.8)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dither.laws import AdditiveErrorLaw, Floats

Tails = tuple[Floats, Floats]

MOST = 1 << 20
BLOCK = 1 << 20
_WORK = 1 << 22
FEWEST_IN_TAIL = 20
FEWEST_BEYOND = 160
MOST_SIZES = 1 << 18


@dataclass(frozen=True)
class NoiseLaw:
    """The law of the noise on one released number, in grid steps.

    `joint` is the query whose numbers share their noise (a box): it is uncorrelated, not
    independent.
    """

    error: AdditiveErrorLaw
    deviation: float
    joint: int | None = None

    def half_width(self, level: Fraction | float) -> int:
        """The smallest whole number w with P(|noise| <= w) at least the level."""
        return self.error.interval(level)

    def inverse(self, shares: Floats) -> Floats:
        """The smallest z with P(noise <= z) >= share, for every share."""
        return self.error.inverse(shares)


@lru_cache(maxsize=256)
def make_noise_law(error: AdditiveErrorLaw) -> NoiseLaw:
    """Make the noise law of a number from the error law of its mechanism."""
    return NoiseLaw(error, math.sqrt(error.variance))


@lru_cache(maxsize=8)
def make_points(count: int, dimension: int, start: int = 0) -> Floats:
    """Make `count` points of the open unit cube, after the first `start`.

    The count is even, and the points are symmetric about the middle of the cube.
    """
    ratio = 2.0
    for _ in range(64):  # the root of x^(d+1) = x + 1
        ratio = (1 + ratio) ** (1 / (dimension + 1))
    steps = (1 / ratio) ** np.arange(1, dimension + 1)
    ranks = np.arange(start // 2 + 1, start // 2 + count // 2 + 1, dtype=np.float64)
    half = np.clip((0.5 + ranks[:, None] * steps) % 1.0, 1e-12, 1 - 1e-12)
    return np.concatenate([half, 1 - half])


def count_points(level: float, rows: int, work: int = 1 << 21) -> int:
    """Count the points needed: thousands for few rows, at least twenty beyond each end.

    Returns 0 where so many are out of reach.
    """
    if 1 - level < 2 * FEWEST_IN_TAIL / MOST:
        return 0
    least = 2 * math.ceil(FEWEST_IN_TAIL / (1 - level))
    count = max(least, min(1 << 13, work // max(1, rows)), 512)
    return count + count % 2


def count_size_points(level: float) -> int:
    """Count the points needed for the size of a sum: at least 160 beyond its bound.

    Returns 0 where so many are out of reach.
    """
    least = FEWEST_BEYOND / max(1 - level, 1e-300)
    return 0 if least > MOST_SIZES else max(1 << 13, 2 * math.ceil(least / 2))


def count_block_points(level: float, rows: int) -> int:
    """Count the points to draw in blocks, for few rows: up to four million points.

    Returns 0 where so many are out of reach.
    """
    if 1 - level < 2 * FEWEST_IN_TAIL * max(1, rows) / _WORK:
        return 0
    return 2 * math.ceil(FEWEST_IN_TAIL / (1 - level))


def draw_blocks(laws: tuple[NoiseLaw, ...], count: int) -> Iterator[Floats]:
    """Yield noise at `count` points, at most `BLOCK` of them in memory at once."""
    for start in range(0, count, BLOCK):
        yield draw_noise(laws, min(BLOCK, count - start), start, count)


def draw_sizes(laws: tuple[NoiseLaw, ...], count: int) -> Floats:
    """Noise at `count` points for the sizes of its sums.

    A mirror image has the same size, and is left out.
    """
    return draw_noise(laws, 2 * count)[:count]


def draw_noise(laws: tuple[NoiseLaw, ...], count: int, start: int = 0, total: int = 0) -> Floats:
    """Draw noise at `count` points: one row for every point, one column for every law.

    Numbers that share their noise are drawn together, all others independently. The size of the
    first box rises from point to point (of `total`). Its tail is then a run of neighbours, which
    fill the other directions evenly; a direction of its own would leave the few points of a tail
    where they happen to lie.
    """
    kept = make_points if count < BLOCK else make_points.__wrapped__  # large blocks are used once
    groups = _group_laws(laws)
    is_box = any(group[0][1] >= 0 for group in groups)
    shares = kept(count, max(1, sum(map(_count_dimensions, groups)) - is_box), start)
    if is_box:  # one column more, which the first box takes
        rank = (start // 2 + np.arange(count // 2) + 0.5) / ((total or start + count) // 2)
        first = sum(
            map(_count_dimensions, itertools.takewhile(lambda group: group[0][1] < 0, groups))
        )
        shares = np.insert(shares, first, np.append(rank, rank), axis=1)
    drawn = np.empty((count, len(laws)))
    start_of_group = 0
    for group in groups:
        end_of_group = start_of_group + _count_dimensions(group)
        own_shares = shares[:, start_of_group:end_of_group]
        indices, columns = zip(*group, strict=True)
        error = laws[indices[0]].error
        if error.is_joint:
            drawn[:, indices] = error.draw_together(columns, own_shares)
        else:
            drawn[:, indices[0]] = error.inverse(own_shares[:, 0])
        start_of_group = end_of_group
    return drawn


def _group_laws(laws: tuple[NoiseLaw, ...]) -> list[list[tuple[int, int]]]:
    """Group the laws that are drawn together, as lists of (index of the law, number of the cell).

    The number of the cell is -1 for noise of its own.
    """
    groups: dict[tuple[str, int | None], list[tuple[int, int]]] = {}
    for index, law in enumerate(laws):
        if law.error.is_joint:
            groups.setdefault(("joint", law.joint), []).append((index, law.error.column))
        else:
            groups["own", index] = [(index, -1)]
    return list(groups.values())


def _count_dimensions(group: list[tuple[int, int]]) -> int:
    return 1 if group[0][1] < 0 else 1 + len(group)


def find_size_quantile(sums: Floats, level: float) -> float:
    """Find a bound that at least the share `level` of |sums| keeps, by order statistic.

    It is moved outward by what so few points beyond it leave open, half the square root of their
    number.
    """
    sizes = np.abs(sums)
    beyond = len(sizes) * (1 - raise_level(level))
    rank = min(len(sizes) - 1, math.ceil(len(sizes) - beyond + math.sqrt(beyond) / 2))
    return float(np.partition(sizes, rank)[rank])


def raise_level(level: float) -> float:
    """Raise a level by a fiftieth of its miss, for what the points cannot resolve."""
    return 1 - (1 - level) * 0.98


def keep_tails(values: Floats, before: Tails | None, count: int) -> Tails:
    """Keep the `count` least and the `count` largest values of a block and of the tails before it.

    What has no value (NaN) counts as beyond both ends.
    """
    unknown = np.isnan(values)
    least = np.where(unknown, -np.inf, values)
    largest = np.where(unknown, np.inf, values)
    if before is not None:
        least = np.concatenate([before[0], least])
        largest = np.concatenate([before[1], largest])
    if len(least) > count:
        least = np.partition(least, count - 1, axis=0)[:count]
        largest = np.partition(largest, len(largest) - count, axis=0)[-count:]
    return least, largest
