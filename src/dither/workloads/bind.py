"""A workload over a table: which cells it needs, how large they are, and what is refused.

Everything comes from the catalog. No data is read, and sizes are said before anything of their
size is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod

from dither.answer.shown_keys import Key, list_shown_keys
from dither.errors import ParameterError, RefusedError
from dither.plan.algebra import Cells, CountUnits, Plan, Query
from dither.plan.analysed_query import Analyses
from dither.plan.domain import Domain
from dither.plan.keys import list_keys
from dither.plan.linear import find_aggregate
from dither.question.recipe import Recipe
from dither.rules import PrivacyRule
from dither.workloads.language import CountingWorkload, LineKind, Product
from dither.workloads.lines import count_queries

MOST_ANSWERS = 20_000_000
_SUMMED: tuple[LineKind, ...] = ("prefixes", "ranges")


@dataclass(frozen=True)
class BoundWorkload:
    """A workload with the rows that it counts and the declared values of its columns."""

    workload: CountingWorkload
    recipe: Recipe
    domains: dict[str, Domain]

    @property
    def query(self) -> Cells:
        """The count or sum that is asked, with any keys of the text."""
        query = self.recipe.queries[0]
        assert isinstance(query, Cells)
        return query

    @property
    def plan(self) -> Plan:
        """The rows that are counted."""
        return self.query.plan

    @property
    def unit(self) -> Fraction:
        """What one step of the released integers is worth: 1 for counts."""
        return self.recipe.atoms[0].unit

    @cached_property
    def sizes(self) -> dict[str, int]:
        """How many keys each column has, null included where it is kept."""
        return {name: list_keys(name, domain).codes for name, domain in self.domains.items()}

    @property
    def value_name(self) -> str:
        """What the counts or sums are called."""
        return next(output.name for output in self.recipe.outputs if output.role == "value")

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order in which they are named."""
        return self.workload.columns

    def list_labels(self, column: str) -> list[Key]:
        """The values of a column as people read them."""
        return list_shown_keys(self.domains[column])

    def make_cells(self, columns: tuple[str, ...]) -> Cells:
        """The cells of some of the columns."""
        return Cells(self.plan, columns, self.query.columns)

    def count_answers(self, product: Product) -> int:
        """How many queries a product has."""
        return prod(count_queries(kind, self.sizes[column]) for column, kind in product.factors)


def bind_asked(
    workload: CountingWorkload | Sequence[str],
    table: str | None,
    where: str | None,
    aggregate: str,
    bind: Callable[[str], Recipe],
    analyses: Analyses,
) -> BoundWorkload:
    """Bind a workload over a table, or a list of questions that name theirs."""
    if isinstance(workload, CountingWorkload):
        if table is None:
            raise ParameterError('name the table: con.workload(..., table="visits")')
        return bind_workload(workload, table, where, aggregate, bind, analyses)
    if table is not None or where is not None:
        raise ParameterError("questions in SQL name their table and conditions themselves")
    return bind_questions(workload, bind, analyses)


def bind_workload(
    workload: CountingWorkload,
    table: str,
    where: str | None,
    aggregate: str,
    bind: Callable[[str], Recipe],
    analyses: Analyses,
) -> BoundWorkload:
    """Bind a workload to the rows of a table; refused where a column has no declared values."""
    sql = f"SELECT {aggregate} FROM {table}" + (f" WHERE {where}" if where else "")
    recipe = bind(sql)
    is_plain = recipe.having is None and recipe.limit is None and not recipe.offset
    has_one = len(recipe.queries) == 1 and len(recipe.atoms) == 1
    if not is_plain or not has_one or recipe.atoms[0].offset:
        raise RefusedError(
            "a workload is over one COUNT or SUM without a shift, HAVING or LIMIT: e.g. "
            "aggregate='COUNT(*)'",
            rule=PrivacyRule.NO_RULE,
        )
    (query,) = recipe.queries
    _check_aggregate(query)
    columns = analyses.analyse_rows(query.plan).columns
    for name in workload.columns:
        if name not in columns:
            raise RefusedError(
                f"no column {name} in {table}: see describe()", rule=PrivacyRule.DECLARED_NAMES
            )
        list_keys(name, columns[name])
    bound = BoundWorkload(workload, recipe, {name: columns[name] for name in workload.columns})
    _check_order(bound)
    _check_answers(bound)
    return bound


