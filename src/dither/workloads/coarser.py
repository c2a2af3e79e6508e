"""Strategies in smaller integers: noise has a largest scale, which products of columns reach.

A spectral strategy has columns of norm 2^31, so that a product of two needs noise of 2^62 units of
its grid. With fewer bits its integers are a little further from the real strategy; all errors are
those of the smaller integers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dither.plan.operators import Dense, LinearOperator, Stack, ToeplitzHankel
from dither.workloads.kronecker import KroneckerPlan
from dither.workloads.measurement import MeasurementPlan
from dither.workloads.spectral import round_operator

STEPS = range(0, 20, 2)
"""Bits that every strategy of a plan is made smaller by, one after the other."""
_BITS = 31
_MOST_WEIGHT_BITS = 13
"""Fewer bits are best shared evenly between coefficients and weights of columns."""


def coarsen_plan(plan: MeasurementPlan, bits: int) -> MeasurementPlan | None:
    """The same plan in integers of so many bits fewer; None where it has no such integers."""
    if bits == 0:
        return plan
    if not isinstance(plan, KroneckerPlan):
        return None
    lines = tuple(
        replace(line, operator=_coarsen(line.operator, bits), spectrum=None)
        if line.spectrum is None
        else line
        for line in plan.lines
    )
    return None if lines == plan.lines else replace(plan, lines=lines)


def _coarsen(operator: LinearOperator, bits: int) -> LinearOperator:
    match operator:
        case ToeplitzHankel():
            kept_bits = _BITS - bits
            weight_bits = min(_MOST_WEIGHT_BITS, (kept_bits + 1) // 2)
            return round_operator(
                np.array(operator.toeplitz, float),
                np.array(operator.hankel, float),
                1 << (kept_bits - weight_bits),
                1 << weight_bits,
            )
        case Dense(entries):
            smaller = np.rint(np.array(entries, float) / (1 << min(bits, 8))).astype(np.int64)
            return Dense(tuple(map(tuple, smaller.tolist())))
        case Stack(operators):
            return Stack(tuple(_coarsen_part(member, bits) for member in operators))
    return operator


def _coarsen_part(operator: LinearOperator, bits: int) -> LinearOperator:
    """A member of a p-identity: its diagonal and its weighted sums get smaller alike."""
    match operator:
        case ToeplitzHankel(toeplitz, hankel, weights) if toeplitz[0] == 1 and not any(hankel):
            smaller = [max(1, round(weight / (1 << min(bits, 8)))) for weight in weights]
            return ToeplitzHankel(toeplitz, hankel, tuple(smaller))
        case Dense():
            return _coarsen(operator, bits)
    return operator
