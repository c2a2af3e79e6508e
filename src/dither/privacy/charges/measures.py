"""What a loss costs under each rule of a budget.

This is the one implementation; `charges.rules` and odometers use it.

A charge is a pair (amount, delta) of exact rationals. Where a logarithm or an exponential is not
rational it is rounded up in integer arithmetic: every auditor recomputes a charge to the last
digit, so no float enters it.

| rule | amount | theorem (docs/proofs/filters.md) |
|---|---|---|
| pure | epsilon | sums, Rogers, Roth, Ullman and Vadhan 2016 |
| approx | epsilon | sums of epsilon and of delta, the same |
| zcdp | rho | approximate zCDP filter, Whitehouse, Ramdas, Rogers and Wu 2023 |
| rdp | D_alpha at one order | Feldman and Zrnic 2021 |

>>> zcdp(losses.DiscreteGaussian(10, 1))
(Fraction(1, 200), Fraction(0, 1))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import NoReturn, TypeVar, cast

from dither.errors import RefusedError
from dither.privacy import losses
from dither.privacy.charges.fixed_plans import find_planned_epsilon
from dither.privacy.charges.logarithms import epsilon_of_order, epsilon_up
from dither.privacy.charges.parallel import sum_largest
from dither.privacy.charges.sampled import (
    amplified,
    fixed_size_renyi,
    poisson_renyi,
    shuffled,
)
from dither.privacy.losses import Loss
from dither.privacy.noise.enclosure import exp_minus
from dither.rules import PrivacyRule

Pair = tuple[Fraction, Fraction]
Prices = TypeVar("Prices", bound=tuple[Fraction, ...])
_ZERO = Fraction(0)
_BITS = 128
_ORDERS = tuple(
    Fraction(n) for n in (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128, 256)
)
_SAMPLED = (losses.PoissonSampled, losses.SampledWithoutReplacement)


def pure(loss: Loss) -> Fraction:
    """The smallest known epsilon for which a loss is epsilon-DP; refuses what has none.

    >>> pure(losses.DiscreteLaplace(10, 3) + losses.Pure("0.1"))
    Fraction(2, 5)
    """
    return _walk(loss, lambda event: (_pure(event),))[0]


def approx(loss: Loss, share: Fraction) -> Pair:
    """Price one question as (epsilon, delta).

    What has a curve and no pair of its own is turned into a pair at delta `share`. Gaussian noise
    by its summed rho, beside the sum of the other epsilons or together with them as one zCDP loss,
    whichever is less; what key selection takes of `share` is not there for the conversion. Shuffled
    reports beside no Gaussian noise at equal parts of `share`, if that lowers epsilon. Where
    samples of Gaussian noise are among the events, by Renyi divergence at the best of a fixed list
    of orders (the question is fixed before it is asked, hence so is its best order). A plan that
    says that it was fixed in advance pays its exact curve at the same delta, where that is less.
    """
    if isinstance(loss, losses.FixedPlan):
        epsilon, delta = approx(losses.Composed(loss.losses), share)
        exact = find_planned_epsilon(loss, delta, pair) if delta else None
        return epsilon if exact is None else min(epsilon, exact), delta
    if not any(isinstance(event, _SAMPLED) and pair(event) is None for event in leaf_events(loss)):
        epsilon, rho, delta = _walk(loss, _approx)
        if rho == 0:
            return min((epsilon, delta), _approx_shuffled(loss, share))
        delta_of_conversion = share - delta if delta < share else share
        whole, selected = zcdp(loss)
        assert selected <= delta
        return min(
            epsilon + epsilon_up(rho, delta_of_conversion), epsilon_up(whole, delta_of_conversion)
        ), delta + delta_of_conversion
    return min(_approx_by_order(loss, order, share) for order in _ORDERS)


def _approx_by_order(loss: Loss, order: Fraction, share: Fraction) -> Pair:
    epsilon, amount, delta = _walk(loss, lambda event: _approx_at(event, order))
    return epsilon + epsilon_of_order(amount, order, share), delta + share


def _approx_shuffled(loss: Loss, share: Fraction) -> Pair:
    """Price a loss in (epsilon, delta); its shuffled rounds share the delta `share` equally.

    Every other event has its own pair.
    """
    rounds = _walk(loss, lambda event: (Fraction(isinstance(event, losses.Shuffled)),))[0]

    def price(event: Loss) -> Pair:
        if isinstance(event, losses.Shuffled):
            return shuffled(event.epsilon, event.users, share / rounds), share / rounds
        epsilon, _, delta = _approx(event)
        return epsilon, delta

    return _walk(loss, price)


def zcdp(loss: Loss) -> Pair:
    """Price a loss as (rho, delta) of delta-approximate rho-zCDP."""
    return _walk(loss, _zcdp)


def rdp(loss: Loss, alpha: Fraction) -> Pair:
    """Price a loss as (D_alpha, delta) at the one order of the budget.

    A loss that is stated at a lower order is refused.
    """
    return _walk(loss, lambda event: _rdp(event, alpha))


def _walk(loss: Loss, price: Callable[[Loss], Prices]) -> Prices:
    """Price a loss, number by number, from the prices of the events that it is made of.

    Over a composition they add up. Over the parts of a partition it is the largest, or the sum of
    the two largest under replace.
    """
    if isinstance(loss, losses.Repeated):
        return cast(Prices, tuple(loss.count * amount for amount in _walk(loss.loss, price)))
    if not isinstance(loss, (losses.Composed, losses.Parallel)):
        return price(loss)
    columns = zip(*(_walk(inner, price) for inner in loss.losses), strict=True)
    if isinstance(loss, losses.Composed):
        return cast(Prices, tuple(sum(amounts, _ZERO) for amounts in columns))
    return cast(Prices, tuple(sum_largest(amounts, loss.neighbours) for amounts in columns))


def leaf_events(loss: Loss) -> Iterator[Loss]:
    """List the events that a loss is made of: its leaves, below composition and repetition."""
    if isinstance(loss, (losses.Composed, losses.Parallel)):
        for inner in loss.losses:
            yield from leaf_events(inner)
    elif isinstance(loss, losses.Repeated):
        yield from leaf_events(loss.loss)
    else:
        yield loss


class _NoPair(Exception):
    """Some event is not epsilon-DP up to a delta of its own."""


def pair(event: Loss) -> Pair | None:
    """Return (epsilon, delta) of a loss that is known to have them by itself; else None.

    These are pure losses, Approx, and samples of them.
    """
    try:
        return _walk(event, _pair)
    except _NoPair:
        return None


def _pair(event: Loss) -> Pair:
    """Price one event as (epsilon, delta); raise _NoPair if it has a curve but no such pair."""
    match event:
        case (
            losses.Pure() | losses.RandomizedResponse() | losses.BoundedRange() | losses.Shuffled()
        ):
            return event.epsilon, _ZERO
        case losses.DiscreteLaplace() | losses.Laplace():
            return event.sensitivity / event.scale, _ZERO
        case losses.Approx():
            return event.epsilon, event.delta
        case losses.PoissonSampled() if event.neighbours == "add_remove":
            epsilon, delta = _walk(event.loss, _pair)
            return amplified(epsilon, event.q), event.q * delta
        # under replace nothing relates a sample with the unit to one without it
        case losses.PoissonSampled():
            epsilon, delta = _walk(event.loss, _pair)
            return epsilon, event.q * delta
        case losses.SampledWithoutReplacement() if event.neighbours == "replace":
            epsilon, delta = _walk(event.loss, _pair)
            rate = Fraction(event.sample_size, event.population_size)
            return amplified(epsilon, rate), rate * delta
    raise _NoPair


def _pure(event: Loss) -> Fraction:
    """Price one event as epsilon with delta 0, or refuse it."""
    epsilon_and_delta = pair(event)
    if epsilon_and_delta is None and isinstance(event, _SAMPLED):
        _scheme(event, "pure")
    if epsilon_and_delta is None or epsilon_and_delta[1] > 0:
        _refuse(
            event,
            "pure",
            "Laplace noise on declared keys, randomised response, the exponential mechanism",
        )
    return epsilon_and_delta[0]


def _gaussian(event: Loss) -> Fraction | None:
    """Return rho of an event that is zCDP without a delta by its own law, else None."""
    match event:
        case losses.Gaussian() | losses.DiscreteGaussian():
            return Fraction(event.sensitivity) ** 2 / (2 * event.sigma**2)
        case losses.DiscreteGaussianVector() | losses.RoundedGaussian():
            return event.l2_squared / (2 * event.sigma**2)
        case losses.GaussianSum():  # a replaced unit takes one vector away and brings another
            return (event.clip_norm * (2 if event.neighbours == "replace" else 1)) ** 2 / (
                2 * event.sigma**2
            )
        case losses.ZCDP() if event.delta == 0:
            return event.rho
    return None


_FITS_APPROX = "Laplace or Gaussian noise, samples of them, and anything stated as (epsilon, delta)"


def _approx(event: Loss) -> tuple[Fraction, Fraction, Fraction]:
    """Price one event as (epsilon, rho, delta).

    The rho is turned into epsilon once, for the whole question, at its stated delta.
    """
    if (rho := _gaussian(event)) is not None:
        return _ZERO, rho, _ZERO
    if isinstance(event, losses.ZCDP):
        return _ZERO, event.rho, event.delta
    epsilon_and_delta = pair(event)
    if epsilon_and_delta is None:
        _refuse(event, "(epsilon, delta)", _FITS_APPROX)
    return epsilon_and_delta[0], _ZERO, epsilon_and_delta[1]


def _approx_at(event: Loss, order: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Price one event as (epsilon, D_order, delta), in a question that has samples."""
    if (epsilon_and_delta := pair(event)) is not None:
        return epsilon_and_delta[0], _ZERO, epsilon_and_delta[1]
    if isinstance(event, losses.RDP):
        _refuse(event, "(epsilon, delta)", _FITS_APPROX)
    amount, delta = _rdp(event, order)
    return _ZERO, amount, delta


