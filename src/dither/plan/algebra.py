"""Plans: relational algebra over registered tables, as frozen public data.

A plan speaks of registered tables, whose rows are already cast, clamped, rounded and limited. What
a plan means is fixed by two independent readers that tests hold against each other: `data/lower`
(engine SQL) and `audit/naive.py` (Python lists). How far one unit can move each node is in
`plan/stability/<operator>.py`.

>>> adults = Filter(Scan("patients"), Compare("age", ">=", Fraction(18)))
>>> plan_hash(adults) == plan_hash(Filter(Scan("patients"), Compare("age", ">=", Fraction(18))))
True
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, TypeAlias

from dither.canonical import digest
from dither.plan.aggregate_types import (
    Aggregate,
    Count,
    CountDistinct,
    CountUnits,
    CountValues,
    Maximum,
    Minimum,
    Sum,
)
from dither.plan.expressions import (
    And,
    Call,
    Column,
    Compare,
    Condition,
    Constant,
    Expression,
    Holds,
    IsNull,
    Kind,
    Not,
    Operator,
    Or,
    Value,
    conjuncts,
)
from dither.plan.operators import LinearOperator
from dither.plan.utilities import Utility
from dither.stored import stored, stored_items, stored_name

__all__ = [
    "Aggregate",
    "And",
    "Call",
    "Cells",
    "Column",
    "Compare",
    "Condition",
    "Constant",
    "Count",
    "CountDistinct",
    "CountUnits",
    "CountValues",
    "Distinct",
    "Expression",
    "Filter",
    "Group",
    "Holds",
    "IsNull",
    "Join",
    "JointScores",
    "Keys",
    "Kind",
    "LimitGroups",
    "Linear",
    "Maximum",
    "Minimum",
    "Named",
    "Not",
    "Operator",
    "Or",
    "PerUnit",
    "Plan",
    "Project",
    "Quantiles",
    "Query",
    "SampleUnits",
    "Scan",
    "Scores",
    "Sum",
    "UnionAll",
    "Value",
    "conjuncts",
    "nodes_of",
    "plan_hash",
    "sources_of",
    "to_json",
]


@stored("named", name="name", of="of")
@dataclass(frozen=True)
class Named:
    """An expression or aggregate under the name of a new column."""

    name: str
    of: Expression | Aggregate


class Hashed:
    """What plans and queries have in common: the hash of their canonical JSON, computed once."""

    @cached_property
    def hash(self) -> str:
        """sha256 of the canonical JSON. `==` would confuse 1 and True; the hash does not."""
        return digest(to_json(self))


@stored("scan", table="table")
@dataclass(frozen=True)
class Scan(Hashed):
    """All rows of a registered table, private or public."""

    table: str


@stored("filter", source="source", condition="condition")
@dataclass(frozen=True)
class Filter(Hashed):
    """The rows of `source` for which the condition is true (not unknown)."""

    source: Plan
    condition: Condition


@stored("project", source="source", columns="columns")
@dataclass(frozen=True)
class Project(Hashed):
    """One row per row of `source`, with exactly these columns; the owner stays."""

    source: Plan
    columns: tuple[Named, ...]


@stored("join", left="left", right="right", on="on", kind="kind")
@dataclass(frozen=True)
class Join(Hashed):
    """Rows of `left` with their matches in `right`, by equality of all pairs in `on`; null matches
    nothing.

    `right` is a public table, or private: then both rows have the same owner, whether or not `on`
    says so. A column of `right` that `on` pairs with one of its own name is left out. `left` keeps
    rows without a match, right columns null.
    """

    left: Plan
    right: Plan
    on: tuple[tuple[str, str], ...]
    kind: Literal["inner", "left"]


@stored("unionall", left="left", right="right")
@dataclass(frozen=True)
class UnionAll(Hashed):
    """The rows of both, which have the same columns."""

    left: Plan
    right: Plan


@stored("distinct", source="source", per_unit="per_unit")
@dataclass(frozen=True)
class Distinct(Hashed):
    """Each row once per owner (`per_unit`), or once in all; then no row has an owner."""

    source: Plan
    per_unit: bool


@stored("perunit", source="source", keys="keys", columns="columns")
@dataclass(frozen=True)
class PerUnit(Hashed):
    """One row per owner and value of `keys`: exact aggregates of the owner's rows. Owners stay."""

    source: Plan
    keys: tuple[str, ...]
    columns: tuple[Named, ...]


@stored("group", source="source", keys="keys", columns="columns")
@dataclass(frozen=True)
class Group(Hashed):
    """One row per value of `keys` that occurs, over all owners: no row has an owner any more."""

    source: Plan
    keys: tuple[str, ...]
    columns: tuple[Named, ...]


@stored("sampleunits", source="source", rate="rate")
@dataclass(frozen=True)
class SampleUnits(Hashed):
    """All rows of units drawn with probability `rate`, by a key of the kernel for each release."""

    source: Plan
    rate: Fraction


