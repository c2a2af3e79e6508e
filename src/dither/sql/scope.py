"""The columns of a relation that a question can name at one point, by table and name, in any case.

The owner of a row is a name like any other, and no column of the plan: it can be joined by,
counted, and grouped by inside a subquery; everything else is refused (ids are never read).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from dither.catalog import Catalog
from dither.catalog.scalars import is_name
from dither.errors import QueryError, RefusedError
from dither.plan.algebra import Call, Column, Expression, Plan, Value
from dither.plan.analyse import (
    FIRST_RULES,
    NEWEST_RULES,
    Analysed,
    AnalysedNodes,
    analyse_node,
    list_means,
)
from dither.plan.domain import Columns, Domain
from dither.plan.facts import Facts
from dither.plan.functions import domain_of
from dither.plan.refine import refine_domain
from dither.sql.refusals.refuse import did_you_mean, locate_refusal, refuse

Anchor = tuple[str, tuple[str, ...], str]
"""A table, the columns of a key of it, and one of them."""


@dataclass(frozen=True)
class Field:
    """A name with its meaning: an expression over the plan's columns, or the owner (`of` is None).

    `anchor` says which row an id names: rows that agree on all parts of a key have the same owner;
    a reference is never null. `marker` is null exactly where an outer join found no row for this
    field; `is_lent` says that nothing else tells it: the value is that of the row which the join
    kept. `labels` are the texts that the codes of `of` stand for. `period` says that a date is the
    first day of its week, month, quarter or year. `qualified` fields need their table's name.
    `texts` are all that a text of a public table can be, where registration listed them.
    """

    source: str | None
    name: str
    of: Expression | None
    anchor: Anchor | None = None
    is_reference: bool = False
    marker: Expression | None = None
    is_lent: bool = False
    labels: tuple[str, ...] = ()
    period: str = ""
    qualified: bool = False
    public: bool = False
    texts: tuple[str, ...] = ()

    @property
    def is_owner(self) -> bool:
        return self.of is None

    @property
    def present(self) -> tuple[Expression, ...]:
        """Conditions that hold exactly where an id is not null.

        Owners and references never are null.
        """
        expressions = [] if self.marker is None else [self.marker]
        expressions += [self.of] if self.of is not None and not self.is_reference else []
        return tuple(Call("is_not_null", (expression,)) for expression in expressions)


@dataclass(frozen=True)
class Relation:
    """Rows, and what they can be called. `listed` are key columns of which only a public table's
    values are keys."""

    plan: Plan
    fields: tuple[Field, ...]
    listed: frozenset[str] = frozenset()
    public_rows: bool = False

    def rename_source(self, source: str) -> Relation:
        return replace(self, fields=tuple(replace(field, source=source) for field in self.fields))


@dataclass
class Context:
    """What binding reads beside the text: public facts. Analyses are kept by node, and domains of
    expressions by the plan whose columns they read; each entry keeps its plan alive.

    Under earlier `rules` a question is bound as it was bound then.
    """

    sql: str
    catalog: Catalog
    facts: Facts
    rules: int = NEWEST_RULES
    analyses: AnalysedNodes = field(default_factory=dict)
    domains: dict[int, tuple[Plan, dict[Expression, Domain]]] = field(default_factory=dict)

    def analyse(self, plan: Plan, node: exp.Expr | None = None) -> Analysed:
        """Stability and domains of a plan; what its rules refuse is an error at the node."""
        earlier = self.analyses.get(id(plan))
        if earlier is not None and earlier.plan is plan:
            return earlier
        try:
            return analyse_node(plan, self.catalog, self.facts, self.analyses, self.rules)
        except RefusedError as error:
            raise locate_refusal(error, self.sql, node) from None

    def error(self, message: str, node: exp.Expr | None = None) -> QueryError:
        return refuse(message, self.sql, node)


@dataclass(frozen=True)
class Scope:
    """A relation at one point of the question.

    `meanings` has the expressions that subqueries, aggregates and keys stand for, by node.
    """

    context: Context
    relation: Relation
    meanings: dict[int, Expression] = field(default_factory=dict)

    @property
    def columns(self) -> Columns:
        return self.context.analyse(self.relation.plan).columns

    def domain(self, expression: Expression, node: exp.Expr | None = None) -> Domain:
        """Compute the domain of an expression.

        What its rules refuse is a QueryError at the node.
        """
        plan = self.relation.plan
        domains = self.context.domains.setdefault(id(plan), (plan, {}))[1]
        domain = domains.get(expression)
        if domain is not None:
            return domain
        try:
            rows = self.context.analyse(plan)
            if self.context.rules == FIRST_RULES:
                domain = domain_of(expression, rows.columns)
            else:
                domain = refine_domain(expression, rows.columns, list_means(rows))
            domains[expression] = domain
            return domain
        except RefusedError as error:
            raise locate_refusal(error, self.context.sql, node) from None

    def field(self, node: exp.Column) -> Field:
        """Return the field that a column of the question names.

        Raises QueryError where there is none, or several.
        """
        fields = self.candidates(node)
        if len(fields) > 1:
            sources = " or ".join(f"{candidate.source}.{candidate.name}" for candidate in fields)
            raise self.context.error(f"{node.name} is ambiguous: write {sources}", node)
        if not fields:
            raise self.context.error(self._unknown(node), node)
        return fields[0]

    def candidates(self, node: exp.Column) -> list[Field]:
        """List the fields that a column could name; of several that mean the same, the first."""
        if node.args.get("db") or not isinstance(node.this, exp.Identifier):
            raise self.context.error("write a column as name or table.name", node)
        name = node.name.lower()
        table = node.table.lower()
        fields: dict[object, Field] = {}
        for candidate in self.relation.fields:
            if candidate.name.lower() != name or (candidate.qualified and not table):
                continue
            if not table or (candidate.source or "").lower() == table:
                fields.setdefault((candidate.of, candidate.marker, candidate.labels), candidate)
        return list(fields.values())

    def _unknown(self, node: exp.Column) -> str:
        """Say which table or column is not there, and which one may be meant."""
        sources = list(
            dict.fromkeys(
                candidate.source for candidate in self.relation.fields if candidate.source
            )
        )
        if node.table and node.table.lower() not in [source.lower() for source in sources]:
            return f"no table {node.table} in this FROM: {did_you_mean(node.table, sources)}"
        names = [
            candidate.name
            for candidate in self.relation.fields
            if not node.table or (candidate.source or "").lower() == node.table.lower()
        ]
        where = f" in {node.table or ', '.join(sources)}" if node.table or sources else ""
        return f"no column {node.name}{where}: {did_you_mean(node.name, names)}"

    def period_of(self, expression: Expression) -> str:
        """Return the period whose first day a date column always is; empty where there is none."""
        return next(
            (
                candidate.period
                for candidate in self.relation.fields
                if candidate.of == expression and candidate.period
            ),
            "",
        )

    def labels_of(self, expression: Expression) -> tuple[str, ...]:
        """Return the texts that the codes of a column stand for; empty where there are none."""
        return next(
            (
                candidate.labels
                for candidate in self.relation.fields
                if candidate.of == expression and candidate.labels
            ),
            (),
        )


def fresh_name(suggested_name: str, taken: set[str]) -> str:
    """Choose a plain name that is not in `taken` in any case, and add it there.

    >>> fresh_name("total", {"total"})
    'total_2'
    """
    base = suggested_name[:50] if is_name(suggested_name[:50]) else "value"
    name = base
    number = 1
    while name.lower() in taken:
        number += 1
        name = f"{base}_{number}"
    taken.add(name.lower())
    return name


def substitute_columns(expression: Expression, substitutes: dict[str, Expression]) -> Expression:
    """Replace columns of an expression; `substitutes` maps their names to expressions.

    >>> substitute_columns(Call("abs", (Column("x"),)), {"x": Column("y")})
    Call(function='abs', arguments=(Column(name='y'),))
    """
    if isinstance(expression, Column):
        return substitutes.get(expression.name, expression)
    if isinstance(expression, Call):
        return Call(
            expression.function,
            tuple(substitute_columns(argument, substitutes) for argument in expression.arguments),
        )
    return expression


def decode_labels(code: Expression, labels: tuple[str, ...]) -> Expression:
    """The text that a code stands for.

    >>> decode_labels(Column("c"), ("a",)).arguments[1]
    Value(kind='text', value='a')
    """
    arguments: list[Expression] = []
    for index, label in enumerate(labels):
        arguments += [Call("eq", (code, Value("number", Fraction(index)))), Value("text", label)]
    return Call("case", tuple(arguments))
