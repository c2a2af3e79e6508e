"""What is public of the columns of an array: bounds, listed values and bins, as declared.

Nothing here is taken from the values of X. A column without a declaration is refused before a value
is read.

>>> facts = declare_columns(["age", "sex"], {"age": (0, 100)}, {"sex": ("f", "m")}, "auto")
>>> [column.width for column in facts.columns], facts.width, facts.hot_columns
([12, 3], 16, 2)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.plan.vectors import MOST_NUMBERS

FEATURE_SCALE = 1 << 12
"""So many steps are the feature 1."""
LARGEST_WIDTH = 4096
_BINS = {"auto": 10, "fine": 24}
"""Bins of one width, by the name of a rule."""
_CUTS_OF_POWER = {"auto": 2, "fine": 4}
"""Bins of a power of ten, by the name of a rule."""
_FEW_VALUES = 24
_WIDE_RATIO = 1000


@dataclass(frozen=True)
class NumericColumn:
    """A number between public bounds: scaled to [-1, 1], and a feature for every public bin.

    With edges there is one bin more than edges, and a last one for missing values.
    """

    name: Any
    low: float
    high: float
    edges: tuple[float, ...] = ()

    @property
    def hot_width(self) -> int:
        """How many features say in which bin a value is."""
        return len(self.edges) + 2 if self.edges else 0

    @property
    def width(self) -> int:
        """How many features the column has."""
        return 1 + self.hot_width

    def list_points(self) -> NDArray[Any]:
        """The middle of every bin; the two bounds where there are none."""
        if not self.edges:
            return np.array([self.low, self.high])
        ends = np.array([self.low, *self.edges, self.high])
        middles: NDArray[Any] = (ends[1:] + ends[:-1]) / 2
        return middles


@dataclass(frozen=True)
class CategoryColumn:
    """A column of listed values: a feature for each, and a last one for missing values.

    A value that is not listed is taken as `other`, or as missing where there is none.
    """

    name: Any
    values: tuple[Any, ...]
    other: Any = None

    @property
    def width(self) -> int:
        """How many features the column has."""
        return len(self.values) + 1

    @property
    def hot_width(self) -> int:
        """The same: every feature says which value it is."""
        return self.width

    def list_points(self) -> NDArray[Any]:
        """The listed values."""
        return np.array(self.values)


Column = NumericColumn | CategoryColumn


@dataclass(frozen=True)
class ColumnFacts:
    """All columns. Features are the intercept, then numbers, then bins and listed values."""

    columns: tuple[Column, ...]

    @cached_property
    def numbers(self) -> tuple[NumericColumn, ...]:
        """The columns with a scaled feature."""
        return tuple(column for column in self.columns if isinstance(column, NumericColumn))

    @cached_property
    def width(self) -> int:
        """How many features a row has, the intercept included."""
        return 1 + sum(column.width for column in self.columns)

    @property
    def dense_width(self) -> int:
        """The intercept and the scaled numbers."""
        return 1 + len(self.numbers)

    @cached_property
    def hot_columns(self) -> int:
        """How many columns have bins or listed values: in each, one feature of a row is 1."""
        return sum(bool(column.hot_width) for column in self.columns)

    @property
    def largest_norm(self) -> float:
        """No row of features is longer than this."""
        return sqrt(self.dense_width + self.hot_columns)

    def check_moments(self, what: str) -> None:
        """Refuse, before anything is paid, what needs all products of two features.

        The kernel takes one column of numbers as the label, and vectors of a limited length.
        """
        if not self.numbers:
            raise ParameterError(f"{what} needs a column of numbers: leave it out")
        length = self.width * (self.width + 1) // 2
        if length > MOST_NUMBERS:
            raise ParameterError(
                f"{what} needs all {length:,} products of two of {self.width:,} features, at most "
                f"{MOST_NUMBERS:,} are possible: leave it out, or use fewer columns or bins"
            )

    def list_names(self) -> list[str]:
        """The name of every feature, in order."""
        names = ["intercept", *(str(column.name) for column in self.numbers)]
        for column in self.columns:
            names += _list_hot_names(column)
        return names


def _list_hot_names(column: Column) -> list[str]:
    if isinstance(column, CategoryColumn):
        return [f"{column.name} = {value}" for value in column.values] + [f"{column.name} = else"]
    if not column.edges:
        return []
    ends = pairwise((column.low, *column.edges, column.high))
    bins = [f"{column.name} in [{low:g}, {high:g})" for low, high in ends]
    return [*bins, f"{column.name} missing"]


def declare_columns(names: Sequence[Any], bounds: Any, categories: Any, bins: Any) -> ColumnFacts:
    """Read the declarations of all columns; refuse a column that has none."""
    listed = dict(categories or {})
    unknown = [key for key in listed if key not in names]
    if isinstance(bounds, Mapping):
        unknown += [key for key in bounds if key not in names]
    if unknown:
        raise ParameterError(f"no column {unknown[0]!r}: declare columns of X by their names")
    columns = tuple(
        CategoryColumn(name, _read_values(name, listed[name]))
        if name in listed
        else _declare_number(name, bounds, bins)
        for name in names
    )
    facts = ColumnFacts(columns)
    check_width(facts)
    return facts


def check_width(facts: ColumnFacts) -> None:
    """Refuse too many features."""
    if facts.width > LARGEST_WIDTH:
        raise ParameterError(
            f"{facts.width:,} features, at most {LARGEST_WIDTH:,}: use fewer columns, values or "
            f"bins"
        )


def _read_values(name: Any, values: Any) -> tuple[Any, ...]:
    listed = tuple(values)
    if not listed or len(set(listed)) != len(listed):
        raise ParameterError(
            f"categories of {name!r} are listed once each: there are none or twins"
        )
    return listed


def _declare_number(name: Any, bounds: Any, bins: Any) -> NumericColumn:
    pair = bounds.get(name) if isinstance(bounds, Mapping) else bounds
    if pair is None:
        raise ParameterError(
            f"column {name!r} has neither bounds nor categories: declare bounds=(low, high), or "
            f"bounds={{{name!r}: (low, high)}}, from public knowledge and not from X"
        )
    low, high = (float(end) for end in pair)
    if not (-1e300 < low < high < 1e300):
        raise ParameterError(f"bounds of {name!r} are two finite numbers, the lower one first")
    if isinstance(bins, Mapping):
        edges = tuple(float(edge) for edge in bins.get(name, ()))
    else:
        edges = make_edges(low, high, bins)
    return NumericColumn(name, low, high, check_edges(edges, low, high, name))


def check_edges(
    edges: Sequence[float], low: float, high: float, name: Any = "a column"
) -> tuple[float, ...]:
    """Edges of bins; refused where they do not increase, or lie outside of the bounds."""
    if any(not low < edge <= high for edge in edges) or list(edges) != sorted(set(edges)):
        raise ParameterError(f"bins of {name!r} are increasing edges above {low:g} up to {high:g}")
    return tuple(edges)


def make_edges(low: float, high: float, rule: str | None = "auto") -> tuple[float, ...]:
    """Edges of bins by a rule of the bounds alone: "auto", "fine", or None for no bins.

    A non-negative range over three powers of ten or more is cut at half powers (fine: quarters); a
    short range of integers at each of them; any other into ten bins of one width (fine: 24).

    >>> make_edges(0, 5), make_edges(0, 2000)[:4]
    ((1.0, 2.0, 3.0, 4.0, 5.0), (1.0, 3.1622776601683795, 10.0, 31.622776601683793))
    """
    if rule is None:
        return ()
    if not isinstance(rule, str) or rule not in _BINS:
        raise ParameterError("bins are 'auto', 'fine', None, or edges by column")
    if low >= 0 and high >= _WIDE_RATIO * max(low, 1):
        cuts = _CUTS_OF_POWER[rule]
        edges = [10 ** (power / cuts) for power in range(15 * cuts)]
        return tuple(edge for edge in edges if low < edge < high)
    if low == int(low) and high == int(high) and high - low <= _FEW_VALUES:
        return tuple(float(value) for value in range(int(low) + 1, int(high) + 1))
    width = (high - low) / _BINS[rule]
    return tuple(low + width * position for position in range(1, _BINS[rule]))
