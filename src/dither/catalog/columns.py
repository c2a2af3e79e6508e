"""Columns as public facts: what a value may be, on an exact grid of integers.

A number in a registered table is the integer `value / resolution`; bounds lie on that grid. Dates
are days and timestamps seconds since 1970-01-01, booleans 0 and 1. A category is a code: the
position in its list of labels.

>>> cost = Decimal("cost", Nulls("keep"), Fraction(0), Fraction(5000), Fraction(1, 100),
...     "tariff 2026")
>>> cost.lower_grid, cost.upper_grid, cost.multiplier, cost.divisor
(0, 500000, 100, 1)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal, TypeAlias

OTHER = "other"
"""The key under which values outside a category's list are shown, where they are kept; no label may
be equal to it."""


@dataclass(frozen=True)
class Nulls:
    """What becomes of a null: kept as null, its row dropped, or replaced by `value` (a grid integer
    or a text)."""

    rule: Literal["keep", "drop", "value"]
    value: int | str | None = None


@dataclass(frozen=True)
class Id:
    """A key that names a person or a row: never selected, grouped by or computed with."""

    type: ClassVar[str] = "id"
    name: str
    line: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True)
class _Valued:
    name: str
    nulls: Nulls
    line: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True)
class Bounded(_Valued, ABC):
    """A column whose registered values are integers from `lower_grid` to `upper_grid`; value =
    integer * `step`."""

    @property
    @abstractmethod
    def lower_grid(self) -> int: ...

    @property
    @abstractmethod
    def upper_grid(self) -> int: ...

    @property
    def step(self) -> Fraction:
        """What one grid integer is worth in the column's own units."""
        return Fraction(1)


@dataclass(frozen=True)
class _WholeBounds(Bounded):
    lower: int
    upper: int
    provenance: str

    @property
    def lower_grid(self) -> int:
        return self.lower

    @property
    def upper_grid(self) -> int:
        return self.upper


@dataclass(frozen=True)
class Integer(_WholeBounds):
    """A whole number; its grid has step 1."""

    type: ClassVar[str] = "integer"


@dataclass(frozen=True)
class Date(_WholeBounds):
    """A day, counted from 1970-01-01."""

    type: ClassVar[str] = "date"


@dataclass(frozen=True)
class Timestamp(_WholeBounds):
    """A second, counted from 1970-01-01T00:00:00 UTC.

    Texts without an offset are read at `offset_seconds` east.
    """

    type: ClassVar[str] = "timestamp"
    offset_seconds: int


@dataclass(frozen=True)
class Boolean(Bounded):
    """false and true as 0 and 1; the bounds follow from the type."""

    type: ClassVar[str] = "boolean"

    @property
    def lower_grid(self) -> int:
        return 0

    @property
    def upper_grid(self) -> int:
        return 1


@dataclass(frozen=True)
class Decimal(Bounded):
    """A number rounded to a multiple of `resolution`.

    The resolution is `divisor` / `multiplier`, one of which is 1.
    """

    type: ClassVar[str] = "decimal"
    lower: Fraction
    upper: Fraction
    resolution: Fraction
    provenance: str

    @property
    def step(self) -> Fraction:
        return self.resolution

    @property
    def multiplier(self) -> int:
        return self.resolution.denominator

    @property
    def divisor(self) -> int:
        return self.resolution.numerator

    @property
    def lower_grid(self) -> int:
        return int(self.lower / self.resolution)

    @property
    def upper_grid(self) -> int:
        return int(self.upper / self.resolution)


@dataclass(frozen=True)
class FromPublic:
    """The labels are the values of a public table's column, pinned at registration."""

    table: str
    column: str
    line: int = field(default=0, compare=False, kw_only=True)


@dataclass(frozen=True)
class Undeclared:
    """The labels are private: only keys that enough people share are ever shown.

    Labels are cut at `width`.
    """

    width: int


@dataclass(frozen=True)
class Category(_Valued):
    """A label out of a list.

    `other` says what becomes of a value outside it (None where there is no list).
    """

    type: ClassVar[str] = "category"
    values: tuple[str, ...] | FromPublic | Undeclared
    other: Literal["keep", "drop"] | None


@dataclass(frozen=True)
class Text(_Valued):
    """Free text, cut at `width` characters."""

    type: ClassVar[str] = "text"
    width: int


Column: TypeAlias = Id | Integer | Decimal | Boolean | Category | Date | Timestamp | Text