def _zcdp(event: Loss) -> Pair:
    """Price one event as (rho, delta) of approximate zCDP, or refuse it."""
    if (rho := _gaussian(event)) is not None:
        return rho, _ZERO
    match event:
        case losses.ZCDP():
            return event.rho, event.delta
        case losses.BoundedRange():
            return event.epsilon**2 / 8, _ZERO
        case losses.Laplace():
            return rho_of_laplace(event.sensitivity / event.scale), _ZERO
    epsilon_and_delta = pair(event)
    if isinstance(event, _SAMPLED):
        _scheme(event, "zCDP")
        if epsilon_and_delta is not None and epsilon_and_delta[1] > 0:
            return rho_of_pure(epsilon_and_delta[0]), epsilon_and_delta[1]
        # a sample is a mixture over samples: quasi-convexity gives what the whole costs
        rho, delta = _walk(event.loss, _zcdp)
        return (
            rho if epsilon_and_delta is None else min(rho, rho_of_pure(epsilon_and_delta[0]))
        ), delta
    if epsilon_and_delta is None:
        _refuse(
            event,
            "zCDP",
            "Gaussian or Laplace noise, the exponential mechanism, a loss stated as ZCDP",
        )
    return rho_of_pure(epsilon_and_delta[0]), epsilon_and_delta[1]


