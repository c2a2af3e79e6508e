"""`dither register`: the steward's act that makes a new version of the data."""

from __future__ import annotations

import resource
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from dither import steward
from dither.cli.output import AsJson, make_console, print_json
from dither.commands import write_command
from dither.publish.shown_table import ShownTable
from dither.state import State
from dither.surfaces import escape_label


class _ProgressBar:
    """The bar: which step it is, and how far the engine says it is within the step."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self.task = progress.add_task("starting", total=1.0)
        self.step = 0

    def stage(self, text: str) -> None:
        self.step += 1
        self.progress.reset(self.task, total=1.0, description=escape_label(f"{self.step}. {text}"))

    def share(self, done: float) -> None:
        self.progress.update(self.task, completed=done)


CatalogFile = Annotated[Path, typer.Argument(help="The catalog, e.g. clinic.yaml.")]
StateFolder = Annotated[
    Path | None,
    typer.Option(
        "--state", help="The state folder; by default beside the catalog.", envvar="DITHER_STATE"
    ),
]


def register(
    catalog: CatalogFile,
    dev: Annotated[
        bool,
        typer.Option(
            "--dev", help="An invented or public data set, for teaching; decided once, for ever."
        ),
    ] = False,
    ledger: Annotated[
        str | None,
        typer.Option(
            help="The first time: keep the ledger in PostgreSQL, by its URL.", metavar="URL"
        ),
    ] = None,
    state: StateFolder = None,
    memory: Annotated[
        str | None,
        typer.Option(
            "--memory", help="How much the engine may hold, e.g. 2GB; beyond it spills, encrypted."
        ),
    ] = None,
    spill: Annotated[
        Path | None,
        typer.Option(
            "--spill",
            help="A folder where rows may lie in plain while registration runs; removed after.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read the source that CATALOG names, repair and limit its rows, and make them the next
    registered version."""
    console = make_console(stderr=as_json)
    done = register_with_progress(
        console,
        catalog,
        state=State.beside(catalog, state),
        dev=dev,
        ledger_url=ledger,
        memory=memory,
        spill=spill,
    )
    try:
        _show(done, console, catalog, as_json)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; version {done.version} is registered") from None


def register_with_progress(console: Console, catalog: Path, **options: Any) -> steward.Registration:
    """Register a catalog, with a bar that is gone afterwards."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        progress_bar = _ProgressBar(progress)
        return steward.register(
            catalog, stage=progress_bar.stage, share=progress_bar.share, **options
        )


def _show(done: steward.Registration, console: Console, catalog: Path, as_json: bool) -> None:
    """Print what was registered and repaired, for the steward, or as JSON."""
    if as_json:
        repaired = {
            table_repairs.table: dict(table_repairs.counts) for table_repairs in done.repairs
        }
        print_json(
            {
                "dataset": done.catalog.dataset,
                "version": done.version,
                "context": done.context,
                "for_the_steward_only": repaired,
            }
        )
        return
    console.print(f"registered {done.catalog.dataset} version {done.version} ({done.context})")
    for repairs in done.repairs:
        rows = tuple((what, f"{count:,}") for what, count in repairs.counts)
        heads = ("for the steward only", "rows")
        console.print(ShownTable(heads, rows, frozenset({1}), f"table {repairs.table}"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    console.print(f"peak memory {peak:.1f} GiB", highlight=False)
    console.print(
        f"next: {write_command('budget', 'open', catalog, 'total', '--help')}", highlight=False
    )
