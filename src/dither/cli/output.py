"""What every command shares: `--json`, and the meaning of exit codes.

0 done · 1 refused or failed, nothing half done · 2 the command line itself was wrong · 3 undecided (a certificate whose
key is not known) · 4 the budget cannot pay · 5 the answer is unavailable and the charge stays · 130 interrupted
"""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Annotated, Any

import typer

from dither.errors import BudgetError, DitherError, UnavailableError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def print_json(value: Any) -> None:
    """One JSON object on standard output; fractions as p/q text, times and decimals as text."""
    typer.echo(json.dumps(value, default=_plain, ensure_ascii=False, indent=2))


def _plain(value: Any) -> Any:
    return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else str(value)


def exit_code(error: DitherError) -> int:
    """The exit code of an error: a script can tell an empty budget from a wrong question."""
    if isinstance(error, BudgetError):
        return 4
    return 5 if isinstance(error, UnavailableError) else 1
