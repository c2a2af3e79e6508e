"""Which engine holds a registered copy: a file of DuckDB, unless a note beside it names another.

An engine's module is imported when a dataset names it, and not before.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dither.canonical import dumps
from dither.catalog import Catalog, Source
from dither.data.engines.interface import Engine, MeasureError

NOTE = "engine.json"
"""Beside the version's catalog: which engine holds the copy, and where."""


SPARK_FOLDER = "spark"
"""Beside the note: the folder of a copy in Parquet."""


class CopyNote(NamedTuple):
    """Where a copy lies that is no file of DuckDB."""

    engine: str
    location: str
    label: str


def open_copy(copy: Path, scratch: Path) -> Engine:
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


def place_copy(
    catalog: Catalog, file: Path, label: str, share: Callable[[float], None] | None
) -> None:
    """Move a copy that registration wrote to the catalog's engine, and note where it is.

    DuckDB keeps the file. `label` is the same at every try to register one version, so that what a
    killed one left is replaced.
    """
    source = catalog.source
    if source.is_path:
        return
    note = _write_copy(source, file, label, share)
    file.unlink()
    descriptor = os.open(file.with_name(NOTE), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        target.write(dumps({"v": 1, **note._asdict()}).encode())
        target.flush()
        os.fsync(target.fileno())


def _write_copy(
    source: Source, file: Path, label: str, share: Callable[[float], None] | None
) -> CopyNote:
    """Write a registered file to the engine of a source; return where."""
    if source.engine == "postgres":
        from dither.data.engines.postgres import copy as postgres

        location = source.copy or source.location
        postgres.write_copy(location, label, file, share)
        return CopyNote("postgres", location, label)
    from dither.data.engines.spark import copy as spark

    spark.write_copy(file.parent / SPARK_FOLDER, file, share)
    return CopyNote("spark", SPARK_FOLDER, label)


def drop_copy(folder: Path) -> None:
    """Drop the copy of a version that another engine holds; a file is removed with its folder."""
    note = read_note(folder)
    if note is not None and note.engine == "postgres":
        from dither.data.engines.postgres import copy

        copy.drop_copy(note.location, note.label)
    if note is not None and note.engine == "spark":
        shutil.rmtree(folder / note.location)


def read_note(folder: Path) -> CopyNote | None:
    """Read which engine holds the copy of a version; None for a file of DuckDB."""
    try:
        tree = json.loads((folder / NOTE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return CopyNote(tree["engine"], tree["location"], tree["label"])


def list_problems(catalog: Catalog) -> list[str]:
    """List what of a catalog its engine cannot hold, from the catalog alone."""
    if catalog.source.engine == "postgres":
        from dither.data.engines.postgres import copy

        return copy.list_problems(catalog)
    if catalog.source.engine == "spark":
        from dither.data.engines.spark import copy as spark

        return spark.list_problems(catalog)
    return []
