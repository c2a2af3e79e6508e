"""Tables that scroll sideways on narrow screens, and lists of facts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from dither.pages.html import Html, join_lines, write_element

Tone = Literal["good", "fair", "bad"]


class Cell(NamedTuple):
    """A cell in a colour of its own: good is green, fair amber, bad red."""

    text: str
    tone: Tone | None = None


class TableRow(NamedTuple):
    """Cells, and sentences shown across the whole width below them."""

    cells: Sequence[str | Cell]
    notes: Sequence[str] = ()


def write_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str | Cell] | TableRow],
    kind: str | None = None,
) -> Html:
    """Write a table with its first row as head; cells may be texts, markup or `Cell`s."""
    top = write_element("tr", *(write_element("th", name) for name in head))
    lines: list[Html] = []
    for row in rows:
        lines += _write_row(row if isinstance(row, TableRow) else TableRow(row), len(head))
    body = write_element("tbody", *lines)
    table = write_element("table", write_element("thead", top), body, class_=kind)
    return write_element("div", table, class_="wide")


def _write_row(row: TableRow, width: int) -> list[Html]:
    """Write one row of a table, and a second row below it if it has notes."""
    cells = write_element("tr", *map(_write_cell, row.cells), class_="noted" if row.notes else None)
    if not row.notes:
        return [cells]
    notes = write_element("td", join_lines(row.notes), colspan=str(width))
    return [cells, write_element("tr", notes, class_="notes")]


def _write_cell(cell: str | Cell) -> Html:
    if isinstance(cell, Cell):
        return write_element("td", cell.text, class_=cell.tone)
    return write_element("td", cell)


def write_facts(facts: Iterable[tuple[str, str]]) -> Html:
    """Names with what they are.

    >>> write_facts([("cap", "1")])
    '<dl><dt>cap</dt><dd>1</dd></dl>'
    """
    lines = [(write_element("dt", name), write_element("dd", text)) for name, text in facts]
    return write_element("dl", *(element for line in lines for element in line))
