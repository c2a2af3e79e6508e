"""`dither audit generators`: membership attacks on synthetic tables, ours and planted ones."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import track

from dither.audit.generators import list_generators, list_planted_generators
from dither.audit.report import finite
from dither.cli.audit_output import Alpha, show_limits, write_verdict_row
from dither.cli.output import AsJson, make_console, print_json
from dither.publish.shown_table import ShownTable


def generators(
    runs: Annotated[int, typer.Option(help="Tables of each of two neighbours.", min=100)] = 400,
    alpha: Alpha = 1e-9,
    as_json: AsJson = False,
) -> None:
    """Attack every method of synthetic tables as one who knows all people but one, and generators
    with planted bugs too. Exit status 1 if one of ours is refuted, or a bug escapes."""
    console = make_console(stderr=as_json)
    subjects = [*list_generators(), *(planted.subject for planted in list_planted_generators())]
    verdicts = [
        subject.audit(runs, alpha)
        for subject in track(subjects, description="attacking", console=console, transient=True)
    ]
    ours = verdicts[: len(list_generators())]
    planted_verdicts = verdicts[len(ours) :]
    heads = ("generator", "claimed", "delta", "shown", "ceiling", "runs", "verdict")
    rows = tuple(write_verdict_row(verdict) for verdict in verdicts)
    console.print(ShownTable(heads, rows, frozenset(range(1, len(heads) - 1))))
    show_limits(console)
    accused = [verdict.name for verdict in ours if verdict.violated]
    escaped = [verdict.name for verdict in planted_verdicts if not verdict.violated]
    caught = len(planted_verdicts) - len(escaped)
    console.print(
        f"{len(accused)} of {len(ours)} methods refuted; {caught} of {len(planted_verdicts)} "
        f"planted bugs caught",
        soft_wrap=True,
    )
    if as_json:
        documents = [verdict.to_json() for verdict in verdicts]
        print_json(finite({"accused": accused, "escaped": escaped, "verdicts": documents}))
    raise typer.Exit(1 if accused or escaped else 0)
