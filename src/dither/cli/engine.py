"""`dither engine`: what an engine that is a server needs."""

from __future__ import annotations

from typing import Annotated

import typer

from dither import steward
from dither.catalog.file.load import load
from dither.cli.output import AsJson, print_json
from dither.cli.register import CatalogFile

app = typer.Typer(
    name="engine",
    help="See to the servers that hold data: grants, and whether one can be reached.",
    no_args_is_help=True,
)


@app.callback()
def engine() -> None:
    """See to the servers that hold data: grants, and whether one can be reached."""


@app.command()
def postgres(
    catalog: CatalogFile,
    print_grants: Annotated[
        bool, typer.Option("--print-grants", help="Print SQL for psql that makes the role.")
    ] = False,
    role: Annotated[str, typer.Option(help="The role's name.")] = "dither",
    as_json: AsJson = False,
) -> None:
    """Compare a catalog with its PostgreSQL database, or print the grants that a role needs.

    No value is read.
    """
    declared = load(catalog)
    grants = steward.write_postgres_grants(declared, role)
    checked = grants if print_grants else steward.check_source(declared, catalog)
    if as_json:
        print_json({"grants" if print_grants else "checked": checked})
    else:
        typer.echo(checked)
