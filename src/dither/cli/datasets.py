"""The datasets of this machine, for a command that was given none."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dither import steward
from dither.cli.output import make_console, print_json
from dither.commands import write_command
from dither.publish.shown_table import ShownTable

CatalogOrNone = Annotated[
    Path | None,
    typer.Argument(
        metavar="CATALOG",
        help="The catalog, e.g. clinic.yaml; without it the datasets of this machine are listed.",
        show_default=False,
    ),
]


def find_catalog(catalog: Path | None, state: Path | None) -> Path | None:
    """The catalog that was given, else the one beside the state folder that was given."""
    if catalog is None and state is not None:
        return state.with_suffix(".yaml")
    return catalog


def show_datasets(*words: str, as_json: bool) -> None:
    """List the datasets that have a budget on this machine, each with the command of these words
    that shows it."""
    datasets = steward.list_datasets()
    if as_json:
        documents = [
            {
                "dataset": dataset.name,
                "population": dataset.population,
                "state": str(dataset.state_folder),
            }
            for dataset in datasets
        ]
        print_json({"datasets": documents})
        return
    console = make_console()
    if not datasets:
        console.print("no dataset on this machine has a budget; begin with: dither quickstart FILE")
        return
    rows = tuple(
        (dataset.name, dataset.population, write_show_command(words, dataset.state_folder))
        for dataset in datasets
    )
    title = "datasets with a budget on this machine"
    console.print(ShownTable(("dataset", "population", "show it with"), rows, title=title))


def write_show_command(words: tuple[str, ...], state_folder: Path) -> str:
    """The command that shows one dataset; the state folder lies beside its catalog, mostly."""
    catalog = state_folder.with_suffix(".yaml")
    given = () if state_folder.suffix == ".dither" else ("--state", state_folder)
    return write_command(*words, catalog, *given)
