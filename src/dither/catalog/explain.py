"""The guarantee in plain words, from the catalog alone.

Who is protected, how far, and who and what is not.
"""

from __future__ import annotations

import datetime
import textwrap

from dither.catalog.columns import Category, Date, Decimal, FromPublic, Integer, Timestamp
from dither.catalog.model import Catalog, OwnerReference, Table
from dither.catalog.scalar_texts import write_offset
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
"""The closed list of quantities that no noise covers (rule who-is-protected).

Every certificate carries it.
"""

ASSERTED = "asserted, not checked"
"""What every surface says of a person who is taken for one row (`one_row_is: person`)."""

_WIDTH = 100


def guarantee(catalog: Catalog) -> str:
    """Write what the catalog promises, and what it does not, as a page of text."""
    head = (
        f"dataset {catalog.dataset}: budgets follow {catalog.lineage}, population "
        f"{catalog.population}"
    )
    sections = list_guarantee_sections(catalog)
    body = "\n".join(_write_section(title, lines) for title, lines in sections)
    return escape_lines(f"{head}\n{'=' * len(head)}\n{body}")


def list_guarantee_sections(catalog: Catalog) -> list[tuple[str, list[str]]]:
    """List the titles and sentences of the guarantee; whom it protects comes first."""
    return [
        ("Protected", [_describe_protected(catalog)]),
        ("What is hidden", _describe_hidden(catalog)),
        *(
            [("What a person is worth", worth)]
            if (worth := _describe_person_level(catalog))
            else []
        ),
        (
            "How much one " + _name_unit(catalog) + " can count",
            [_describe_limit(catalog, table) for table in catalog.private_tables],
        ),
        ("Not protected", _describe_unprotected(catalog)),
        ("Public, and shown without noise", _describe_public(catalog)),
        ("Outside the guarantee, since no noise covers them", ["; ".join(UNPROTECTED) + "."]),
    ]


def _name_unit(catalog: Catalog) -> str:
    unit = catalog.unit
    if unit.one_row_is is not None:
        return unit.one_row_is
    return f"person in one {unit.every}" if unit.kind == "person_window" else unit.kind


def _describe_protected(catalog: Catalog) -> str:
    """Describe in a sentence whom the guarantee protects."""
    tables = _join_words([table.name for table in catalog.private_tables])
    unit = catalog.unit
    if unit.one_row_is is not None:
        return (
            f"each person, who has one row of {tables} and no more: {ASSERTED}. If a person has "
            "several rows after all, they are protected that many times less."
        )
    if unit.kind == "row":
        return (
            f"each row of {tables}, by itself. A person with several rows is protected "
            "that many times less."
        )
    key = catalog.owner_column(catalog.private_tables[0])
    whom = f"each person named by {key}"
    if unit.kind == "person":
        return f"{whom}, with all their rows in {tables} together, over all versions of the data."
    zone = write_offset(unit.offset_seconds or 0)
    return (
        f"{whom}, with all their rows in {tables} of one {unit.every} ({unit.column}, "
        f"midnight at {zone})."
    )


def horizon(catalog: Catalog) -> int | None:
    """Count the windows within the bounds of the window's column: W of the papers.

    No person can be in more.

    None unless the unit is a window. Values outside the bounds are moved to them, so there are no
    others.
    """
    unit = catalog.unit
    if unit.column is None:
        return None
    first = []
    last = []
    for table in catalog.private_tables:
        column = table.column(unit.column)
        assert isinstance(column, (Date, Timestamp))
        first.append(_number_window(catalog, column, column.lower_grid))
        last.append(_number_window(catalog, column, column.upper_grid))
    return max(last) - min(first) + 1


def _number_window(catalog: Catalog, column: Date | Timestamp, grid: int) -> int:
    """Number the window that a day or second lies in: windows that follow each other count up."""
    days = (
        (grid + (catalog.unit.offset_seconds or 0)) // 86_400
        if isinstance(column, Timestamp)
        else grid
    )
    date = datetime.date(1970, 1, 1) + datetime.timedelta(days=days)
    months = date.year * 12 + date.month - 1
    return {"day": days, "week": (days + 3) // 7, "month": months, "year": date.year}[
        catalog.unit.every or "day"
    ]


