"""What the commands of `dither audit` share: options, and the sentences at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dither.audit.verdict import LIMITS, Verdict
from dither.figures import write_bound

Report = Annotated[
    Path | None, typer.Option(help="Write this HTML file, and the same as JSON beside it.")
]
Alpha = Annotated[float, typer.Option(help="Rate of false alarms of each test.")]
Year = Annotated[
    Path | None,
    typer.Option(help="A file that counts runs: all runs of a year share alpha (nightly audits)."),
]


def show_limits(console: Console, more: tuple[str, ...] = ()) -> None:
    """Say what a test cannot show, and what these outputs left unexamined."""
    for sentence in (LIMITS[0], *more):
        console.print(sentence, style="dim", soft_wrap=True, markup=False, highlight=False)


def say_written(console: Console, files: tuple[Path, Path]) -> None:
    """Name the files of a report."""
    console.print(f"wrote {files[0]} and {files[1]}", soft_wrap=True)


def write_verdict_row(verdict: Verdict) -> tuple[str, ...]:
    """Write the row of a verdict for the table."""
    numbers = (
        write_bound(verdict.epsilon, up=True),
        write_bound(verdict.delta, up=True),
        write_bound(verdict.epsilon_lower),
        write_bound(verdict.ceiling, up=True),
    )
    return (verdict.name, *numbers, f"{verdict.runs:,}", verdict.outcome)
