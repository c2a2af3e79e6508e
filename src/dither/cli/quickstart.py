"""`dither quickstart`: from a raw file to a first answer, by a few decisions.

Until registration the header line of a CSV file is read, or the column names of a Parquet or DuckDB
source, and nothing else of it: no value, type, label, statistic or number of rows. So the catalog,
the decisions and all that is printed are the same whatever the rows are.
"""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dither import connect, steward
from dither.catalog import Source, parse
from dither.catalog.explain import guarantee
from dither.catalog.file.kinds import KINDS, TYPED_KINDS, Kind, read_kind, read_power_of_ten
from dither.catalog.file.quick import QuickDecisions, write_first_question, write_quick_catalog
from dither.catalog.file.source_options import A_DELIMITER, read_delimiter
from dither.cli.asking import DecisionReader, read_yes_or_no
from dither.cli.budget import read_relations
from dither.cli.output import make_console
from dither.cli.register import register_with_progress
from dither.commands import write_command
from dither.errors import DitherError, ParameterError
from dither.state import State

EPSILON = "1"
"""What may ever be learned: the cap of the pot, and its ceiling."""
DELTA = "1e-9"
DELTA_PER_QUESTION = "1e-10"
PRICE = "0.5"
"""What the first question is offered for."""
NULL_TEXTS = ("?",)


@dataclass(frozen=True)
class _Table:
    """The table that the file holds: where it lies, and the names of its columns."""

    source: Source
    name: str
    source_name: str
    columns: tuple[str, ...]


def quickstart(
    file: Annotated[Path, typer.Argument(help="A CSV, Parquet or DuckDB file.")],
    header: Annotated[
        bool | None,
        typer.Option(help="CSV: the first line holds the names of the columns, and nobody's row."),
    ] = None,
    person: Annotated[
        str | None, typer.Option(help="The column that names the person, or none.")
    ] = None,
    two_rows: Annotated[
        bool | None, typer.Option(help="Without such a column: one person can be in two rows.")
    ] = None,
    rows_per_person: Annotated[
        str | None, typer.Option(help="With such a column: how many rows of one person count.")
    ] = None,
    max_rows: Annotated[
        str | None, typer.Option(help="A power of ten that the rows will never pass.")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=KIND: a column that may be asked about; repeatable."),
    ] = None,
    purpose: Annotated[
        str | None, typer.Option(help="What is to be learned, in a sentence; recorded for ever.")
    ] = None,
    population: Annotated[
        str | None, typer.Option(help="About whom, in a sentence; the people of the file.")
    ] = None,
    recipient: Annotated[
        str | None, typer.Option(help="Who will see the answers, in a sentence; whoever runs this.")
    ] = None,
    relation: Annotated[
        list[str] | None,
        typer.Option(help="LINEAGE=same, disjoint or unknown, for each other lineage here."),
    ] = None,
    ask: Annotated[
        bool | None, typer.Option(help="Ask the first question, for half of the budget.")
    ] = None,
    draft: Annotated[
        bool, typer.Option("--draft", help="Write the catalog and stop; no row is read.")
    ] = False,
    delimiter: Annotated[
        str, typer.Option(help="CSV: the character between two fields, or tab.")
    ] = ",",
    null_text: Annotated[
        list[str] | None, typer.Option(help="CSV: a text that stands for a null; repeatable.")
    ] = None,
    table: Annotated[str | None, typer.Option(help="DuckDB: the table.")] = None,
    to: Annotated[
        Path | None, typer.Option(help="The catalog to write; by default beside the file.")
    ] = None,
) -> None:
    """Ask for the decisions that FILE needs, write its catalog, register it, open a budget and show
    the price of a first question. Nothing is read off the data, and nothing has a default that
    protects less."""
    asker = DecisionReader(make_console())
    catalog_file = to or file.with_suffix(".yaml")
    _refuse_existing(catalog_file)
    source = _find_table(asker, file, table, header, delimiter, null_text or list(NULL_TEXTS))
    names = ", ".join(source.columns)
    asker.console.print(f"columns: {names}", highlight=False, soft_wrap=True)
    key, one_row_is_person, rows = _decide_unit(asker, source, person, two_rows, rows_per_person)
    location = os.path.relpath(source.source.location, catalog_file.parent)
    decisions = QuickDecisions(
        source.name,
        source.source_name,
        replace(source.source, location=location),
        key,
        one_row_is_person,
        rows,
        _decide_max_rows(asker, max_rows),
        _decide_columns(asker, source, key, column),
    )
    text = write_quick_catalog(decisions)
    catalog = parse(text, str(catalog_file))
    if draft:
        _write_catalog(asker.console, catalog_file, text)
        return
    question = "What is to be learned, in a sentence?"
    stated = {
        "question": asker.decide(purpose, "--purpose", question, _read_sentence),
        "population": population or f"the people in {file.name}",
        "recipient": recipient or f"the one who ran this, {getpass.getuser()}",
    }
    relations = _decide_relations(asker, relation or [])
    steward.check_purpose(catalog, stated)
    _write_catalog(asker.console, catalog_file, text)
    _register_and_open(asker.console, catalog_file, stated, relations)
    _offer_first_question(asker, catalog_file, write_first_question(decisions), ask)


