"""`dither workload`: many counts over one table, previewed or answered together."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import CatalogFile, StateFolder
from dither.connecting import connect
from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.workloads import WorkloadPreview, WorkloadResult


def workload(
    catalog: CatalogFile,
    table: Annotated[str, typer.Argument(help="The private table.")],
    queries: Annotated[
        str, typer.Argument(help="What to count: 'ranges(age) * identity(sex) + 2 * total()'.")
    ],
    epsilon: Annotated[str | None, typer.Option(help="What all of it may cost.")] = None,
    rho: Annotated[str | None, typer.Option(help="The same in a zCDP budget.")] = None,
    where: Annotated[str | None, typer.Option(help="A condition on the rows, in SQL.")] = None,
    pot: Annotated[str, typer.Option(help="The budget that pays.")] = "total",
    confidence: Annotated[str, typer.Option(help="The level of intervals.")] = "0.95",
    ask: Annotated[bool, typer.Option("--ask", help="Charge and answer; else preview.")] = False,
    nonnegative: Annotated[
        bool, typer.Option("--nonnegative", help="Whole numbers of 0 or more that add up; biased.")
    ] = False,
    to: Annotated[Path | None, typer.Option(help="A folder for tables and certificate.")] = None,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Preview many counts over one table, or answer them together for one price."""
    from dither.workloads.read_text import read_workload

    if to is not None and not ask:
        raise ParameterError("--to takes answers: add --ask, which charges the budget")
    if to is not None and to.exists() and any(to.iterdir()):
        raise ParameterError(f"{to} is not empty: choose another folder with --to")
    con = connect(catalog, pot=pot, state=state)
    asked = con.workload(
        read_workload(queries),
        table=table,
        where=where,
        epsilon=epsilon,
        rho=rho,
        confidence=confidence,
        progress=True,
    )
    if not ask:
        preview = asked.preview()
        if as_json:
            print_json(_write_preview(preview))
        else:
            make_console().print(preview)
        return
    result = asked.answer()
    if nonnegative:
        result = result.nonnegative().rounded()
    files = [] if to is None else _write_tables(result, to)
    if as_json:
        tables = {name: rows.to_pydict() for name, rows in result.tables.items()}
        print_json(
            {"release": result.info["release_id"], "strategy": result.info["strategy"]}
            | {"biased": result.biased, "notes": list(result.notes), "tables": tables}
        )
        return
    console = make_console()
    console.print(str(result), highlight=False)
    console.print(f"charged {result.info['charged']} from {pot}", highlight=False)
    for file in files:
        console.print(f"wrote {file}", highlight=False)


def _write_preview(preview: WorkloadPreview) -> dict[str, Any]:
    """The preview as plain values."""
    earlier = preview.earlier
    return {
        "price": preview.charge.amount,
        "delta": preview.charge.delta,
        "pot": preview.pot,
        "strategy": preview.strategy,
        "noise": preview.noise,
        "root_mean_squared_error": preview.root_mean_squared_error,
        "lower_bound": preview.lower_bound,
        "gap": preview.gap,
        "stored": preview.stored,
        "reasons": list(preview.reasons),
        "products": [
            {
                "queries": str(row.product),
                "number": row.queries,
                "root_mean_squared_error": row.root_mean_squared_error,
                "largest_error": row.largest_error,
            }
            for row in preview.products
        ],
        "earlier": None
        if earlier is None
        else {
            "releases": list(earlier.release_ids),
            "root_mean_squared_error": earlier.root_mean_squared_error,
        },
    }


def _write_tables(result: WorkloadResult, folder: Path) -> list[Path]:
    """Every table as CSV, and the certificate."""
    import pyarrow.csv

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for position, (name, rows) in enumerate(result.tables.items(), start=1):
        words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60]
        file = folder / f"{position}-{words}.csv"
        pyarrow.csv.write_csv(rows, file)
        files.append(file)
    result.certificate(folder / "certificate.json")
    return [*files, folder / "certificate.json"]
