"""The decisions of `dither quickstart`: each has an option, and none a default that protects
less."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

from dither import steward
from dither.catalog import Source
from dither.catalog.file.kinds import KINDS, TYPED_KINDS, Kind, read_kind, read_power_of_ten
from dither.catalog.file.names import make_label
from dither.catalog.file.quick import QuickDecisions, name_columns
from dither.catalog.file.source_options import A_DELIMITER, read_delimiter
from dither.cli.asking import DecisionReader, read_yes_or_no
from dither.cli.budget import read_relations
from dither.errors import DitherError, ParameterError


@dataclass(frozen=True)
class QuickTable:
    """The table that the file holds: where it lies, and the names of its columns."""

    source: Source
    name: str
    source_name: str
    columns: tuple[str, ...]


def find_table(
    asker: DecisionReader,
    file: Path,
    table: str | None,
    header: bool | None,
    delimiter: str,
    null_texts: list[str],
) -> QuickTable:
    """Find the table that the file holds.

    The first line of a CSV file is read only after the steward said that it is a header: else it is
    somebody's row.
    """
    files = steward.recognise_source(file)
    if file.is_dir():
        raise ParameterError(f"{file} is a folder: quickstart takes one file")
    source = Source(files.engine, str(files.location))
    if files.engine == "csv":
        has_header = asker.decide(
            None if header is None else "yes" if header else "no",
            "--header",
            f"Does the first line of {file.name} hold the names of the columns, and nobody's row?",
            read_yes_or_no,
        )
        if not has_header:
            raise DitherError(
                f"{file.name} needs a first line with the names of its columns: add one"
            )
        source = _read_csv_options(source, delimiter, null_texts)
    names = [name for name, _ in files.tables]
    if files.engine == "duckdb" and (table is None or table not in names):
        chosen = asker.decide(table, "--table", f"Which table: {', '.join(names)}?", str)
        names = [name for name in names if name == chosen]
        if not names:
            raise ParameterError(f"there is no table {chosen!r} in {file}")
    name, source_name = next(pair for pair in files.tables if pair[0] == (table or names[0]))
    columns = steward.read_column_names(source, files.location, source_name)
    return QuickTable(source, name, source_name, tuple(columns))


def _read_csv_options(source: Source, delimiter: str, null_texts: list[str]) -> Source:
    """Blanks around a field are never part of it here, and a question mark is a null unless other
    texts are given."""
    character = read_delimiter(delimiter)
    if character is None:
        raise ParameterError(f"--delimiter must be {A_DELIMITER}")
    return replace(source, delimiter=character, null_texts=tuple(null_texts), trim=True)


def decide_unit(
    asker: DecisionReader,
    source: QuickTable,
    person: str | None,
    two_rows: bool | None,
    rows_per_person: str | None,
) -> tuple[str | None, bool, int]:
    """Ask who is protected, and how many of their rows count.

    Returns the person's column or None, whether a row is asserted to be a person, and how many rows
    of one unit count. There is no default for any of them.
    """

    def read_person(text: str) -> str | None:
        return None if text.strip().lower() == "none" else _find_column(source, text)

    key = asker.decide(
        person,
        "--person",
        "Which column names the person: its name, or none?",
        read_person,
    )
    if key is not None:
        rows = asker.decide(
            rows_per_person,
            "--rows-per-person",
            "How many rows of one person may count? Noise grows with it; the rest is left out.",
            _read_count,
        )
        return key, False, rows
    can_repeat = asker.decide(
        None if two_rows is None else "yes" if two_rows else "no",
        "--two-rows or --no-two-rows",
        "Could one person be in two rows?",
        read_yes_or_no,
    )
    if can_repeat:
        asker.console.print(
            "Then each row is protected by itself, and a person with ten rows ten times less."
        )
    return None, not can_repeat, 1


def decide_max_rows(asker: DecisionReader, max_rows: str | None) -> int:
    question = "A power of ten that the rows of this table will never pass?"
    return asker.decide(
        max_rows, "--max-rows", question, lambda text: read_power_of_ten(text, "max_rows")
    )


def decide_columns(
    asker: DecisionReader, source: QuickTable, person: str | None, option_values: list[str] | None
) -> tuple[tuple[str, Kind], ...]:
    """Ask which columns may be asked about, each with its kind; all others are left out."""
    kinds: dict[str, Kind] = {}
    if option_values:
        for text in option_values:
            column, kind = _read_column(source, person, text)
            kinds[column] = kind
        return tuple(kinds.items())
    _show_kinds(asker.console)
    while True:
        question = "A column that may be asked about, and its kind (column = kind; Enter to end)?"
        pair = asker.decide(
            None,
            "--column",
            question,
            lambda text: _read_column(source, person, text) if text else None,
        )
        if pair is not None:
            kinds[pair[0]] = pair[1]
        elif kinds:
            return tuple(kinds.items())


def _read_column(source: QuickTable, person: str | None, text: str) -> tuple[str, Kind]:
    """Read `column = kind`. Raises ParameterError for the person's own column."""
    written, equals, kind = text.rpartition("=")
    if not equals:
        raise ParameterError("write it as column = kind, such as age = age")
    column = _find_column(source, written)
    if column == person:
        raise ParameterError(f"{column} names the person, and a name is never asked about")
    return column, read_kind(kind)


