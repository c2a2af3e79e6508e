"""Questions that release 0.1 priced by looser rules: its answers stay free under their old keys.

A stored answer is found by a digest that holds its noise. Tighter rules of stability give a
question other noise, hence another digest; where they do, the question is also priced by the first
rules, and an answer stored under that digest is handed out before a new one is sold. The same holds
for newer families of mechanisms: where one is chosen, the question is also offered by the families
that were there before.
"""

from __future__ import annotations

from dataclasses import replace

from dither.answer.curator_access import Pricer
from dither.catalog import Catalog, Id
from dither.errors import DitherError, RefusedError
from dither.plan.algebra import (
    Call,
    Cells,
    Filter,
    Group,
    Plan,
    Project,
    Quantiles,
    Query,
    SampleUnits,
    Scan,
    nodes_of,
)
from dither.plan.analyse import FIRST_RULES, Analysed
from dither.plan.analysed_query import AnalysedQuery, Analyses
from dither.plan.conditions import columns_of
from dither.plan.domain import Domain
from dither.plan.stability.owned import ROWS, Owned
from dither.privacy.kernel.families import FAMILIES, FIRST_LAWS
from dither.privacy.kernel.release import Priced
from dither.privacy.kernel.request import Request
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe


def was_priced_otherwise(recipe: Recipe, first: Analyses, newest: Analyses) -> bool:
    """Whether the first rules of stability say anything else about a question than the newest."""
    queries = [query for query in recipe.queries if not _is_plain(query, newest.catalog)]
    if any(_has_computed_key(query) for query in recipe.queries):
        return True
    if any(_is_bound_otherwise(node) for query in queries for node in nodes_of(query.plan)):
        return True
    try:
        return any(
            _differ(first.analyse_query(query), newest.analyse_query(query)) for query in queries
        )
    except RefusedError:  # what the first rules refused was never answered
        return False


def has_newer_laws(request: Request) -> bool:
    """Whether a request names a family that release 0.1 did not have.

    If it names none, the same request was the best before: the newer ones were only added.
    """
    return any(FAMILIES[step.family].laws > FIRST_LAWS for step in request.steps)


def has_other_noise(kernel: Pricer, priced: Priced) -> bool:
    """Whether a priced request has, by the first rules, the same key and other noise.

    What is stored under its key may then have either: the key holds losses, and those of noise on
    several cells do not say its scale. Where the registered version has no answers of the first
    rules, it never has.
    """
    if priced.version.facts.rules >= priced.version.rules:
        return False
    try:
        first = kernel.price_at(priced.request, priced.view, FIRST_RULES)
    except DitherError:  # what the first rules refused was never answered
        return False
    mechanisms = [step.mechanism for step in priced.steps]
    return first.key == priced.key and [step.mechanism for step in first.steps] != mechanisms


def double_weights(kernel: Pricer, priced: Priced) -> Priced:
    """The same request under another key.

    The key holds weights, of which only the ratios count.
    """
    request = priced.request
    steps = tuple(replace(step, weight=2 * step.weight) for step in request.steps)
    return kernel.price_at(replace(request, steps=steps), priced.view)


def price_apart(kernel: Pricer, request: Request, view: LedgerView) -> Priced:
    """Price a request by the newest rules; under another key than the first rules have for it,
    where they have other noise."""
    priced = kernel.price_at(request, view)
    return double_weights(kernel, priced) if has_other_noise(kernel, priced) else priced


def _is_bound_otherwise(node: Plan) -> bool:
    """Whether another plan may have been made: for products of two columns, and for sums over
    groups of everybody's rows."""
    return isinstance(node, Group) or _has_call(node, ("multiply",))


def _has_computed_key(query: Query) -> bool:
    """Whether a key is computed, which may then be grouped by what is multiplied in it."""
    plan = query.plan
    return isinstance(plan, Project) and any(
        isinstance(named.of, Call) and named.name in query.keys for named in plan.columns
    )


