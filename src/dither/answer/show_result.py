"""How a result looks: in words, in a terminal and in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from rich.table import Table as RichTable

from dither.answer.column_info import ResultColumn
from dither.pages.html import Html, join, join_lines, write_element
from dither.surfaces import escape_label, escape_lines, make_rich_cell

_COVERED = (
    "Intervals cover the exact answer on the registered table; what limits and clamps did to the "
    "data before is named above, not covered. An end that is NULL is no bound."
)
Row = dict[str, Any]


def explain_columns(
    info: dict[str, Any], columns: Sequence[ResultColumn], notes: Sequence[str]
) -> str:
    """Explain in words what each column holds, and what is unprotected.

    Says also what was done to the rows.
    """
    lines = [f"Question: {info['sql'].strip()}"]
    if "measure" in info:
        lines.append(f"Paid: {write_price(info)}; neighbours {info['neighbours']}")
    lines.append("")
    for column in columns:
        if column.role in ("low", "high"):
            continue
        content = "a key" if column.role == "key" else _describe_noise(column)
        lines.append(f"{column.name}: {content}")
        lines += [f"  {note}" for note in (*column.limits, *column.notes)]
    lines += ["", *notes, _COVERED]
    unprotected = "; ".join(info.get("unprotected", ()))
    return escape_lines("\n".join([*lines, f"Not protected: {unprotected}."]))


def write_price(info: dict[str, Any]) -> str:
    """The price with its delta and whom it protects: never an epsilon alone."""
    delta = info.get("charges", {}).get(info["pot"], ("0", "0"))[1]
    paid = f"{info['measure']} {_format_number(info['charged'])}, delta {_format_number(delta)}"
    return f"{paid}, for one {info['unit']}, from pot {info['pot']}"


def list_footnotes(columns: Sequence[ResultColumn], notes: Sequence[str]) -> list[str]:
    """List the notes of a result, and after them those of its value columns."""
    footnotes = list(notes)
    for column in columns:
        if column.role == "value":
            footnotes += [f"{column.name}: {note}" for note in column.notes if note not in notes]
    return footnotes


def make_rich_table(columns: Sequence[ResultColumn], rows: Sequence[Row]) -> RichTable:
    """Make the table for a terminal: the interval of a value is one column, from end to end."""
    table = RichTable()
    for column in columns:
        if column.role in ("key", "value"):
            justify: Literal["left", "right"] = "right" if column.role == "value" else "left"
            table.add_column(make_rich_cell(column.name), justify=justify)
        elif column.role == "low" and column.confidence is not None:
            table.add_column(_write_level(column), justify="right")
    for row in rows:
        table.add_row(*map(make_rich_cell, _list_cells(columns, row)))
    return table


def _list_cells(columns: Sequence[ResultColumn], row: Row) -> Iterator[str]:
    for index, column in enumerate(columns):
        if column.role == "low":
            high = columns[index + 1]
            yield f"{_format_value(row[column.name])} … {_format_value(row[high.name])}"
        elif column.role != "high":
            yield _format_value(row[column.name])


def write_html_table(
    columns: Sequence[ResultColumn], rows: Sequence[Row], notes: Sequence[str]
) -> Html:
    """Write the table for notebooks: intervals in small grey type below their values."""
    names = [column.name for column in columns if column.role in ("key", "value")]
    head = write_element("tr", *(write_element("th", _format_label(name)) for name in names))
    body = [write_element("tr", *_list_html_cells(columns, row)) for row in rows]
    table = write_element("table", write_element("thead", head), write_element("tbody", *body))
    level = next((_write_level(column) for column in columns if column.role == "low"), "")
    footnotes = [*([f"small: {level}"] if level else []), *list_footnotes(columns, notes)]
    return join([table, write_element("small", join_lines(footnotes))])


def _list_html_cells(columns: Sequence[ResultColumn], row: Row) -> Iterator[Html]:
    for index, column in enumerate(columns):
        value = _format_label(row[column.name])
        if column.role == "key":
            yield write_element("td", value)
        elif column.role == "value":
            after = columns[index + 1 : index + 3]
            ends = [_format_label(row[end.name]) for end in after if end.role in ("low", "high")]
            interval = write_element("small", " … ".join(ends), style="color:gray")
            more = [write_element("br"), interval] if len(ends) == 2 else []
            yield write_element("td", value, *more, style="text-align:right")


def _write_level(column: ResultColumn) -> str:
    assert column.confidence is not None
    return f"{float(column.confidence) * 100:.6g}% interval"


def _describe_noise(column: ResultColumn) -> str:
    noise = (
        f", {column.mechanism} with scale {float(column.scale):g}"
        if column.scale is not None
        else ""
    )
    interval = "" if column.confidence is None else f", {_write_level(column)} beside it"
    return f"{column.aggregate}{noise}{interval}"


def _format_number(text: str) -> str:
    return f"{float(Fraction(text)):g}"


def _format_value(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) >= 10 or value == 0 else f"{value:,.4g}"
    return f"{value:,}"


def _format_label(value: Any) -> str:
    """A value on one line."""
    return escape_label(_format_value(value))
