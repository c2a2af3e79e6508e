"""From a text and its terms to a bound question: the first two values of a question's line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeAlias

from dither.answer.intervals import read_level
from dither.answer.quantile_intervals import Ends, read_ends
from dither.answer.question_analyses import QuestionAnalyses
from dither.canonical import Number, exact, positive
from dither.catalog import Catalog
from dither.catalog.owners import owner_names
from dither.errors import ParameterError, QueryError, RefusedError
from dither.given_numbers import whole_number
from dither.plan.analysed_query import Analyses
from dither.privacy.kernel.request import Price
from dither.question.recipe import Recipe
from dither.question.row_limits import name_unit
from dither.question.unit_limits import PartLimits, UnitLimits, limit_recipe
from dither.rules import PrivacyRule
from dither.sql.bind import bind
from dither.sql.dialect_question import DialectQuestion, check_reports, name_interval_ends
from dither.sql.dialects import read_dialect
from dither.sql.parse import read_text

if TYPE_CHECKING:
    from dither.answer.suggest_limits import LimitSuggestion

    Limits: TypeAlias = UnitLimits | PartLimits | LimitSuggestion


_LARGEST = 10**300
"""Numbers of limits up to here can be written as floats."""


@dataclass(frozen=True)
class Asked:
    """A question as it was put: its text, and the terms of its answer."""

    sql: str
    epsilon: Number | None
    rho: Number | None
    level: Fraction
    ends: Ends | None
    within: Number | dict[str, Number] | None = None
    group_size: int | None = None
    weights: Mapping[str, Number] | None = None
    max_groups: int | None = None
    limits: UnitLimits | PartLimits | None = None


@dataclass(frozen=True)
class Bound:
    """A question that was read.

    It has what its dialect said, the queries and columns that it asks for, and their analyses.
    """

    key: tuple[Any, ...]
    dialect: DialectQuestion
    recipe: Recipe
    analyses: Analyses


def read_question(
    sql: str,
    *,
    epsilon: Number | None = None,
    rho: Number | None = None,
    confidence: Number = 0.95,
    quantile_intervals: bool | Number = True,
    group_size: int | None = None,
    max_groups: int | None = None,
    within: Number | dict[str, Number] | None = None,
    weights: Mapping[str, Number] | None = None,
    limits: Limits | None = None,
) -> Asked:
    """Read a question and its terms.

    Terms without a meaning are refused. Reads neither ledger nor catalog.
    """
    read_text(sql)
    if within is not None and (epsilon is not None or rho is not None):
        raise ParameterError("within= finds the price: leave epsilon= and rho= out")
    level = read_level(confidence)
    if group_size is not None:
        whole_number(group_size, "group_size", remedy="a number of rows, such as 1000")
    if max_groups is not None:
        whole_number(max_groups, "max_groups", remedy="a number of groups, such as 3")
    ends = read_ends(quantile_intervals, level)
    own_limits = None if limits is None else _read_limits(limits)
    return Asked(
        sql, epsilon, rho, level, ends, within, group_size, weights, max_groups, own_limits
    )


def _read_limits(limits: Limits) -> UnitLimits | PartLimits:
    """Limits with exact numbers; whoever did not buy them may have written anything."""
    if not isinstance(limits, UnitLimits):
        from dither.answer.suggest_limits import LimitSuggestion

        limits = limits.limits if isinstance(limits, LimitSuggestion) else limits
    if isinstance(limits, PartLimits):
        return PartLimits(
            tuple(
                (name, None if own is None else _read_unit_limits(own))
                for name, own in limits.parts
            )
        )
    return _read_unit_limits(limits)


def _read_unit_limits(limits: UnitLimits) -> UnitLimits:
    """The limits of one question, with exact numbers."""
    if not isinstance(limits, UnitLimits):
        raise ParameterError(
            "limits= takes what con.suggest bought: limits = con.suggest('limits', sql, "
            "epsilon=0.1)"
        )
    clamps = []
    for clamp in limits.clamps:
        low = exact(clamp.low, "the lower end of a clamp")
        high = exact(clamp.high, "the upper end of a clamp")
        if low > high:
            raise ParameterError("the lower end of a clamp is above its upper end: swap them")
        size = None if clamp.size is None else exact(clamp.size, "the size of a clamp")
        if any(abs(number) > _LARGEST for number in (low, high, size or Fraction(0))):
            raise ParameterError("the numbers of a clamp are too large: buy limits, or write 1e6")
        clamps.append(replace(clamp, low=low, high=high, size=size))
    if limits.max_groups is not None:
        whole_number(limits.max_groups, "max_groups", remedy="a number of groups, such as 3")
    if type(limits.is_total) is not bool:
        raise ParameterError("is_total of limits is True or False")
    return replace(limits, clamps=tuple(clamps))


def bind_question(question: Asked, key: tuple[Any, ...], analyses: Analyses) -> Bound:
    """Find the queries and output columns of a question. Reads no data.

    The analyses hold the catalog, its public facts and the rules of stability, and receive the
    plans of the queries.
    """
    dialect = read_dialect(question.sql, analyses.catalog)
    _check_unit(dialect, analyses.catalog)
    limits = [limit for limit in (question.max_groups, dialect.max_groups) if limit is not None]
    with dialect.locate_errors():
        recipe = bind(
            dialect.sql,
            analyses.catalog,
            analyses.facts,
            min(limits) if limits else None,
            analyses,
            analyses.rules,
        )
        if dialect.public_groups and any(
            grouping.selection is not None for grouping in recipe.sets
        ):
            raise QueryError(
                "PUBLIC_GROUPS, but some keys are in no list: join from the public table that "
                "lists them, or list "
                "them in the catalog; without PUBLIC_GROUPS they are shown by private key selection"
            )
        recipe = name_interval_ends(replace(recipe, sql=question.sql), dialect)
        check_reports(recipe, dialect.reports)
        if isinstance(question.limits, PartLimits):
            raise ParameterError(
                "these limits are for a question that is asked in parts, and this one is asked as "
                "a whole: buy limits for it"
            )
        if question.limits is not None:
            unit = name_unit(analyses.catalog)
            recipe = limit_recipe(recipe, question.limits, unit, analyses)
            for query in recipe.queries:
                analyses.analyse_rows(query.plan)
        return Bound(key, dialect, recipe, QuestionAnalyses.share_rows(analyses))


def read_price(question: Asked, dialect: DialectQuestion) -> Price:
    """Read the price from the arguments, or from the question's own OPTIONS(epsilon=...)."""
    epsilon = question.epsilon
    if dialect.epsilon is not None:
        if epsilon is not None or question.rho is not None:
            raise ParameterError(
                "the price is in OPTIONS(epsilon=...) already: leave epsilon= and rho= out"
            )
        epsilon = dialect.epsilon
    return Price(read_epsilon(epsilon), read_rho(question.rho))


def read_epsilon(epsilon: Number | None) -> Fraction | None:
    """Read an epsilon as an exact number; None stays None.

    Raises ParameterError unless positive.
    """
    advice = "choose e.g. epsilon=0.5, or run preview() to see what it buys"
    return None if epsilon is None else positive(epsilon, "epsilon", advice)


def read_rho(rho: Number | None) -> Fraction | None:
    """Read a rho as an exact number; None stays None. Raises ParameterError unless positive."""
    return None if rho is None else positive(rho, "rho", "choose e.g. rho=0.1")


def _check_unit(dialect: DialectQuestion, catalog: Catalog) -> None:
    """Refuse a question that names another unit than the catalog's."""
    owners = {name for table in catalog.private_tables for name in owner_names(catalog, table)}
    if dialect.unit is not None and dialect.unit.lower() not in {name.lower() for name in owners}:
        protected = ", ".join(sorted(owners)) or "each row by itself"
        raise RefusedError(
            f"privacy_unit_column {dialect.unit}: the catalog protects {protected}",
            rule=PrivacyRule.ONLY_TIGHTEN,
        )
