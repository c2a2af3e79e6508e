"""Screens: which columns of wide outputs differ most between the two sides.

Every column is looked at on the choosing runs; the search then works on those that differ most, and
on one weighted sum of all of them, which shows a small move of many columns at once. What is chosen
here is a function of the choosing runs, so it costs nothing in confidence.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_COLUMNS = 64
_CELLS = 4_000_000  # rows times columns that a screen looks at
_FEWEST_ROWS = 2_000
_BINS = 32
_FAR = 8.0  # standard deviations at which one column stops to add to the weighted sum
Floats = NDArray[np.float64]


def screen_columns(left: NDArray[Any], right: NDArray[Any]) -> Floats:
    """Compute for every column by how many standard deviations its histograms differ
    (chi-square)."""
    rows = max(_FEWEST_ROWS, _CELLS // max(1, left.shape[1]))
    return np.array(
        [
            compare_values(left[:rows, i].astype(np.float64), right[:rows, i].astype(np.float64))
            for i in range(left.shape[1])
        ]
    )


def compare_values(a: Floats, b: Floats) -> float:
    """Compute the standardised chi-square distance of two samples over quantile bins; NaN is a bin.

    >>> compare_values(np.zeros(100), np.ones(100)) > 20
    True
    """
    both = np.concatenate([a, b])
    numbers = both[~np.isnan(both)]
    if not len(numbers):
        return -1.0
    edges = np.unique(np.quantile(numbers, np.linspace(0, 1, _BINS), method="nearest"))
    first = np.bincount(np.searchsorted(edges, a), minlength=len(edges) + 1) / len(a)
    second = np.bincount(np.searchsorted(edges, b), minlength=len(edges) + 1) / len(b)
    total = first + second
    used = total > 0
    scale = len(a) * len(b) / (len(a) + len(b))
    distance = scale * 2 * float(((first - second)[used] ** 2 / total[used]).sum())
    freedom = max(1, int(used.sum()) - 1)
    return (distance - freedom) / math.sqrt(2 * freedom)


def choose_columns(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.int64]:
    """The columns that differ most, the worst first; all of them where there are few."""
    if left.shape[1] <= MOST_COLUMNS:
        return np.arange(left.shape[1])
    scores = screen_columns(left, right)
    return np.argsort(-scores, kind="stable")[: MOST_COLUMNS - 1]


class WeightedSum:
    """The sum of all columns, each by its mean move over its variance, in thousandths."""

    def __init__(self, left: NDArray[Any], right: NDArray[Any]) -> None:
        """Weigh each column by how far its mean differs between the two samples.

        Columns are standardised first; those whose difference is within the noise of the
        means get weight 0.
        """
        a = _replace_nan(left)
        b = _replace_nan(right)
        deviation = np.sqrt((a.var(axis=0) + b.var(axis=0)) / 2)
        self._scale = np.where(deviation > 0, deviation, 1.0)
        self._centre = (a.mean(axis=0) + b.mean(axis=0)) / 2
        move = (a.mean(axis=0) - b.mean(axis=0)) / self._scale
        noise = math.sqrt(1 / len(a) + 1 / len(b))
        self._weights = np.where(np.abs(move) > noise, move, 0.0)
        size = float(np.sqrt((self._weights**2).sum()))
        self._weights = self._weights / size if size > 0 else self._weights

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        away = np.clip((_replace_nan(rows) - self._centre) / self._scale, -_FAR, _FAR)
        return np.asarray(np.rint(1000 * (away @ self._weights)), np.int64)


def _replace_nan(rows: NDArray[Any]) -> Floats:
    numbers = rows.astype(np.float64)
    return np.where(np.isfinite(numbers), numbers, 0.0)
