"""`dither catalog`: check what the steward wrote, or draft what there is to decide."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dither import steward
from dither.catalog.explain import guarantee
from dither.catalog.file.importing import import_catalog
from dither.catalog.storage import catalog_hash
from dither.cli.catalog_problems import load_or_list_problems
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import CatalogFile
from dither.surfaces import escape_lines

app = typer.Typer(
    name="catalog", help="Write and check the public facts about a dataset.", no_args_is_help=True
)


class Engine(StrEnum):
    """Where the rows lie."""

    csv = "csv"
    parquet = "parquet"
    duckdb = "duckdb"


class Foreign(StrEnum):
    """What a catalog can be made from."""

    smartnoise = "smartnoise"
    snowflake = "snowflake"
    dbt = "dbt"


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            help="SmartNoise metadata, Snowflake statements, or a dbt schema.", exists=True
        ),
    ],
    kind: Annotated[Foreign, typer.Option("--from", help="What the file is.")],
    as_json: AsJson = False,
) -> None:
    """Print a catalog made from another tool's file: what it says, and ??? wherever a person must
    decide."""
    _print(import_catalog(kind.value, file.read_text(encoding="utf-8"), str(file)), as_json)


def _print(catalog: str, as_json: bool) -> None:
    if as_json:
        print_json({"catalog": catalog, "to_decide": catalog.count("???")})
    else:
        typer.echo(escape_lines(catalog), nl=False)


@app.command()
def check(catalog: CatalogFile, as_json: AsJson = False) -> None:
    """Check a catalog, compare it with the source's column names, and print its guarantee. Lists
    everything that is wrong. Reads no value."""
    facts = load_or_list_problems(catalog)
    comparison = steward.check_source(facts, catalog)
    if as_json:
        print_json(
            {
                "catalog_hash": catalog_hash(facts),
                "source": comparison,
                "guarantee": guarantee(facts),
            }
        )
        return
    console = make_console()
    console.print(guarantee(facts), highlight=False, markup=False)
    console.print(f"\n{comparison}", highlight=False, markup=False, soft_wrap=True)


@app.command()
def draft(
    location: Annotated[
        Path,
        typer.Argument(help="A CSV, Parquet or DuckDB file, or a folder of CSV or Parquet files."),
    ],
    engine: Annotated[
        Engine | None,
        typer.Option("--engine", help="What the rows lie in, if the name does not tell."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print a skeleton catalog: the source's names, and ??? wherever a person must decide. Reads no
    value."""
    _print(steward.draft_catalog(location, engine.value if engine else None), as_json)
