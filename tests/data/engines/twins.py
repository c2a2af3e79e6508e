"""One registered database on several engines: the same prepared copy, moved."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

from dither.catalog import Source
from dither.data.measure import Measurer
from dither.data.register.placing import drop_copy, place_copy
from tests.datasets.hospital import Registered

_numbers = count()


@contextmanager
def on_engine(both: Registered, engine: str, location: str) -> Iterator[Registered]:
    """The database of a DuckDB file on another engine."""
    (file,) = both.measurer.engine.connection.execute(
        "SELECT path FROM duckdb_databases() WHERE NOT internal"
    ).fetchall()[0]
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "data.duckdb"
        shutil.copy(file, copy)
        moved = replace(both.catalog, source=Source(engine, location))
        place_copy(moved, copy, f"dither_test_{next(_numbers)}", None)
        assert not copy.exists()
        measurer = Measurer(copy, both.catalog, both.facts)
        try:
            yield replace(both, measurer=measurer)
        finally:
            measurer.close()
            drop_copy(copy.parent)
