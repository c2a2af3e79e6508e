"""The sum of all units' vectors, in one pass over the rows in blocks.

Rows of one unit follow each other, so that a unit's rows are added up before its vector is clipped.
Memory depends on the length of a vector alone, never on the rows; a lease may keep the encoded rows
for its next steps, where the catalog says that they are few enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.data.vectors.clip import clip_factors, clip_vectors, cut_numbers
from dither.data.vectors.encode import encode_features
from dither.data.vectors.factors import make_row_factors, make_vectors, resolve_label
from dither.data.vectors.sample import draw_units
from dither.plan.algebra import UnitVectors
from dither.plan.analyse import Analysed
from dither.plan.encodings import resolve_features
from dither.plan.stability.owned import Owned
from dither.plan.vector_functions import is_cut_by_number, vector_scale
from dither.plan.vectors import (
    count_block_rows,
    count_steps,
    count_vector_numbers,
    is_rounded_by_factor,
)

Array = NDArray[Any]
_NOBODY = -1


class EncodedRows(NamedTuple):
    """Rows as they come: the numbers of their units where these are needed, their features, one
    column a row, and the values of their labels."""

    units: Array | None
    features: NDArray[np.int16]
    labels: Array | None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.features.shape[1])

    def choose(self, chosen: Any) -> EncodedRows:
        """Some of the rows: a slice, or the rows with these numbers."""
        return EncodedRows(
            None if self.units is None else self.units[chosen],
            self.features[:, chosen],
            None if self.labels is None else self.labels[chosen],
        )


def encode_rows(
    query: UnitVectors, rows: Analysed, batches: Iterable[tuple[Array | None, dict[str, Array]]]
) -> Iterator[EncodedRows]:
    """Encode batches of rows: each the numbers of their units, and their values by column.

    Nothing of what comes out refers to a batch, which may be large.
    """
    features = resolve_features(query.features, rows.columns)
    label = getattr(query.function, "label", None)
    for units, columns in batches:
        count = len(next(iter(columns.values())) if units is None else units)
        encoded = encode_features(features, columns, count)
        labels = None if label is None else columns[label].copy()
        yield EncodedRows(None if units is None else units.copy(), encoded, labels)


def add_unit_vectors(
    query: UnitVectors,
    rows: Analysed,
    blocks: Iterable[EncodedRows],
    release_key: bytes | None = None,
) -> Array:
    """The sum over all units, or over those of a sample: one integer for each number.

    Rows of one unit are neighbours in the whole sequence of blocks.
    """
    adder = _Adder(query, rows)
    for block in blocks:
        if query.rate is not None:
            assert release_key is not None and block.units is not None
            is_in_sample = draw_units(block.units, query.rate, release_key, query.hash)
            block = block.choose(np.flatnonzero(is_in_sample))
        for start in range(0, block.rows, adder.block_rows):
            adder.add(block.choose(slice(start, start + adder.block_rows)))
    adder.finish()
    return adder.total.reshape(-1, 1)


class _Adder:
    """Adds blocks of rows; keeps the sum so far, and the rows of the unit that came last."""

    def __init__(self, query: UnitVectors, rows: Analysed) -> None:
        assert isinstance(rows.node, Owned)
        self._function = query.function
        self._columns = rows.columns
        self._label = resolve_label(query.function, rows.columns)
        self._steps = count_steps(query)
        self._per_step = float(1 / (vector_scale(query.function) * query.resolution))
        self._has_many_rows = rows.node.rows > 1
        self._is_fine = is_rounded_by_factor(query)
        length = count_vector_numbers(query, rows)
        self.block_rows = count_block_rows(query, rows)
        self.total = np.zeros(length, np.int64)
        self._last_unit = _NOBODY
        self._last_vector = np.zeros((length, 1))

    def add(self, block: EncodedRows) -> None:
        """Add the rows of a block."""
        if self._is_fine:
            self._add_fine(block)
            return
        vectors = make_vectors(
            self._function, self._label, self._columns, block.features.astype(float), block.labels
        )
        if self._has_many_rows:
            assert block.units is not None
            vectors = self._fold_rows(vectors, block.units)
        self._add_vectors(vectors)

    def _add_fine(self, block: EncodedRows) -> None:
        """Add rows that are units each, whose factors are rounded.

        Sizes of all products of a block add up to less than 2**53, so that a product of matrices is
        exact in whatever order it is computed.
        """
        features = block.features.astype(float)
        factors = make_row_factors(
            self._function, self._label, self._columns, features, block.labels
        )
        squares = np.einsum("ij,ij->j", features, features)  # integers below 2**53: exact
        whole = clip_factors(factors, squares, self._per_step, self._steps)
        self.total += (whole @ features.T).reshape(-1).astype(np.int64)

    def finish(self) -> None:
        """Add the unit whose rows came last."""
        if not self._is_fine:
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
        if is_cut_by_number(self._function):
            clipped = cut_numbers(vectors, self._per_step, self._steps)
        else:
            clipped = clip_vectors(vectors, self._per_step, self._steps)
        self.total += clipped.sum(axis=1).astype(np.int64)
