"""`dither ledger` and `dither history`: the record of everything that was spent."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from dither import steward
from dither.answer.history import describe_request
from dither.answer.question_log import Questions, find_question, read_questions
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import CatalogFile, StateFolder
from dither.errors import ParameterError
from dither.privacy.ledger import Pot
from dither.privacy.ledger import export as exports
from dither.privacy.ledger.pots import price_text
from dither.privacy.ledger.reports import Record, Reports
from dither.publish.shown_table import ShownTable
from dither.state import State
from dither.surfaces import escape_json

app = typer.Typer(
    name="ledger",
    help="Check the durable record of everything that was spent.",
    no_args_is_help=True,
)


WithSql = Annotated[
    bool, typer.Option("--sql", help="For the steward alone: with the text of each question.")
]


class ExportFormat(StrEnum):
    """How the ledger is exported."""

    json = "json"
    csv = "csv"


@app.command()
def verify(
    catalog: CatalogFile,
    anchors: Annotated[
        Path | None,
        typer.Option(
            help="A file of lines that 'dither ledger anchor CATALOG' wrote: every entry they "
            "name must be there."
        ),
    ] = None,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Recompute the hash chain, the budgets and the commitments. Needs no data; exit code 1 if
    anything is wrong."""
    try:
        text = "" if anchors is None else anchors.read_text("utf-8")
    except UnicodeDecodeError:
        raise ParameterError(
            f"{anchors} is no text: give the lines that 'dither ledger anchor CATALOG' wrote"
        ) from None
    report = steward.verify_ledger(State.beside(catalog, state), text)
    if as_json:
        print_json(
            {
                "ok": report.ok,
                "entries": report.entries,
                "releases": report.releases,
                "first_bad": report.first_bad,
                "problem": report.problem,
                "notes": list(report.notes),
            }
        )
    else:
        make_console().print(str(report), highlight=False)
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def anchor(
    catalog: CatalogFile,
    to: Annotated[
        Path | None, typer.Option(help="Append the line to this file instead of printing it.")
    ] = None,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Write one signed line that says how far the ledger has come, to keep where this user cannot
    rewrite it.

    Who runs the ledger can cut off its end and write a fitting head; only a line kept by somebody
    else shows it.
    """
    line = steward.anchor_line(State.beside(catalog, state))
    if to is None or as_json:
        print(line)  # JSON in any case
    if to is None:
        return
    with to.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


@app.command(epilog="Example: dither ledger close clinic.yaml --yes")
def close(
    catalog: CatalogFile,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it: no budget of it is ever open again.")
    ] = False,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Close every budget of a ledger that is behind its head, or whose head is lost: what was spent
    since is unknown. Stored answers can be read again then, and nothing is charged any more."""
    if not yes:
        raise ParameterError(
            "this closes every budget for ever: copy the head or a newer ledger first, if there is "
            "one; else add --yes"
        )
    first, last = steward.close_budgets(State.beside(catalog, state))
    if as_json:
        print_json({"closed": True, "first_lost": first, "last_lost": last})
        return
    end = "an unknown last one" if last is None else str(last)
    make_console().print(
        f"every budget is closed; entries {first} to {end} are lost", highlight=False
    )


@app.command()
def export(
    catalog: CatalogFile,
    output: Annotated[
        ExportFormat, typer.Option("--format", help="JSON with budgets, or CSV of the releases.")
    ] = ExportFormat.json,
    sql: WithSql = False,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Print parameters of every release for anyone to see; never a value."""
    dataset_state = State.beside(catalog, state)
    if sql and not as_json and output is ExportFormat.csv:
        raise ParameterError("texts of questions are exported as JSON: leave --format csv out")
    ledger = steward.open_ledger(dataset_state)
    try:
        if sql:
            print_json(_add_texts(ledger, read_questions(dataset_state.root)))
        elif as_json or output is ExportFormat.json:
            print(escape_json(exports.as_json(ledger)))
        else:
            print(exports.as_csv(ledger).rstrip("\n"))
    finally:
        ledger.close()


def _add_texts(ledger: Reports, questions: Questions) -> dict[str, Any]:
    """Export the ledger as plain data, with the text of every question that the log has."""
    document: dict[str, Any] = json.loads(exports.as_json(ledger))
    texts = {record.seq: _find_text(record, questions) for record in ledger.history()}
    for release in document["releases"]:
        release["sql"] = texts.get(release["release"])
    return document


def history(
    catalog: CatalogFile,
    unreleased: Annotated[
        bool, typer.Option(help="For the steward: charges whose answer never left are listed too.")
    ] = False,
    sql: WithSql = False,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """List what was released: when, from which budget, at which price. Parameters only."""
    dataset_state = State.beside(catalog, state)
    ledger = steward.open_ledger(dataset_state)
    try:
        pots = {pot.name: pot for pot in ledger.pots()}
        records = ledger.history(unreleased=unreleased)
    finally:
        ledger.close()
    questions = read_questions(dataset_state.root) if sql else {}
    if as_json:
        print_json([_describe_record(record, pots[record.pot], questions) for record in records])
        return
    rows = []
    for record in records:
        taken = record.charges[record.pot]
        paid = price_text(pots[record.pot].rule.measure, taken, pots[record.pot].unit)
        links = [f"supersedes {record.supersedes}"] if record.supersedes else []
        links += [f"superseded by {record.superseded_by}"] if record.superseded_by else []
        links += [f"also paid by {name}" for name in record.shared_by]
        version = str(record.public.get("version", ""))
        name = f"{record.seq} {record.release_id}"
        asks = _find_text(record, questions) or describe_request(record.public.get("request", {}))
        released_at = record.released_at or "never"
        rows.append((name, released_at, record.pot, asks, paid, version, "; ".join(links)))
    heads = ("release", "released at", "budget", "asked", "charge", "version", "links")
    make_console().print(ShownTable(heads, tuple(rows)))


def _find_text(record: Record, questions: Questions) -> str | None:
    return find_question(questions, record.release_id, (*record.pots, *record.shared_by))


def _describe_record(record: Record, pot: Pot, questions: Questions) -> dict[str, Any]:
    """Write one release as plain data."""
    taken = record.charges[record.pot]
    return {
        "release": record.seq,
        "release_id": record.release_id,
        "released_at": record.released_at,
        "pot": record.pot,
        "measure": pot.rule.measure,
        "charge": taken.amount,
        "delta": taken.delta,
        "unit": pot.unit,
        "version": record.public.get("version"),
        "asks": describe_request(record.public.get("request", {})),
        **({"sql": _find_text(record, questions)} if questions else {}),
        "supersedes": record.supersedes,
        "superseded_by": record.superseded_by,
        "shared_by": list(record.shared_by),
    }