def _rdp(event: Loss, alpha: Fraction) -> Pair:
    """Price one event as (Renyi divergence at order alpha, delta), or refuse it.

    It is alpha * rho, and at most epsilon for a pure loss; samples have theorems of their own;
    a loss that is stated at one order needs an order at or above alpha.
    """
    if isinstance(event, losses.RDP):
        if event.alpha >= alpha:
            return event.epsilon, _ZERO
        why = (
            f"it is stated at the order {event.alpha}, and the budget counts at {alpha} "
            "(orders are never mixed)"
        )
        _refuse(event, "RDP", f"the same mechanism stated at the order {alpha} or above", why)
    if isinstance(event, _SAMPLED):
        return _rdp_sampled(event, alpha)
    rho, delta = _zcdp(event)
    epsilon_and_delta = pair(event)
    return (
        alpha * rho if epsilon_and_delta is None else min(epsilon_and_delta[0], alpha * rho)
    ), delta


def _rdp_sampled(event: Loss, alpha: Fraction) -> Pair:
    """Price a loss on a secret sample as (Renyi divergence at order alpha, delta).

    It is the least of all bounds that are proved for the scheme of sampling and the neighbours.
    """
    assert isinstance(event, _SAMPLED)
    _scheme(event, "RDP")
    epsilon_and_delta = pair(event)
    if epsilon_and_delta is not None and epsilon_and_delta[1] > 0:
        return min(
            epsilon_and_delta[0], alpha * rho_of_pure(epsilon_and_delta[0])
        ), epsilon_and_delta[1]
    # a delta inside stays whole: both laws of a sample split with the same delta as the laws they
    # mix
    unsampled, delta = rdp(event.loss, alpha)
    best = (
        unsampled
        if epsilon_and_delta is None
        else min(unsampled, epsilon_and_delta[0], alpha * rho_of_pure(epsilon_and_delta[0]))
    )

    def inner(order: Fraction) -> Fraction:
        return rdp(event.loss, order)[0]

    if isinstance(event, losses.SampledWithoutReplacement):
        rate = Fraction(event.sample_size, event.population_size)
        return min(best, fixed_size_renyi(rate, inner, alpha, unsampled)), delta
    if event.neighbours == "add_remove":
        return min(best, poisson_renyi(event.q, inner, alpha, unsampled)), delta
    if isinstance(event.loss, losses.GaussianSum) and event.q < 1:
        # out and in again: lemma 3.32(7) through the sample without the unit, at the orders 2 alpha
        # and 2 alpha - 1
        strength = (event.loss.clip_norm / event.loss.sigma) ** 2 / 2
        first, second = (
            poisson_renyi(event.q, lambda order: order * strength, order, order * strength)
            for order in (2 * alpha, 2 * alpha - 1)
        )
        best = min(best, (2 * alpha - 1) / (2 * alpha - 2) * first + second)
    return best, delta


