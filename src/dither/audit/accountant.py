"""An audit of the accountant: does any composition that can be drawn leak more than the accountant
says?

Random compositions of mechanisms whose privacy loss can be drawn (integer Laplace, integer
Gaussian, randomised response, continuous Gaussian) are run; the sum of log-likelihood ratios is the
best test there is, so its tails bound delta(eps) from below. A claim below such a bound is refuted.
docs/proofs/audit.md#the-accountant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dither.accounting.curves import delta as accounted
from dither.audit.confidence import check_alpha, lower, upper
from dither.errors import ParameterError
from dither.privacy.losses import (
    Composed,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Loss,
    RandomizedResponse,
    Repeated,
    compose,
)
from dither.privacy.noise import SystemSource, discrete_gaussian, discrete_laplace, uniform_below

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Claim:
    """The delta that the accountant claims at one epsilon, and the delta that draws show at
    least."""

    loss: Loss
    epsilon: float
    claimed: float
    shown: float

    @property
    def refuted(self) -> bool:
        return self.shown > self.claimed


def draw_loss(loss: Loss, size: int, *, first: bool) -> Floats:
    """Draw the privacy loss ln P1/P2 `size` times, with outputs from P1 (`first`) or from P2.

    Raises ParameterError for losses that have no law to draw from.
    """
    if isinstance(loss, Composed):
        return np.asarray(sum(draw_loss(term, size, first=first) for term in loss.losses))
    if isinstance(loss, Repeated):
        total = np.zeros(size)
        for _ in range(loss.count):
            total += draw_loss(loss.loss, size, first=first)
        return total
    if isinstance(loss, (DiscreteLaplace, Laplace)):
        noise = (
            discrete_laplace(loss.scale, size)
            if isinstance(loss, DiscreteLaplace)
            else _draw_laplace(loss, size)
        )
        return _compute_laplace_loss(
            noise.astype(np.float64), float(loss.sensitivity), float(loss.scale), first
        )
    if isinstance(loss, DiscreteGaussian):
        return _compute_gaussian_loss(
            discrete_gaussian(loss.sigma, size).astype(np.float64), loss, first
        )
    if isinstance(loss, Gaussian):
        return _compute_gaussian_loss(float(loss.sigma) * ndtri(_draw_uniform(size)), loss, first)
    if isinstance(loss, RandomizedResponse):
        e = float(loss.epsilon)
        return np.where((_draw_uniform(size) < 1 / (1 + math.exp(-e))) == first, e, -e)
    raise ParameterError(
        f"the loss of {type(loss).__name__} cannot be drawn: use the mechanisms that have a law"
    )


def _draw_uniform(size: int) -> Floats:
    """Uniform floats in (0, 1), good enough to estimate a tail; no output of theirs is ever
    released."""
    words = SystemSource().words(size) >> np.uint64(11)
    return np.asarray((words.astype(np.float64) + 0.5) * 2.0**-53)


def _draw_laplace(loss: Laplace, size: int) -> Floats:
    u = _draw_uniform(size)
    return np.asarray(np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u))) * float(loss.scale))


def _compute_laplace_loss(noise: Floats, move: float, scale: float, first: bool) -> Floats:
    """ln P1/P2 of Laplace noise, clipped at its two atoms: |x - move| - |x| in floats would leak
    (Mironov 2012)."""
    loss = (move - 2 * noise) / scale if first else -(move + 2 * noise) / scale
    return np.asarray(np.clip(loss, -move / scale, move / scale))


def _compute_gaussian_loss(noise: Floats, loss: Gaussian | DiscreteGaussian, first: bool) -> Floats:
    move = float(loss.sensitivity)
    x = noise if first else noise + move
    return np.asarray((move * move - 2 * move * x) / (2 * float(loss.sigma) ** 2))


def audit_loss(
    loss: Loss, *, runs: int, alpha: float, claimed: Callable[[Loss, float], float] | None = None
) -> list[Claim]:
    """Compare the accountant's delta at several epsilons with what draws show at least.

    There are `runs` draws on each side.
    """
    check_alpha(alpha)
    promise = claimed or (lambda composition, epsilon: accounted(composition, epsilon).upper)
    pilot_losses = draw_loss(loss, min(runs // 4, 200_000), first=True)
    epsilons = [max(0.0, float(q)) for q in np.quantile(pilot_losses, [0.3, 0.6, 0.8, 0.95, 0.99])]
    epsilons = sorted(set(epsilons))
    first_losses = draw_loss(loss, runs, first=True)
    second_losses = draw_loss(loss, runs, first=False)
    share = alpha / (2 * len(epsilons))
    claims = []
    for epsilon in epsilons:
        hits = (
            int(np.count_nonzero(first_losses > epsilon)),
            int(np.count_nonzero(second_losses > epsilon)),
        )
        shown = max(
            0.0, lower(hits[0], runs, share) - math.exp(epsilon) * upper(hits[1], runs, share)
        )
        claims.append(Claim(loss, epsilon, promise(loss, epsilon), shown))
    return claims


def random_composition() -> Loss:
    """Compose a few mechanisms of random kind, scale and number."""
    kinds: list[Callable[[], Loss]] = [
        lambda: DiscreteLaplace(Fraction(2 + uniform_below(20), 2), 1 + uniform_below(3)),
        lambda: DiscreteGaussian(Fraction(4 + uniform_below(20), 4), 1 + uniform_below(2)),
        lambda: RandomizedResponse(Fraction(1 + uniform_below(8), 4), neighbours="add_remove"),
        lambda: Gaussian(Fraction(4 + uniform_below(16), 4)),
        lambda: Laplace(Fraction(2 + uniform_below(16), 2)),
    ]
    several = range(1 + uniform_below(3))
    losses: list[Loss] = [
        kinds[uniform_below(len(kinds))]() * (1 + uniform_below(6)) for _ in several
    ]
    return losses[0] if len(losses) == 1 else compose(*losses)


def audit_accountant(
    compositions: int = 10, *, runs: int = 200_000, alpha: float = 1e-6
) -> list[Claim]:
    """Audit random compositions, each with an equal share of alpha.

    An empty list of refuted claims is what we hope for.
    """
    return [
        claim
        for _ in range(compositions)
        for claim in audit_loss(random_composition(), runs=runs, alpha=alpha / compositions)
    ]
