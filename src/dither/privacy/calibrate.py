"""Calibration: from price, weights and sensitivities to mechanisms. Pure functions of request and catalog.

With L1 sensitivities D_i and weights w_i, scale_i = D_i * sum(w) / (w_i * epsilon), rounded up, so that the composed
loss sum(D_i / scale_i) is at most epsilon, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dither.catalog import Catalog
from dither.errors import RefusedError
from dither.plan.measure import largest_value, sensitivity
from dither.privacy.losses import Loss, compose
from dither.privacy.mechanisms import IntegerLaplace
from dither.privacy.request import Request, Step

_INT64 = 2**63 - 1
_DECIMAL = 10**38 - 1


@dataclass(frozen=True)
class Calibrated:
    """A step with the mechanism that the kernel will run, and the public width at which the noisy sum saturates."""

    step: Step
    mechanism: IntegerLaplace
    width: int


def calibrate(request: Request, catalog: Catalog) -> tuple[Calibrated, ...]:
    """One mechanism per step, so that all of them together cost at most the price."""
    total = sum((step.weight for step in request.steps), Fraction(0))
    return tuple(_solve(step, request.price.epsilon * step.weight / total, catalog) for step in request.steps)


def _solve(step: Step, share: Fraction, catalog: Catalog) -> Calibrated:
    if step.family != "laplace":
        raise RefusedError(f"no mechanism family {step.family!r}", rule="a node without a rule is refused")
    moved = sensitivity(step.query, catalog)
    mechanism = IntegerLaplace.for_epsilon(share, moved, neighbours=catalog.neighbours, unit=catalog.unit.label)
    largest = max(largest_value(aggregate, step.query, catalog) for aggregate in step.query.columns)
    fits = largest + 100 * mechanism.scale < _INT64
    return Calibrated(step, mechanism, _INT64 if fits else _DECIMAL)


def loss_of(calibrated: tuple[Calibrated, ...]) -> Loss:
    """The loss of all steps together, as data."""
    losses = [each.mechanism.loss() for each in calibrated]
    return losses[0] if len(losses) == 1 else compose(*losses)
