"""What a question can name at one place: the columns of a relation, by table and name, in any case.

The owner of a row is a name like any other, and no column of the plan: it can be joined by, counted, and grouped by
inside a subquery; everything else is refused (ids are never read).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from dither.catalog import Catalog
from dither.catalog.scalars import is_name
from dither.errors import QueryError, RefusedError
from dither.plan.algebra import Call, Column, Expression, Plan, Value
from dither.plan.analyse import Analysed, AnalysedNodes, analyse_node
from dither.plan.domain import Columns, Domain
from dither.plan.facts import Facts
from dither.plan.functions import domain_of
from dither.sql.refusals.refuse import did_you_mean, from_plan, refuse

Anchor = tuple[str, tuple[str, ...], str]
"""A table, the columns of a key of it, and one of them."""


@dataclass(frozen=True)
class Field:
    """A name with its meaning: an expression over the plan's columns, or the owner (`of` is None).

    `anchor` says which row an id names: rows that agree on all parts of a key have the same owner; a reference is never
    null. `marker` is null exactly where an outer join found no row for this field. `labels` are the texts that the
    codes of `of` stand for. `period` says that a date is the first day of its week, month, quarter or year. `qualified`
    fields need their table's name.
    """

    source: str | None
    name: str
    of: Expression | None
    anchor: Anchor | None = None
    is_reference: bool = False
    marker: Expression | None = None
    labels: tuple[str, ...] = ()
    period: str = ""
    qualified: bool = False
    public: bool = False

    @property
    def is_owner(self) -> bool:
        return self.of is None

    @property
    def present(self) -> tuple[Expression, ...]:
        """Of an id: what holds exactly where it is not null; owners and references always are there."""
        parts = [] if self.marker is None else [self.marker]
        parts += [self.of] if self.of is not None and not self.is_reference else []
        return tuple(Call("is_not_null", (part,)) for part in parts)


@dataclass(frozen=True)
class Relation:
    """Rows, and what they can be called. `listed` are key columns of which only a public table's values are keys."""

    plan: Plan
    fields: tuple[Field, ...]
    listed: frozenset[str] = frozenset()
    public_rows: bool = False

    def renamed(self, source: str) -> Relation:
        return replace(self, fields=tuple(replace(each, source=source) for each in self.fields))


@dataclass
class Context:
    """What binding reads beside the text: public facts. Analyses are kept by node."""

    sql: str
    catalog: Catalog
    facts: Facts
    known: AnalysedNodes = field(default_factory=dict)

    def analysed(self, plan: Plan, node: exp.Expr | None = None) -> Analysed:
        """Stability and domains of a plan; what its rules refuse is an error at the node."""
        try:
            return analyse_node(plan, self.catalog, self.facts, self.known)
        except RefusedError as error:
            raise from_plan(error, self.sql, node) from None

    def error(self, message: str, node: exp.Expr | None = None) -> QueryError:
        return refuse(message, self.sql, node)


@dataclass(frozen=True)
class Scope:
    """A relation at one place of the question. `found` are the values of subqueries, by node."""

    at: Context
    relation: Relation
    found: dict[int, Expression] = field(default_factory=dict)

    @property
    def columns(self) -> Columns:
        return self.at.analysed(self.relation.plan).columns

    def domain(self, expression: Expression, node: exp.Expr | None = None) -> Domain:
        """The domain of an expression; what its rules refuse is an error at the node."""
        try:
            return domain_of(expression, self.columns)
        except RefusedError as error:
            raise from_plan(error, self.at.sql, node) from None

    def field(self, node: exp.Column) -> Field:
        """The field that a column of the question names."""
        found = self.candidates(node)
        if len(found) > 1:
            sources = " or ".join(f"{each.source}.{each.name}" for each in found)
            raise self.at.error(f"{node.name} is ambiguous: write {sources}", node)
        if not found:
            raise self.at.error(self._unknown(node), node)
        return found[0]

    def candidates(self, node: exp.Column) -> list[Field]:
        """The fields that a column could name; of several that mean the same, the first."""
        if node.args.get("db") or not isinstance(node.this, exp.Identifier):
            raise self.at.error("write a column as name or table.name", node)
        name, table = node.name.lower(), node.table.lower()
        found: dict[object, Field] = {}
        for each in self.relation.fields:
            if each.name.lower() != name or (each.qualified and not table):
                continue
            if not table or (each.source or "").lower() == table:
                found.setdefault((each.of, each.marker, each.labels), each)
        return list(found.values())

    def _unknown(self, node: exp.Column) -> str:
        sources = list(dict.fromkeys(each.source for each in self.relation.fields if each.source))
        if node.table and node.table.lower() not in [each.lower() for each in sources]:
            return f"no table {node.table} in this FROM: {did_you_mean(node.table, sources)}"
        names = [
            each.name
            for each in self.relation.fields
            if not node.table or (each.source or "").lower() == node.table.lower()
        ]
        where = f" in {node.table or ', '.join(sources)}" if node.table or sources else ""
        return f"no column {node.name}{where}: {did_you_mean(node.name, names)}"

    def period_of(self, expression: Expression) -> str:
        """The period whose first day a date column always is, if any."""
        return next((f.period for f in self.relation.fields if f.of == expression and f.period), "")

    def labels_of(self, expression: Expression) -> tuple[str, ...]:
        """The texts that the codes of a column stand for, if any."""
        return next((f.labels for f in self.relation.fields if f.of == expression and f.labels), ())


def fresh_name(wanted: str, taken: set[str]) -> str:
    """A plain name that is not taken in any case; it is taken afterwards.

    >>> fresh_name("total", {"total"})
    'total_2'
    """
    base = wanted[:50] if is_name(wanted[:50]) else "value"
    name, n = base, 1
    while name.lower() in taken:
        n += 1
        name = f"{base}_{n}"
    taken.add(name.lower())
    return name


def substituted(expression: Expression, by: dict[str, Expression]) -> Expression:
    """The expression with columns replaced.

    >>> substituted(Call("abs", (Column("x"),)), {"x": Column("y")})
    Call(function='abs', arguments=(Column(name='y'),))
    """
    if isinstance(expression, Column):
        return by.get(expression.name, expression)
    if isinstance(expression, Call):
        return Call(expression.function, tuple(substituted(each, by) for each in expression.arguments))
    return expression


def worded(code: Expression, labels: tuple[str, ...]) -> Expression:
    """The text that a code stands for.

    >>> worded(Column("c"), ("a",)).arguments[1]
    Value(kind='text', value='a')
    """
    parts: list[Expression] = []
    for place, label in enumerate(labels):
        parts += [Call("eq", (code, Value("number", Fraction(place)))), Value("text", label)]
    return Call("case", tuple(parts))
