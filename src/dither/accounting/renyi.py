"""Renyi and concentrated differential privacy of losses, and the tight ways from them to (epsilon,
delta).

    R(alpha) = log M(alpha - 1) / (alpha - 1),
    eps = R(alpha) + log(1 - 1/alpha) - (log delta + log alpha)/(alpha - 1)

for any alpha > 1 (docs/proofs/composition.md, section 8). Orders are never mixed: a sum is taken at
one order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dither.accounting.adaptive_range import RangeComposition
from dither.accounting.alternatives import alternatives
from dither.accounting.arguments import check_loss
from dither.accounting.bounded_range import two_losses
from dither.accounting.bounds import Bounds
from dither.accounting.events import Events
from dither.accounting.gaussian_mixtures import GaussianMixtureLaw
from dither.accounting.guarantees import (
    amplified_epsilon,
    gaussian_mu_squared,
    has_rounding,
    infinite_mass,
    pure_epsilon,
)
from dither.accounting.laws import GaussianLaw, LaplaceLaw
from dither.accounting.mixtures import GridMixture
from dither.accounting.sampled import OutOfReach
from dither.accounting.training_laws import BEST_OF, best_of_renyi
from dither.accounting.training_losses import (
    GaussianMixture,
    KaryResponse,
    SampledWithReplacement,
)
from dither.accounting.transforms import AtomsFactor
from dither.accounting.workload import (
    DIRECTIONS,
    Direction,
    Law,
    build_workload,
)
from dither.canonical import Number, exact
from dither.errors import ParameterError, RefusedError
from dither.privacy import losses as ls
from dither.privacy.numbers import refuse_beyond_floats
from dither.rules import PrivacyRule

_SLACK = 1e-12
_GRID_ONLY = (GaussianLaw, LaplaceLaw, GridMixture, GaussianMixtureLaw)


def renyi_upper(events: Events, neighbours: str, alpha: float, direction: Direction) -> float:
    """Bound the Renyi divergence of a composition in one direction from above.

    The mass at infinity is counted apart.
    """
    total = 0.0
    for event, count in events.items():
        value = _renyi_event(event, alpha, direction)
        total += count * value
        if not math.isfinite(total):
            return math.inf
    return total * (1 + _SLACK)


@lru_cache(maxsize=8192)
def _renyi_event(event: ls.Loss, alpha: float, direction: Direction) -> float:
    if isinstance(event, ls.ZCDP):
        return alpha * float(event.rho)
    if isinstance(event, (ls.DiscreteGaussianVector, ls.RoundedGaussian)):
        return alpha * float(event.l2_squared / (2 * event.sigma**2))
    if isinstance(event, ls.RDP):
        return float(event.epsilon) if alpha <= event.alpha else math.inf
    if isinstance(event, ls.BoundedRange):
        return min(
            alpha * float(event.epsilon) ** 2 / 8,
            _from_laws(ls.Pure(event.epsilon), alpha, "remove"),
        )
    if isinstance(event, (ls.Composed, ls.Repeated)):
        (choice,) = alternatives(event)
        return renyi_upper(choice, event.neighbours, alpha, direction)
    if isinstance(event, ls.SampledWithoutReplacement):
        unsampled = _renyi_event(event.loss, alpha, direction)
        epsilon = pure_epsilon(event.loss)
        if epsilon is None:
            return unsampled
        rate = Fraction(event.sample_size, event.population_size)
        return min(
            unsampled, _from_laws(ls.Pure(amplified_epsilon(epsilon, rate)), alpha, "remove")
        )
    if isinstance(event, BEST_OF):
        pure = pure_epsilon(event.loss)

        def one_run(order: float) -> float:
            return max(_renyi_event(event.loss, order, either) for either in DIRECTIONS)

        return best_of_renyi(event, one_run, alpha, None if pure is None else float(pure))
    if isinstance(event, GaussianMixture):
        return alpha * float(event.pairs[-1][0] / event.sigma) ** 2 / 2 * (1 + _SLACK)
    if isinstance(event, SampledWithReplacement):
        return math.inf
    if isinstance(event, ls.DiscreteGaussian):
        # its atoms are cut far out, where high orders live: the concentrated bound, attained at
        # integer orders
        return alpha * float(Fraction(event.sensitivity) ** 2 / (2 * event.sigma**2)) * (1 + _SLACK)
    workload = build_workload(Events([(event, 1)]), event.neighbours)
    laws = workload.upper[direction]
    smooth = any(isinstance(law, (GaussianLaw, LaplaceLaw)) for law in laws)
    if workload.vague or smooth or (_cut(laws) and pure_epsilon(event) is None):
        assert isinstance(event, ls.PoissonSampled)
        return _sampled_between(event, alpha, direction)
    return _from_laws(event, alpha, direction)


def _cut(laws: Sequence[Law]) -> bool:
    """Whether some of a law was left out, so that its moments are no upper bounds."""
    return any(isinstance(law, AtomsFactor) and law.missing > 0 for law in laws)


def _from_laws(event: ls.Loss, alpha: float, direction: Direction) -> float:
    """Bound the Renyi divergence of an event from above, by the transforms of its laws."""
    total = 0.0
    for law in build_workload(Events([(event, 1)]), event.neighbours).upper[direction]:
        assert not isinstance(law, (*_GRID_ONLY, RangeComposition))
        try:
            logs, error = law.log_mgf(alpha - 1, np.zeros(1), 1e-13)
        except OutOfReach:
            return math.inf
        level = float(logs[0].real) + float(error[0])
        if _cut([law]):
            # what was left out lies below the epsilon of a pure event
            largest = pure_epsilon(event)
            assert isinstance(law, AtomsFactor) and largest is not None
            left_out = math.log(law.missing) + (alpha - 1) * float(largest) * (1 + _SLACK)
            level = float(np.logaddexp(level, left_out)) + _SLACK
        total += level
    return max(0.0, total) / (alpha - 1)


def _sampled_between(event: ls.PoissonSampled, alpha: float, direction: Direction) -> float:
    """Bound the Renyi divergence of a Poisson sample at any order; never above the unsampled one.

    Theorem 3.33 at the integers around, and the chord of the convex (order - 1) D_order.
    """
    unsampled = max(_renyi_event(event.loss, alpha, either) for either in DIRECTIONS)
    low = math.floor(alpha)
    if event.neighbours == "replace" or low >= 2000:
        return unsampled
    share = alpha - low
    chord = (1 - share) * (low - 1) * (_sampled_integer_order(event, low) if low > 1 else 0.0)
    if share > 0:
        chord += share * low * _sampled_integer_order(event, low + 1)
    return min(unsampled, chord / (alpha - 1) * (1 + _SLACK))


def _sampled_integer_order(event: ls.PoissonSampled, order: int) -> float:
    """Bound the Renyi divergence of a Poisson sample at an integer order, from the inner curve.

    Theorem 3.33 (both directions, theorem 3.34), which is sharp.
    """
    p = float(event.q)
    log_p = math.log(p)
    log_rest = math.log1p(-p)
    terms = [(order - 1) * log_rest + math.log1p((order - 1) * p)]
    for k in range(2, order + 1):
        inner = max(_renyi_event(event.loss, float(k), direction) for direction in DIRECTIONS)
        choose = math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
        terms.append(choose + (order - k) * log_rest + k * log_p + (k - 1) * inner)
    top = max(terms)
    if not math.isfinite(top):
        return math.inf
    total = top + math.log(math.fsum(math.exp(term - top) for term in terms))
    return max(0.0, total + 1e-13 * order) / (order - 1)


def conversion_epsilon(curve: Callable[[float], float], log_delta: float) -> tuple[float, float]:
    """Convert a Renyi curve to (epsilon, alpha) at delta = exp(log_delta), by the best real
    order."""

    def value(log_order: float) -> float:
        order = math.exp(log_order)  # alpha - 1
        alpha = 1 + order
        result = curve(alpha) - math.log1p(1 / order) - (log_delta + math.log(alpha)) / order
        return result if math.isfinite(result) else 1e300

    best, height = _minimise(value)
    return max(0.0, height) * (1 + _SLACK) + 1e-300, 1 + math.exp(best)


def conversion_log_delta(curve: Callable[[float], float], epsilon: float) -> tuple[float, float]:
    """Convert a Renyi curve to (log delta, alpha) at epsilon, by the best real order."""

    def value(log_order: float) -> float:
        order = math.exp(log_order)
        result = (
            order * (curve(1 + order) - epsilon) - math.log1p(order) - order * math.log1p(1 / order)
        )
        return result if math.isfinite(result) else 1e300

    best, height = _minimise(value)
    return min(0.0, height) + _SLACK * (1 + abs(height)), 1 + math.exp(best)


def _minimise(value: Callable[[float], float]) -> tuple[float, float]:
    """Find a small value between alpha - 1 = 1e-3 and 1e5; return (argument, value).

    Any point is sound; a scan and a golden section find a good one.
    """
    grid = [math.log(1e-3) + i * 0.46 for i in range(41)]
    heights = [value(point) for point in grid]
    best = min(range(len(grid)), key=heights.__getitem__)
    low = grid[max(0, best - 1)]
    high = grid[min(len(grid) - 1, best + 1)]
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    left_value = value(left)
    right_value = value(right)
    for _ in range(32):
        if left_value < right_value:
            high = right
            right = left
            right_value = left_value
            left = high - ratio * (high - low)
            left_value = value(left)
        else:
            low = left
            left = right
            left_value = right_value
            right = low + ratio * (high - low)
            right_value = value(right)
    return min(((left_value, left), (right_value, right), (heights[best], grid[best])))[::-1]


@refuse_beyond_floats
def rdp(loss: ls.Loss, alpha: Number) -> Bounds:
    """Bracket the Renyi divergence of order alpha, in the worse direction and alternative.

    Raises RefusedError for losses with a delta of their own.

    >>> from dither.privacy.losses import Gaussian
    >>> round(rdp(Gaussian(1), 2).upper, 9)
    1.0
    """
    check_loss(loss)
    order = exact(alpha, "alpha")
    if order <= 1:
        raise ParameterError(
            f"alpha must be above 1, got {alpha}: for alpha = 1 (KL) ask for an order near it"
        )
    upper = lower = 0.0
    for events in alternatives(loss):
        if any(infinite_mass(event) for event in events):
            raise RefusedError(
                "an approximate guarantee has no finite Renyi divergence: convert with "
                "epsilon(loss, delta), "
                "or account its delta apart",
                rule=PrivacyRule.THEOREM,
            )
        for direction in DIRECTIONS:
            upper = max(upper, renyi_upper(events, loss.neighbours, float(order), direction))
        lower = max(lower, _renyi_lower(events, loss.neighbours, float(order)))
    return Bounds(min(lower, upper), upper)


def _renyi_lower(events: Events, neighbours: str, alpha: float) -> float:
    """Bound the Renyi divergence of the events from below, in the worse direction."""
    workload = build_workload(events, neighbours)
    best = 0.0
    for direction in DIRECTIONS:
        total = 0.0
        for law in workload.lower[direction]:
            if isinstance(law, _GRID_ONLY):
                continue
            if isinstance(law, RangeComposition):
                law = two_losses(law.epsilon, Fraction(1, 2), law.count)
            try:
                logs, error = law.log_mgf(alpha - 1, np.zeros(1), 1e-13)
            except OutOfReach:
                continue
            total += float(logs[0].real) - float(error[0])
        best = max(best, total / (alpha - 1) * (1 - _SLACK))
    return best


class Concentrated(NamedTuple):
    """delta-approximate rho-zCDP: a bracket of rho, and the delta apart."""

    rho: Bounds
    delta: Fraction


@refuse_beyond_floats
def zcdp(loss: ls.Loss) -> Concentrated:
    """The smallest rho known for the loss (pure: eps tanh(eps/2), exponential mechanism: eps^2/8,
    ...).

    >>> from dither.privacy.losses import Pure
    >>> round(zcdp(Pure(1)).rho.upper, 8)
    0.46211716
    """
    check_loss(loss)
    worst = Bounds(0.0, 0.0)
    delta = Fraction(0)
    for events in alternatives(loss):
        low = high = 0.0
        mass = Fraction(0)
        for event, count in events.items():
            bounds = _rho(event)
            low += count * bounds.lower
            high += count * bounds.upper
            mass = (
                1 - (1 - mass) * (1 - infinite_mass(event)) ** count
                if count < 10_000
                else mass + count * infinite_mass(event)
            )
        worst = Bounds(max(worst.lower, low * (1 - _SLACK)), max(worst.upper, high * (1 + _SLACK)))
        delta = max(delta, min(mass, Fraction(1)))
    if not math.isfinite(worst.upper):
        raise RefusedError(
            "a guarantee at one Renyi order gives no zCDP: state ZCDP(rho) instead",
            rule=PrivacyRule.THEOREM,
        )
    return Concentrated(worst, delta)


def _rho(event: ls.Loss) -> Bounds:
    """Bracket the rho of one event."""
    mu_squared = gaussian_mu_squared(event)
    if mu_squared is not None and has_rounding(event):
        return Bounds(0.0, _both(float(mu_squared / 2)).upper)
    if mu_squared is not None:
        return _both(float(mu_squared / 2))
    if isinstance(event, ls.ZCDP):
        return _both(float(event.rho))
    if isinstance(event, ls.DiscreteGaussian):
        return Bounds(0.0, _both(float(event.sensitivity**2 / (2 * event.sigma**2))).upper)
    if isinstance(event, ls.DiscreteGaussianVector):
        return Bounds(0.0, _both(float(event.l2_squared / (2 * event.sigma**2))).upper)
    if isinstance(event, ls.BoundedRange):
        eps = float(event.epsilon)
        return Bounds(eps / 2 * math.tanh(eps / 4) * (1 - _SLACK), eps * eps / 8 * (1 + _SLACK))
    if isinstance(event, ls.Laplace):
        eps = float(event.sensitivity / event.scale)
        return _both(eps + math.expm1(-eps) if eps > 1e-5 else eps * eps / 2)
    if isinstance(event, (ls.PoissonSampled, ls.SampledWithoutReplacement)):
        sampled = pure_epsilon(event)
        inner = _rho(event.loss).upper
        return Bounds(0.0, min(inner, math.inf if sampled is None else _pure_rho(float(sampled))))
    if isinstance(event, ls.Shuffled):
        return Bounds(0.0, _pure_rho(float(event.epsilon)) * (1 + _SLACK))
    if isinstance(event, ls.DiscreteLaplace) and event.sensitivity > 1:
        return Bounds(0.0, _pure_rho(float(event.sensitivity / event.scale)))
    if isinstance(event, (ls.Composed, ls.Repeated)):
        return zcdp(event).rho
    epsilon = pure_epsilon(event)
    if epsilon is None:
        return Bounds(0.0, math.inf)
    if isinstance(event, (KaryResponse, *BEST_OF)):
        return Bounds(0.0, _pure_rho(float(epsilon)) * (1 + _SLACK))
    return _both(_pure_rho(float(epsilon)))


def _pure_rho(epsilon: float) -> float:
    return epsilon * math.tanh(epsilon / 2)


def _both(value: float) -> Bounds:
    return Bounds(value * (1 - _SLACK), value * (1 + _SLACK))


def triangle(
    alpha: float, other: float, first: Callable[[float], float], second: Callable[[float], float]
) -> float:
    """D_alpha(P||R) <= a'/(a'-1) * D_b(P||Q) + D_a'(Q||R) with b = alpha (a'-1)/(a'-alpha), a' >
    alpha.

    Lemma 3.32(7) prints another order in its statement, which is unsound; this is the one its proof
    gives.

    >>> # N(0,1), N(1,1), N(2,1): the truth is 4
    >>> triangle(2, 4, lambda order: order / 2, lambda order: order / 2)
    4.0
    """
    if not other > alpha > 1:
        raise ParameterError("the second order must exceed the first, and the first 1")
    return other / (other - 1) * first(alpha * (other - 1) / (other - alpha)) + second(other)
