"""The queries of a question.

Each grouping set has one query for each set of rows, and one for keys without a list.
"""

from __future__ import annotations

from dataclasses import dataclass

from dither.errors import RefusedError
from dither.plan.algebra import (
    Aggregate,
    Cells,
    Column,
    Compare,
    Count,
    CountDistinct,
    CountUnits,
    CountValues,
    Expression,
    Filter,
    Keys,
    LimitGroups,
    Named,
    Plan,
    Project,
    Quantiles,
    Query,
    Sum,
)
from dither.plan.analyse import refuse_public
from dither.plan.analysed_query import AnalysedQuery
from dither.question.recipe import GroupingSet, KeyColumn
from dither.sql.constants import number
from dither.sql.groups import Sets
from dither.sql.question import AtomMeasure, QuestionDraft
from dither.sql.refusals.refuse import locate_refusal
from dither.sql.scope import Context, fresh_name


@dataclass(frozen=True)
class QuestionQueries:
    """The queries that answer a question, and the position of each atom in them."""

    queries: tuple[Query, ...]
    keys: tuple[KeyColumn, ...]
    sets: tuple[GroupingSet, ...]


class _Queries:
    """Make the queries of a question.

    Equal numbers are asked once, and all numbers over the same rows and keys in one query.
    """

    def __init__(self) -> None:
        # For rows and keys: the index of their query, and the column of each number in it.
        self._cell_queries: dict[
            tuple[Plan, tuple[str, ...]], tuple[int, dict[Aggregate, int]]
        ] = {}
        self._single_queries: dict[Query, int] = {}  # those measured by themselves, to their index
        self._count = 0  # of all queries: the next index

    def place_number(
        self, plan: Plan, keys: tuple[str, ...], aggregate: Aggregate
    ) -> tuple[int, int]:
        """The query that measures a number of each cell, and its column there."""
        if (plan, keys) not in self._cell_queries:
            self._cell_queries[plan, keys] = (self._take_index(), {})
        query, columns = self._cell_queries[plan, keys]
        return query, columns.setdefault(aggregate, len(columns))

    def place_query(self, query: Keys | Quantiles) -> int:
        """The index of a query that is measured by itself."""
        if query not in self._single_queries:
            self._single_queries[query] = self._take_index()
        return self._single_queries[query]

    def _take_index(self) -> int:
        self._count += 1
        return self._count - 1

    def list_queries(self) -> tuple[Query, ...]:
        """Every query, in the order of the indexes."""
        queries = {index: query for query, index in self._single_queries.items()}
        for (plan, keys), (index, columns) in self._cell_queries.items():
            queries[index] = Cells(plan, keys, tuple(columns))
        return tuple(queries[index] for index in range(self._count))


def make_queries(question: QuestionDraft, sets: Sets, context: Context) -> QuestionQueries:
    """Make the queries of a question.

    Equal numbers are asked once, and all numbers over the same rows and keys in one query.
    """
    plan, names = _project_columns(question)
    columns = context.analyse(plan).columns
    keys = tuple(
        KeyColumn(
            names[key.encoding.of],
            key.encoding.show_domain(columns[names[key.encoding.of]]),
            key.encoding.dated,
        )
        for key in question.keys
    )
    queries = _Queries()
    grouping_sets = []
    for indexes in sets:
        grouped = tuple(keys[index].column for index in indexes)
        limited: Plan = (
            LimitGroups(plan, grouped, question.groups) if question.groups and grouped else plan
        )
        unlisted = tuple(name for name in grouped if columns[name].undeclared)
        selection = queries.place_query(Keys(limited, unlisted)) if unlisted else None
        positions = tuple(
            _locate_atom(atom, limited, grouped, names, question, queries)
            for atom in question.atoms
        )
        grouping_sets.append(GroupingSet(indexes, selection, positions))
    for query in queries.list_queries():
        _check_query(query, context)
    return QuestionQueries(queries.list_queries(), keys, tuple(grouping_sets))


def _project_columns(question: QuestionDraft) -> tuple[Plan, dict[Expression, str]]:
    """Make every key and argument a column of the rows; return the plan and the name of each."""
    wanted_names: dict[Expression, str] = {key.encoding.of: key.name for key in question.keys}
    for atom in question.atoms:
        if atom.of is not None:
            wanted_names.setdefault(atom.of, "counted" if atom.kind == "units" else "value")
    are_columns = all(isinstance(expression, Column) for expression in wanted_names)
    if are_columns or not wanted_names:
        return question.scope.relation.plan, {
            expression: expression.name
            for expression in wanted_names
            if isinstance(expression, Column)
        }
    taken = {
        expression.name.lower() for expression in wanted_names if isinstance(expression, Column)
    }
    names: dict[Expression, str] = {}
    for expression, wanted_name in wanted_names.items():
        names[expression] = (
            expression.name if isinstance(expression, Column) else fresh_name(wanted_name, taken)
        )
    return Project(
        question.scope.relation.plan,
        tuple(Named(name, expression) for expression, name in names.items()),
    ), names


def _locate_atom(
    released: AtomMeasure,
    plan: Plan,
    keys: tuple[str, ...],
    names: dict[Expression, str],
    question: QuestionDraft,
    queries: _Queries,
) -> tuple[int, int]:
    """Return the index of the query that answers an atom, and the atom's position in it.

    The query is added at its first use.
    """
    name = names[released.of] if released.of is not None else ""
    if released.kind == "quantile":
        shares = tuple(
            sorted(
                {
                    atom.share
                    for atom in question.atoms
                    if atom.of == released.of and atom.share is not None
                }
            )
        )
        assert released.share is not None
        return queries.place_query(Quantiles(plan, keys, name, shares)), shares.index(
            released.share
        )
    if released.kind == "units" and released.of is not None:
        plan = _keep_counted(plan, keys, name)
    aggregates: dict[str, Aggregate] = {
        "count": Count(),
        "values": CountValues(name),
        "distinct": CountDistinct(name),
        "units": CountUnits(),
        "sum": Sum(name),
    }
    return queries.place_number(plan, keys, aggregates[released.kind])


def _keep_counted(plan: Plan, keys: tuple[str, ...], name: str) -> Plan:
    """The rows in which a truth value holds.

    Where it is a key too, a copy is compared: to compare the key itself would leave one of its
    values, and the answer has a row for each.
    """
    if name in keys:
        copied = fresh_name("counted", {key.lower() for key in keys})
        columns = (*(Named(key, Column(key)) for key in keys), Named(copied, Column(name)))
        plan = Project(plan, columns)
        name = copied
    return Filter(plan, Compare(name, "=", number(1).value))


def _check_query(query: Query, context: Context) -> None:
    """Raise what the rules of plans refuse, before anything is priced, as an error about the
    text."""
    try:
        analysed = AnalysedQuery(
            query, refuse_public(context.analyse(query.plan)), context.catalog.neighbours
        )
        if isinstance(query, Cells):
            _ = analysed.sensitivity, analysed.largest_values
            return
        _ = analysed.reach
        if isinstance(query, Quantiles):
            _ = analysed.points
    except RefusedError as error:
        raise locate_refusal(error, context.sql) from None
