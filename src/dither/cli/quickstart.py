"""`dither quickstart`: from a raw file to a first answer, by a few decisions.

Until registration the header line of a CSV file is read, or the column names of a Parquet or DuckDB
source, and nothing else of it: no value, type, label, statistic or number of rows. So the catalog,
the decisions and all that is printed are the same whatever the rows are.
"""

from __future__ import annotations

import getpass
import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dither import Result, connect, steward
from dither.catalog import parse
from dither.catalog.explain import guarantee
from dither.catalog.file.kinds import KINDS
from dither.catalog.file.names import make_label
from dither.catalog.file.quick import (
    QuickDecisions,
    name_columns,
    write_quick_catalog,
)
from dither.cli.asking import DecisionReader, read_yes_or_no
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.quick_decisions import (
    decide_columns,
    decide_max_rows,
    decide_relations,
    decide_unit,
    find_table,
    read_sentence,
    write_first_question,
    write_grouped_question,
)
from dither.cli.register import register_with_progress
from dither.commands import write_command
from dither.errors import DitherError
from dither.state import State

EPSILON = "1"
"""What may ever be learned: the cap of the pot, and its ceiling."""
DELTA = "1e-9"
DELTA_PER_QUESTION = "1e-10"
PRICE = "0.5"
"""What the first question is offered for."""
MAX_GROUPS = "1"
"""In how many groups one person counts, where nobody has listed the groups."""
NULL_TEXTS = ("?",)


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
        typer.Option(help="DATASET=same, disjoint or unknown, for each other dataset here."),
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
    as_json: AsJson = False,
) -> None:
    """Ask for the decisions that FILE needs, write its catalog, register it, open a budget and show
    the price of a first question. Nothing is read off the data, and nothing has a default that
    protects less."""
    asker = DecisionReader(make_console(stderr=as_json))
    catalog_file = to or file.with_suffix(".yaml")
    _refuse_existing(catalog_file)
    source = find_table(asker, file, table, header, delimiter, null_text or list(NULL_TEXTS))
    names = ", ".join(source.columns)
    asker.console.print(f"columns: {names}", highlight=False, soft_wrap=True)
    key, one_row_is_person, rows = decide_unit(asker, source, person, two_rows, rows_per_person)
    location = os.path.relpath(source.source.location, catalog_file.parent)
    decisions = QuickDecisions(
        source.name,
        source.source_name,
        replace(source.source, location=location),
        key,
        one_row_is_person,
        rows,
        decide_max_rows(asker, max_rows),
        decide_columns(asker, source, key, column),
    )
    text = write_quick_catalog(decisions)
    catalog = parse(text, str(catalog_file))
    if draft:
        _write_catalog(asker.console, catalog_file, text)
        if as_json:
            print_json({"catalog": str(catalog_file), "registered": False})
        return
    question = "What is to be learned, in a sentence?"
    stated = {
        "question": asker.decide(purpose, "--purpose", question, read_sentence),
        "population": population or f"the people in {file.name}",
        "recipient": recipient or f"the one who ran this, {getpass.getuser()}",
    }
    relations = decide_relations(asker, relation or [])
    steward.check_purpose(catalog, stated)
    _write_catalog(asker.console, catalog_file, text)
    _register_and_open(asker.console, catalog_file, stated, relations)
    _offer_bounds(asker.console, catalog_file, decisions)
    first = write_first_question(decisions)
    answer = _offer_first_question(asker, catalog_file, first, ask)
    _offer_groups(asker.console, catalog_file, write_grouped_question(decisions))
    if as_json:
        budget = {"epsilon": EPSILON, "delta": DELTA}
        done = {"catalog": str(catalog_file), "registered": True, "budget": budget}
        print_json(done | {"question": first, "answer": answer and answer.to_dict()})


def _register_and_open(
    console: Console, catalog_file: Path, purpose: dict[str, str], relations: dict[str, str]
) -> None:
    """Register the rows as what they are, never as invented ones, and open the budget.

    If nothing was registered, the new catalog file is removed again. How many rows were read or
    repaired is in the steward's log, and is not printed.
    """
    state = State.beside(catalog_file)
    try:
        done = register_with_progress(console, catalog_file, state=state)
    except BaseException:  # an interrupt too, which says that nothing changed
        if not state.versions.exists() or not any(state.versions.iterdir()):
            catalog_file.unlink()
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
    opened = (
        f"opened a budget of epsilon {EPSILON}, delta {DELTA}, for one {done.catalog.unit.label}; "
        "it is never raised"
    )
    console.print(opened, highlight=False, soft_wrap=True)


def _refuse_existing(catalog_file: Path) -> None:
    """Raise DitherError where the catalog exists: quickstart changes no dataset."""
    if catalog_file.exists():
        raise DitherError(
            f"{catalog_file} exists already: quickstart begins a dataset and changes none. Go on "
            f"with: {write_command('status', catalog_file)}"
        )


def _write_catalog(console: Console, catalog_file: Path, text: str) -> None:
    with catalog_file.open("x", encoding="utf-8") as written:
        written.write(text)
    console.print(f"wrote {catalog_file}", highlight=False, soft_wrap=True)


def _offer_bounds(console: Console, catalog_file: Path, decisions: QuickDecisions) -> None:
    """Print how to buy bounds for columns that have wide ones."""
    names = name_columns(decisions)
    for source, kind in decisions.kinds:
        if kind is KINDS["wide"]:
            qualified_name = f"{make_label(decisions.table)}.{names[source]}"
            console.print(
                f"to buy bounds of {names[source]}, in Python: "
                f"dither.connect({str(catalog_file)!r}).suggest('bounds', {qualified_name!r}, "
                "epsilon=0.2)",
                highlight=False,
                soft_wrap=True,
            )


def _offer_first_question(
    asker: DecisionReader, catalog_file: Path, sql: str, ask: bool | None
) -> Result | None:
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
        "Ask it now, for half of the budget?",
        read_yes_or_no,
    )
    answer = con.sql(sql, epsilon=PRICE) if is_wanted else None
    if answer is not None:
        console.print(answer)
    command = write_command("sql", catalog_file, sql, "--epsilon", PRICE)
    console.print(
        f"to ask again, for free: {command}" if is_wanted else f"to ask: {command}",
        highlight=False,
        soft_wrap=True,
    )
    return answer


def _offer_groups(console: Console, catalog_file: Path, sql: str | None) -> None:
    """How to ask by labels that nobody listed, of which people may have many."""
    if sql is None:
        return
    command = write_command(
        "preview", catalog_file, sql, "--epsilon", PRICE, "--max-groups", MAX_GROUPS
    )
    console.print(
        "by labels: list them in a catalog and all are shown; of labels that nobody lists only "
        f"those of very many people are, and this says of how many: {command}",
        highlight=False,
        soft_wrap=True,
    )