def _describe_person_level(catalog: Catalog) -> list[str]:
    """Describe what the figure of one window is worth for a whole person.

    By group privacy: docs/proofs/composition.md. Empty where the unit is no window.
    """
    windows = horizon(catalog)
    every = catalog.unit.every
    if windows is None:
        return []
    sentences = [
        f"A whole person is hidden less well than one {every} of theirs. Someone with rows in W "
        f"{every}s is hidden at W times its epsilon, W^2 times its rho, and delta * (e^(W epsilon) "
        "- 1) / (e^epsilon - 1).",
        f"W is at most {windows} here, the {every}s within the bounds of {catalog.unit.column}: an "
        f"answer at epsilon 0.1, delta 0, for one person in one {every} is then one at epsilon "
        f"{_write_tenths(windows)}, delta 0, for a person who was always there.",
    ]
    if any(isinstance(table.owner, OwnerReference) for table in catalog.private_tables):
        sentences.append(
            f"A row that finds its owner in another table does so within one {every}: rows whose "
            f"parent lies in another {every} are left out, else taking one {every} of a person "
            "away would take rows of others."
        )
    return sentences


def _write_tenths(windows: int) -> str:
    return f"{windows // 10}.{windows % 10}" if windows % 10 else str(windows // 10)


def _describe_hidden(catalog: Catalog) -> list[str]:
    """Describe what about a unit is hidden, and what hidden means."""
    unit = _name_unit(catalog)
    is_row = catalog.unit.kind == "row" and catalog.unit.one_row_is is None
    content = "everything in it" if is_row else "everything in their rows"
    if catalog.neighbours == "add_remove":
        hidden = f"whether a {unit} is in the data at all, and {content} (neighbours: add_remove)."
        nearly = f"each answer is nearly as likely with the {unit} as without"
    else:
        hidden = f"{content}, but not whether the {unit} is in the data (neighbours: replace)."
        nearly = f"each answer is nearly as likely whatever the {unit} contributes"
    return [
        hidden,
        f"Hidden means: {nearly}; how nearly is the epsilon of the budget. What is true of the "
        "population can be learned, and can concern people whether or not they are in the data.",
    ]


def _describe_limit(catalog: Catalog, table: Table) -> str:
    """Describe how much one unit can count in a table."""
    path = " -> ".join(step.name for step in catalog.owner_path(table))
    owner = f", found through {path}" if "->" in path else ""
    if catalog.unit.kind == "row":
        return f"{table.name}: one row. At most {table.max_rows} rows in all."
    rows = "1 row" if table.rows_per_unit == 1 else f"{table.rows_per_unit} rows"
    return (
        f"{table.name}: at most {rows}{owner}; the rest is left out. At most "
        f"{table.max_rows} rows in all."
    )


def _describe_unprotected(catalog: Catalog) -> list[str]:
    """List the people whom the guarantee does not protect, with the reasons."""
    sentences = [
        f"people named by {person.key}, because: {person.because}."
        for person in catalog.people
        if person.because
    ]
    sentences.append(
        "anyone else whom a row speaks of: relatives, colleagues, people named in its texts."
    )
    return sentences


def _describe_public(catalog: Catalog) -> list[str]:
    """List what is shown without noise: the catalog, public tables, bounds and labels."""
    sentences = ["this catalog: names, types, bounds, labels, limits."]
    sentences += [
        f"table {table.name}, every row of it."
        for table in catalog.tables
        if table.kind == "public"
    ]
    sentences += [f"the rule {fact}." for fact in list_rules(catalog)]
    for table in catalog.private_tables:
        for column in table.columns:
            if isinstance(column, (Integer, Decimal, Date, Timestamp)):
                sentences.append(
                    f"the bounds of {table.name}.{column.name}, from: {column.provenance}."
                )
            elif isinstance(column, Category) and isinstance(column.values, FromPublic):
                sentences.append(
                    f"the labels of {table.name}.{column.name}, from: table {column.values.table}."
                )
    return sentences


def list_rules(catalog: Catalog) -> list[str]:
    """List the rules between columns, each with its source: no noise protects them."""
    return [
        f"{table.name}: {rule.text}, from: {rule.provenance}"
        for table in catalog.private_tables
        for rule in table.rules
    ]


def _write_section(title: str, lines: list[str]) -> str:
    """Write a section of the page: its title, and its lines as a wrapped list."""
    wrapped = [
        textwrap.fill(line, _WIDTH, initial_indent="  - ", subsequent_indent="    ")
        for line in lines
    ]
    return "\n".join([f"{title}:", *wrapped])


def _join_words(words: list[str]) -> str:
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
