"""`dither discard`: throw away a dataset of invented data."""

from __future__ import annotations

from typing import Annotated

import typer

from dither import steward
from dither.cli.output import AsJson, make_console, print_json, write_command
from dither.cli.register import CatalogFile, StateFolder
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
    if not yes:
        console.print(
            f"nothing was removed; do it with: {write_command('discard', catalog, '--yes')}",
            highlight=False,
            soft_wrap=True,
        )
