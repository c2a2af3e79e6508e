"""EXPLAIN PRIVACY: plan, stability, sensitivity, mechanism, scale, share, price and error, before
anything is spent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dither.answer.preview import Preview
from dither.figures import write_figure
from dither.pages.html import Html, write_element
from dither.pages.notebook import write_cell
from dither.plan.algebra import (
    And,
    BlockCounts,
    Call,
    Cells,
    Column,
    Compare,
    Holds,
    JointScores,
    Keys,
    Linear,
    Named,
    Quantiles,
    Query,
    Scores,
    UnitVectors,
    Value,
    sources_of,
)
from dither.plan.analysed_query import Analyses
from dither.plan.operators import LinearOperator, count_columns, count_rows
from dither.privacy.kernel.calibrate import Calibrated
from dither.privacy.kernel.kernel import Priced
from dither.publish.shown_table import ShownTable
from dither.publish.text import render_text
from dither.question.recipe import Recipe
from dither.surfaces import escape_label, make_rich_cell, make_rich_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_PREFIX = re.compile(r"\s*EXPLAIN\s+PRIVACY\b", re.IGNORECASE)


_AGGREGATES = {"Count", "CountValues", "CountDistinct", "CountUnits", "Sum", "Minimum", "Maximum"}


def strip_explain_prefix(sql: str) -> str | None:
    """Strip EXPLAIN PRIVACY from a question; None if the text does not start with it.

    >>> strip_explain_prefix("explain privacy SELECT COUNT(*) FROM visits")
    ' SELECT COUNT(*) FROM visits'
    """
    prefix = _PREFIX.match(sql)
    return None if prefix is None else sql[prefix.end() :]


@dataclass(frozen=True)
class ExplainedStep:
    """One query of the question: what it reads, how far one unit moves it, and what answers it."""

    asks: str
    plan: tuple[str, ...]
    stability: str
    sensitivity: str
    mechanism: str
    scale: float | None
    share: Fraction
    describes: str = ""


@dataclass(frozen=True)
class Explanation:
    """What is known about a question before data is read: its steps, and its preview."""

    sql: str
    steps: tuple[ExplainedStep, ...]
    preview: Preview

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield make_rich_text(self.sql.strip())
        yield self._make_table()
        yield from map(make_rich_cell, self._list_lines())
        yield self.preview

    def _make_table(self) -> ShownTable:
        """Make the table of steps, one row each, as it is shown to people."""
        heads = ("step", "asks", "one unit moves it by", "mechanism", "noise scale", "share")
        rows = []
        for i, step in enumerate(self.steps):
            scale = "–" if step.scale is None else write_figure(step.scale)
            share = f"{float(step.share):.1%}"
            rows.append((str(i), step.asks, step.sensitivity, step.mechanism, scale, share))
        return ShownTable(heads, tuple(rows), frozenset({4, 5}))

    def _list_lines(self) -> list[str]:
        """List the lines below the table: what each step does, and the plans, each printed once."""
        lines = [f"step {i}: {step.describes}" for i, step in enumerate(self.steps)]
        printed_plans: list[tuple[str, ...]] = []
        for i, step in enumerate(self.steps):
            if step.plan not in printed_plans:
                printed_plans.append(step.plan)
                lines.append(f"plan of step {i}: {step.stability}")
                lines += [f"  {line}" for line in step.plan]
        return lines

    def _repr_html_(self) -> str:
        question = write_element("pre", self.sql.strip())
        lines = write_element("pre", "\n".join(map(escape_label, self._list_lines())))
        table = self._make_table().write_html()
        return write_cell(question, table, lines, Html(self.preview._repr_html_()))

    def __str__(self) -> str:
        return render_text(self)

    def __repr__(self) -> str:
        return str(self)


def explain(
    sql: str, recipe: Recipe, priced: Priced, preview: Preview, analyses: Analyses
) -> Explanation:
    """Explain a priced question.

    For each step: what it asks, how far one unit moves it, its noise and its share.
    """
    total = sum((calibrated.step.weight for calibrated in priced.steps), Fraction(0))
    steps = (
        explain_step(calibrated, analyses, calibrated.step.weight / total)
        for calibrated in priced.steps
    )
    return Explanation(sql, tuple(steps), preview)


def explain_step(calibrated: Calibrated, analyses: Analyses, share: Fraction) -> ExplainedStep:
    """Explain one step of a priced question, which has this share of the price."""
    query = calibrated.step.query
    mechanism = calibrated.mechanism
    return ExplainedStep(
        describe_query(query),
        tuple(describe_plan(query.plan)),
        describe_stability(query, analyses),
        _describe_sensitivity(calibrated),
        mechanism.stored_name,
        _scale(mechanism.parameters),
        share,
        mechanism.describe(),
    )


def _describe_sensitivity(calibrated: Calibrated) -> str:
    """Say how far one unit moves a step, in the terms of its mechanism."""
    words = calibrated.mechanism.describe_sensitivity()
    if not isinstance(calibrated.step.query, Quantiles):
        return words
    is_together = calibrated.copies == 1 and calibrated.cells > 1
    if is_together:
        return f"{words} in all cells together"
    if isinstance(calibrated.copies, Fraction):
        return f"{words} in one cell, {float(calibrated.copies):,g} times as many in all"
    return f"{words} in each of {calibrated.copies:,} cells"


def _scale(parameters: Mapping[str, Fraction]) -> float | None:
    return next(map(float, parameters.values()), None)


def describe_query(query: Query) -> str:
    """Describe a query in words."""
    by = f" by {', '.join(query.keys)}" if query.keys else ""
    if isinstance(query, Keys):
        return f"the values of {', '.join(query.keys)}"
    if isinstance(query, Quantiles):
        words = f"quantiles {', '.join(str(share) for share in query.shares)} of {query.column}{by}"
        return words if query.ends is None else f"{words}, with ends ({query.ends[1]} of the share)"
    if isinstance(query, Linear):
        return f"{describe_operator(query.operator)} times {describe_query(query.cells)}"
    if isinstance(query, JointScores):
        keys = "; ".join(", ".join(member.keys) for member in query.members)
        return f"the best of the Distances by {_shorten(keys)}"
    if isinstance(query, Scores):
        return f"the best {type(query.utility).__name__} over {describe_query(query.cells)}"
    if isinstance(query, BlockCounts):
        return f"blocks split by {query.score} of {describe_query(query.cells)}"
    if isinstance(query, UnitVectors):
        over = "all units" if query.rate is None else f"a sample of units at rate {query.rate}"
        return f"{type(query.function).__name__} summed over {over}, clipped to {query.clip}"
    assert isinstance(query, Cells)
    return ", ".join(_describe_aggregate(aggregate) for aggregate in query.columns) + by


def describe_operator(operator: LinearOperator) -> str:
    """Name a public operator and its size.

    >>> from dither.plan.operators import HaarWavelet, Kronecker, Total
    >>> describe_operator(Kronecker((HaarWavelet(4), Total(3))))
    'Kronecker(HaarWavelet, Total) of 4 x 12 integers'
    """
    inner = getattr(operator, "factors", getattr(operator, "operators", ()))
    names = f"({', '.join(type(factor).__name__ for factor in inner)})" if inner else ""
    size = f"{count_rows(operator):,} x {count_columns(operator):,}"
    return f"{type(operator).__name__}{_shorten(names)} of {size} integers"


def _describe_aggregate(aggregate: Any) -> str:
    column = getattr(aggregate, "column", None)
    return type(aggregate).__name__ + (f"({column})" if column else "")


def describe_plan(plan: Any, depth: int = 0) -> list[str]:
    """Describe a plan as indented lines, the outermost node first."""
    inner = sources_of(plan)
    settings = [
        f"{setting.name}={_shorten(getattr(plan, setting.name))}"
        for setting in fields(plan)
        if not _is_plan(plan, setting.name)
    ]
    lines = ["  " * depth + f"{type(plan).__name__} {' '.join(settings)}".rstrip()]
    return lines + [line for source in inner for line in describe_plan(source, depth + 1)]


def _is_plan(plan: Any, name: str) -> bool:
    return any(getattr(plan, name) is source for source in sources_of(plan))


def _shorten(value: Any) -> str:
    text = describe_value(value)
    return text if len(text) <= 300 else text[:297] + "..."


def describe_value(value: Any) -> str:
    """Write an expression or a condition of a plan as a person would."""
    match value:
        case Named(name, of):
            return name if of == Column(name) else f"{name}: {describe_value(of)}"
        case Column(name):
            return name
        case Value(_, constant):
            return describe_value(constant)
        case Call(function, arguments):
            return f"{function}({', '.join(map(describe_value, arguments))})"
        case Compare(column, operator, constant):
            return f"{column} {operator} {describe_value(constant)}"
        case Holds(expression):
            return describe_value(expression)
        case And(conditions):
            return " and ".join(map(describe_value, conditions))
        case Fraction():
            return str(value.numerator) if value.denominator == 1 else f"{float(value):g}"
        case tuple():
            return f"({', '.join(map(describe_value, value))})"
    return _describe_aggregate(value) if type(value).__name__ in _AGGREGATES else str(value)


def describe_stability(query: Query, analyses: Analyses) -> str:
    """Say how far one unit reaches into the rows that a query reads."""
    node = analyses.analyse_rows(query.plan).node
    bounds = [
        f"{attribute.name} {getattr(node, attribute.name)}"
        for attribute in fields(node)
        if attribute.name in ("rows", "most")
    ]
    return f"{type(node).__name__.lower()} rows" + (
        f", per {analyses.catalog.unit.label}: {', '.join(bounds)}" if bounds else ""
    )