def _has_call(node: Plan, functions: tuple[str, ...]) -> bool:
    """Whether a projection computes something by one of the functions."""
    level: list[object] = [named.of for named in node.columns] if isinstance(node, Project) else []
    while level:
        expression = level.pop()
        if isinstance(expression, Call):
            if expression.function in functions:
                return True
            level += expression.arguments
    return False


def _is_plain(query: Query, catalog: Catalog) -> bool:
    """Whether the rules cannot differ: rows of one table, by columns that are no key of it."""
    nodes = nodes_of(query.plan)
    if any(not isinstance(node, (Scan, Project, SampleUnits)) for node in nodes):
        return False
    if any(_has_call(node, ("case", "if", "multiply")) for node in nodes):
        return False
    if not query.keys:
        return True
    if catalog.unit.column is not None:  # a unit has one value of a key that is its window
        return False
    tables = [catalog.table(node.table) for node in nodes if isinstance(node, Scan)]
    return not any(
        not isinstance(table.column(name), Id)
        for table in tables
        for key in table.unique
        for name in key
        if name in table.column_names
    )


def _differ(first: AnalysedQuery, newest: AnalysedQuery) -> bool:
    """Whether two analyses of a query differ in what a price, a noise or a plan is made from.

    That is made of the domains of columns and of bounds of the rows, and of nothing else: what
    follows from them is computed only where the bounds differ.
    """
    read = _list_read_columns(first.query)
    if _list_domains(first.rows, read) != _list_domains(newest.rows, read):
        return True
    if _list_bounds(first, read) == _list_bounds(newest, read):
        return False
    return _describe(first) != _describe(newest)


def _list_bounds(query: AnalysedQuery, read: frozenset[str] | None) -> tuple[object, ...]:
    """The bounds of a query's rows: of one unit, of one unit and group, of all units, and sums."""
    node = query.rows.node
    if not isinstance(node, Owned):
        return (node,)
    keys = query.query.keys
    sums = {
        name: total
        for name, total in node.sums.items()
        if read is None or name == ROWS or name in read
    }
    return node.rows, node.most, node.groups(keys), node.rows_per_group(keys), sums


def _describe(query: AnalysedQuery) -> tuple[object, ...]:
    """Collect everything that a price or a noise is made from, to compare it."""
    if isinstance(query.query, Cells):
        return query.reach, query.sensitivity, query.box, query.largest_values
    return (query.reach,)


def _list_read_columns(query: Query) -> frozenset[str] | None:
    """The columns that counts, sums and quantiles read from their rows; None, all, for others."""
    if isinstance(query, Quantiles):
        return frozenset((*query.keys, query.column))
    if not isinstance(query, Cells):
        return None
    measured = (getattr(aggregate, "column", None) for aggregate in query.columns)
    return frozenset(query.keys) | {column for column in measured if column is not None}


def _list_domains(rows: Analysed, read: frozenset[str] | None) -> list[tuple[Plan, object]]:
    """The domains of all columns, node by node; None in `read` reads all of them.

    A column that only a condition reads is described by what decides whether the rest of the
    question reads it: the ends to which a condition narrows it say nothing about a price.
    """
    columns = [
        (name, domain if read is None or name in read else _describe_unread(domain))
        for name, domain in rows.columns.items()
    ]
    read_below = None if read is None else _list_columns_below(rows.plan, read)
    below = [entry for source in rows.sources for entry in _list_domains(source, read_below)]
    return [(rows.plan, columns), *below]


def _describe_unread(domain: Domain) -> tuple[object, ...]:
    """Everything about a domain but its ends: COUNT(x) does not read an x that is never null, nor
    does SUM(x) read a constant."""
    is_constant = domain.low == domain.high
    return domain.kind, domain.nullable, domain.labels, domain.undeclared, is_constant


def _list_columns_below(plan: Plan, read: frozenset[str]) -> frozenset[str] | None:
    """The columns of its source that a node reads, where `read` are read of its own; None: all."""
    match plan:
        case Filter(_, condition):
            return read | columns_of(condition)
        case Project(_, columns):
            return frozenset().union(
                *(columns_of(named.of) for named in columns if named.name in read)
            )
    return None
