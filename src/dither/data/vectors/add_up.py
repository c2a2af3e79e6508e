"""The sum of all units' vectors, in one pass over the rows in blocks.

Rows of one unit follow each other, so that a unit's rows are added up before its vector is clipped.
Memory depends on the length of a vector alone, never on the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.data.vectors.clip import clip_vectors
from dither.data.vectors.encode import encode_features
from dither.data.vectors.factors import make_vectors, resolve_label
from dither.data.vectors.sample import draw_units
from dither.plan.algebra import UnitVectors
from dither.plan.analyse import Analysed
from dither.plan.encodings import resolve_features
from dither.plan.stability.owned import Owned
from dither.plan.vector_functions import vector_scale
from dither.plan.vectors import count_block_rows, count_steps, count_vector_numbers

Array = NDArray[Any]
UNITS = ""
"""The name of the numbers of units among the columns of a block: no column is called so."""
_NOBODY = -1


@dataclass(frozen=True)
class VectorColumns:
    """What is read of each row: the unit's number, where it is needed, and these columns."""

    has_units: bool
    are_grouped: bool
    names: tuple[str, ...]


def list_vector_columns(query: UnitVectors, rows: Analysed) -> VectorColumns:
    """What a query for vectors reads of its rows."""
    assert isinstance(rows.node, Owned)
    names = {feature.column for feature in resolve_features(query.features, rows.columns)}
    names.add(getattr(query.function, "label", None))
    are_grouped = rows.node.rows > 1
    columns = tuple(sorted(name for name in names if name is not None))
    has_units = are_grouped or query.rate is not None or not columns
    return VectorColumns(has_units, are_grouped, columns)


def add_unit_vectors(
    query: UnitVectors,
    rows: Analysed,
    batches: Iterator[dict[str, Array]],
    release_key: bytes | None,
) -> Array:
    """The sum over all units, or over those of a sample: one integer for each number.

    A batch maps columns to their values; rows of one unit are neighbours in the whole sequence.
    """
    adder = _Adder(query, rows)
    for batch in batches:
        if query.rate is not None:
            assert release_key is not None
            chosen = draw_units(batch[UNITS], query.rate, release_key, query.hash)
            batch = {name: values[chosen] for name, values in batch.items()}
        size = len(next(iter(batch.values())))
        for start in range(0, size, adder.block_rows):
            stop = start + adder.block_rows
            adder.add({name: values[start:stop] for name, values in batch.items()})
    adder.finish()
    return adder.total.reshape(-1, 1)


class _Adder:
    """Adds blocks of rows; keeps the sum so far, and the rows of the unit that came last."""

    def __init__(self, query: UnitVectors, rows: Analysed) -> None:
        self._function = query.function
        self._columns = rows.columns
        self._features = resolve_features(query.features, rows.columns)
        self._label = resolve_label(query.function, rows.columns)
        self._steps = count_steps(query)
        self._per_step = float(1 / (vector_scale(query.function) * query.resolution))
        self._are_grouped = list_vector_columns(query, rows).are_grouped
        length = count_vector_numbers(query, rows)
        self.block_rows = count_block_rows(length)
        self.total = np.zeros(length, np.int64)
        self._last_unit = _NOBODY
        self._last_vector = np.zeros((length, 1))

    def add(self, block: dict[str, Array]) -> None:
        """Add the rows of a block."""
        size = len(next(iter(block.values())))
        features = encode_features(self._features, block, size)
        values = block[self._label.column] if self._label and self._label.column else None
        vectors = make_vectors(self._function, self._label, self._columns, features, values)
        if self._are_grouped:
            vectors = self._fold_rows(vectors, block[UNITS])
        self._add_vectors(vectors)

    def finish(self) -> None:
        """Add the unit whose rows came last."""
        self._add_vectors(self._last_vector)

    def _fold_rows(self, vectors: Array, units: Array) -> Array:
        """Add up the rows of each unit; those of the last one wait for the next block."""
        vectors = np.concatenate([self._last_vector, vectors], axis=1)
        units = np.concatenate([[self._last_unit], units])
        starts = np.flatnonzero(np.diff(units, prepend=units[0] - 1))
        sums: Array = np.add.reduceat(vectors, starts, axis=1)
        self._last_unit = int(units[-1])
        self._last_vector = sums[:, -1:].copy()
        return sums[:, :-1]

    def _add_vectors(self, vectors: Array) -> None:
        """Clip vectors of units and add them to the sum: floats that are exact integers."""
        clipped = clip_vectors(vectors, self._per_step, self._steps)
        self.total += clipped.sum(axis=1).astype(np.int64)
