"""What every command shares: `--json`, and the meaning of exit codes."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from dither.answer.commitment import plain
from dither.errors import BudgetError, DitherError, UnavailableError
from dither.printable import escape_json

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
UNKNOWN_KEY, CANNOT_PAY, UNAVAILABLE, BROKEN, INTERRUPTED = 3, 4, 5, 70, 130
"""Beside 0 (done), 1 (refused or failed) and 2 (the command line itself was wrong): docs/reference/cli.md."""


def print_json(value: Any) -> None:
    """One JSON value on standard output; fractions as p/q text, times and decimals as text."""
    typer.echo(escape_json(json.dumps(value, default=plain, ensure_ascii=False, indent=2)))


def exit_code(error: DitherError) -> int:
    """The exit code of an error: a script can tell an empty budget from a wrong question."""
    if isinstance(error, BudgetError):
        return CANNOT_PAY
    return UNAVAILABLE if isinstance(error, UnavailableError) else 1
