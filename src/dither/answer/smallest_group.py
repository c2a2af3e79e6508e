"""The smallest group whose average has an interval: what a preview shows where no size is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]

_SIZES_AT_ONCE = 12
_LARGEST_GROUP = 2**40


def find_smallest_group(have_intervals: Callable[[Sequence[int]], Flags], least: int) -> int | None:
    """Find the smallest group, of `least` rows or more, that has intervals.

    `have_intervals` says for several sizes which have; more rows never lose an interval. Twelve
    doublings are tried at once, then about twelve sizes between two of them. None if no group below
    2^40 rows has intervals.

    >>> find_smallest_group(lambda sizes: np.array(sizes) >= 37, 1)
    37
    >>> find_smallest_group(lambda sizes: np.array(sizes) >= 1, 50)
    50
    """
    low = least
    high: int | None = None
    while high is None:
        if low >= _LARGEST_GROUP:
            return None
        sizes = [low << doublings for doublings in range(_SIZES_AT_ONCE)]
        low, high = _narrow_sizes(have_intervals, sizes, low)
    while low < high:
        step = max(1, (high - low) // _SIZES_AT_ONCE)
        sizes = [*range(low, high, step), high]
        low, narrower = _narrow_sizes(have_intervals, sizes, low)
        assert narrower is not None  # the last size has intervals
        high = narrower
    return high


def _narrow_sizes(
    have_intervals: Callable[[Sequence[int]], Flags], sizes: Sequence[int], low: int
) -> tuple[int, int | None]:
    """Between which sizes the smallest group with intervals is, both included, if it is `low` or
    more; the second is None if none of the rising `sizes` has intervals."""
    flags = have_intervals(sizes)
    if not flags.any():
        return sizes[-1] + 1, None
    first = int(flags.argmax())
    return (sizes[first - 1] + 1 if first else low), sizes[first]


def write_smallest_group(size: int, is_bounded: bool, is_total: bool) -> str:
    """Say how many rows the figures of a column are for, where the asker named no size.

    `is_total`: the column is one number over all rows, so that there is no smallest group.
    """
    which = "an interval narrower than its public bounds" if is_bounded else "an interval"
    if is_total:
        return (
            f"± holds for {size:,} rows in all, the fewest with {which}, and falls with more rows "
            "about in proportion; group_size= (--group-size) names as many as you expect"
        )
    return (
        f"± is that of a group of {size:,} rows, the smallest that is shown with {which}; pass "
        "group_size= for another"
    )
