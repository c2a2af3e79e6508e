"""Pairs and Renyi curves of the losses of training runs (docs/proofs/training-losses.md)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import mpmath
import numpy as np

from dither.accounting.gaussian_mixtures import GaussianMixtureLaw
from dither.accounting.laws import GaussianLaw
from dither.accounting.mixtures import GridMixture, MixtureFactor
from dither.accounting.multiprecision import read_fraction, write_fraction
from dither.accounting.sampled import Kind, SampledGaussianFactor
from dither.accounting.training_losses import (
    BestOfNegativeBinomial,
    BestOfPoisson,
    GaussianMixture,
    KaryResponse,
    SampledWithReplacement,
    TruncatedPoissonSampled,
)
from dither.accounting.transforms import UNIT, AtomsFactor
from dither.privacy import losses as ls

DIRECTED = (GaussianMixture, TruncatedPoissonSampled)
"""Losses whose pair differs between a unit removed and a unit added."""
BEST_OF = (BestOfNegativeBinomial, BestOfPoisson)
"""Losses that are known by their Renyi curve alone."""
_MOST_COPIES = 64
_LEAST_TAIL = 1e-18
TrainingLaw = AtomsFactor | MixtureFactor | GridMixture | GaussianMixtureLaw | SampledGaussianFactor
Curve = Callable[[float], float]


def is_loose(event: ls.Loss) -> bool:
    """Whether the pair above is a bound and not the law itself."""
    return isinstance(event, (TruncatedPoissonSampled, SampledWithReplacement, *BEST_OF))


def build_training_laws(
    event: ls.Loss, count: int, side: str, kind: Kind
) -> list[TrainingLaw] | None:
    """Build the pair of a training loss above or below, in one direction; None for any other
    loss."""
    match event:
        case KaryResponse():
            return [kary_response(event.epsilon, event.buckets, count)]
        case GaussianMixture():
            return [GaussianMixtureLaw(kind, event.sigma, event.pairs, count)]
        case TruncatedPoissonSampled(loss=ls.GaussianSum() as inner):
            return [_truncated(event, inner.sigma / inner.clip_norm, count, side, kind)]
        case SampledWithReplacement(loss=ls.GaussianSum() as inner):
            sigma = inner.sigma / (2 * inner.clip_norm)
            return [_with_replacement(event, sigma, count, side)]
    return [] if isinstance(event, BEST_OF) else None


def kary_response(epsilon: Fraction, buckets: int, count: int) -> AtomsFactor:
    """Make the law of k-ary response.

    Its loss is +eps where the true value is reported, -eps at the other one's, 0 elsewhere.
    """
    eps = float(epsilon)
    rest = math.exp(-eps)
    whole = 1 + (buckets - 1) * rest
    masses = np.array([max(rest, 1e-300) / whole, (buckets - 2) * rest / whole, 1 / whole])
    relative = np.array([UNIT * (16 + 4 * eps), UNIT * (16 + 4 * eps), UNIT * 16])
    if eps >= 690:
        relative[:2] = 1.0
    indices = (-1, 0, 1)
    kept = masses > 0
    return AtomsFactor(
        np.array([-eps, 0.0, eps])[kept],
        masses[kept],
        count,
        relative[kept],
        lattice=(Fraction(0), epsilon, tuple(np.array(indices)[kept].tolist())),
    )


@lru_cache(maxsize=256)
def overflow_probability(trials: int, q: Fraction, limit: int) -> Fraction:
    """Compute P(Bin(trials, q) >= limit) rounded up: some terms, and a geometric series for the
    rest.

    >>> round(float(overflow_probability(10, Fraction(1, 2), 9)), 12)    # 11/1024
    0.0107421875
    """
    if limit > trials:
        return Fraction(0)
    if q == 1 or limit <= trials * q:
        return Fraction(1)
    with mpmath.workdps(40):
        rate = read_fraction(q)
        odds = rate / (1 - rate)
        log_choose = (
            mpmath.loggamma(trials + 1)
            - mpmath.loggamma(limit + 1)
            - mpmath.loggamma(trials - limit + 1)
        )
        log_term = log_choose + limit * mpmath.log(rate) + (trials - limit) * mpmath.log1p(-rate)
        term = mpmath.exp(log_term)
        total = term
        drawn = limit
        while drawn < trials and term > total * mpmath.mpf(10) ** -20:
            term *= (trials - drawn) * odds / (drawn + 1)
            drawn += 1
            total += term
        ratio = (trials - drawn) * odds / (drawn + 1)
        total += term * ratio / (1 - ratio)
        return min(Fraction(1), write_fraction(total * (1 + mpmath.mpf(10) ** -18)))


def _truncated(
    event: TruncatedPoissonSampled, sigma: Fraction, count: int, side: str, kind: Kind
) -> TrainingLaw:
    """Make the law of Poisson samples that are cut at a batch limit.

    Above: a full batch costs twice the shift. Below: everybody else's vector is zero.
    """
    full = overflow_probability(event.population_size, event.q, event.batch_limit)
    whole = SampledGaussianFactor(kind, event.q, sigma, 1)
    if side == "lower":
        rate = event.q * (1 - full) if full < 1 else event.q / (event.population_size + 1)
        return SampledGaussianFactor(kind, rate, sigma, count)
    crowded = SampledGaussianFactor(kind, event.q, sigma / 2, 1)
    if full in (0, 1):
        return (crowded if full else whole).times(count)
    return MixtureFactor((1 - full, full), (whole, crowded), count)


def _with_replacement(
    event: SampledWithReplacement, sigma: Fraction, count: int, side: str
) -> TrainingLaw:
    """Make the law of samples with replacement.

    Above: the number of copies is seen, at the rate of at least one. Below: all others at the far
    end, so that the copies add up.
    """
    draws = event.sample_size
    single = Fraction(1, event.population_size)
    weights: list[Fraction] = []
    for copies in range(min(draws, _MOST_COPIES) + 1):
        weight = (
            Fraction(math.comb(draws, copies)) * single**copies * (1 - single) ** (draws - copies)
        )
        weights.append(weight)
        if copies > 2 * draws * single and weight < _LEAST_TAIL:
            break
    tail = 1 - sum(weights, Fraction(0))
    if side == "lower":
        pairs = [(Fraction(k), weight) for k, weight in enumerate(weights)]
        pairs[0] = (Fraction(0), weights[0] + tail)
        return GaussianMixtureLaw("remove", sigma, tuple(p for p in pairs if p[1]), count)
    drawn = 1 - weights[0]
    laws = [GaussianLaw("fixed", drawn, sigma / k, 1) for k in range(1, len(weights))]
    shares = [weight / drawn for weight in weights[1:]]
    # what is not listed is met with probability `tail`, and counts as infinite
    missing = float(tail) * (1 + 1e-12) + 5e-324 if tail else 0.0
    return GridMixture(tuple(shares), tuple(laws), count, missing)


def best_of_renyi(event: ls.Loss, inner: Curve, alpha: float, pure: float | None) -> float:
    """The Renyi divergence of the best of a random number of runs, from that of one run.

    Papernot and Steinke 2022, theorems 2 and 6; `inner` bounds both directions, `pure` is its
    epsilon if it has one.
    """
    if isinstance(event, BestOfNegativeBinomial):
        return _best_of_negative_binomial(event, inner, alpha, pure)
    assert isinstance(event, BestOfPoisson)
    return _best_of_poisson(event, inner, alpha)


_ORDERS = tuple(1 + 1.25**k for k in range(-20, 50))


def mean_runs(shape: Fraction, halting: Fraction) -> float:
    """Compute the mean of the truncated negative binomial law, rounded up.

    >>> round(mean_runs(Fraction(1), Fraction(1, 10)), 9)
    10.0
    >>> round(mean_runs(Fraction(0), Fraction(1, 10)), 9)
    3.908650337
    """
    stop = float(halting)
    eta = float(shape)
    log_stop = math.log(stop)
    ratio = -log_stop if eta == 0 else -math.expm1(eta * log_stop) / eta
    return (1 / stop - 1) / ratio * (1 + 1e-12)


def _best_of_negative_binomial(
    event: BestOfNegativeBinomial, inner: Curve, alpha: float, pure: float | None
) -> float:
    """Bound the Renyi divergence of the best of a negative binomial number of runs.

    `inner` is the curve of one run, `pure` its epsilon if it is pure.
    """
    weight = float(1 + event.shape)
    stop = -math.log(event.halting)
    extra = [
        weight * ((1 - 1 / order) * inner(order) + stop / order) for order in (alpha, *_ORDERS)
    ]
    if pure is not None:
        extra.append(weight * pure)
    runs = math.log(mean_runs(event.shape, event.halting)) / (alpha - 1)
    return (inner(alpha) + min(extra) + runs) * (1 + 1e-12)


def _best_of_poisson(event: BestOfPoisson, inner: Curve, alpha: float) -> float:
    """Bound the Renyi divergence of the best of a Poisson number of runs.

    It needs a delta of one run at epsilon = log(1 + 1/(alpha - 1)), here by its own Renyi curve.
    """
    epsilon = math.log1p(1 / (alpha - 1)) * (1 - 1e-12)
    log_delta = 0.0
    for order in _ORDERS:
        exponent = (order - 1) * (inner(order) - epsilon + math.log1p(-1 / order))
        log_delta = min(log_delta, exponent - math.log(order))
    mean = float(event.mean)
    value = inner(alpha) + mean * math.exp(log_delta) + math.log(mean) / (alpha - 1)
    return max(0.0, value) * (1 + 1e-12) + 1e-12
