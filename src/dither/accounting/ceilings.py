"""The largest loss of a workload in one direction: its epsilon at delta = 0 (mass at infinity
apart).

Sums of pure epsilons are exact. A Poisson sample under add/remove has a largest loss of its own in
either direction, from the largest loss E of what runs on the sample:

    remove: log(1 - q + q e^E),    add: -log(1 - q + q e^-E),

the second at most -log(1 - q), whatever runs on the sample (docs/proofs/composition.md, section 7).
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import mpmath

from dither.accounting.events import Events
from dither.accounting.guarantees import gaussian_mu_squared, pure_epsilon
from dither.accounting.multiprecision import read_fraction, write_fraction
from dither.accounting.training_laws import DIRECTED
from dither.accounting.training_losses import (
    BestOfNegativeBinomial,
    GaussianMixture,
    TruncatedPoissonSampled,
)
from dither.privacy import losses as ls

_SLACK = Fraction(1, 10**40)
_ROUNDED_UP = Fraction(1, 10**29)  # more than the rounding of an amplified epsilon


class Ceiling(NamedTuple):
    """The largest loss lies between these; some mechanism with the loss attains the lower one."""

    lower: Fraction
    upper: Fraction


def largest_loss(events: Events, direction: str) -> Ceiling | None:
    """Bound the largest loss of all events together; None where no bound is known."""
    ceilings: list[tuple[Ceiling, int]] = []
    for event, count in events.items():
        ceiling = _event_ceiling(event, direction)
        if ceiling is None:  # before adding up hundreds of fractions in vain
            return None
        ceilings.append((ceiling, count))
    return Ceiling(
        sum((count * ceiling.lower for ceiling, count in ceilings), Fraction(0)),
        sum((count * ceiling.upper for ceiling, count in ceilings), Fraction(0)),
    )


def _event_ceiling(event: ls.Loss, direction: str) -> Ceiling | None:
    """Bound the largest loss of one event in a direction; None where it has no bound."""
    if isinstance(event, ls.PoissonSampled) and event.neighbours == "add_remove":
        return _sampled_ceiling(event, direction)
    if isinstance(event, DIRECTED):
        return _find_training_ceiling(event, direction)
    epsilon = pure_epsilon(event)
    if epsilon is None:
        return None
    if isinstance(event, BestOfNegativeBinomial):
        return Ceiling(Fraction(0), epsilon)
    if isinstance(event, ls.PoissonSampled):
        return Ceiling(Fraction(0), epsilon)
    if isinstance(event, ls.SampledWithoutReplacement):
        return Ceiling(max(Fraction(0), epsilon - _ROUNDED_UP), epsilon)
    return Ceiling(epsilon, epsilon)


def _sampled_ceiling(event: ls.PoissonSampled, direction: str) -> Ceiling | None:
    """Bound the largest loss of a Poisson sample; None where it has no bound."""
    inner = pure_epsilon(event.loss)
    if inner is None and (direction == "remove" or event.q == 1):
        return None
    value = _find_sampled_loss(event.q, inner, direction)
    if inner is None and gaussian_mu_squared(event.loss) is None:
        return Ceiling(Fraction(0), value * (1 + _SLACK))
    return Ceiling(value * (1 - _SLACK), value * (1 + _SLACK))


def _find_training_ceiling(event: ls.Loss, direction: str) -> Ceiling | None:
    """Bound the largest loss of a training event; None where it has no bound.

    It is bounded where a unit is added that may well not have been drawn.
    """
    if direction == "remove":
        return None
    if isinstance(event, TruncatedPoissonSampled) and event.q < 1:
        value = _find_sampled_loss(event.q, None, direction)
        return Ceiling(Fraction(0), value * (1 + _SLACK))
    if isinstance(event, GaussianMixture) and event.pairs[0][0] == 0:
        value = _find_sampled_loss(1 - event.pairs[0][1], None, direction)
        return Ceiling(value * (1 - _SLACK), value * (1 + _SLACK))
    return None


@lru_cache(maxsize=4096)
def _find_sampled_loss(q: Fraction, inner: Fraction | None, direction: str) -> Fraction:
    """Compute the formulas above to about sixty digits.

    `inner` None stands for an unbounded loss.
    """
    if inner == 0:
        return Fraction(0)
    with mpmath.workdps(80):
        rate = read_fraction(q)
        sign = 1 if direction == "remove" else -1
        grown = mpmath.mpf(-1) if inner is None else mpmath.expm1(sign * read_fraction(inner))
        return write_fraction(sign * mpmath.log1p(rate * grown))
