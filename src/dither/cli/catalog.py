"""`dither catalog`: check what the steward wrote."""

from __future__ import annotations

import typer
from rich.console import Console

from dither.catalog import guarantee, load, refuse_unsupported
from dither.cli.register import CatalogFile

app = typer.Typer(name="catalog", help="Check the public facts about a dataset.", no_args_is_help=True)


@app.command()
def check(catalog: CatalogFile) -> None:
    """Check a catalog and print its guarantee in plain words, who is not protected included. Reads no data."""
    facts = load(catalog)
    refuse_unsupported(facts)
    Console().print(guarantee(facts), highlight=False, markup=False)
