"""Placing a registered copy: it moves to the engine that the catalog names; a note says where."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from dither.canonical import dumps
from dither.catalog import Catalog
from dither.data.engines.choose import NOTE, SPARK_FOLDER, CopyNote, read_note


def place_copy(
    catalog: Catalog, file: Path, label: str, share: Callable[[float], None] | None
) -> None:
    """Move a copy that registration wrote to the catalog's engine, and note where it is.

    DuckDB keeps the file. `label` is the same at every try to register one version, so that what a
    killed one left is replaced.
    """
    if catalog.source.is_path:
        return
    note = _write_copy(catalog, file, label, share)
    file.unlink()
    descriptor = os.open(file.with_name(NOTE), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as target:
        target.write(dumps({"v": 1, **note._asdict()}).encode())
        target.flush()
        os.fsync(target.fileno())


def _write_copy(
    catalog: Catalog, file: Path, label: str, share: Callable[[float], None] | None
) -> CopyNote:
    """Write a registered file to the engine of the catalog's source; return where."""
    source = catalog.source
    if source.engine == "postgres":
        from dither.data.register.postgres import copy as postgres

        location = source.copy or source.location
        postgres.write_copy(catalog, location, label, file, share)
        return CopyNote("postgres", location, label)
    from dither.data.register.spark import copy as spark

    spark.write_copy(file.parent / SPARK_FOLDER, file, share)
    return CopyNote("spark", SPARK_FOLDER, label)


def drop_copy(folder: Path) -> None:
    """Drop the copy of a version that another engine holds; a file is removed with its folder."""
    note = read_note(folder)
    if note is not None and note.engine == "postgres":
        from dither.data.register.postgres import copy

        copy.drop_copy(note.location, note.label)
    if note is not None and note.engine == "spark":
        shutil.rmtree(folder / note.location)


def list_problems(catalog: Catalog) -> list[str]:
    """List what of a catalog its engine cannot hold, from the catalog alone."""
    if catalog.source.engine == "postgres":
        from dither.data.register.postgres import copy

        return copy.list_problems(catalog)
    if catalog.source.engine == "spark":
        from dither.data.register.spark import copy as spark

        return spark.list_problems(catalog)
    return []
