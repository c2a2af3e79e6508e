"""Draws from a law that is too wide for a table.

A table of cells, a uniform offset in the cell, and an exact acceptance.

A magnitude a = m * 2**shift + f is proposed: m from the table of the law seen from 2**shift times
as far, the place uniform, f = place for a non-negative value and place + 1 for a negative one
(value -a), so that every integer has exactly one proposal. It is accepted with probability exp(-y),
y the growth of the law's exponent from the start of the cell to a. Float arithmetic (only + and *,
no library function) bounds exp(-y) within 2**-23; a uniform that falls inside the bound is decided
exactly. docs/proofs/exact-sampling.md, theorem 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.privacy.noise.enclosure import exp_minus
from dither.privacy.noise.source import Words
from dither.privacy.noise.table import RESIDUAL, DrawTable

# wide enough for a short polynomial, narrow enough that few uniforms fall inside
_MARGIN = 2.0**-23
_LARGEST_EXPONENT = Fraction(1, 8)
_BLOCK = 1 << 14  # elements at a time, so that intermediate arrays stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Plan:
    """How a law is drawn.

    Its table, the width of a cell (2**shift), and whether values carry a sign.
    """

    table: DrawTable
    shift: int
    signed: bool
    python_integers: bool
    shared: bool

    @cached_property
    def spare(self) -> int:
        """How many bits the first word of the acceptance uniform has.

        They are the rest of the offset's word, or a word of their own.
        """
        return self.table.width - self.shift - 1 if self.shared else min(self.table.width, 53)

    @cached_property
    def place_unit(self) -> float:
        """One place as a part of its cell; a power of two, so exact."""
        return 2.0**-self.shift

    @cached_property
    def rate(self) -> float:
        return float(self.table.law.rate)

    @cached_property
    def surely(self) -> int:
        """Uniforms below this are accepted wherever they lie.

        For (u + 1) / 2**spare <= 1 - largest y <= e**-y.
        """
        bound = (1 - self.exponent(self.table.largest, 1 << self.shift)) * (1 << self.spare)
        return bound.numerator // bound.denominator

    @cached_property
    def coefficients(self) -> list[float]:
        """Compute the coefficients of the Taylor polynomial of exp(-y), highest first.

        Its remainder is at most 2**-24 for all y of the table.
        """
        largest = self.exponent(self.table.largest, 1 << self.shift)
        if largest > _LARGEST_EXPONENT:
            raise AssertionError("cells are too wide for the polynomial")
        degree = 1
        while largest ** (degree + 1) / factorial(degree + 1) > Fraction(1, 2**24):
            degree += 1
        return [(-1) ** k / factorial(k) for k in range(degree, -1, -1)]

    def exponent(self, cell: int, offset: int) -> Fraction:
        """Compute the exact y of a proposal.

        It is how much the law's exponent grows from the start of the cell to the offset.
        """
        share = Fraction(offset, 1 << self.shift)
        if self.table.law.family == "laplace":
            return share * self.table.law.rate
        return share * (2 * cell + share) * self.table.law.rate


def draw(plan: Plan, count: int, source: Words) -> NDArray[Any]:
    """Draw `count` independent noises.

    They are int64, or Python integers where the plan or an element needs them.
    """
    out: NDArray[Any] = np.empty(count, object if plan.python_integers else np.int64)
    done = 0
    while done < count:
        missing = count - done
        if plan.shift:
            values, accepted = propose(plan, source, min(_BLOCK, missing + missing // 32))
            values = values[accepted][:missing]
        else:
            values = _from_table(plan.table, min(_BLOCK, missing), source)
        if values.dtype == object and out.dtype != object:
            out = out.astype(object)
        out[done : done + len(values)] = values
        done += len(values)
    return out


def _from_table(table: DrawTable, count: int, source: Words) -> NDArray[Any]:
    values = table.look_up(source.words(count, table.width))
    rare = np.flatnonzero(values == RESIDUAL)
    return _put(values, {int(i): table.residual(source) for i in rare}) if len(rare) else values


def _put(values: NDArray[Any], exact: dict[int, int]) -> NDArray[Any]:
    """Write values that were decided exactly into an array.

    An element that leaves int64 turns the array into Python integers.
    """
    if any(not -(1 << 63) <= value < 1 << 63 for value in exact.values()):
        values = values.astype(object)
    for index, value in exact.items():
        values[index] = value
    return values


def propose(plan: Plan, source: Words, count: int) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Draw `count` proposals, and decide whether each is accepted; return both arrays."""
    width = plan.table.width
    shift = plan.shift
    spare = plan.spare
    words = source.words((2 if plan.shared else 3) * count, width)
    cells = plan.table.look_up(words[:count])
    inside = words[count : 2 * count]
    offsets = (inside >> np.uint64(width - shift)).view(np.int64)
    last = inside if plan.shared else words[2 * count :] >> np.uint64(width - spare)
    uniforms = (last & np.uint64((1 << spare) - 1)).view(np.int64)
    signs = ((inside >> np.uint64(width - shift - 1)) & np.uint64(1 if plan.signed else 0)).view(
        np.int64
    )
    accepted = uniforms < plan.surely
    rest = np.flatnonzero(~accepted)
    accepted[rest], decided = _accept(
        plan, cells[rest], offsets[rest] + signs[rest], uniforms[rest]
    )
    open_ones = rest[~decided]
    if cells.min() < 0:
        open_ones = np.union1d(open_ones, np.flatnonzero(cells == RESIDUAL))
    if plan.python_integers:
        values = ((cells.astype(object) << shift) + offsets.astype(object)) * (
            1 - 2 * signs
        ) - signs
    else:
        values = cells << shift
        values += offsets
        values ^= -signs  # -1 - value where the sign is set
    if not len(open_ones):
        return values, accepted
    exact = {}
    for i in open_ones:
        cell = int(cells[i]) if cells[i] != RESIDUAL else plan.table.residual(source)
        offset = int(offsets[i])
        sign = int(signs[i])
        value = (cell << shift) + offset
        exact[int(i)] = -1 - value if sign else value
        accepted[i] = below_exp(
            plan.exponent(cell, offset + sign), int(uniforms[i]), spare, source, width
        )
    return _put(values, exact), accepted


def _accept(
    plan: Plan, cells: NDArray[np.int64], offsets: NDArray[np.int64], uniforms: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Decide proposals by a polynomial that is within 2**-23 of exp(-y).

    Returns (accepted, decided); those not decided need exact arithmetic.
    """
    y = offsets * plan.place_unit
    if plan.table.law.family == "gaussian":
        y *= 2.0 * cells + y
    y *= plan.rate
    p = y * plan.coefficients[0]
    p += plan.coefficients[1]
    for coefficient in plan.coefficients[2:]:
        p *= y
        p += coefficient
    p -= uniforms * 2.0**-plan.spare
    accepted = p >= _MARGIN + 2.0**-plan.spare
    decided = p <= -_MARGIN
    decided |= accepted
    return accepted, decided


def below_exp(x: Fraction, drawn: int, bits: int, source: Words, width: int = 64) -> bool:
    """Whether a uniform whose first `bits` bits are `drawn` lies below e**-x, with as many more
    words as it takes."""
    while True:
        bound = exp_minus(x, bits)
        if drawn + 1 <= bound.low:
            return True
        if drawn >= bound.high:
            return False
        drawn = drawn << width | int(source.words(1, width)[0])
        bits += width