def _scheme(event: Loss, rule: str) -> None:
    """Refuse a sample of fixed size unless neighbours are 'replace': no other case is proved."""
    if isinstance(event, losses.SampledWithoutReplacement) and event.neighbours != "replace":
        fits = "losses with neighbours='replace', or Poisson sampling"
        _refuse(event, rule, fits, "a sample of fixed size is proved for 'replace' neighbours only")


def rho_of_pure(epsilon: Fraction) -> Fraction:
    """The rho of epsilon-DP: epsilon tanh(epsilon/2), rounded up to a rational.

    tanh(x) <= min(1, x (15 + x^2) / (15 + 6 x^2)), a convergent of its continued fraction from
    above; never above the usual epsilon^2 / 2. Proof: docs/proofs/filters.md, lemma 3.

    >>> float(rho_of_pure(Fraction(1)))
    0.462121...
    """
    x = epsilon / 2
    return epsilon * min(Fraction(1), x * (15 + x * x) / (15 + 6 * x * x))


def rho_of_laplace(epsilon: Fraction) -> Fraction:
    """Compute the rho of continuous Laplace noise: epsilon + e^-epsilon - 1, rounded up.

    Proof: docs/proofs/filters.md, lemma 4.

    >>> round(float(rho_of_laplace(Fraction(1))), 8)
    0.36787944
    """
    return min(
        rho_of_pure(epsilon), epsilon - 1 + Fraction(exp_minus(epsilon, _BITS).high, 1 << _BITS)
    )


_IRRATIONAL = (
    "its amplified loss is known as a divergence, which gives an epsilon only "
    "together with a delta above 0"
)
_WHY: dict[type[Loss], str] = {
    losses.Approx: "its delta is above 0, and the budget promises delta 0",
    losses.Gaussian: "no finite epsilon holds for Gaussian noise with delta 0",
    losses.DiscreteGaussian: "no finite epsilon holds for Gaussian noise with delta 0",
    losses.DiscreteGaussianVector: "no finite epsilon holds for Gaussian noise with delta 0",
    losses.RoundedGaussian: "no finite epsilon holds for Gaussian noise with delta 0",
    losses.GaussianSum: "no finite epsilon holds for Gaussian noise with delta 0",
    losses.ZCDP: "a bound on Renyi divergences gives an epsilon only together with a delta above 0",
    losses.RDP: "a bound on Renyi divergence at one order adds up in rdp budgets of that order",
    losses.PoissonSampled: _IRRATIONAL,
    losses.SampledWithoutReplacement: _IRRATIONAL,
}


def _refuse(loss: Loss, rule: str, fits: str, why: str | None = None) -> NoReturn:
    """Refuse a loss that a pot of this rule cannot pay for; say why, and what `fits` instead."""
    article = "an" if rule in ("RDP",) else "a"
    reason = why or _WHY.get(type(loss), "no rule is proved for it")
    raise RefusedError(
        f"{article} {rule} budget cannot pay for {type(loss).__name__}: {reason}. "
        f"What fits: {fits}",
        rule=PrivacyRule.POT_RULE,
    )
