"""The guarantee in plain words, from the catalog alone: who is protected, how far, and who and what is not."""

from __future__ import annotations

import datetime
import textwrap

from dither.catalog import scalars
from dither.catalog.columns import Category, Date, Decimal, FromPublic, Integer, Timestamp
from dither.catalog.model import Catalog, OwnerReference, Table
from dither.surfaces import escape_lines

UNPROTECTED: tuple[str, ...] = (
    "the catalog",
    "versions and their times",
    "schedule misses",
    "incidents",
    "who asked what",
    "refusals",
    "whether registration succeeded",
)
"""The closed list of quantities that no noise covers (rule who-is-protected); every certificate carries it."""

_WIDTH = 100


def guarantee(catalog: Catalog) -> str:
    """What the catalog promises, and what it does not, as a page of text."""
    head = f"{catalog.dataset}: lineage {catalog.lineage}, population {catalog.population}"
    sections = [
        ("Protected", [_protected(catalog)]),
        ("What is hidden", _hidden(catalog)),
        *([("What a person is worth", found)] if (found := _person_level(catalog)) else []),
        ("How much one " + _unit_word(catalog) + " can count", [_limit(catalog, t) for t in catalog.private_tables]),
        ("Not protected", _not_protected(catalog)),
        ("Public, and shown without noise", _public(catalog)),
        ("Outside the guarantee, since no noise covers them", ["; ".join(UNPROTECTED) + "."]),
    ]
    body = "\n".join(_section(title, lines) for title, lines in sections)
    return escape_lines(f"{head}\n{'=' * len(head)}\n{body}")


def _unit_word(catalog: Catalog) -> str:
    unit = catalog.unit
    return f"person in one {unit.every}" if unit.kind == "person_window" else unit.kind


def _protected(catalog: Catalog) -> str:
    tables = _and([table.name for table in catalog.private_tables])
    unit = catalog.unit
    if unit.kind == "row":
        return f"each row of {tables}, by itself. A person with several rows is protected that many times less."
    key = catalog.owner_column(catalog.private_tables[0])
    whom = f"each person named by {key}"
    if unit.kind == "person":
        return f"{whom}, with all their rows in {tables} together, over all versions of the data."
    zone = scalars.offset_text(unit.offset_seconds or 0)
    return f"{whom}, with all their rows in {tables} of one {unit.every} ({unit.column}, midnight at {zone})."


def horizon(catalog: Catalog) -> int | None:
    """How many windows lie within the bounds of the window's column: the most that one person can be in.

    None unless the unit is a window. Values outside the bounds are moved to them, so there are no others.
    """
    unit = catalog.unit
    if unit.column is None:
        return None
    first, last = [], []
    for table in catalog.private_tables:
        column = table.column(unit.column)
        assert isinstance(column, (Date, Timestamp))
        first.append(_window(catalog, column, column.lower_grid))
        last.append(_window(catalog, column, column.upper_grid))
    return max(last) - min(first) + 1


def _window(catalog: Catalog, column: Date | Timestamp, grid: int) -> int:
    days = (grid + (catalog.unit.offset_seconds or 0)) // 86_400 if isinstance(column, Timestamp) else grid
    date = datetime.date(1970, 1, 1) + datetime.timedelta(days=days)
    months = date.year * 12 + date.month - 1
    return {"day": days, "week": (days + 3) // 7, "month": months, "year": date.year}[catalog.unit.every or "day"]


def _person_level(catalog: Catalog) -> list[str]:
    """What the figure of one window is worth for a whole person: group privacy (docs/proofs/composition.md)."""
    windows, every = horizon(catalog), catalog.unit.every
    if windows is None:
        return []
    told = [
        f"A whole person is hidden less well than one {every} of theirs. Someone with rows in W {every}s is hidden at "
        "W times its epsilon, W^2 times its rho, and delta * (e^(W epsilon) - 1) / (e^epsilon - 1).",
        f"W is at most {windows} here, the {every}s within the bounds of {catalog.unit.column}: an answer at epsilon "
        f"0.1, delta 0, for one person in one {every} is then one at epsilon {_times(windows)}, delta 0, for a person "
        "who was always there.",
    ]
    if any(isinstance(table.owner, OwnerReference) for table in catalog.private_tables):
        told.append(
            f"A row that finds its owner in another table does so within one {every}: rows whose parent lies in "
            f"another {every} are left out, else taking one {every} of a person away would take rows of others."
        )
    return told


def _times(windows: int) -> str:
    return f"{windows // 10}.{windows % 10}" if windows % 10 else str(windows // 10)


def _hidden(catalog: Catalog) -> list[str]:
    unit, row = _unit_word(catalog), catalog.unit.kind == "row"
    content = "everything in it" if row else "everything in their rows"
    if catalog.neighbours == "add_remove":
        told = f"whether a {unit} is in the data at all, and {content} (neighbours: add_remove)."
        nearly = f"each answer is nearly as likely with the {unit} as without"
    else:
        told = f"{content}, but not whether the {unit} is in the data (neighbours: replace)."
        nearly = f"each answer is nearly as likely whatever the {unit} contributes"
    return [
        told,
        f"Hidden means: {nearly}; how nearly is the epsilon of the budget. What is true of the population can be "
        "learned, and can concern people whether or not they are in the data.",
    ]


def _limit(catalog: Catalog, table: Table) -> str:
    path = " -> ".join(step.name for step in catalog.owner_path(table))
    owner = f", found through {path}" if "->" in path else ""
    if catalog.unit.kind == "row":
        return f"{table.name}: one row. At most {table.max_rows} rows in all."
    rows = "1 row" if table.rows_per_unit == 1 else f"{table.rows_per_unit} rows"
    return f"{table.name}: at most {rows}{owner}; the rest is left out. At most {table.max_rows} rows in all."


def _not_protected(catalog: Catalog) -> list[str]:
    told = [f"people named by {person.key}, because: {person.because}." for person in catalog.people if person.because]
    told.append("anyone else whom a row speaks of: relatives, colleagues, people named in its texts.")
    return told


def _public(catalog: Catalog) -> list[str]:
    told = ["this catalog: names, types, bounds, labels, limits."]
    told += [f"table {table.name}, every row of it." for table in catalog.tables if table.kind == "public"]
    for table in catalog.private_tables:
        for column in table.columns:
            if isinstance(column, (Integer, Decimal, Date, Timestamp)):
                told.append(f"the bounds of {table.name}.{column.name}, from: {column.provenance}.")
            elif isinstance(column, Category) and isinstance(column.values, FromPublic):
                told.append(f"the labels of {table.name}.{column.name}, from: table {column.values.table}.")
    return told


def _section(title: str, lines: list[str]) -> str:
    wrapped = [textwrap.fill(line, _WIDTH, initial_indent="  - ", subsequent_indent="    ") for line in lines]
    return "\n".join([f"{title}:", *wrapped])


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
