"""Calibration: from price, weights and sensitivities to mechanisms. Pure functions of request, catalog and pot.

Laplace: with L1 sensitivities D_i and weights w_i, scale_i = D_i * sum(w) / (w_i * epsilon), rounded up, so that the
composed loss sum(D_i / scale_i) is at most epsilon, exactly. Gaussian: step i gets rho * w_i / sum(w) and sigma_i =
sqrt(D2_i / (2 rho_i)), rounded up, so that sum(D2_i / (2 sigma_i^2)) is at most rho, exactly. A price in epsilon buys
Gaussian noise only at the delta that the pot states per question; the rho it buys is checked with the pot's own
conversion, the one that will charge it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dither.catalog import Catalog
from dither.errors import RefusedError
from dither.plan.algebra import SampleUnits, nodes_of
from dither.plan.measure import largest_value, sensitivity
from dither.privacy.accounting.conversions import rho_for
from dither.privacy.accounting.logarithms import epsilon_up
from dither.privacy.losses import Loss, compose
from dither.privacy.mechanisms import IntegerGaussian, IntegerLaplace
from dither.privacy.request import Price, Request, Step

_INT64 = 2**63 - 1
_DECIMAL = 10**38 - 1


@dataclass(frozen=True)
class Calibrated:
    """A step with the mechanism that the kernel will run, and the public width at which the noisy sum saturates."""

    step: Step
    mechanism: IntegerLaplace | IntegerGaussian
    width: int


def calibrate(request: Request, catalog: Catalog, delta: Fraction = Fraction(0)) -> tuple[Calibrated, ...]:
    """One mechanism per step, so that all of them together cost at most the price; `delta` is the pot's share."""
    total = sum((step.weight for step in request.steps), Fraction(0))
    families = {step.family for step in request.steps}
    if len(families) != 1 or not families <= {"laplace", "gaussian"}:
        raise RefusedError(f"no rule for the families {sorted(families)}", rule="a node without a rule is refused")
    budget = _budget(request.price, families.pop(), delta)
    return tuple(_solve(step, budget * step.weight / total, catalog) for step in request.steps)


def _budget(price: Price, family: str, delta: Fraction) -> Fraction:
    """What the steps share: epsilon for Laplace noise, rho for Gaussian noise."""
    if family == "laplace":
        if price.epsilon is None:
            raise RefusedError("Laplace noise is priced in epsilon: ask with epsilon=", rule="one price, one measure")
        return price.epsilon
    if price.rho is not None:
        return price.rho
    if not delta:
        raise RefusedError(
            "Gaussian noise has no epsilon at delta 0, and this pot states none per question: ask with Laplace noise, "
            "or rho= in a zCDP pot",
            rule="privacy-rules 14",
        )
    assert price.epsilon is not None
    return rho_within(price.epsilon, delta)


@lru_cache(maxsize=256)
def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A rho, the largest to six digits, whose exact conversion at delta is at most epsilon.

    >>> float(rho_within(Fraction(1), Fraction(1, 10**6)))
    0.02435...
    """
    rho = Fraction(rho_for(epsilon, delta))
    while epsilon_up(rho, delta) > epsilon:
        rho = rho * (1 - Fraction(1, 2**20))
    return rho


def _solve(step: Step, share: Fraction, catalog: Catalog) -> Calibrated:
    moved = sensitivity(step.query, catalog)
    if any(isinstance(node, SampleUnits) for node in nodes_of(step.query.plan)):
        raise RefusedError("a sample of units has no kernel-drawn key yet", rule="samples are drawn by the kernel")
    largest = max(largest_value(aggregate, step.query, catalog) for aggregate in step.query.columns)
    neighbours, unit = catalog.neighbours, catalog.unit.label
    mechanism: IntegerLaplace | IntegerGaussian
    if step.family == "gaussian":
        mechanism = IntegerGaussian.for_rho(share, moved, neighbours=neighbours, unit=unit)
        reach = 40 * mechanism.sigma
    else:
        mechanism = IntegerLaplace.for_epsilon(share, moved, neighbours=neighbours, unit=unit)
        reach = 100 * mechanism.scale
    return Calibrated(step, mechanism, _INT64 if largest + reach < _INT64 else _DECIMAL)


def loss_of(calibrated: tuple[Calibrated, ...]) -> Loss:
    """The loss of all steps together, as data."""
    losses = [each.mechanism.loss() for each in calibrated]
    return losses[0] if len(losses) == 1 else compose(*losses)
