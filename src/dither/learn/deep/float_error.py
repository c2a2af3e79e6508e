"""How far floats can be off in a sum over units, as a bound on what one unit moves.

Guarantee: `bound_sum_error` bounds the L2 distance between a sum over slots as floats compute it
and the exact sum of the same vectors, for every order of adding. Two neighbouring sums differ by
one unit's vector and by two such errors. Proof: docs/proofs/deep-learning.md#sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dither.errors import ParameterError

UNIT_ROUNDOFF = {"float32": Fraction(1, 2**24), "float64": Fraction(1, 2**53)}
LARGEST_NORM = 2.0**60
"""An example with a longer operand is replaced by zeros: nothing below can overflow."""
_NO_BOUND = Fraction(10**9)
_STEP_BITS = 22
"""Bits of the step to which operands of integer sums are rounded, where they are at most 1."""
SLACK = Fraction(1, 2**20)
"""Share of the clip norm that covers underflow and the rounding of one scaled operand."""


def bound_relative_error(terms: int, dtype: str) -> Fraction:
    """Higham's gamma for sums of `terms` products: n u / (1 - n u), whatever the order.

    >>> float(bound_relative_error(256, "float32")) < 1.6e-5
    True
    """
    unit = UNIT_ROUNDOFF.get(dtype)
    if unit is None:
        raise ParameterError(
            f"sums in {dtype} have no proved error: use float32 or float64, or sums='float', "
            f"which the certificate then says"
        )
    small = terms * unit
    return small / (1 - small) if small < Fraction(1, 2) else _NO_BOUND


def find_step_bits(limit: float) -> int:
    """The step of operands is 2**-bits, where products of a unit are at most `limit` long together:
    operands are then below 0.85 * 2**23 steps.

    >>> find_step_bits(1.0), find_step_bits(8.0)
    (22, 20)
    """
    return _STEP_BITS - math.ceil(math.log2(limit) / 2)


def bound_roundings(numbers: list[int], cancellation: int) -> Fraction:
    """How far rounding of operands moves a unit's vector, in clip norms. `numbers` are those of its
    operands for each parameter, positions * (inputs + outputs).

    >>> float(bound_roundings([49 * 1920], 8)) < 0.0015
    True
    """
    together = math.isqrt(sum(count * count for count in numbers)) + 1
    first = Fraction(5 * (math.isqrt(together) + 1), 4 << (_STEP_BITS - 1))
    return cancellation * (first + Fraction(together, 1 << (2 * _STEP_BITS + 1)))


@dataclass(frozen=True)
class SumShape:
    """How a sum over slots is computed: blocks of `block` slots with `positions` products each in
    `dtype`, then blocks added up in `dtype`; wide sums in float64.

    `cancellation` bounds the sum of lengths of a unit's products over the length of their sum, in
    units of the clip norm: 1 where a unit's vector is formed before it is added.
    """

    block: int
    blocks: int
    positions: int
    dtype: str
    cancellation: int
    is_wide: bool = False
    rounded: int = 0
    """Numbers of a unit's operands that a wide sum rounds to integers."""

    @property
    def error(self) -> Fraction:
        """The error of the sum for each slot, in clip norms."""
        if self.is_wide:
            terms = self.block * self.blocks * self.positions + self.blocks + 3
            return bound_relative_error(terms, "float64") * self.cancellation
        terms = self.block * self.positions + self.blocks + 3
        return bound_relative_error(terms, self.dtype) * self.cancellation


def bound_sum_error(shapes: list[SumShape], capacity: int) -> Fraction:
    """The largest L2 error of the sum over `capacity` slots, in clip norms, for all parameters."""
    return capacity * max(shape.error for shape in shapes)


def bound_sensitivity(shapes: list[SumShape], capacity: int) -> Fraction:
    """How far one unit moves the float sum, in clip norms: its own vector and two errors."""
    if not shapes:
        return 1 + SLACK
    own = SLACK * (1 + max(shape.cancellation for shape in shapes))
    rounded = [shape for shape in shapes if shape.is_wide and shape.rounded]
    if rounded:
        cancellation = max(shape.cancellation for shape in rounded)
        own += bound_roundings([shape.rounded for shape in rounded], cancellation)
    return 1 + own + 2 * bound_sum_error(shapes, capacity)
