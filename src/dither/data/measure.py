"""Measuring: exact integers for a query, in the public shape, from the registered copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dither.catalog import Catalog
from dither.data.engines.choose import open_copy
from dither.data.engines.interface import Compiled, CopyEngine, MeasureError
from dither.data.lower.cells import Spots, query_sql, spots, spots_sql
from dither.data.lower.dialect import Dialect, writing_in
from dither.data.lower.plan import keep_columns
from dither.data.quoting import name
from dither.data.vectors.add_up import EncodedRows, add_unit_vectors, encode_rows
from dither.data.vectors.select import read_batches, vectors_sql
from dither.errors import RefusedError
from dither.plan.algebra import (
    Cells,
    Keys,
    MeasuredQuery,
    Quantiles,
    SampleUnits,
    UnitVectors,
    nodes_of,
    plan_hash,
)
from dither.plan.analysed_query import Analyses
from dither.plan.facts import NO_FACTS, Facts, load_facts
from dither.plan.grids import MOST_POINTS
from dither.plan.vectors import MOST_KEPT, count_batch_rows, kept_bytes
from dither.rules import PrivacyRule

__all__ = ["MeasureError", "Measurer", "is_sampled"]
_ANY_KEY = bytes(32)
_FEW_CELLS = 10_000
MOST_COMPILED = 64
_BATCH = 1 << 20
_COUNTERS_PER_ROW = 8
"""From fewer counters per row on, an array of all counters is cheaper than sorting the rows."""
OpenKey: TypeAlias = tuple[str | None, ...]
Histogram: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]


class Measurer:
    """Answers queries over one registered version, whichever engine holds its copy.

    `prepare` may fail freely; `measure` only after a charge.
    """

    def __init__(
        self,
        copy: Path,
        catalog: Catalog,
        facts: Facts | None = None,
        *,
        analyses: Analyses | None = None,
        scratch: Path | None = None,
    ) -> None:
        """`facts` and the folder `scratch` lie beside the copy, unless given.

        The engine spills into `scratch`.

        `analyses` are those of the version, shared with whoever priced the question.
        """
        if facts is None:
            facts = load_facts(copy.parent) if (copy.parent / "facts.json").exists() else NO_FACTS
        self.facts = facts
        self._analyses = analyses or Analyses(catalog, facts)
        self.keeps_rows = False
        """Whether the encoded rows of the last query for vectors stay in memory for the next."""
        self._kept: tuple[Any, list[EncodedRows]] | None = None
        self.kept_cells: dict[str, Any] | None = None
        """Exact cells by the hash of their query, while one lease reads the same ones again."""
        self._compiled: dict[
            str, Compiled
        ] = {}  # by the hash of the query: `==` confuses 1 and True
        self.engine: CopyEngine = open_copy(copy, scratch or copy.parent / "scratch")

    def prepare(self, query: MeasuredQuery) -> str:
        """Compile a query, keep it, and return its SQL text.

        It reads the registered table's schema, no row.
        """
        self.engine.check()
        key = plan_hash(query)
        compiled = self._compiled.get(key)
        if compiled is not None:
            return compiled.sql
        sql = self._write_sql(query, _ANY_KEY)
        is_fixed = not is_sampled(query)
        if len(self._compiled) >= MOST_COMPILED:
            self._compiled.clear()  # the engine keeps statements until their names are used again
        # quantiles and vectors are read as they come, which the engine does not do for statements
        # that it keeps
        is_kept = is_fixed and not isinstance(query, (Quantiles, UnitVectors))
        run = self.engine.compile(
            f"dither_{len(self._compiled)}",
            sql,
            is_kept=is_kept,
            rewrite=lambda dialect: self._write_sql(query, _ANY_KEY, dialect),
        )
        self._compiled[key] = Compiled(sql, run if is_fixed else None)
        return sql

    def read_public(self, table: str, most_rows: int) -> Any:
        """The rows of a public table as they are pinned, at most so many: integers on the grid of
        their columns, codes of labels, and texts. Raises RefusedError for any other table.

        They are the same in every database.
        """
        declared = self._analyses.catalog.table(table)
        if declared.kind != "public":
            raise RefusedError(
                f"{declared.name} is not public: its rows leave as noisy numbers alone",
                rule=PrivacyRule.REGISTERED_TABLES,
            )
        columns = ", ".join(map(name, declared.column_names))
        return self.engine.fetch_table(
            f"SELECT {columns} FROM {name(declared.name)} LIMIT {int(most_rows)}"
        )

    def measure(self, query: MeasuredQuery, sample_key: bytes | None = None) -> Any:
        """Run a query and return exact integers.

        Cells: one row per declared cell, one column per aggregate, exact Python integers; absent
        cells are 0. Where some keys are not listed: by their values, the cells that hold rows by
        code. Keys: the owners of each key. Quantiles: by unlisted keys and by code of the listed
        ones, the points that hold rows, in order, and how many. UnitVectors: a column of the sum's
        integers. `sample_key` is drawn by the kernel
        for this release; a plan that samples units is refused without one.
        """
        if isinstance(query, Keys):
            return self._measure_owners(query, sample_key)
        if isinstance(query, Quantiles):
            return self._measure_histograms(query, sample_key)
        if isinstance(query, UnitVectors):
            return self._measure_vectors(query, sample_key)
        if self.kept_cells is None or is_sampled(query):
            return self._measure_counted(query, sample_key)
        if query.hash not in self.kept_cells:
            self.kept_cells[query.hash] = self._measure_counted(query, sample_key)
        return self.kept_cells[query.hash].copy()

    def _measure_counted(self, query: Cells, sample_key: bytes | None) -> Any:
        """Measure counts and sums; by the values of unlisted keys, where there are some."""
        cells = self._measure_cells(query, sample_key)
        return cells if self._analyses.analyse_query(query).unlisted else cells[()]

    def _measure_cells(self, query: Cells, sample_key: bytes | None) -> dict[OpenKey, Any]:
        """Measure the cells of a query by the values of its unlisted keys.

        A full array where all keys are listed, else only the cells that hold rows.
        """
        analysed = self._analyses.analyse_query(query)
        size = (analysed.cells, analysed.width)
        if analysed.cells <= _FEW_CELLS and not analysed.unlisted:
            cells = np.zeros(size, object)
            for code, *row in self.engine.fetch_rows(self._run(query, sample_key)):
                cells[code] = row
            return {(): cells}
        table = self.engine.fetch_table(self._run(query, sample_key))
        labels, first = self._read_labels(table, query)
        codes = table.column(first).to_numpy().astype(np.int64)
        # decimal128(38, 0) arrives as decimal.Decimal: exact, never through float64
        values = [
            [int(value) for value in table.column(first + 1 + i).to_pylist()]
            for i in range(size[1])
        ]
        if not first:
            cells = np.zeros(size, object)
            for index, column in enumerate(values):
                cells[codes, index] = column
            return {(): cells}
        # only cells that hold rows: what a key takes must not grow with the declared cells, a key
        # may be one person's
        by_key: dict[OpenKey, dict[int, tuple[int, ...]]] = {}
        for key, code, *row in zip(labels, codes.tolist(), *values, strict=True):
            by_key.setdefault(key, {})[code] = tuple(row)
        return by_key

    def _measure_vectors(self, query: UnitVectors, sample_key: bytes | None) -> NDArray[Any]:
        """Add up the vectors of all units, or of a sample, in one pass over the rows."""
        if query.rate is not None and sample_key is None:
            raise RefusedError(
                "a sample needs a key that the kernel draws for the release",
                rule=PrivacyRule.NO_SEED,
            )
        rows = self._analyses.analyse_rows(query.plan)
        statement = self._write_sql(query, sample_key)
        label = getattr(query.function, "label", None)
        read_again = (query.plan.hash, statement, query.features, label)
        if self._kept is not None and self._kept[0] == read_again:
            return add_unit_vectors(query, rows, self._kept[1], sample_key)
        self._kept = None
        batches = self.engine.stream(statement, count_batch_rows(query, rows))
        blocks: Iterable[EncodedRows] = encode_rows(query, rows, read_batches(query, rows, batches))
        if self.keeps_rows and kept_bytes(query, rows) <= MOST_KEPT:
            blocks = list(blocks)
            self._kept = (read_again, blocks)
        return add_unit_vectors(query, rows, blocks, sample_key)

    def _measure_owners(self, query: Keys, sample_key: bytes | None) -> dict[OpenKey, int]:
        table = self.engine.fetch_table(self._run(query, sample_key))
        labels, first = self._read_labels(table, query)
        return dict(zip(labels, table.column(first).to_pylist(), strict=True))

    def _measure_histograms(
        self, query: Quantiles, sample_key: bytes | None
    ) -> dict[OpenKey, dict[int, Histogram]]:
        """Count the rows at every point of the grid, by unlisted key and cell.

        Where the catalog bounds the points, they are counted in an array; else the engine groups
        them.
        """
        if (layout := self._lay_out(query)) is not None:
            indexes, counts = self._count_spots(query, sample_key, layout)
            return {(): dict(_cut(indexes, counts, layout.points))}
        table = self.engine.fetch_table(self._run(query, sample_key))
        labels, first = self._read_labels(table, query)
        codes, points, counts = (
            table.column(first + i).to_numpy().astype(np.int64) for i in range(3)
        )
        # Fewer than 2**20 points, at most 10**6 codes: the products fit in 64 bits.
        order = np.argsort(codes * MOST_POINTS + points)
        if not first:
            return {(): dict(_split(codes[order], points[order], counts[order]))}
        rows_of: dict[OpenKey, list[int]] = {}
        for row in order.tolist():
            rows_of.setdefault(labels[row], []).append(row)
        return {
            key: dict(_split(codes[rows], points[rows], counts[rows]))
            for key, rows in rows_of.items()
        }

    def _count_spots(self, query: Quantiles, sample_key: bytes | None, layout: Spots) -> Histogram:
        """Count how many rows each point of each cell holds: the indexes with rows, in order.

        Rows wait to be sorted while they are few for so many counters; else an array counts them.
        """
        waiting: list[NDArray[np.int64]] = []
        filled: NDArray[np.int64] | None = None
        for batch in self.engine.stream(self._run(query, sample_key), max(_BATCH, layout.room)):
            # Nothing lies outside its grid; a row that did would count at the last point.
            waiting.append(np.minimum(batch.column(0).to_numpy(), layout.counters - 1))
            if _COUNTERS_PER_ROW * sum(map(len, waiting)) > layout.counters:
                filled = np.zeros(layout.counters, np.int64) if filled is None else filled
                np.add.at(filled, _sort_all(waiting), 1)
                waiting.clear()
        if filled is None:
            return _count_equal(_sort_all(waiting))
        np.add.at(filled, _sort_all(waiting), 1)
        indexes = np.flatnonzero(filled != 0)
        return indexes, filled[indexes]

    def _lay_out(self, query: Quantiles) -> Spots | None:
        """The array in which the rows of a query are counted; None where the engine groups them."""
        with writing_in(self.engine.dialect):
            return spots(query, self._analyses.analyse_rows(query.plan).columns)

    def _run(self, query: MeasuredQuery, sample_key: bytes | None) -> str:
        """Return the SQL that runs a query: the prepared statement, else its text with the sample
        key."""
        compiled = self._compiled.get(plan_hash(query))
        if compiled is None or compiled.run is None:
            return self._write_sql(query, sample_key)
        return compiled.run

    def _write_sql(
        self, query: MeasuredQuery, sample_key: bytes | None, dialect: Dialect | None = None
    ) -> str:
        """Write the SQL of a query, in the engine's own dialect unless another is given.

        Quantiles of few points are counted in an array. Columns that the query names nowhere are
        not carried: to look them up in every SELECT takes longer than to run a short statement.
        """
        texts = frozenset(str(query.tree).split("'"))  # all plain names, and more
        rows = keep_columns(self._analyses.analyse_rows(query.plan), texts)
        with writing_in(dialect or self.engine.dialect):
            if isinstance(query, UnitVectors):
                self._check_vectors()
                return vectors_sql(query, rows, sample_key)
            if isinstance(query, Quantiles) and (layout := spots(query, rows.columns)) is not None:
                return spots_sql(query, rows, layout.room, sample_key)
            return query_sql(query, rows, sample_key)

    def _check_vectors(self) -> None:
        """Refuse sums of vectors where they would need rows to leave a server."""
        if not self.engine.dialect.counts_outside:
            raise RefusedError(
                f"vectors of people are added up in this process, and rows never leave the engine "
                f"{self.engine.dialect.engine}: register the data with engine parquet or duckdb to "
                "learn from it",
                rule=PrivacyRule.NO_RULE,
            )

    def _read_labels(self, table: Any, query: MeasuredQuery) -> tuple[list[OpenKey], int]:
        """The unlisted keys of each row, and how many columns they take."""
        width = len(self._analyses.analyse_query(query).unlisted)
        columns = [table.column(index).to_pylist() for index in range(width)]
        return list(zip(*columns, strict=True)) if width else [()] * table.num_rows, width

    def interrupt(self) -> None:
        """Stop the statement that runs; it then raises. Another thread may call it."""
        self.engine.interrupt()

    def close(self) -> None:
        """Close the copy; harmless when called again."""
        self.engine.close()
        self._kept = None


def is_sampled(query: MeasuredQuery) -> bool:
    """Whether a plan draws a sample of units, which is another one at every measurement."""
    return any(isinstance(node, SampleUnits) for node in nodes_of(query.plan))


def _sort_all(batches: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The numbers of all batches, in order: counters that lie together are added to together."""
    numbers = np.concatenate([*batches, np.empty(0, np.int32)])
    numbers.sort()
    return numbers