def bind_questions(
    questions: Sequence[str], bind: Callable[[str], Recipe], analyses: Analyses
) -> BoundWorkload:
    """Counts in SQL over one table, by any keys and with any conditions on declared columns."""
    if not questions or not all(isinstance(text, str) for text in questions):
        raise ParameterError("a list of questions holds at least one SELECT, as text")
    recipes = [bind(text) for text in questions]
    queries = [
        (text, _read_count(query, recipe, recipes[0]))
        for text, recipe in zip(questions, recipes, strict=True)
        for query in recipe.queries
    ]
    plans = {query.plan.hash for _, query in queries}
    if len(plans) > 1:
        return _bind_conditions(queries, recipes[0], analyses)
    products = tuple(
        Product(tuple((name, "identity") for name in query.keys)) for _, query in queries
    )
    columns = analyses.analyse_rows(queries[0][1].plan).columns
    workload = CountingWorkload(products)
    for name in workload.columns:
        list_keys(name, columns[name])
    return BoundWorkload(workload, recipes[0], {name: columns[name] for name in workload.columns})


def _bind_conditions(
    queries: list[tuple[str, Cells]], recipe: Recipe, analyses: Analyses
) -> BoundWorkload:
    """Counts with conditions of their own, over the same rows without them."""
    from dither.workloads.listed_counts import BoundCounts, list_products, strip_condition

    bases = {strip_condition(query.plan)[0].hash for _, query in queries}
    if len(bases) > 1:
        raise RefusedError(
            "questions of one workload count rows of the same tables: ask for others by themselves",
            rule=PrivacyRule.NO_RULE,
        )
    columns = analyses.analyse_rows(strip_condition(queries[0][1].plan)[0]).columns
    workload = CountingWorkload(list_products(queries, columns))
    return BoundCounts(workload, recipe, {name: columns[name] for name in workload.columns})


def _read_count(query: Query, recipe: Recipe, first: Recipe) -> Cells:
    """One count of a list; refused where it is no plain count or sum like the first."""
    base = first.queries[0]
    is_plain = (
        isinstance(query, Cells)
        and isinstance(base, Cells)
        and query.columns == base.columns
        and len(query.columns) == 1
        and recipe.having is None
        and recipe.limit is None
        and not recipe.atoms[0].offset
    )
    if not is_plain or not isinstance(query, Cells):
        raise RefusedError(
            "questions of one workload each have one COUNT(*), or one SUM that is the same in all, "
            "with any WHERE and GROUP BY, and without HAVING or LIMIT",
            rule=PrivacyRule.NO_RULE,
        )
    _check_additive(query)
    return query


def _check_aggregate(query: Query) -> None:
    if not isinstance(query, Cells) or query.keys:
        raise RefusedError(
            "a workload is over one COUNT or SUM of all rows: name no other aggregate and no "
            "GROUP BY",
            rule=PrivacyRule.NO_RULE,
        )
    _check_additive(query)


def _check_additive(query: Cells) -> None:
    """Refuse counts of people: one with rows in two cells is counted in both, so that cells do not
    add up to marginals."""
    if isinstance(find_aggregate(query), CountUnits):
        raise RefusedError(
            "COUNT(DISTINCT) of people does not add up over cells, and tables of a workload do: "
            "count rows, or ask for each table by itself",
            rule=PrivacyRule.NO_RULE,
        )


def _check_order(bound: BoundWorkload) -> None:
    """Refuse prefixes and ranges along a column with nulls, which have no place in the order."""
    for product in bound.workload.products:
        for column, kind in product.factors:
            if kind in _SUMMED and bound.domains[column].nullable:
                raise RefusedError(
                    f"{kind} of {column}, which may be null: a null is in no range. Add "
                    f"where='{column} IS NOT NULL', or declare nulls: drop",
                    rule=PrivacyRule.NO_RULE,
                )


def _check_answers(bound: BoundWorkload) -> None:
    answers = sum(map(bound.count_answers, bound.workload.products))
    if answers > MOST_ANSWERS:
        raise RefusedError(
            f"a workload of {answers:,} queries: at most {MOST_ANSWERS:,}. Ask for fewer columns, "
            "for prefixes in the place of ranges, or for coarser bins",
            rule=PrivacyRule.BOUNDED_WORK,
        )
