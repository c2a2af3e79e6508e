"""The true delta of single losses in mpmath, by closed forms and sums that share nothing with the
accountant.

A curve maps an epsilon of any sign to delta. Losses that are known by a guarantee have two curves:
one of a mechanism that keeps the guarantee, and one that no mechanism with it exceeds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import mpmath
from mpmath import mpf

from dither import accounting as acc

DIGITS = 120
Curve = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Truth:
    """Curves below and above the worst mechanism with a loss; the same where its law is known."""

    lower: Curve
    upper: Curve


def mp(value: Fraction | int | float) -> mpf:
    return mpf(Fraction(value).numerator) / Fraction(value).denominator


def never(_: mpf) -> mpf:
    return mpf(0)


def always(_: mpf) -> mpf:
    return mpf(1)


def response(top: mpf) -> Curve:
    """Loss +top with probability e^top/(1 + e^top), else -top (Kairouz, Oh and Viswanath 2015)."""
    return atoms([(top, 1 / (1 + mpmath.exp(-top))), (-top, 1 / (1 + mpmath.exp(top)))])


def atoms(pairs: list[tuple[mpf, mpf]]) -> Curve:
    """(loss, mass) under P: the sum of what exceeds epsilon."""

    def curve(epsilon: mpf) -> mpf:
        return mpmath.fsum(
            -mass * mpmath.expm1(epsilon - loss) for loss, mass in pairs if loss > epsilon
        )

    return curve


def laplace(top: mpf) -> Curve:
    def curve(epsilon: mpf) -> mpf:
        if epsilon >= top:
            return mpf(0)
        return -mpmath.expm1((epsilon - top) / 2 if epsilon > -top else epsilon)

    return curve


def gaussian(mu: mpf) -> Curve:
    def curve(epsilon: mpf) -> mpf:
        a = (epsilon / mu - mu / 2) / mpmath.sqrt(2)
        b = (epsilon / mu + mu / 2) / mpmath.sqrt(2)
        return (mpmath.erfc(a) - mpmath.exp(epsilon) * mpmath.erfc(b)) / 2

    return curve


def discrete_laplace(scale: mpf, shift: int) -> Curve:
    """Every outcome between the two centres, and the two half-lines beyond them."""
    norm = mpmath.expm1(1 / scale) / (mpmath.exp(1 / scale) + 1)
    half = 1 / (1 + mpmath.exp(-1 / scale))
    pairs = [((shift - 2 * x) / scale, norm * mpmath.exp(-x / scale)) for x in range(1, shift)]
    return atoms(
        [(shift / scale, half), *pairs, (-shift / scale, half * mpmath.exp(-shift / scale))]
    )


def discrete_gaussian(sigma: mpf, shift: int) -> Curve:
    """Term by term: P(x) - e^epsilon P(x + shift) over all integers where that is positive."""
    reach = int(60 * sigma) + 20 * shift + 60

    def weight(x: int) -> mpf:
        return mpmath.exp(-(mpf(x) ** 2) / (2 * sigma**2))

    total = mpmath.fsum(weight(x) for x in range(-reach, reach + 1))

    def curve(epsilon: mpf) -> mpf:
        first = mpf(shift) / 2 - epsilon * sigma**2 / shift  # the loss exceeds epsilon below it
        last = int(mpmath.ceil(first)) - 1
        terms = range(last - reach, last + 1)
        gained = mpmath.fsum(
            weight(x) * -mpmath.expm1(epsilon - mpf(shift * (shift - 2 * x)) / (2 * sigma**2))
            for x in terms
        )
        return gained / total

    return curve


def with_mass(curve: Curve, mass: mpf) -> Curve:
    return lambda epsilon: mass + (1 - mass) * curve(epsilon)


def bounded_range(width: mpf) -> Curve:
    """Two losses t and t - width, at the worst t, which is (width + epsilon)/2."""

    def curve(epsilon: mpf) -> mpf:
        if epsilon >= width:
            return mpf(0)
        top = mpmath.exp(width / 2) - mpmath.exp(epsilon / 2)
        return top**2 / mpmath.expm1(width) if epsilon > -width else -mpmath.expm1(epsilon)

    return curve


def chernoff(renyi: Callable[[mpf], mpf], orders: list[mpf]) -> Curve:
    """Proposition 3.14 at the best of some orders."""

    def curve(epsilon: mpf) -> mpf:
        logs = [
            (alpha - 1) * (renyi(alpha) - epsilon)
            + (alpha - 1) * mpmath.log1p(-1 / alpha)
            - mpmath.log(alpha)
            for alpha in orders
        ]
        return min(mpf(1), mpmath.exp(min(logs)))

    return curve


def removed(curve: Curve, q: mpf) -> Curve:
    """A Poisson sample, one unit removed: (1-q) Q + q P against Q."""

    def sampled(epsilon: mpf) -> mpf:
        inside = mpmath.expm1(epsilon) / q
        return q * curve(mpmath.log1p(inside)) if inside > -1 else -mpmath.expm1(epsilon)

    return sampled


def added(curve: Curve, q: mpf) -> Curve:
    """A Poisson sample, one unit added: Q against (1-q) Q + q P, for a pair that is its own
    mirror."""

    def sampled(epsilon: mpf) -> mpf:
        rest = 1 - mpmath.exp(epsilon) * (1 - q)
        return rest * curve(epsilon + mpmath.log(q / rest)) if rest > 0 else mpf(0)

    return sampled


def swapped_gaussian(q: mpf, sigma: mpf) -> Curve:
    """(1-q) N(0) + q N(1) against (1-q) N(0) + q N(-1): the best event is a half-line."""

    def curve(epsilon: mpf) -> mpf:
        # b u^2 + (1-q)(1 - e^eps) u - b e^eps = 0 for u = e^{y/sigma^2}
        b = q * mpmath.exp(-1 / (2 * sigma**2))
        middle = (1 - q) * mpmath.expm1(epsilon)
        root = (middle + mpmath.sqrt(middle**2 + 4 * b**2 * mpmath.exp(epsilon))) / (2 * b)
        edge = sigma**2 * mpmath.log(root)
        beyond = [mpmath.erfc((edge - shift) / sigma / mpmath.sqrt(2)) / 2 for shift in (0, 1, -1)]
        p = (1 - q) * beyond[0] + q * beyond[1]
        return p - mpmath.exp(epsilon) * ((1 - q) * beyond[0] + q * beyond[2])

    return curve


ORDERS = [1 + mpf(2) ** (mpf(k) / 4) for k in range(-40, 68)]


def describe_truth(loss: acc.Loss, direction: str) -> Truth:
    """The curves of one loss in one direction."""
    match loss:
        case acc.PoissonSampled() if loss.neighbours == "add_remove":
            inner = describe_truth(loss.loss, direction)
            sample = removed if direction == "remove" else added
            rate = mp(loss.q)
            # nothing but the whole sample's bound is claimed above where the inner law is unknown
            above = sample(inner.upper, rate) if inner.lower is inner.upper else always
            return Truth(sample(inner.lower, rate), above)
        case acc.PoissonSampled(loss=acc.GaussianSum() as inner):
            return both(swapped_gaussian(mp(loss.q), mp(inner.sigma / inner.clip_norm)))
        case acc.PoissonSampled():
            inside = describe_truth(loss.loss, direction)
            rate = mp(loss.q)
            return Truth(removed(inside.lower, rate), lambda epsilon: rate * inside.upper(epsilon))
        case acc.SampledWithoutReplacement():
            inside = describe_truth(loss.loss, direction)
            return both(removed(inside.lower, mpf(loss.sample_size) / loss.population_size))
        case acc.ZCDP():
            rho = mp(loss.rho)
            below = gaussian(mpmath.sqrt(2 * rho)) if rho else never
            above = chernoff(lambda alpha: alpha * rho, ORDERS)
            return Truth(with_mass(below, mp(loss.delta)), with_mass(above, mp(loss.delta)))
        case acc.RDP():
            rho = mp(loss.epsilon / loss.alpha)
            order = mp(loss.alpha)
            return Truth(gaussian(mpmath.sqrt(2 * rho)), chernoff(lambda _: order * rho, [order]))
        case acc.DiscreteGaussianVector():
            assert loss.l2_squared == 1
            return both(discrete_gaussian(mp(loss.sigma), 1))
    return both(describe_law(loss))


def both(curve: Curve) -> Truth:
    return Truth(curve, curve)


def describe_law(loss: acc.Loss) -> Curve:
    match loss:
        case acc.Pure() | acc.RandomizedResponse():
            return response(mp(loss.epsilon))
        case acc.Shuffled() if loss.users == 1:
            return response(mp(loss.epsilon))
        case acc.Approx():
            return with_mass(response(mp(loss.epsilon)), mp(loss.delta))
        case acc.Laplace():
            return laplace(mp(loss.sensitivity / loss.scale))
        case acc.Gaussian():
            return gaussian(mp(loss.sensitivity / loss.sigma))
        case acc.GaussianSum():
            factor = 2 if loss.neighbours == "replace" else 1
            return gaussian(mp(factor * loss.clip_norm / loss.sigma))
        case acc.DiscreteLaplace():
            return discrete_laplace(mp(loss.scale), loss.sensitivity)
        case acc.DiscreteGaussian():
            return discrete_gaussian(mp(loss.sigma), loss.sensitivity)
        case acc.BoundedRange():
            return bounded_range(mp(loss.epsilon))
        case acc.Repeated(loss=acc.Gaussian() as inner):
            return gaussian(mp(inner.sensitivity / inner.sigma) * mpmath.sqrt(loss.count))
        case acc.Repeated(loss=acc.Pure() as inner):
            return binomial(mp(inner.epsilon), loss.count)
        case acc.Repeated(loss=acc.Approx() as inner):
            mass = -mpmath.expm1(loss.count * mpmath.log1p(-mp(inner.delta)))
            return with_mass(binomial(mp(inner.epsilon), loss.count), mass)
    raise AssertionError(f"no oracle for {loss.type}: write its law here")


def binomial(top: mpf, count: int) -> Curve:
    """Randomised response `count` times."""
    up = 1 / (1 + mpmath.exp(-top))
    down = 1 / (1 + mpmath.exp(top))
    return atoms(
        [
            ((2 * k - count) * top, mpmath.binomial(count, k) * up**k * down ** (count - k))
            for k in range(count + 1)
        ]
    )
