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
from typing import Literal, TypeAlias

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
from dither.plan.encodings import Feature
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
from dither.plan.hashed import Hashed, plan_hash, to_json
from dither.plan.operators import LinearOperator
from dither.plan.utilities import Utility
from dither.plan.vector_functions import VectorFunction
from dither.stored import stored

__all__ = [
    "Aggregate",
    "And",
    "BlockCounts",
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
    "LimitTotal",
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
    "UnitVectors",
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


@stored("limittotal", source="source", keys="keys", column="column", total="total")
@dataclass(frozen=True)
class LimitTotal(Hashed):
    """All rows, with a number cut towards 0: its absolute values sum to at most `total` per owner.

    Rows of an owner are taken in the order of LimitGroups. No two share the values of `keys`.
    """

    source: Plan
    keys: tuple[str, ...]
    column: str
    total: Fraction


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
    | LimitTotal
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


@stored(
    "unitvectors",
    plan="plan",
    features="features",
    function="function",
    clip="clip",
    resolution="resolution",
    rate="rate",
)
@dataclass(frozen=True)
class UnitVectors(Hashed):
    """The sum over all units of a vector of each: a public function of the unit's own rows.

    The vector is clipped to the L2 norm `clip` and truncated to steps of `resolution`. With a
    `rate` the sum is over units drawn with that probability, by a key of the kernel.
    """

    plan: Plan
    features: tuple[Feature, ...]
    function: VectorFunction
    clip: Fraction
    resolution: Fraction
    rate: Fraction | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class OverCells(Hashed):
    """What is made of the cells of one count or sum over declared keys, or of a sum of vectors,
    before noise."""

    cells: Cells | UnitVectors

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

    cells: Cells
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


@stored("blockcounts", cells="cells", score="score", threshold="threshold", tree_share="tree_share")
@dataclass(frozen=True)
class BlockCounts(OverCells):
    """Blocks of neighbouring cells of a count, and the count of each block.

    A block is halved along every key where its `score`, "count" or "deviation", is above the
    threshold. `tree_share` is the share of the price that decides about splits.
    """

    cells: Cells
    score: str
    threshold: int
    tree_share: Fraction


Query: TypeAlias = (
    Cells | Keys | Quantiles | UnitVectors | Linear | Scores | JointScores | BlockCounts
)
MeasuredQuery: TypeAlias = Cells | Keys | Quantiles | UnitVectors


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
