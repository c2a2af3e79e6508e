"""Rows of an array as integers: scaled numbers in steps of 2**-12, and codes of bins and values.

Every operation is elementwise, so that what a row becomes depends on that row alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.learn.columns import FEATURE_SCALE, CategoryColumn, ColumnFacts, NumericColumn

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """The features of all rows.

    `dense` has a row for the intercept and for each number, in whole steps; `codes` a row
    for each column with bins or values: the position of the feature that is 1. `norms` are L2 norms
    of whole rows, in steps.
    """

    facts: ColumnFacts
    dense: Array
    codes: Array
    norms: Array

    @property
    def size(self) -> int:
        """How many rows there are: private."""
        return len(self.norms)

    def slice(self, start: int, stop: int) -> FeatureRows:
        """Some of the rows."""
        return FeatureRows(
            self.facts, self.dense[:, start:stop], self.codes[:, start:stop], self.norms[start:stop]
        )

    def choose(self, chosen: Array) -> FeatureRows:
        """The rows with these numbers."""
        return FeatureRows(
            self.facts, self.dense[:, chosen], self.codes[:, chosen], self.norms[chosen]
        )

    def with_floats(self) -> FeatureRows:
        """The same with floats that are integers, for arithmetic: four times the memory."""
        return FeatureRows(self.facts, self.dense.astype(float), self.codes, self.norms)

    def multiply(self, weights: Array) -> Array:
        """weights @ features, one row for each row of `weights`; exact for integers whose sum of
        sizes is below 2**41."""
        first = weights[:, : len(self.dense)]
        margins: Array = first @ self.dense.astype(float, copy=False)
        for column in self.codes:
            margins += FEATURE_SCALE * weights[:, column]
        return margins

    def expand(self) -> Array:
        """All features as one array of floats from -1 to 1, a row for each row."""
        features = np.zeros((self.size, self.facts.width))
        features[:, : len(self.dense)] = self.dense.T / FEATURE_SCALE
        for column in self.codes:
            features[np.arange(self.size), column] = 1
        return features


def encode_rows(facts: ColumnFacts, columns: Sequence[Any]) -> FeatureRows:
    """Encode the values of all columns, given in the order of `facts`."""
    size = len(columns[0]) if columns else 0
    dense = np.empty((facts.dense_width, size), np.int16)
    dense[0] = FEATURE_SCALE
    codes = np.empty((facts.hot_columns, size), np.intp)
    first = facts.dense_width
    number = 1
    hot = 0
    for column, values in zip(facts.columns, columns, strict=True):
        if isinstance(column, NumericColumn):
            numbers = read_numbers(values)
            dense[number] = scale_numbers(column, numbers)
            number += 1
        if not column.hot_width:
            continue
        if isinstance(column, CategoryColumn):
            codes[hot] = find_category_codes(column, values)
        else:
            codes[hot] = np.searchsorted(column.edges, numbers, side="right")
            codes[hot, np.isnan(numbers)] = column.hot_width - 1
        codes[hot] += first
        first += column.hot_width
        hot += 1
    squares = np.zeros(size)
    for row in dense:
        squares += row.astype(float) ** 2
    squares += facts.hot_columns * FEATURE_SCALE**2
    return FeatureRows(facts, dense, codes, np.sqrt(squares))


def read_numbers(values: Any) -> Array:
    """Values as floats; what is no number is missing."""
    column = np.asarray(values)
    if column.dtype.kind in "fiub":
        return column.astype(float)
    return np.array([_read_number(value) for value in column.tolist()], float)


def _read_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def scale_numbers(column: NumericColumn, numbers: Array) -> Array:
    """Numbers from [low, high] as steps from -4096 to 4096, rounded down; missing ones as 0."""
    scaled = np.clip(numbers, column.low, column.high)
    scaled -= column.low
    scaled *= 2 * FEATURE_SCALE / (column.high - column.low)
    np.floor(scaled, out=scaled)
    np.clip(scaled, 0, 2 * FEATURE_SCALE, out=scaled)
    scaled -= FEATURE_SCALE
    scaled[np.isnan(numbers)] = 0
    return scaled


def find_category_codes(column: CategoryColumn, values: Any) -> NDArray[np.int64]:
    """The position of every value of a category; missing ones come last."""
    codes = find_codes(column.values, values)
    if column.other is not None:
        is_missing = np.array([value is None or value != value for value in values], bool)
        codes[(codes == len(column.values)) & ~is_missing] = column.values.index(column.other)
    return codes


def find_codes(listed: Sequence[Any], values: Any) -> NDArray[np.int64]:
    """The position of every value among the listed ones; what is not listed comes after the
    last."""
    positions = {value: position for position, value in enumerate(listed)}
    return np.array(
        [_find_code(positions, value) for value in np.asarray(values).tolist()], np.int64
    )


def _find_code(positions: dict[Any, int], value: Any) -> int:
    try:
        return positions.get(value, len(positions))
    except TypeError:  # not hashable, so not listed
        return len(positions)
