"""`dither ledger`: check the record of everything that was spent."""

from __future__ import annotations

import typer
from rich.console import Console

from dither import steward
from dither.cli.register import CatalogFile, StateFolder
from dither.state import State

app = typer.Typer(name="ledger", help="Check the durable record of everything that was spent.", no_args_is_help=True)


@app.command()
def verify(catalog: CatalogFile, state: StateFolder = None) -> None:
    """Recompute the hash chain, the pots and the commitments. Needs no data; exit code 1 if anything is wrong."""
    report = steward.verify_ledger(State.beside(catalog, state))
    Console().print(str(report), highlight=False)
    if not report.ok:
        raise typer.Exit(1)
