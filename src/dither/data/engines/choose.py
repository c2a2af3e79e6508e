"""Which engine holds a registered copy: a file of DuckDB, unless a note beside it names another."""

from __future__ import annotations

from pathlib import Path

from dither.data.engines.duckdb import DuckDBEngine
from dither.data.engines.interface import Engine


def open_copy(copy: Path, scratch: Path) -> Engine:
    """Open the prepared copy of a version. `scratch` is where an engine in this process spills."""
    return DuckDBEngine(copy, scratch)
