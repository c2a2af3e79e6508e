"""Rows of histograms that come in batches: every row is counted once, at its own counter, wherever
batches begin and end, and whether they wait to be sorted or an array counts them."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from dither.data.lower.cells import Spots
from dither.data.measure import Measurer

SIZES = (
    [],
    [0],
    [1],
    [3],
    [12, 1],
    [13],
    [1, 13, 2],
    [13, 13, 0],
    [5, 5, 5, 5, 5],
    [400, 7],
    [7, 400],
)
"""Of 100 counters: 13 rows are counted in the array, 12 wait to be sorted."""


def count_batches(batches, counters):
    streamed = [pa.record_batch([pa.array(batch, pa.int32())], ["spot"]) for batch in batches]
    measurer = Measurer.__new__(Measurer)
    measurer.engine = SimpleNamespace(stream=lambda statement, size: iter(streamed))
    measurer._run = lambda query, sample_key: ""
    room = 1 << (counters - 1).bit_length()
    return measurer._count_spots(None, None, Spots(1, counters, room))


def as_they_come(generator, size):
    return generator.integers(0, 100, size)


def in_falling_order(generator, size):
    return np.sort(as_they_come(generator, size))[::-1]


def all_equal(generator, size):
    return np.full(size, 41)


def outside(generator, size):
    """None ever is; it would count at the last point."""
    return np.full(size, 127)


@pytest.mark.parametrize("kind", [as_they_come, in_falling_order, all_equal, outside])
def test_every_row_of_every_batch_is_counted_once(kind):
    generator = np.random.default_rng(7)
    for sizes in SIZES:
        batches = [kind(generator, size).astype(np.int32) for size in sizes]
        rows = np.minimum(np.concatenate([*batches, np.empty(0, np.int32)]), 99)
        indexes, counts = count_batches(batches, 100)
        assert indexes.dtype == counts.dtype == np.int64
        assert (indexes == np.unique(rows)).all()
        assert (counts == np.bincount(rows, minlength=100)[indexes]).all()
