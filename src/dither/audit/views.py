"""Views of outputs: numbers computed from an output, on which events are defined.

Any function of an output gives a valid event, so views need no care about privacy, only about
power: columns, the output as a whole (hashed), differences of columns, and the lowest set bit of a
float, which shows where it was rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dither.audit.outputs import Batch, Numbers
from dither.audit.screens import compare_values

_BIT_COLUMNS = 8
_PAIRED_COLUMNS = 6
_COMPARED = 10_000


@dataclass(frozen=True)
class View:
    """A number for every output of a batch, by name: a column, the whole output, its lowest bit, or
    a learned score."""

    name: str
    of: Callable[[Batch], Numbers] = field(compare=False, repr=False)
    ordered: bool = True


def list_views(sample: Batch, other_sample: Batch) -> list[View]:
    """List the views that make sense for outputs like these, of the two inputs."""
    single = len(sample.names) == 1 and sample.rows.dtype.kind == "i"
    chosen_views = [View("value" if single else "whole output", lambda b: b.whole, ordered=single)]
    for i, name in enumerate(sample.names):
        if not single:
            chosen_views.append(View(name, _take_column(i)))
    chosen_views += [
        View(f"exponent of the lowest set bit of {sample.names[i]}", _take_low_bit(i))
        for i in _choose_bit_columns(sample, other_sample)
    ]
    if not single and 1 < sample.rows.shape[1] <= _PAIRED_COLUMNS and sample.rows.dtype.kind == "i":
        pairs = [(i, j) for i in range(sample.rows.shape[1]) for j in range(i)]
        chosen_views += [
            View(f"{sample.names[i]} - {sample.names[j]}", _subtract_columns(i, j))
            for i, j in pairs
        ]
    return chosen_views


def _choose_bit_columns(sample: Batch, other_sample: Batch) -> list[int]:
    """Choose the columns of fractions whose lowest bits differ most between the two inputs."""
    if sample.rows.dtype.kind != "f":
        return []
    columns = [i for i in range(len(sample.names)) if _has_fractions(sample.rows[:, i])]
    if len(columns) <= _BIT_COLUMNS:
        return columns

    def compare_bits(i: int) -> float:
        bits = [lowest_bit(batch.rows[:_COMPARED, i]) for batch in (sample, other_sample)]
        return -compare_values(bits[0].astype(np.float64), bits[1].astype(np.float64))

    return sorted(columns, key=compare_bits)[:_BIT_COLUMNS]


def _subtract_columns(i: int, j: int) -> Callable[[Batch], Numbers]:
    return lambda batch: batch.rows[:, i] - batch.rows[:, j]


def _take_column(index: int) -> Callable[[Batch], Numbers]:
    return lambda batch: batch.rows[:, index]


def _take_low_bit(index: int) -> Callable[[Batch], Numbers]:
    return lambda batch: lowest_bit(batch.rows[:, index])


def lowest_bit(values: Numbers) -> NDArray[np.int64]:
    """Compute e for a float that is an odd multiple of 2^e.

    It says how finely its last rounding can have been.

    >>> lowest_bit(np.array([1.0, 0.75, 3.0, 0.1])).tolist()
    [0, -2, 0, -55]
    """
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0).astype(np.float64))
    whole = (mantissa * 2.0**53).astype(np.int64)
    low = whole & -whole
    bits = np.where(
        whole == 0,
        2000,
        np.log2(np.maximum(low, 1).astype(np.float64)).astype(np.int64) + exponent - 53,
    )
    return bits.astype(np.int64)


def _has_fractions(values: Numbers) -> bool:
    kept = values[np.isfinite(values)][:1000]
    return bool(len(kept)) and bool((kept != np.round(kept)).any())
