"""`dither access-log`: who was handed which release."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from dither.cli.acting import show_rows
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.token import Home
from dither.identity import AccessLog, default_home
from dither.identity.access_log import GENESIS, check_entries, read_lines

app = typer.Typer(
    name="access-log",
    help="The access log: who was handed what, when it was released; no values, no durations.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Dataset = Annotated[str, typer.Argument(help="The dataset, by the name in its catalog.")]


@app.command("list", epilog="Example: dither access-log list clinic")
def list_all(
    dataset: Dataset,
    start: Annotated[int, typer.Option(help="The number of the first entry.", min=0)] = 0,
    count: Annotated[int, typer.Option(help="How many entries.", min=1)] = 1_000,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """List entries since the last rotation."""
    log = AccessLog(home or default_home())
    entries = log.read_page(dataset, start, count)
    log.close()
    if as_json:
        print_json([asdict(entry) for entry in entries])
        return
    rows = [
        (str(e.seq), e.time, e.principal, e.act, e.pot, e.release, (e.question or "")[:16])
        for e in entries
    ]
    show_rows(("entry", "time", "who", "act", "pot", "release", "question"), rows, as_json)


@app.command(epilog="Example: dither access-log rotate clinic --to clinic-2026.jsonl")
def rotate(
    dataset: Dataset,
    to: Annotated[Path, typer.Option(help="A new file for the entries until now, mode 0600.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Move all entries to a file. The next entry goes on from the last hash in it."""
    log = AccessLog(home or default_home())
    count = log.rotate(dataset, to)
    log.close()
    if as_json:
        print_json({"dataset": dataset, "entries": count, "file": str(to)})
    else:
        make_console().print(f"{count:,} entries moved to {to}", highlight=False, soft_wrap=True)


@app.command(epilog="Example: dither access-log verify clinic --after clinic-2026.jsonl")
def verify(
    dataset: Dataset,
    after: Annotated[
        list[Path] | None, typer.Option(help="A rotated file, the oldest first; repeatable.")
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Check the hash chain, through rotated files; exit code 1 if an entry was changed."""
    log = AccessLog(home or default_home())
    entries = log.read_page(dataset, 0, 2**62)
    checked = log.verify(dataset)
    log.close()
    if after:
        texts = [file.read_text(encoding="utf-8") for file in after]
        rotated = [entry for text in texts for entry in read_lines(text)]
        check_entries([*rotated, *entries], 0, GENESIS)
        checked = len(rotated) + len(entries)
    if as_json:
        print_json({"dataset": dataset, "entries": checked})
    else:
        make_console().print(f"{checked:,} entries are as they were written", highlight=False)
