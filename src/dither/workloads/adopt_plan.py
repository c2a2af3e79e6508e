"""A plan whose integers come from a stored release, so that a repeat stays free.

Strategies are computed in floating point before they are rounded: another version of NumPy or
SciPy may round a few of them to other integers, which is another request. Where a release of the
same price over the same rows measured integers that answer the workload as well, its integers are
the plan.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dither.plan.algebra import Linear
from dither.plan.operators import Dense, Kronecker, LinearOperator, ToeplitzHankel, count_columns
from dither.privacy.kernel.kernel import Release
from dither.privacy.kernel.request import Request
from dither.workloads.choose_plan import WorkloadOffer
from dither.workloads.kronecker import KroneckerPlan
from dither.workloads.line_strategies import LineStrategy
from dither.workloads.listed_counts import RegionPlan
from dither.workloads.measurement import MeasurementPlan

_AS_GOOD = 1 + 1e-3
"""Squared errors that differ by less are the same to a reader."""


def adopt_release(offer: WorkloadOffer, release: Release) -> WorkloadOffer | None:
    """The offer with what a stored release measured; None where it differs in more than integers,
    or errs more."""
    stored = _list_operators(offer.priced.request, release.priced.request)
    if stored is None or len({times for times, _ in stored}) != 1:
        return None
    plan = _adopt_operators(offer.plan, [operator for _, operator in stored])
    if plan is None:
        return None
    adopted = replace(offer, plan=plan, priced=release.priced, scale=stored[0][0])
    return adopted if adopted.error <= offer.error * _AS_GOOD else None


def _list_operators(request: Request, stored: Request) -> list[tuple[int, LinearOperator]] | None:
    """What a stored request measured at the same price over the same cells: the common factor and
    the operator of each step."""
    if (request.price, request.pot) != (stored.price, stored.pot):
        return None
    if len(request.steps) != len(stored.steps):
        return None
    operators = []
    for own, stored_step in zip(request.steps, stored.steps, strict=True):
        if not isinstance(own.query, Linear) or not isinstance(stored_step.query, Linear):
            return None
        if own.query.cells != stored_step.query.cells or own.family != stored_step.family:
            return None
        operators.append(_split_factor(stored_step.query.operator))
    return operators


def _split_factor(operator: LinearOperator) -> tuple[int, LinearOperator]:
    """The integer that an operator was multiplied by, and the operator."""
    if isinstance(operator, Kronecker) and len(operator.factors) == 2:
        first, second = operator.factors
        if isinstance(first, Dense) and len(first.entries) == len(first.entries[0]) == 1:
            return first.entries[0][0], second
    return 1, operator


def _adopt_operators(
    plan: MeasurementPlan, operators: list[LinearOperator]
) -> MeasurementPlan | None:
    if isinstance(plan, KroneckerPlan):
        return _adopt_lines(plan, operators[0])
    if isinstance(plan, RegionPlan):
        return _adopt_regions(plan, operators[0])
    is_same = [step.operator for step in plan.steps] == operators
    return plan if is_same else None


def _adopt_lines(plan: KroneckerPlan, operator: LinearOperator) -> KroneckerPlan | None:
    """The same strategies with other integers."""
    factors = (operator,)
    if len(plan.lines) > 1:
        factors = operator.factors if isinstance(operator, Kronecker) else ()  # type: ignore[assignment]
    if len(factors) != len(plan.lines):
        return None
    lines: list[LineStrategy] = []
    for line, factor in zip(plan.lines, factors, strict=True):
        if type(factor) is not type(line.operator) or count_columns(factor) != line.size:
            return None
        assert line.spectrum is None or isinstance(factor, ToeplitzHankel)
        lines.append(replace(line, operator=factor))
    return replace(plan, lines=tuple(lines))


def _adopt_regions(plan: RegionPlan, operator: LinearOperator) -> RegionPlan | None:
    """The same regions with other integers."""
    if not isinstance(operator, Dense):
        return None
    cells = np.array(operator.entries, float)
    if cells.shape[1] != len(plan.regions):
        return None
    firsts = [int(np.argmax(plan.regions == region)) for region in range(plan.strategy.shape[1])]
    strategy = cells[:, firsts]
    spread = np.where(plan.regions >= 0, strategy[:, plan.regions], 0)
    return replace(plan, strategy=strategy) if np.array_equal(spread, cells) else None
