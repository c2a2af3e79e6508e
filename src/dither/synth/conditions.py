"""Conditions on the rows of a synthetic table: counts of them, and tables that meet them.

A condition names values of columns: a list of them, or for numbers and times a pair (low, high).
Values inside a bin are evenly spread, as where rows are drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, TypeAlias

import numpy as np

from dither.errors import ParameterError
from dither.synth.columns import SynthColumn, read_number
from dither.synth.contraction import Table
from dither.synth.edges import EPOCH

Condition: TypeAlias = Mapping[str, Collection[Any]]


@dataclass(frozen=True)
class CountEstimate:
    """A count by the model, its standard error by noise, and bounds of the real count.

    The bounds hold with 95% confidence, however the columns depend on each other.

    `error` is None where no step measured these columns together: the count is then the model's
    guess, which may be off by more than noise, and only `low` and `high` say by how much. Those are
    None for tables without measurements: tables of a condition (`given`), and old files.
    """

    value: float
    error: float | None
    low: float | None = None
    high: float | None = None

    @property
    def words(self) -> str:
        """The count as a sentence.

        >>> CountEstimate(132.4, None, 90, 210).words  # doctest: +NORMALIZE_WHITESPACE
        'about 132 rows by the model: these columns were not measured together. By what was
        measured, between 90 and 210 with 95% confidence'
        """
        sentence = f"about {self.value:,.0f} rows by the model"
        if self.error is not None:
            sentence += f", with a standard error of {self.error:,.1f} by noise"
        if self.low is None or self.high is None:
            if self.error is None:
                sentence += ": how far that is off is not known"
            return sentence
        if self.error is None:
            sentence += ": these columns were not measured together"
        ends = f"between {self.low:,.0f} and {self.high:,.0f} with 95% confidence"
        return f"{sentence}. By what was measured, {ends}"


def find_weights(column: SynthColumn, allowed: Collection[Any]) -> Table:
    """Of every code the share of its values that a condition allows."""
    is_range = isinstance(allowed, tuple) and len(allowed) == 2 and column.is_ordered
    if isinstance(allowed, str) or not allowed:
        raise ParameterError(
            f"the condition on {column.name} is a list of values, or a pair (low, high)"
        )
    weights = np.zeros(column.size)
    if is_range:
        lowest, highest = allowed
        low, high = _to_grid(column, lowest), _to_grid(column, highest)
        if column.kind == "number" and read_number(lowest) > low * column.step:
            low += 1  # the end lies between two values of the column: take the one above
        starts, ends = column.list_ends()
        overlap = np.minimum(ends, high) - np.maximum(starts, low) + 1
        weights[: len(starts)] = np.clip(overlap, 0, None) / (ends - starts + 1)
        return weights
    for value in allowed:
        code, share = _find_share(column, value)
        weights[code] += share
    return np.minimum(weights, 1.0)


def _find_share(column: SynthColumn, value: Any) -> tuple[int, float]:
    """The code of one value, and its share of the code."""
    if value is None and column.has_null:
        return column.size - 1, 1.0
    if column.kind == "category":
        if value in column.labels:
            return column.labels.index(value), 1.0
    elif value is not None:
        grid = _to_grid(column, value)
        is_value = column.kind != "number" or read_number(value) == grid * column.step
        if is_value and column.low <= grid <= column.high:
            code = column.find_code(grid)
            starts, ends = column.list_ends()
            return code, 1 / float(ends[code] - starts[code] + 1)
    raise ParameterError(f"{value!r} is no value of {column.name}")


def _to_grid(column: SynthColumn, value: Any) -> int:
    """A value as an integer of the column's grid."""
    try:
        if column.kind == "date" and type(value) is date:
            return (value - EPOCH).days
        if column.kind == "timestamp" and isinstance(value, datetime):
            return int(value.replace(tzinfo=value.tzinfo or UTC).timestamp())
        if column.kind in ("number", "boolean"):
            return read_number(value) // column.step
    except (TypeError, ValueError):
        pass
    raise ParameterError(f"{value!r} is no value of {column.name}, a {column.kind}")
