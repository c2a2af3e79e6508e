"""A draft of a catalog from a header line that a steward pasted, and from what they decide.

Nothing is guessed: a line is read as names of columns only after the steward said that it is a
header, since else it is a person's row. Columns without a kind are left out.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping

from dither.catalog import Source
from dither.catalog.file.kinds import Kind, read_kind, read_power_of_ten
from dither.catalog.file.names import make_label
from dither.catalog.file.quick import QuickDecisions
from dither.errors import ParameterError

MOST_HEADER = 20_000
MOST_COLUMNS = 80
KIND = "kind_"
NOBODY = "-"
ONE_ROW = "="


def read_header_line(form: Mapping[str, str]) -> tuple[str, ...]:
    """The names of columns in a pasted header line.

    Refused where the steward did not say that it is one, and where there is a second line.
    """
    if form.get("is_header") != "yes":
        raise ParameterError(
            "say that the line is a header, and nobody's row: rows must not be pasted here"
        )
    text = form.get("header", "").strip()
    if len(text.splitlines()) != 1 or len(text) > MOST_HEADER:
        raise ParameterError("paste one line, the header, and no row")
    names = tuple(name.strip() for name in next(csv.reader([text])))
    if not all(names) or len(set(names)) < len(names):
        raise ParameterError("every column has a name, and no two have the same")
    if len(names) > MOST_COLUMNS:
        raise ParameterError(f"at most {MOST_COLUMNS} columns: leave out what is not needed")
    return names


def read_decisions(form: Mapping[str, str], columns: tuple[str, ...]) -> QuickDecisions:
    """What the steward decided about a table."""
    person = form.get("person", "")
    if person not in (*columns, NOBODY, ONE_ROW):
        raise ParameterError("say first who is protected: a column that names the person, or none")
    key = person if person in columns else None
    rows = form.get("rows_per_person", "").strip()
    if key is not None and not (rows.isascii() and rows.isdigit() and 0 < int(rows) <= 10**9):
        raise ParameterError("say how many rows of one person may count: a whole number")
    kinds = _read_kinds(form, columns, key)
    name = form.get("table", "").strip()
    if not name:
        raise ParameterError("name the table, such as visits")
    return QuickDecisions(
        table=name,
        source_name=f"{make_label(name)}.csv",
        source=Source("csv", "."),
        person=key,
        one_row_is_person=person == ONE_ROW,
        rows_per_person=1 if key is None else int(rows),
        max_rows=read_power_of_ten(form.get("max_rows", ""), "the most rows"),
        kinds=kinds,
    )


def _read_kinds(
    form: Mapping[str, str], columns: tuple[str, ...], person: str | None
) -> tuple[tuple[str, Kind], ...]:
    """The kinds of the columns that may be asked about."""
    kinds = []
    for number, column in enumerate(columns):
        wording = form.get(f"{KIND}{number}", "").strip()
        if wording and column != person:
            kinds.append((column, read_kind(wording)))
    if not kinds:
        raise ParameterError("choose the kind of at least one column that may be asked about")
    return tuple(kinds)
