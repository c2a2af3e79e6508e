"""Aggregates: what a query or a group computes from its rows, as frozen public data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from dither.stored import stored


@stored("count")
@dataclass(frozen=True)
class Count:
    """COUNT(*): rows."""


@stored("countvalues", column="column")
@dataclass(frozen=True)
class CountValues:
    """COUNT(column): rows where the column is not null."""

    column: str


@stored("countdistinct", column="column")
@dataclass(frozen=True)
class CountDistinct:
    """COUNT(DISTINCT column): values other than null."""

    column: str


@stored("countunits")
@dataclass(frozen=True)
class CountUnits:
    """COUNT(DISTINCT unit): units with a row in the group."""


@stored("sum", column="column")
@dataclass(frozen=True)
class Sum:
    """SUM(column) on the column's grid; nulls are skipped and an empty group sums to 0."""

    column: str


@stored("minimum", column="column")
@dataclass(frozen=True)
class Minimum:
    """MIN(column) inside a unit: null if every value is."""

    column: str


@stored("maximum", column="column")
@dataclass(frozen=True)
class Maximum:
    """MAX(column) inside a unit: null if every value is."""

    column: str


Aggregate: TypeAlias = Count | CountValues | CountDistinct | CountUnits | Sum | Minimum | Maximum
