"""The three kinds of plan node: how far two neighbouring databases can be apart in it.

Proof of what the numbers mean: docs/proofs/stability.md#nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from dither.plan.stability.degrees import UNBOUNDED, RowDegrees

ROWS = "*"
"""In place of a column whose sum is bounded: the number of rows."""


@dataclass(frozen=True)
class Grouped:
    """Each unit has at most `groups` values of `keys`, and at most `rows` rows with the same value
    of them."""

    keys: frozenset[str]
    groups: int
    rows: int


@dataclass(frozen=True)
class Owned:
    """Every row belongs to exactly one unit, and the rows of a unit are a function of that unit's
    registered rows.

    No unit has more than `rows` rows, nor more than `distinct` different ones; all units together
    have at most `most`. The absolute values of a column in `sums` add up to at most so much in the
    rows of a unit. The first rules have neither `degrees` nor `sums`.

    >>> Owned(3).distinct, Owned(3, distinct=1).distinct
    (3, 1)
    """

    rows: int
    distinct: int = -1
    most: int = 0
    grouped: tuple[Grouped, ...] = ()
    degrees: RowDegrees | None = field(default=None, repr=False)
    sums: Mapping[str, int] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.distinct <= self.rows:
            object.__setattr__(self, "distinct", self.rows)

    def groups(self, keys: tuple[str, ...]) -> int:
        """How many values of the keys a unit can have: no more than of finer keys."""
        bounds = [bound.groups for bound in self.grouped if set(keys) <= bound.keys]
        values = self.degrees.count_values(keys) if self.degrees else UNBOUNDED
        return min([self.rows, values, *bounds])

    def rows_per_group(self, keys: tuple[str, ...]) -> int:
        """How many rows of a unit can share a value of the keys: no more than share one of coarser
        keys."""
        bounds = [bound.rows for bound in self.grouped if bound.keys <= set(keys)]
        rows = self.degrees.count_rows(keys) if self.degrees else UNBOUNDED
        return min([self.rows, rows, *bounds])

    def rows_per_match(self, keys: tuple[str, ...]) -> int:
        """How many rows of a unit one row of a join by the keys can meet: null meets nothing."""
        rows = self.degrees.without_nulls(keys).count_rows(keys) if self.degrees else UNBOUNDED
        return min(rows, self.rows_per_group(keys))


@dataclass(frozen=True)
class Loose:
    """Rows belong to nobody; add or remove a unit, and at most `rows` rows come or go (symmetric
    difference).

    A column in `sums` changes by at most so much in all rows together, each compared with the row
    of its group in the other database, or with 0 where there is none. Both rows agree on the
    columns in `fixed`.
    """

    rows: int
    most: int = 0
    sums: Mapping[str, int] = field(default_factory=dict, repr=False)
    fixed: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True)
class Public:
    """Rows are the same in every database: those of a pinned public table.

    `names` pairs each column with the table's column that it is, where a projection renamed or
    computed some. `unique` are columns that no two rows share, after DISTINCT. `values` pairs
    columns of the table, which are not null here, with how many values a filter has left of them.

    >>> Public("wards").original("level"), Public("wards", (("x", "level"),)).original("level")
    ('level', None)
    """

    table: str
    names: tuple[tuple[str, str], ...] | None = None
    unique: frozenset[str] | None = None
    values: tuple[tuple[str, int], ...] = ()

    def original(self, column: str) -> str | None:
        """The table's column that a column is; None if it is computed."""
        return column if self.names is None else dict(self.names).get(column)


Node: TypeAlias = Owned | Loose | Public
