"""The tables of a prepared copy in Parquet: a folder each, and a manifest of our own.

The manifest lists every file with its size and the digest of its content, and types of columns. A
copy of which a file is missing or changed would answer for other people than were registered, so it
is not opened. A file is read through once in a process, when the copy is opened, and again where
its size, its number or the time of its last change is another. The manifest lies beside the files,
and goes nowhere else: a digest of rows would tell whether a guess of them is right.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from dither.data.engines.interface import MeasureError

MANIFEST = "manifest.json"


def open_tables(session: Any, folder: Path) -> None:
    """Make the tables of a copy views of a session, by their names.

    Raises MeasureError where a file is missing, or is not as it was written.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        for table, described in manifest["tables"].items():
            if measure_files(folder, table) != described["files"]:
                raise OSError("the files are not those of the manifest")
            # copies of earlier releases have no digests
            for file, digest in described.get("digests", {}).items():
                if digest_file(folder / table / file) != digest:
                    raise OSError("a file is not the one that was written")
            rows = session.read.schema(write_schema(described["columns"]))
            rows.parquet(str(folder / table)).createOrReplaceTempView(table)
    except (OSError, KeyError, ValueError):
        raise MeasureError(
            "the registered copy cannot be opened: ask the steward to register again"
        ) from None


def measure_files(folder: Path, table: str) -> dict[str, int]:
    """The files of a table, with their sizes."""
    return {file.name: file.stat().st_size for file in (folder / table).glob("*.parquet")}


def digest_file(file: Path) -> str:
    """Digest the content of a file; it is read again only where its state is another."""
    status = file.stat()
    return _digest_content(file, status.st_size, status.st_ino, status.st_mtime_ns)


@lru_cache(maxsize=1 << 16)
def _digest_content(file: Path, *state: int) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def write_schema(columns: list[tuple[str, str]]) -> str:
    """Write names and types of columns as Spark reads them."""
    return ", ".join(f"`{column}` {kind}" for column, kind in columns)
