"""What a single loss is known to keep: its epsilon if pure, its mass at infinity, its Gaussian
strength."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from dither.accounting.training_losses import (
    BestOfNegativeBinomial,
    BestOfPoisson,
    KaryResponse,
)
from dither.privacy import losses as ls
from dither.privacy.charges.sampled import amplified

_NONE = Fraction(0)
_STATED = (
    ls.Pure,
    ls.Approx,
    ls.RandomizedResponse,
    ls.BoundedRange,
    ls.Shuffled,
    KaryResponse,
)


def gaussian_mu_squared(loss: ls.Loss) -> Fraction | None:
    """Compute (sensitivity/sigma)^2 of a continuous Gaussian or of several together.

    None for anything else. Of a rounded one it is an upper end (`has_rounding`).
    """
    if isinstance(loss, ls.RoundedGaussian):
        return loss.l2_squared / loss.sigma**2
    if isinstance(loss, ls.Gaussian):
        return (loss.sensitivity / loss.sigma) ** 2
    if isinstance(loss, ls.GaussianSum):
        return (loss.clip_norm * (1 if loss.neighbours == "add_remove" else 2) / loss.sigma) ** 2
    if isinstance(loss, ls.Composed):
        terms = [gaussian_mu_squared(component) for component in loss.losses]
        return (
            sum((term for term in terms if term is not None), Fraction(0))
            if None not in terms
            else None
        )
    if isinstance(loss, ls.Repeated):
        mu_squared = gaussian_mu_squared(loss.loss)
        return None if mu_squared is None else mu_squared * loss.count
    return None


def has_rounding(loss: ls.Loss) -> bool:
    """Whether a Gaussian strength is only an upper end, since rounded noise is among it.

    Rounding is post-processing, so the loss is at most the continuous one; below it may be 0.
    Remembered on the (frozen) loss: workloads grow by appending to old ones.
    """
    is_rounded: bool | None = loss.__dict__.get("_accounting_rounded")
    if is_rounded is None:
        is_rounded = loss.__dict__["_accounting_rounded"] = _find_rounding(loss)
    return is_rounded


def _find_rounding(loss: ls.Loss) -> bool:
    if isinstance(loss, ls.Composed):
        return any(map(has_rounding, loss.losses))
    if isinstance(loss, (ls.Repeated, ls.PoissonSampled, ls.SampledWithoutReplacement)):
        return has_rounding(loss.loss)
    return isinstance(loss, ls.RoundedGaussian)


def sigma_fraction(mu_squared: Fraction, side: str) -> Fraction:
    """Compute sigma / shift with mu = shift / sigma.

    It is exact if it is rational, else rounded against the side asked for.
    """
    ratio = 1 / mu_squared
    top = math.isqrt(ratio.numerator)
    bottom = math.isqrt(ratio.denominator)
    if top * top == ratio.numerator and bottom * bottom == ratio.denominator:
        return Fraction(top, bottom)
    near = Fraction(math.sqrt(ratio))
    return near * (Fraction(2**50 - 1, 2**50) if side == "upper" else Fraction(2**50 + 1, 2**50))


@lru_cache(maxsize=4096)
def amplified_epsilon(epsilon: Fraction, q: Fraction) -> Fraction:
    """log(1 + q (e^eps - 1)) rounded up in integer arithmetic (theorem 3.28)."""
    return amplified(epsilon, q)


def pure_epsilon(event: ls.Loss) -> Fraction | None:
    """Return an epsilon for which the event is epsilon-DP up to its mass at infinity, or None."""
    if isinstance(event, _STATED):
        return event.epsilon
    if isinstance(event, ls.ZCDP) and event.rho == 0:
        return _NONE
    if isinstance(event, BestOfNegativeBinomial):
        inner = pure_epsilon(event.loss)
        return None if inner is None else (2 + event.shape) * inner
    if isinstance(event, (ls.Laplace, ls.DiscreteLaplace)):
        return event.sensitivity / event.scale
    if isinstance(event, ls.PoissonSampled):
        inner = pure_epsilon(event.loss)
        # under replace sampling lowers delta alone: nothing relates a sample with the unit to one
        # without it
        return (
            inner
            if inner is None or event.neighbours == "replace"
            else amplified_epsilon(inner, event.q)
        )
    if isinstance(event, ls.SampledWithoutReplacement) and event.neighbours == "replace":
        inner = pure_epsilon(event.loss)
        rate = Fraction(event.sample_size, event.population_size)
        return None if inner is None else amplified_epsilon(inner, rate)
    if isinstance(event, ls.Repeated):
        inner = pure_epsilon(event.loss)
        return None if inner is None else inner * event.count
    if isinstance(event, ls.Composed):
        terms = [pure_epsilon(component) for component in event.losses]
        return (
            None
            if None in terms
            else sum((term for term in terms if term is not None), Fraction(0))
        )
    return None


def infinite_mass(event: ls.Loss, side: str = "upper") -> Fraction:
    """Bound the delta that an event spends whatever epsilon: the mass of its loss at infinity."""
    if isinstance(event, (ls.Approx, ls.ZCDP)):
        return event.delta
    if isinstance(event, ls.PoissonSampled):
        inner = infinite_mass(event.loss)
        if side == "lower" or inner == 0:
            return _NONE
        return inner * (event.q if isinstance(event.loss, ls.Approx) else 1)
    if isinstance(event, ls.SampledWithoutReplacement):
        if side == "lower":
            return Fraction(0)
        rate = Fraction(event.sample_size, event.population_size)
        return infinite_mass(event.loss) * (rate if pure_epsilon(event.loss) is not None else 1)
    if isinstance(event, (BestOfNegativeBinomial, BestOfPoisson)):
        # their theorems say nothing of runs with a delta of their own
        return Fraction(1) if side == "upper" and infinite_mass(event.loss) else _NONE
    if isinstance(event, ls.Repeated):
        return min(Fraction(1), event.count * infinite_mass(event.loss))
    if isinstance(event, ls.Composed):
        return min(
            Fraction(1), sum((infinite_mass(component) for component in event.losses), Fraction(0))
        )
    return _NONE
