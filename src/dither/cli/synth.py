"""`dither synth`: a table that may be shared, with a page about it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import typer

from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import CatalogFile, StateFolder
from dither.connecting import connect
from dither.errors import ParameterError

_WRITERS = {".csv": pyarrow.csv.write_csv, ".parquet": pyarrow.parquet.write_table}


def synth(
    catalog: CatalogFile,
    table: Annotated[str, typer.Argument(help="The private table.")],
    child: Annotated[
        str | None, typer.Argument(help="A table with rows of its people, such as visits.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="What all of it may cost.")] = None,
    rho: Annotated[str | None, typer.Option(help="The same in a zCDP budget.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Columns of the table, with commas between.")
    ] = None,
    method: Annotated[
        str, typer.Option(help="auto, aim, mst, mwem, privbayes, histogram or independent.")
    ] = "auto",
    bins: Annotated[
        str | None,
        typer.Option(
            help="Numbers of bins, where they begin, or bins to buy: cost=40,age=18/65,pay=buy:12."
        ),
    ] = None,
    labels_epsilon: Annotated[
        str | None,
        typer.Option(help="Buys the labels of each undeclared category, beside --epsilon."),
    ] = None,
    pot: Annotated[str, typer.Option(help="The budget that pays.")] = "total",
    to: Annotated[
        Path, typer.Option(help="A folder for tables, model, certificate and report.")
    ] = Path("synthetic"),
    file_format: Annotated[str, typer.Option("--format", help="csv or parquet.")] = "csv",
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Make a synthetic table (or two linked ones) that may be shared, and a page about it."""
    if f".{file_format}" not in _WRITERS:
        raise ParameterError(f"--format is csv or parquet, got {file_format!r}")
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise ParameterError(f"{to} is not an empty folder: choose another one with --to")
    names = [name.strip() for name in columns.split(",")] if columns else None
    by_column = _read_bins(bins)
    if child is not None and labels_epsilon is not None:
        raise ParameterError("--labels-epsilon is for one table: linked ones take declared labels")
    con = connect(catalog, pot=pot, state=state)
    to.mkdir(parents=True, exist_ok=True)  # a folder that cannot be made costs nothing
    if child is None:
        made = con.synthesize(
            table,
            epsilon=epsilon,
            rho=rho,
            columns=names,
            method=method,
            bins=by_column,
            labels_epsilon=labels_epsilon,
        )
        made.save(to / "model.json")
        made.certificate(to / "certificate.json")
        made.report(to / "report.html")
        tables = {table: made.sample()}
        noisy = [table] if made.is_mostly_noise else []
    else:
        by_table = {} if names is None else {table: names}
        pair = con.synthesize_linked(
            table,
            child,
            epsilon=epsilon,
            rho=rho,
            columns=by_table,
            method=method,
            bins=by_column,
        )
        pair.save(to / "model.json")
        pair.certificate(to / "certificate.json")
        pair.report(to / "report.html")
        parents, children = pair.sample()
        tables = {table: parents, child: children}
        sides = {table: pair.parent, child: pair.child}
        noisy = [name for name, side in sides.items() if side.is_mostly_noise]
    files = [_write_table(rows, to / f"{name}.{file_format}") for name, rows in tables.items()]
    shown = {name: rows.num_rows for name, rows in tables.items()}
    if as_json:
        listed = [str(file) for file in files]
        print_json({"rows": shown, "files": listed, "mostly_noise": noisy})
        return
    from dither.synth.synthetic import NOISE_WARNING

    console = make_console()
    for name, count in shown.items():
        words = f" ({NOISE_WARNING})" if name in noisy else ""
        console.print(f"{name}: {count:,} synthetic rows{words}", highlight=False)
    console.print(f"read {to / 'report.html'} before you share them", highlight=False)


def _read_bins(text: str | None) -> dict[str, int | str | list[str]]:
    """Numbers of bins, their edges, or bins to buy, by column, from the text of --bins."""
    entries = [entry.strip().partition("=") for entry in (text or "").split(",") if entry.strip()]
    if any(
        "/" not in bins and not _is_count(bins) and not bins.strip().startswith("buy")
        for _, _, bins in entries
    ):
        raise ParameterError(
            f"--bins is a list such as cost=40,age=18/30/65,pay=buy:12 (bins begin at 18, 30 and "
            f"65; a single edge is 18/; 12 bins at bought quantiles), got {text!r}"
        )
    return {name.strip(): _read_wish(bins) for name, _, bins in entries}


def _is_count(text: str) -> bool:
    return text.strip().isdecimal() and len(text) < 10


def _read_wish(text: str) -> int | str | list[str]:
    """Read a number of bins, bins to buy, or edges with slashes between."""
    if text.strip().startswith("buy"):
        return text.strip()
    if "/" not in text:
        return int(text)
    return [edge.strip() for edge in text.split("/") if edge.strip()]


def _write_table(rows: pa.Table, file: Path) -> Path:
    """Write a table without metadata, in the format of its name."""
    _WRITERS[file.suffix](rows.replace_schema_metadata(None), file)
    return file