@stored("limitgroups", source="source", keys="keys", groups="groups")
@dataclass(frozen=True)
class LimitGroups(Hashed):
    """The rows of at most `groups` values of `keys` per owner, chosen by the owner's own hash."""

    source: Plan
    keys: tuple[str, ...]
    groups: int


Plan: TypeAlias = (
    Scan
    | Filter
    | Project
    | Join
    | UnionAll
    | Distinct
    | PerUnit
    | Group
    | SampleUnits
    | LimitGroups
)


@stored("cells", plan="plan", keys="keys", columns="columns")
@dataclass(frozen=True)
class Cells(Hashed):
    """One integer per key and aggregate: counts and sums. Its shape is public."""

    plan: Plan
    keys: tuple[str, ...]
    columns: tuple[Aggregate, ...]


@stored("keys", plan="plan", keys="keys")
@dataclass(frozen=True)
class Keys(Hashed):
    """The values of undeclared keys, each with its distinct owners: what key selection reads."""

    plan: Plan
    keys: tuple[str, ...]


@stored("quantiles", plan="plan", keys="keys", column="column", shares="shares", ends="ends")
@dataclass(frozen=True)
class Quantiles(Hashed):
    """The values of a column at some shares of its rows, in every cell; nulls are skipped. Shares
    increase strictly.

    `ends`: the level at which two more answers for each share, below and above, hold the exact one
    between them, and the part of the query's price that they take together.
    """

    plan: Plan
    keys: tuple[str, ...]
    column: str
    shares: tuple[Fraction, ...]
    ends: tuple[Fraction, Fraction] | None = None

    @property
    def width(self) -> int:
        """How many numbers are released for each cell: all shares, then all lower ends, then all
        upper ones."""
        return len(self.shares) * (1 if self.ends is None else 3)


@dataclass(frozen=True)
class OverCells(Hashed):
    """What is made of the cells of one count or sum over declared keys, before noise."""

    cells: Cells

    @property
    def plan(self) -> Plan:
        return self.cells.plan

    @property
    def keys(self) -> tuple[str, ...]:
        return self.cells.keys


@stored("linear", cells="cells", operator="operator")
@dataclass(frozen=True)
class Linear(OverCells):
    """A public integer matrix times the cells."""

    operator: LinearOperator


@stored("scores", cells="cells", utility="utility")
@dataclass(frozen=True)
class Scores(OverCells):
    """The choice of one public candidate by integer scores of the cells."""

    utility: Utility


@stored("jointscores", members="members")
@dataclass(frozen=True)
class JointScores(Hashed):
    """One choice among the candidates of all members, which score cells of the same rows by
    different keys: the worst fitted of many marginals."""

    members: tuple[Scores, ...]

    @property
    def plan(self) -> Plan:
        return self.members[0].plan

    @property
    def keys(self) -> tuple[str, ...]:
        """None: what leaves is one choice, whatever the keys of the members are."""
        return ()


Query: TypeAlias = Cells | Keys | Quantiles | Linear | Scores | JointScores
MeasuredQuery: TypeAlias = Cells | Keys | Quantiles


def measured_query(query: Query) -> MeasuredQuery:
    """The query whose integers the data layer measures, the first where there are several."""
    return measured_queries(query)[0]


def measured_queries(query: Query) -> tuple[MeasuredQuery, ...]:
    """The queries whose integers the data layer measures: the query itself, or its cells."""
    if isinstance(query, JointScores):
        return tuple(member.cells for member in query.members)
    return (query.cells if isinstance(query, OverCells) else query,)


def sources_of(plan: Plan) -> tuple[Plan, ...]:
    """The plans directly under a node, left to right."""
    if isinstance(plan, Scan):
        return ()
    return (plan.left, plan.right) if isinstance(plan, (Join, UnionAll)) else (plan.source,)


def nodes_of(plan: Plan) -> tuple[Plan, ...]:
    """The node and everything under it.

    >>> [type(node).__name__ for node in nodes_of(UnionAll(Scan("a"), Scan("b")))]
    ['UnionAll', 'Scan', 'Scan']
    """
    return (plan, *(node for source in sources_of(plan) for node in nodes_of(source)))


def to_json(node: Any) -> dict[str, Any]:
    """Write a query, plan, expression, condition or aggregate as its canonical dict."""
    tree: dict[str, Any] = {"type": stored_name(type(node)), "v": 1}
    for key, value in stored_items(node):
        if value is not None:
            tree[key] = _value(value)
    return tree


def _value(value: Any) -> Any:
    """Write one field of a node for its canonical dict: numbers as texts, nodes as dicts."""
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, Fraction)):  # apart from the text "1/2"
        return {"number": f"{value.numerator}/{value.denominator}"}
    if isinstance(value, tuple):
        if value and {*map(type, value)} == {int}:  # in one text: there may be many
            return {"integers": " ".join(map(str, value))}
        return [_value(member) for member in value]
    return to_json(value)


def plan_hash(node: Hashed) -> str:
    """sha256 of the canonical JSON of a plan or query."""
    return node.hash
