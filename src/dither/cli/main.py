"""The command line: one file a command, wired together here."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from dither import DitherError, __version__
from dither.cli import ask, audit, budget, catalog, ledger, local
from dither.cli.account import account
from dither.cli.demo import demo
from dither.cli.register import register

app = typer.Typer(
    name="dither",
    help="A differential-privacy curator: questions about the population, proofs about each person.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,  # locals can hold exact values
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dither {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself."""


for command in (demo, register, ask.preview, ask.sql, ask.reissue, ledger.history, account):
    app.command()(command)
for group in (budget.app, ledger.app, catalog.app, local.app, audit.app):
    app.add_typer(group)


def main() -> None:
    """Entry point: errors of dither are one line and exit code 1, never a traceback."""
    try:
        app()
    except DitherError as error:
        console = Console(stderr=True)
        console.print(f"[bold red]{type(error).__name__}[/]: ", end="", highlight=False)
        console.print(str(error), markup=False, highlight=False, soft_wrap=True)
        sys.exit(1)
