"""Recipes: which queries a question needs, and how released cells become the columns that were
asked for. Pure data.

A question has *keys* (what it groups by), *atoms* (the released numbers of a cell: counts, sums,
quantiles) and *outputs* (formulas over atoms and keys). Each grouping set says by which queries its
cells are answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from dither.plan.algebra import Query, plan_hash
from dither.plan.domain import Domain
from dither.question.expressions import Formula
from dither.stored import stored

DisplayKind = Literal["integer", "number", "date", "timestamp", "boolean", "text"]


@stored("key_column", column="column", domain="domain", dated="dated")
@dataclass(frozen=True)
class KeyColumn:
    """A key of the question.

    Its column in the plans, and the domain that its values are shown from.

    The two count alike: code 0 of the column is the first value of the domain, and so on. `dated`:
    the labels of the domain are days, written YYYY-MM-DD (the first of each month, say), or times,
    written YYYY-MM-DD HH:MM:SS.
    """

    column: str
    domain: Domain
    dated: bool = False

    @property
    def has_times(self) -> bool:
        """Whether the labels are times, not days."""
        return self.dated and any(":" in label for label in self.domain.labels[:1])


@stored(
    "atom",
    aggregate="aggregate",
    unit="unit",
    offset="offset",
    shown="display",
    limits="limits",
    importance="importance",
)
@dataclass(frozen=True)
class Atom:
    """A released number of every cell: the integer times `unit`, plus `offset`.

    `aggregate` names it as SQL would ("SUM(cost)", "QUANTILE(cost, 0.5)"); `limits` says in words
    what is done to the rows before ("at most 20 rows per person", "cost clamped to [0, 5000]").
    `importance` weighs its error in the split of the price: the derivative of what was asked by
    this atom, as far as it is public; 1 where nothing is known.
    """

    aggregate: str
    unit: Fraction = Fraction(1)
    offset: Fraction = Fraction(0)
    display: DisplayKind = "integer"
    limits: tuple[str, ...] = ()
    importance: Fraction = Fraction(1)


@stored("grouping_set", keys="keys", selection="selection", places="positions")
@dataclass(frozen=True)
class GroupingSet:
    """The cells of one GROUP BY: which keys it has, and where its atoms are answered.

    `keys` are indexes into `Recipe.keys`, in the order of the queries' own keys. `selection` is the
    index of the `Keys` query that selects the undeclared ones, if any. `positions` has for each
    atom (index of the query, index of the column or share in it).
    """

    keys: tuple[int, ...]
    selection: int | None
    positions: tuple[tuple[int, int], ...]


@stored(
    "output",
    name="name",
    formula="formula",
    role="role",
    aggregate="aggregate",
    note="note",
    low="low",
    high="high",
)
@dataclass(frozen=True)
class Output:
    """A column of the answer. A key is shown as it is; a value is followed by its interval."""

    name: str
    formula: Formula
    role: Literal["key", "value"]
    aggregate: str = ""
    note: str = ""
    low: str = ""
    high: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The column, and those of its interval, which may be named otherwise."""
        ends = (self.low or f"{self.name}_low", self.high or f"{self.name}_high")
        return (self.name,) if self.role == "key" else (self.name, *ends)


@stored("order", formula="formula", descending="descending", nulls_first="nulls_first")
@dataclass(frozen=True)
class Order:
    """ORDER BY one formula over noisy values and keys; ties keep the order of the keys."""

    formula: Formula
    descending: bool = False
    nulls_first: bool = False


@stored(
    "recipe",
    sql="sql",
    queries="queries",
    keys="keys",
    atoms="atoms",
    sets="sets",
    outputs="outputs",
    having="having",
    order="order",
    limit="limit",
    offset="offset",
)
@dataclass(frozen=True)
class Recipe:
    """A bound question. HAVING, ORDER BY and LIMIT act on noisy values, after the release."""

    sql: str
    queries: tuple[Query, ...]
    keys: tuple[KeyColumn, ...]
    atoms: tuple[Atom, ...]
    sets: tuple[GroupingSet, ...]
    outputs: tuple[Output, ...]
    having: Formula | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int = 0

    @cached_property
    def plan_hash(self) -> str:
        """Of the rows that the first query reads."""
        return plan_hash(self.queries[0].plan)
