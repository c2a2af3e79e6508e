"""Vectors of units: how far one unit moves their sum, and what the sum takes in memory.

A unit's vector has an L2 norm of at most B = floor(clip / resolution) steps, which is checked on
the vector itself. So one unit that joins or leaves moves the sum by at most B, whatever its rows
are; a replaced one by at most 2 B. Where the clip bounds every number, B is the largest number.
Proof: docs/proofs/unit-vectors.md#sensitivity.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

from dither.catalog import Neighbours
from dither.errors import RefusedError
from dither.plan.algebra import UnitVectors
from dither.plan.analyse import Analysed
from dither.plan.encodings import check_features, is_short, resolve_features
from dither.plan.norms import Sensitivity
from dither.plan.stability.owned import Owned
from dither.plan.vector_functions import (
    MOST_EXACT,
    check_function,
    check_label,
    has_factors,
    is_cut_by_number,
    largest_step,
    vector_length,
)
from dither.rules import PrivacyRule

MOST_STEPS = 1 << 24
"""The largest B of vectors that are rounded number by number."""
MOST_FINE_STEPS = 1 << 32
"""The largest B of vectors whose factors are rounded."""
MOST_NUMBERS = 1 << 17
"""The longest vector."""
BLOCK_NUMBERS = 1 << 18
"""Vectors are made for so many numbers at a time."""
BATCH_NUMBERS = 1 << 23
"""Features are encoded for so many numbers at a time."""
BATCH_ROWS = 1 << 16
MOST_BYTES = 1 << 30
MOST_KEPT = 1 << 30
"""Encoded rows up to this size may be kept in memory between the steps of a lease."""
_COPIES = 6
"""So many arrays of one block are there at once."""


def check_vector_request(query: UnitVectors) -> None:
    """Refuse what is no request for vectors, before anything of it is walked."""
    check_features(query.features)
    check_function(query.function)
    for number in (query.clip, query.resolution):
        if not is_short(number) or number <= 0:
            raise _refuse("clip and resolution are positive Fractions of at most 64 bits")
    if query.rate is not None and not _is_dyadic(query.rate):
        raise _refuse("a rate is a Fraction below 1 of at most 2**-32 steps, such as 1/64")


def _is_dyadic(rate: Any) -> bool:
    return type(rate) is Fraction and 0 < rate < 1 and (1 << 32) % rate.denominator == 0


def count_steps(query: UnitVectors) -> int:
    """B: the largest norm of a vector, in steps of the resolution."""
    steps = query.clip / query.resolution
    return steps.numerator // steps.denominator


def is_rounded_by_factor(query: UnitVectors) -> bool:
    """Whether the factor of a row is rounded, in place of every number of its vector: where steps
    are fine. Such vectors are products of integers, and are added up by products of matrices."""
    return count_steps(query) > MOST_STEPS


def count_vector_numbers(query: UnitVectors, rows: Analysed) -> int:
    """How many numbers the sum has."""
    return vector_length(query.function, _count_features(query, rows))


def check_vectors(query: UnitVectors, rows: Analysed, neighbours: Neighbours) -> None:
    """Refuse vectors that do not fit the rows, are too long, or take too much memory."""
    check_vector_request(query)
    check_label(query.function, _count_features(query, rows), rows.columns)
    if not isinstance(rows.node, Owned):
        raise RefusedError(
            "a vector of a unit is made of rows that have an owner", rule=PrivacyRule.LOST_OWNER
        )
    is_fine = has_factors(query.function) and rows.node.rows == 1
    largest = MOST_FINE_STEPS if is_fine else MOST_STEPS
    if not 1 <= count_steps(query) <= largest:
        raise RefusedError(
            f"clip / resolution is between 1 and {largest:,}: choose another resolution",
            rule=PrivacyRule.WIDTHS,
        )
    if (
        rows.node.rows * largest_step(query.function) >= MOST_EXACT
        or bound_vector_sums(query, rows) >= MOST_EXACT
    ):
        raise RefusedError(
            f"{rows.node.rows:,} rows of one unit, or {rows.node.most:,} in all, are too many for "
            f"an exact sum: limit the rows of a unit, or choose a coarser resolution",
            rule=PrivacyRule.WIDTHS,
        )
    if query.rate is not None and neighbours == "replace":
        raise RefusedError(
            "samples of units are proved for add_remove neighbours: ask for all units, rate=None",
            rule=PrivacyRule.NO_RULE,
        )
    _check_memory(query, rows)


def _check_memory(query: UnitVectors, rows: Analysed) -> None:
    length = count_vector_numbers(query, rows)
    memory = vector_bytes(query, rows)
    if length > MOST_NUMBERS or memory > MOST_BYTES:
        raise RefusedError(
            f"vectors of {length:,} numbers take {memory:,} bytes: at most {MOST_NUMBERS:,} "
            f"numbers and {MOST_BYTES:,} bytes. Use fewer features",
            rule=PrivacyRule.BOUNDED_WORK,
        )


def count_block_rows(query: UnitVectors, rows: Analysed) -> int:
    """How many rows are made into vectors at a time."""
    return max(16, BLOCK_NUMBERS // _count_longest(query, rows))


def _count_longest(query: UnitVectors, rows: Analysed) -> int:
    """The numbers of a row's vector, or of its features where these are more."""
    return max(count_vector_numbers(query, rows), _count_features(query, rows))


def count_batch_rows(query: UnitVectors, rows: Analysed) -> int:
    """How many rows are fetched from the engine at a time."""
    return max(1024, min(BATCH_ROWS, BATCH_NUMBERS // _count_features(query, rows)))


def vector_bytes(query: UnitVectors, rows: Analysed) -> int:
    """An upper bound on the memory of the sum, beside what the engine holds and a lease keeps."""
    encoded = 2 * _row_bytes(query, rows) * count_batch_rows(query, rows)
    block = count_block_rows(query, rows) + 2
    return 8 * _COPIES * _count_longest(query, rows) * block + encoded


def kept_bytes(query: UnitVectors, rows: Analysed) -> int:
    """The memory of all encoded rows with their units and labels, by the largest number of rows
    that the catalog allows."""
    assert isinstance(rows.node, Owned)
    return rows.node.most * (2 * _count_features(query, rows) + 16)


def _row_bytes(query: UnitVectors, rows: Analysed) -> int:
    """An encoded row, beside its unit, its label and the values that it is made of."""
    return 2 * _count_features(query, rows) + 8 * (2 + len(query.features))


def _count_features(query: UnitVectors, rows: Analysed) -> int:
    return sum(feature.width for feature in resolve_features(query.features, rows.columns))


def vector_sensitivity_in(
    query: UnitVectors, rows: Analysed, neighbours: Neighbours
) -> Sensitivity:
    """Bounds over all neighbours: B in L2, or in every number, and what follows from it; twice that
    under replace."""
    steps = count_steps(query) * (2 if neighbours == "replace" else 1)
    length = count_vector_numbers(query, rows)
    if is_cut_by_number(query.function):
        return Sensitivity(l0=length, l1=length * steps, l2_squared=length * steps**2, linf=steps)
    return Sensitivity(l0=length, l1=isqrt(length * steps**2), l2_squared=steps**2, linf=steps)


def bound_vector_sums(query: UnitVectors, rows: Analysed) -> int:
    """The public bound of every number of the sum: every unit has a row."""
    assert isinstance(rows.node, Owned)
    return rows.node.most * count_steps(query)


def _refuse(why: str) -> RefusedError:
    return RefusedError(why, rule=PrivacyRule.NO_RULE)
