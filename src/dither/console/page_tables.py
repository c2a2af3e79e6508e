"""Pages as tables of texts: the same facts as JSON, CSV or Arrow. Looking at them spends nothing.

Amounts are decimals written as texts, so that nothing is rounded on the way.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from fastapi import Response

from dither.console.budget_page import PotPanel
from dither.console.history_pages import HistoryLine
from dither.console.preview_panel import PreviewPanel, RefusedPanel
from dither.console.register_pages import RegisterPot
from dither.gateway.answers import ARROW, JSON
from dither.privacy.kernel.release import table_bytes
from dither.surfaces import escape_csv, escape_json

TableKind = Literal["json", "csv", "arrow"]


@dataclass(frozen=True)
class PageTable:
    """The facts of a page: names of columns, and rows of texts."""

    name: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def make_page_table(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> PageTable:
    """A table whose rows are as long as its heads."""
    return PageTable(name, tuple(heads), tuple(tuple(row) for row in rows))


def send_page_table(table: PageTable, kind: TableKind) -> Response:
    """A table as a file."""
    name = "".join(letter for letter in table.name if letter.isascii() and letter.isalnum())
    headers = {"content-disposition": f'attachment; filename="{name}.{kind}"'}
    if kind == "json":
        return Response(write_table_json(table), headers=headers, media_type=JSON)
    if kind == "csv":
        text = write_table_csv(table)
        return Response(text, headers=headers, media_type="text/csv; charset=utf-8")
    return Response(write_table_arrow(table), headers=headers, media_type=ARROW)


def write_table_json(table: PageTable) -> str:
    """The rows as objects.

    >>> write_table_json(PageTable("budget", ("name", "left"), (("total", "0.5"),)))
    '{"page": "budget", "rows": [{"name": "total", "left": "0.5"}]}'
    """
    rows = [dict(zip(table.heads, row, strict=True)) for row in table.rows]
    return escape_json(json.dumps({"page": table.name, "rows": rows}, ensure_ascii=False))


def write_table_csv(table: PageTable) -> str:
    """The rows as CSV that a spreadsheet shows and does not compute."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table.heads)
    for row in table.rows:
        writer.writerow([escape_csv(cell) for cell in row])
    return text.getvalue()


def write_table_arrow(table: PageTable) -> bytes:
    """The rows as a stream of Arrow; every column is a text."""
    columns = [
        pa.array([row[index] for row in table.rows], pa.string())
        for index in range(len(table.heads))
    ]
    return table_bytes(pa.table(columns, names=list(table.heads)))


# -- what each page holds


def tabulate_pots(pots: Sequence[PotPanel]) -> PageTable:
    """The page of budgets."""
    heads = (
        *("budget", "inside", "kind", "measure", "spent", "left", "cap", "ceiling"),
        *("promise", "so_far", "purpose", "forecast"),
    )
    rows = [
        (
            *(pot.name, pot.inside, pot.kind, pot.measure, pot.spent, pot.remaining, pot.cap),
            *(pot.ceiling, pot.promise, pot.so_far, pot.purpose, pot.forecast),
        )
        for pot in pots
    ]
    return make_page_table("budget", heads, rows)


def tabulate_history(lines: Sequence[HistoryLine]) -> PageTable:
    """The page of history: all lines that the filter leaves."""
    heads = ("release", "released_at", "asked", "sql", "paid", "superseded_by")
    rows = [
        (line.release_id, line.released_at, line.asks, line.sql, line.paid, line.superseded_by)
        for line in lines
    ]
    return make_page_table("history", heads, rows)


def tabulate_register(pots: Sequence[RegisterPot]) -> PageTable:
    """The register: a row for each release, with the terms of the budget that paid."""
    heads = (
        *("budget", "why", "about_whom", "for_whom", "promise"),
        *("released_at", "what", "price", "version"),
    )
    rows = [
        (
            *(pot.name, pot.question, pot.population, pot.recipient, pot.promise),
            *(release.released_at, release.asks, release.paid, str(release.version)),
        )
        for pot in pots
        for release in pot.releases
    ]
    return make_page_table("register", heads, rows)


def tabulate_preview(panel: PreviewPanel | RefusedPanel | None) -> PageTable:
    """What is shown before paying: a row for each column, or the refusal."""
    if panel is None:
        return make_page_table("preview", ("refused",), [])
    if isinstance(panel, RefusedPanel):
        return make_page_table("preview", ("refused", "at"), [(panel.message, panel.marked)])
    heads = (
        *("column", "by", "half_width", "typical_error", "confidence"),
        *("price", "charged", "delta", "left", "questions_left", "smallest_group"),
    )
    size = "" if panel.smallest_group is None else str(panel.smallest_group)
    terms = (panel.price, f"{panel.measure} {panel.charged}", panel.delta, panel.remaining)
    rows = [
        (
            *(column.name, column.by, column.half_width, column.typical, panel.level),
            *(*terms, str(panel.questions_left), size),
        )
        for column in panel.columns
    ]
    return make_page_table("preview", heads, rows)


def tabulate_sections(sections: Sequence[tuple[str, Sequence[str]]]) -> PageTable:
    """Titles with their sentences: who is protected and who is not."""
    rows = [(title, sentence) for title, sentences in sections for sentence in sentences]
    return make_page_table("about", ("about", "sentence"), rows)