def _count_equal(numbers: NDArray[np.int64]) -> Histogram:
    """The different numbers of a sorted array, and how often there is each."""
    is_first = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=is_first[1:])
    starts = np.flatnonzero(is_first)
    return numbers[starts].astype(np.int64), np.diff(starts, append=len(numbers))


def _split(
    codes: NDArray[Any], points: NDArray[np.int64], counts: NDArray[np.int64]
) -> Iterator[tuple[int, Histogram]]:
    """The histogram of each code; codes are sorted."""
    edges = [*np.flatnonzero(np.diff(codes, prepend=-1)).tolist(), len(codes)]
    for start, end in pairwise(edges):  # none at all without rows
        yield int(codes[start]), (points[start:end], counts[start:end])


def _cut(
    indexes: NDArray[np.int64], counts: NDArray[np.int64], points: int
) -> Iterator[tuple[int, Histogram]]:
    """The histogram of each cell that holds rows; each cell has `points` indexes in a row."""
    if not len(indexes):
        return
    cells = int(indexes[-1]) // points + 1
    edges = np.searchsorted(indexes, np.arange(cells + 1) * points).tolist()
    for cell, (start, end) in enumerate(pairwise(edges)):
        if start < end:
            yield cell, (indexes[start:end] - cell * points, counts[start:end])
