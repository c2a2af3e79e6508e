"""What is shown before paying: price, error, share of the budget, or why it is refused.

All of it is a function of the catalog, the question and what the asker's budget has released: no
row is read (rules of docs/rules/releases.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from dither.answer.preview import Preview
from dither.answer.preview_columns import PreviewColumn
from dither.canonical import decimal_text
from dither.console.charts import draw_half_width
from dither.console.question_form import TypedQuestion, with_price
from dither.errors import DitherError, QueryError, RefusedError
from dither.gateway.connections import AskedConnection
from dither.pages.charts import format_number
from dither.pages.html import EMPTY, Html
from dither.protocol.errors import BusyError, TokenError
from dither.sql.parameters import write_parameters

GROUP_SIZES = (10, 100, 1_000, 10_000)
_MEANT = re.compile(r": did you mean (\w+)\?")
_MOST_REWRITES = 3


@dataclass(frozen=True)
class ColumnPanel:
    """One column of the answer to come: how far off it will be, in numbers and as a chart."""

    name: str
    by: str
    half_width: str
    typical: str
    chart: Html
    relative: tuple[tuple[str, str], ...]
    limits: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Rewrite:
    """Another text of the question, which would be answered."""

    label: str
    question: TypedQuestion


@dataclass(frozen=True)
class RefusedPanel:
    """Why a question is refused, where in its text, and what to write in its place."""

    message: str
    before: str
    marked: str
    after: str
    rule: str
    rewrites: tuple[Rewrite, ...]


@dataclass(frozen=True)
class PreviewPanel:
    """The preview of a question, ready to be shown. `priced` is the question at a plain price."""

    priced: TypedQuestion
    price: str
    charged: str
    exact_charge: str
    measure: str
    delta: str
    unit: str
    share: float | None
    remaining: str
    questions_left: int
    fits: bool
    is_stored: bool
    is_free: bool
    rows: str
    level: str
    smallest_group: int | None
    columns: tuple[ColumnPanel, ...]
    sentences: tuple[str, ...]

    @property
    def share_text(self) -> str:
        """The share of what is left that the question takes."""
        return "" if self.share is None else format_share(self.share)


def format_share(share: float) -> str:
    """A share for people, never rounded to nothing.

    >>> format_share(0.25), format_share(0.00001), format_share(3)
    ('25%', 'less than 0.1%', 'more than all')
    """
    if share > 1:
        return "more than all"
    return "less than 0.1%" if 0 < share < 0.001 else f"{100 * share:.3g}%"


def make_panel(
    borrowed: AskedConnection, question: TypedQuestion
) -> PreviewPanel | RefusedPanel | None:
    """The preview of a question or its refusal; None where nothing was typed yet."""
    if not question.sql.strip():
        return None
    try:
        preview = _preview(borrowed, question)
    except (TokenError, BusyError):
        raise
    except DitherError as refusal:
        return _describe_refusal(borrowed, question, refusal)
    return _describe_preview(preview, question, _list_counts(borrowed, question))


def _preview(borrowed: AskedConnection, question: TypedQuestion) -> Preview:
    return borrowed.connection.preview(question.sql, **question.list_terms())


def _describe_preview(
    preview: Preview, question: TypedQuestion, counts: frozenset[str]
) -> PreviewPanel:
    share = None
    if preview.balance is not None and preview.balance.left > 0:
        share = float(preview.charged.amount / preview.balance.left)
    priced = question
    if question.by == "within":
        priced = with_price(question, preview.measure, str(preview.price))
    level = f"{float(preview.confidence) * 100:.4g}%"
    return PreviewPanel(
        priced,
        f"{preview.measure} {decimal_text(preview.price, up=True)}",
        decimal_text(preview.charged.amount, up=True),
        f"{preview.charged_in} {preview.charged.amount} {preview.charged.delta}",
        preview.charged_in,
        decimal_text(preview.charged.delta, up=True),
        preview.unit,
        share,
        "" if preview.balance is None else decimal_text(preview.balance.left),
        preview.questions_left,
        preview.fits and preview.balance is not None,
        preview.stored,
        not preview.columns and not preview.charged.amount,
        _describe_rows(preview.rows),
        level,
        preview.smallest_group,
        tuple(
            _describe_column(column, level, is_count=column.name in counts)
            for column in preview.columns
        ),
        tuple(preview.lines()),
    )


def _describe_rows(rows: int | None) -> str:
    if rows is None:
        return "a row for every key that enough people share"
    return "1 row" if rows == 1 else f"{rows:,} rows"


def _describe_column(column: PreviewColumn, level: str, *, is_count: bool) -> ColumnPanel:
    half = column.half_width
    is_finite = half is not None and math.isfinite(half)
    relative: tuple[tuple[str, str], ...] = ()
    if half is not None and is_finite and is_count:
        relative = tuple((f"{size:,}", _write_relative(half / size)) for size in GROUP_SIZES)
    chart = EMPTY
    if half is not None and is_finite and half > 0:
        chart = draw_half_width(half, column.standard_error, level)
    return ColumnPanel(
        column.name,
        column.by,
        format_number(half),
        format_number(column.standard_error),
        chart,
        relative,
        column.limits,
        column.notes,
    )


def _list_counts(borrowed: AskedConnection, question: TypedQuestion) -> frozenset[str]:
    """The columns that count: their error can be held against the size of a group."""
    try:
        recipe = borrowed.connection.bind(_write_values(question))
    except DitherError:
        return frozenset()
    return frozenset(
        output.name for output in recipe.outputs if output.aggregate.startswith("COUNT(")
    )


def _write_relative(share: float) -> str:
    return "more than itself" if share > 1 else f"{100 * share:.2g}%"


def _describe_refusal(
    borrowed: AskedConnection, question: TypedQuestion, refusal: DitherError
) -> RefusedPanel:
    """The refusal with its place in the text."""
    text = str(refusal).partition("\n")[0]
    sql = question.sql
    start = end = 0
    if isinstance(refusal, QueryError) and 0 <= refusal.start < refusal.end:
        sql = _write_values(question)
        start = min(refusal.start, len(sql))
        end = min(refusal.end, len(sql))
    rule = refusal.rule.link if isinstance(refusal, RefusedError) else ""
    rewrites = _list_rewrites(borrowed, question, text, start, end) if end else ()
    return RefusedPanel(text, sql[:start], sql[start:end], sql[end:], rule, rewrites)


def _write_values(question: TypedQuestion) -> str:
    """The text that was read: with the values of its parameters."""
    try:
        return write_parameters(question.sql, question.list_terms().get("params"))
    except DitherError:
        return question.sql


def _list_rewrites(
    borrowed: AskedConnection, question: TypedQuestion, message: str, start: int, end: int
) -> tuple[Rewrite, ...]:
    """Texts that would be answered: each is previewed before it is offered."""
    if question.parameters:
        return ()
    sql = question.sql
    marked = sql[start:end]
    drafts: list[tuple[str, str]] = []
    meant = _MEANT.search(message)
    if meant is not None:
        name = meant.group(1)
        renamed = re.sub(rf"\b{re.escape(marked)}\b", lambda _: name, sql)
        drafts.append((f"write {name} for {marked}", renamed))
    if "without an aggregate" in message:
        drafts.append(("count rows", sql[:start] + "COUNT(*) AS n" + sql[end:]))
    if "GROUP BY" in message:
        drafts.append((f"group by {marked}", _group_by(sql, start, end)))
        drafts.append((f"average {marked}", f"{sql[:start]}AVG({marked}){sql[end:]}"))
    rewrites = [
        Rewrite(label, TypedQuestion(text, question.by, question.amount, pot=question.pot))
        for label, text in drafts
    ]
    is_answered = _make_check(borrowed)
    return tuple(rewrite for rewrite in rewrites if is_answered(rewrite.question))[:_MOST_REWRITES]


def _group_by(sql: str, start: int, end: int) -> str:
    """The text with the marked column as a key; a count is added where nothing is aggregated."""
    column = sql[start:end]
    has_aggregate = re.search(r"\b(count|sum|avg|median|min|max)\s*\(", sql, re.IGNORECASE)
    figure = "" if has_aggregate else ", COUNT(*) AS n"
    return f"{sql[:end]}{figure}{sql[end:].rstrip().rstrip(';')} GROUP BY {column}"


def _make_check(borrowed: AskedConnection) -> Callable[[TypedQuestion], bool]:
    def is_answered(question: TypedQuestion) -> bool:
        try:
            _preview(borrowed, question)
        except DitherError:
            return False
        return True

    return is_answered
