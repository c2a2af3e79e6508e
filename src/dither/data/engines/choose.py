"""Which engine holds a registered copy: a file of DuckDB, unless a note beside it names another.

An engine's module is imported when a dataset names it, and not before.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from dither.data.engines.interface import CopyEngine, MeasureError

NOTE = "engine.json"
"""Beside the version's catalog: which engine holds the copy, and where."""


SPARK_FOLDER = "spark"
"""Beside the note: the folder of a copy in Parquet."""


class CopyNote(NamedTuple):
    """Where a copy lies that is no file of DuckDB."""

    engine: str
    location: str
    label: str


def open_copy(copy: Path, scratch: Path) -> CopyEngine:
    """Open the prepared copy of a version. `scratch` is where an engine in this process spills."""
    note = read_note(copy.parent)
    if note is None:
        from dither.data.engines.duckdb import DuckDBEngine

        return DuckDBEngine(copy, scratch)
    if note.engine == "postgres":
        from dither.data.engines.postgres.engine import PostgresEngine

        return PostgresEngine(note.location, note.label)
    if note.engine == "spark":
        from dither.data.engines.spark.engine import SparkEngine

        return SparkEngine(copy.parent / note.location)
    raise MeasureError(f"this version of dither has no engine {note.engine}")


def read_note(folder: Path) -> CopyNote | None:
    """Read which engine holds the copy of a version; None for a file of DuckDB."""
    try:
        tree = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return CopyNote(tree["engine"], tree["location"], tree["label"])
