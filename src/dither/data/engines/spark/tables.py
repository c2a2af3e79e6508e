"""The tables of a prepared copy in Parquet: a folder each, and a manifest of our own.

The manifest lists every file with its size, and types of columns. A copy of which a file is missing
would answer without some people, so it is not opened.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dither.data.engines.interface import MeasureError

MANIFEST = "manifest.json"


def open_tables(session: Any, folder: Path) -> None:
    """Make the tables of a copy views of a session, by their names.

    Raises MeasureError where a file is missing or has another size. Reads no row.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for table, described in manifest["tables"].items():
            if measure_files(folder, table) != described["files"]:
                raise OSError("the files are not those of the manifest")
            rows = session.read.schema(write_schema(described["columns"]))
            rows.parquet(str(folder / table)).createOrReplaceTempView(table)
    except (OSError, KeyError, ValueError):
        raise MeasureError(
            "the registered copy cannot be opened: ask the steward to register again"
        ) from None


def measure_files(folder: Path, table: str) -> dict[str, int]:
    """The files of a table, with their sizes."""
    return {file.name: file.stat().st_size for file in (folder / table).glob("*.parquet")}


def write_schema(columns: list[tuple[str, str]]) -> str:
    """Write names and types of columns as Spark reads them."""
    return ", ".join(f"`{column}` {kind}" for column, kind in columns)
