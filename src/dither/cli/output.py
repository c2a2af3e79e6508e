"""What every command shares: `--json`, and the meaning of exit codes."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from dither.errors import BudgetError, DitherError, UnavailableError
from dither.publish.commitment import plain
from dither.surfaces import escape_json, escape_lines

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
UNKNOWN_KEY = 3
CANNOT_PAY = 4
UNAVAILABLE = 5
BROKEN = 70
INTERRUPTED = 130
"""Beside 0 (done), 1 (refused or failed) and 2 (the command line itself was wrong):
docs/reference/cli.md."""


class SafeConsole(Console):
    """A console on which texts are read and nothing else: no control characters, markup or emoji
    names."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(escape_lines(text), **options)


def make_console(*, stderr: bool = False) -> SafeConsole:
    """The console of a command; a text with markup of our own is printed with `markup=True`."""
    return SafeConsole(stderr=stderr, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """One JSON value on standard output; fractions as p/q text, times and decimals as text."""
    typer.echo(escape_json(json.dumps(value, default=plain, ensure_ascii=False, indent=2)))


def exit_code(error: DitherError) -> int:
    """The exit code of an error: a script can tell an empty budget from a wrong question."""
    if isinstance(error, BudgetError):
        return CANNOT_PAY
    return UNAVAILABLE if isinstance(error, UnavailableError) else 1
