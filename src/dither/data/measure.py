"""Measuring: exact integers for a query, in the public shape, from the registered copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from dither.catalog import Catalog
from dither.data.engines.duckdb import open_registered
from dither.data.lower.cells import cells_sql
from dither.data.lower.plan import Lowering
from dither.errors import DitherError
from dither.plan.algebra import Cells
from dither.plan.domains import shape
from dither.plan.facts import NO_FACTS, Facts, load_facts

_ANY_KEY = bytes(32)


class MeasureError(DitherError):
    """The engine failed. Its message may quote data, so it is dropped here."""


class Measurer:
    """Answers queries over one registered version. `prepare` may fail freely; `measure` only after a charge."""

    def __init__(self, copy: Path, catalog: Catalog, facts: Facts | None = None) -> None:
        """`facts` are those that lie beside the copy, unless given."""
        self._catalog = catalog
        if facts is None:
            facts = load_facts(copy.parent) if (copy.parent / "facts.json").exists() else NO_FACTS
        self.facts = facts
        try:
            self._connection = open_registered(copy)
        except duckdb.Error:
            raise MeasureError("the registered copy cannot be opened: ask the steward to register again") from None

    def prepare(self, query: Cells) -> str:
        """Compile: the SQL text. Reads the registered table's schema, no row."""
        sql = cells_sql(query, Lowering(self._catalog, self.facts, _ANY_KEY))
        try:
            self._connection.execute(f"EXPLAIN {sql}").fetchall()
        except duckdb.Error:
            raise MeasureError("the question could not be compiled") from None
        return sql

    def measure(self, query: Cells, sample_key: bytes | None = None) -> NDArray[np.object_]:
        """One row per declared cell, one column per aggregate, exact Python integers; absent cells are 0.

        `sample_key` is drawn by the kernel for this release; a plan that samples units is refused without one.
        """
        sql = cells_sql(query, Lowering(self._catalog, self.facts, sample_key))
        try:
            found: Any = self._connection.sql(sql).to_arrow_table()
        except duckdb.Error:
            raise MeasureError("the engine failed") from None
        cells = np.zeros(shape(query, self._catalog, self.facts), object)
        codes = found.column(0).to_numpy()
        for place in range(len(query.columns)):
            # decimal128(38, 0) arrives as decimal.Decimal: exact, never through float64
            cells[codes, place] = [int(value) for value in found.column(place + 1).to_pylist()]
        return cells

    def close(self) -> None:
        self._connection.close()