def _find_column(source: QuickTable, text: str) -> str:
    """Return the name of a column of the source. Raises ParameterError where there is none."""
    if text.strip() not in source.columns:
        raise ParameterError(
            f"there is no column {text.strip()[:60]!r}: there are {', '.join(source.columns)}"
        )
    return text.strip()


def _show_kinds(console: Console) -> None:
    """Print the menu of kinds."""
    console.print(
        "kinds, with bounds that everybody knows; columns that you leave out are not read:"
    )
    rows = [(name, kind.menu) for name, kind in KINDS.items()]
    for name, menu in [*rows, *TYPED_KINDS.items()]:
        console.print(f"  {name:<15}{menu}", highlight=False, soft_wrap=True)


def decide_relations(asker: DecisionReader, option_values: list[str]) -> dict[str, str]:
    """Whether each other dataset of this machine is about the same people."""
    relations = read_relations(option_values)
    for lineage in steward.list_lineages():
        if lineage not in relations and "*" not in relations:
            relations[lineage] = asker.decide(
                None,
                f"--relation {lineage}=same, =disjoint or =unknown",
                f"The dataset {lineage} has a budget already. Are these the same people: same, "
                "disjoint or unknown (which counts as same)?",
                _read_relation,
            )
    return relations


def _read_relation(text: str) -> str:
    if text.strip() not in ("same", "disjoint", "unknown"):
        raise ParameterError("answer same, disjoint or unknown")
    return text.strip()


def read_sentence(text: str) -> str:
    if len(text.split()) < 3:
        raise ParameterError("write a sentence of three words or more: it is recorded for ever")
    return text.strip()


def _read_count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ParameterError("write a whole number from 1 on")
    return int(text)


def write_first_question(decisions: QuickDecisions) -> str:
    """Write a question to begin with: the average of the first number by the first key, as far as
    there are such columns.

    Where people have many rows, labels that nobody listed are no such key: one person could be in
    many groups, and so each would need thousands of people to be shown.
    """
    names = name_columns(decisions)
    has_many_rows = decisions.rows_per_person > 1
    keys = [
        names[source]
        for source, kind in decisions.kinds
        if kind.is_key and not (has_many_rows and kind is KINDS["labels"])
    ]
    return _write_question(decisions, keys[0] if keys else None)


def write_grouped_question(decisions: QuickDecisions) -> str | None:
    """Write the question by labels that nobody listed, which the first question leaves out; None
    where there are none, or the first question has a key."""
    names = name_columns(decisions)
    keys = [names[source] for source, kind in decisions.kinds if kind.is_key]
    if not keys or " GROUP BY " in write_first_question(decisions):
        return None
    return _write_question(decisions, keys[0])


def _write_question(decisions: QuickDecisions, key: str | None) -> str:
    names = name_columns(decisions)
    numbers = [names[source] for source, kind in decisions.kinds if kind.is_number]
    value = f"AVG({numbers[0]}) AS average_{numbers[0]}" if numbers else "COUNT(*) AS n"
    table = make_label(decisions.table)
    if key is None:
        return f"SELECT {value} FROM {table}"
    return f"SELECT {key}, {value} FROM {table} GROUP BY {key}"