def _register_and_open(
    console: Console, catalog_file: Path, purpose: dict[str, str], relations: dict[str, str]
) -> None:
    """Register the rows as what they are, never as invented ones, and open the budget. How many
    rows were read or repaired is in the steward's log, and is not printed."""
    state = State.beside(catalog_file)
    try:
        done = register_with_progress(console, catalog_file, state=state)
    except KeyboardInterrupt:
        if not state.versions.exists() or not any(state.versions.iterdir()):
            catalog_file.unlink()  # what is said is true: nothing changed
        raise
    console.print(guarantee(done.catalog), highlight=False, soft_wrap=True)
    registered = f"registered version {done.version}; what was repaired is in {state.log}"
    console.print(registered, highlight=False, soft_wrap=True)
    steward.open_pot(
        state,
        done.catalog,
        "total",
        rule="approx",
        epsilon=EPSILON,
        ceiling=EPSILON,
        delta=DELTA,
        delta_per_question=DELTA_PER_QUESTION,
        purpose=purpose,
        relations=relations,
    )
    opened = f"opened a budget of epsilon {EPSILON} and delta {DELTA}, which is never raised"
    console.print(opened, highlight=False)


def _refuse_existing(catalog_file: Path) -> None:
    if catalog_file.exists():
        raise DitherError(
            f"{catalog_file} exists already: quickstart begins a dataset and changes none. Go on "
            f"with: {write_command('status', catalog_file)}"
        )


def _find_table(
    asker: DecisionReader,
    file: Path,
    table: str | None,
    header: bool | None,
    delimiter: str,
    null_texts: list[str],
) -> _Table:
    """The table that the file holds. The first line of a CSV file is read only after the steward
    said that it is a header: else it is somebody's row."""
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
    return _Table(source, name, source_name, tuple(columns))


def _read_csv_options(source: Source, delimiter: str, null_texts: list[str]) -> Source:
    """Blanks around a field are never part of it here, and a question mark is a null unless other
    texts are given."""
    character = read_delimiter(delimiter)
    if character is None:
        raise ParameterError(f"--delimiter must be {A_DELIMITER}")
    return replace(source, delimiter=character, null_texts=tuple(null_texts), trim=True)


def _decide_unit(
    asker: DecisionReader,
    source: _Table,
    person: str | None,
    two_rows: bool | None,
    rows_per_person: str | None,
) -> tuple[str | None, bool, int]:
    """The person's column or None, whether a row is asserted to be a person, and how many rows of
    one unit count. There is no default for any of them."""

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


def _decide_max_rows(asker: DecisionReader, max_rows: str | None) -> int:
    question = "A power of ten that the rows of this table will never pass?"
    return asker.decide(
        max_rows, "--max-rows", question, lambda text: read_power_of_ten(text, "max_rows")
    )


def _decide_columns(
    asker: DecisionReader, source: _Table, person: str | None, given: list[str] | None
) -> tuple[tuple[str, Kind], ...]:
    """The columns that may be asked about, each with its kind; all others are left out."""
    kinds: dict[str, Kind] = {}
    if given:
        for text in given:
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


def _read_column(source: _Table, person: str | None, text: str) -> tuple[str, Kind]:
    written, equals, kind = text.rpartition("=")
    if not equals:
        raise ParameterError("write it as column = kind, such as age = age")
    column = _find_column(source, written)
    if column == person:
        raise ParameterError(f"{column} names the person, and a name is never asked about")
    return column, read_kind(kind)


def _find_column(source: _Table, text: str) -> str:
    if text.strip() not in source.columns:
        raise ParameterError(
            f"there is no column {text.strip()[:60]!r}: there are {', '.join(source.columns)}"
        )
    return text.strip()


def _show_kinds(console: Console) -> None:
    console.print(
        "kinds, with bounds that everybody knows; columns that you leave out are not read:"
    )
    rows = [(name, kind.menu) for name, kind in KINDS.items()]
    for name, menu in [*rows, *TYPED_KINDS.items()]:
        console.print(f"  {name:<15}{menu}", highlight=False, soft_wrap=True)


def _decide_relations(asker: DecisionReader, given: list[str]) -> dict[str, str]:
    """Whether each other dataset of this machine is about the same people."""
    relations = read_relations(given)
    for lineage in steward.list_lineages():
        if lineage not in relations and "*" not in relations:
            relations[lineage] = asker.decide(
                None,
                f"--relation {lineage}=same, =disjoint or =unknown",
                f"The lineage {lineage} has a budget already. Are these the same people: same, "
                "disjoint or unknown (which counts as same)?",
                _read_relation,
            )
    return relations


def _read_relation(text: str) -> str:
    if text.strip() not in ("same", "disjoint", "unknown"):
        raise ParameterError("answer same, disjoint or unknown")
    return text.strip()


def _read_sentence(text: str) -> str:
    if len(text.split()) < 3:
        raise ParameterError("write a sentence of three words or more: it is recorded for ever")
    return text.strip()


def _read_count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ParameterError("write a whole number from 1 on")
    return int(text)


def _write_catalog(console: Console, catalog_file: Path, text: str) -> None:
    with catalog_file.open("x", encoding="utf-8") as written:
        written.write(text)
    console.print(f"wrote {catalog_file}", highlight=False, soft_wrap=True)


def _offer_first_question(
    asker: DecisionReader, catalog_file: Path, sql: str, ask: bool | None
) -> None:
    """Price and error of a first question, from the catalog alone; then the answer, if wanted."""
    console = asker.console
    con = connect(catalog_file)
    console.print(f"a first question: {sql}", highlight=False, soft_wrap=True)
    console.print(con.preview(sql, epsilon=PRICE))
    if ask is None and not asker.is_interactive:
        ask = False
    is_wanted = asker.decide(
        None if ask is None else "yes" if ask else "no",
        "--ask or --no-ask",
        f"Ask it now, for epsilon {PRICE} of {EPSILON}?",
        read_yes_or_no,
    )
    if is_wanted:
        console.print(con.sql(sql, epsilon=PRICE))
    command = write_command("sql", catalog_file, sql, "--epsilon", PRICE)
    console.print(
        f"to ask again, for free: {command}" if is_wanted else f"to ask: {command}",
        highlight=False,
        soft_wrap=True,
    )
