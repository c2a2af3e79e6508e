"""`dither discard`: throw away a dataset of invented data."""

from __future__ import annotations

from typing import Annotated

import typer

from dither import steward
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import CatalogFile, StateFolder
from dither.commands import write_command
from dither.state import State


def discard(
    catalog: CatalogFile,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; else only say what it removes.")
    ] = False,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Remove the state of a dataset that was registered with --dev: its copies, ledger, budgets and
    keys. CATALOG and its source files stay. A dataset about people is never removed."""
    dataset_state = State.beside(catalog, state)
    in_postgres = isinstance(dataset_state.ledger_location(), str)
    removed = [str(path) for path in steward.list_discarded(dataset_state)]
    if yes:
        steward.discard(dataset_state)
    if as_json:
        print_json({"removed": removed if yes else [], "would_remove": removed})
        return
    console = make_console()
    console.print("removed:" if yes else "this removes, for ever:")
    for path in removed:
        console.print(f"  {path}", highlight=False, soft_wrap=True)
    if in_postgres:
        console.print("its ledger lies in PostgreSQL and stays there: drop that database yourself")
    if not yes:
        console.print(
            f"nothing was removed; do it with: {write_command('discard', catalog, '--yes')}",
            highlight=False,
            soft_wrap=True,
        )
