"""Bins of a column that ends at the largest integer of 64 bits: exact, and none overlaps."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dither.synth.columns import SynthColumn

LAST = 2**63 - 1


@pytest.mark.parametrize("edges", [(2**62,), (2**62, LAST), ()])
def test_bins_up_to_the_last_integer_are_exact(edges: tuple[int, ...]) -> None:
    """The ends went through floats once: "0 to 4611686018427387904" beside one that began there."""
    width = LAST + 1 if edges else -(-(LAST + 1) // 3)
    size = len(edges) + 1 if edges else 3
    column = SynthColumn("n", "number", size, False, 0, width, 0, LAST, Fraction(1), edges=edges)
    starts, ends = (array.tolist() for array in column.list_ends())
    assert starts[0] == 0 and ends[-1] == LAST and len(starts) == len(ends) == size
    assert [end + 1 for end in ends[:-1]] == starts[1:]
    assert column.write_code(0) == f"0 to {starts[1] - 1}"
    assert [column.find_code(start) for start in starts] == list(range(size))
