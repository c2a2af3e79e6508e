"""Planning: solve for any one parameter, price the next question, split a budget, restate for
groups.

Everything rounds against us: a noise is rounded up, a rate or a count down, and the loss that comes
back is within the budget by the upper end of its bracket.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal

from dither.accounting.arguments import check_loss
from dither.accounting.bounds import Bounds
from dither.accounting.curves import delta as curve_delta
from dither.accounting.curves import epsilon as curve_epsilon
from dither.accounting.guarantees import amplified_epsilon, infinite_mass, pure_epsilon
from dither.canonical import Number, exact, number_text, positive, quote
from dither.errors import ParameterError, RefusedError
from dither.given_numbers import as_float, whole_number
from dither.privacy import losses as ls
from dither.privacy.numbers import refuse_beyond_floats
from dither.rules import PrivacyRule

MOST_STEPS = 10**12


def find_smallest(
    fits: Callable[[Fraction], bool], start: Fraction, *, relative: float = 1e-9
) -> Fraction:
    """Find the smallest number that fits, to a relative 1e-9 and from above.

    Larger numbers must fit too. Raises ParameterError where none does.
    """
    low = Fraction(0)
    high = start
    for _ in range(200):
        if fits(high):
            break
        low, high = high, high * 2
    else:
        raise ParameterError("no finite value fits the budget: raise epsilon or delta")
    while low == 0 and fits(high / 2):
        high /= 2
        if high < start / 2**200:
            return high
    low = max(low, high / 2)
    while high - low > Fraction(relative) * high:
        middle = _shorten((low + high) / 2)
        if not low < middle < high:
            break
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def find_smallest_below(
    goal: Fraction,
    measure: Callable[[Fraction], float],
    start: Fraction,
    *,
    least: Fraction = Fraction(0),
    relative: float = 1e-9,
) -> Fraction:
    """Find the smallest number from `least` on whose measure is at most `goal`, from above.

    The measure does not increase. Like `find_smallest`, with a secant on logarithms between the
    bisections, since a measure costs far more than a step of the search.
    """
    values: dict[Fraction, float] = {}

    def fits(x: Fraction) -> bool:
        if x < least:
            return False
        if x not in values:
            values[x] = measure(x)
        return values[x] <= goal

    high = find_smallest(fits, start, relative=0.6)
    low = high / 2
    after_fit = True
    for turn in range(120):
        if high - low <= Fraction(relative) * high:
            break
        trial = (low + high) / 2
        if turn % 4 < 3:
            aim = _aim_between(low, values.get(low), high, values[high], float(goal))
            trial = (
                trial
                if aim is None
                else Fraction(aim * (1 + (-0.4 if after_fit else 0.4) * relative))
            )
        trial = _shorten(trial)
        if not low < trial < high:
            trial = _shorten((low + high) / 2)
            if not low < trial < high:
                break
        after_fit = fits(trial)
        low, high = (low, trial) if after_fit else (trial, high)
    return high


def _aim_between(
    low: Fraction, low_value: float | None, high: Fraction, high_value: float, goal: float
) -> float | None:
    """Where a power law through both ends meets the goal; none where an end has no logarithm."""
    if low_value is None or not 0 < high_value < low_value < math.inf:
        return None
    share = math.log(low_value / goal) / math.log(low_value / high_value)
    return float(float(low) * math.pow(float(high) / float(low), share))


def _shorten(value: Fraction) -> Fraction:
    """Round a number to a fraction with a short denominator."""
    return (
        Fraction(float(value)).limit_denominator(10**15)
        if value < 10**6
        else Fraction(float(value))
    )


def find_largest_count(fits: Callable[[int], bool], guess: int = 1, most: int = MOST_STEPS) -> int:
    """Find the largest count that fits; smaller counts must fit too.

    Raises ParameterError where not even one does.
    """
    low = 0
    high = max(1, min(guess, most))
    if fits(high):
        factor = 1.125 if guess > 1 else 2.0
        while high <= most and (low == 0 or fits(high)):
            low = high
            high = max(high + 1, int(high * factor))
            factor = factor * 1.5
    else:
        reach = high
        while low == 0:
            reach = int(reach * 0.875)
            if reach < 1:
                raise ParameterError(
                    "not even one fits the budget: use more noise, or raise epsilon or delta"
                )
            low, high = (reach, high) if fits(reach) else (0, reach)
            reach = int(reach * 0.6) + 1 if reach > 8 else reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@refuse_beyond_floats
def most_queries(loss: ls.Loss, epsilon: Number, delta: Number) -> int:
    """Compute how many times the loss fits below (epsilon, delta), for a plan fixed in advance.

    >>> most_queries(ls.Pure(0.1), 1, 0)
    10
    """
    check_loss(loss)
    goal = positive(epsilon, "epsilon")
    target = exact(delta, "delta")
    if target == 0:
        query_epsilon = pure_epsilon(loss)
        if query_epsilon is None or infinite_mass(loss):
            raise RefusedError(
                "delta = 0 needs a pure loss: choose delta > 0, or Laplace noise",
                rule=PrivacyRule.POT_RULE,
            )
        return find_largest_count(lambda k: k * query_epsilon <= goal)
    return find_largest_count(lambda k: curve_epsilon(loss * k, target).upper <= goal)


@refuse_beyond_floats
def marginal_cost(spent: ls.Loss, next_loss: ls.Loss, delta: Number) -> Bounds:
    """What the next question adds to epsilon at this delta, for a plan fixed in advance.

    >>> cost = marginal_cost(ls.Gaussian(10) * 99, ls.Gaussian(10), 1e-6)
    >>> round(cost.upper, 4)
    0.0279
    """
    before = curve_epsilon(spent, delta)
    after = curve_epsilon(ls.compose(spent, next_loss), delta)
    return Bounds(max(0.0, after.lower - before.upper), max(0.0, after.upper - before.lower))


@refuse_beyond_floats
def split(
    total: Number,
    weights: Sequence[Number],
    sensitivities: Sequence[Number],
    rule: Literal["pure", "zcdp"] = "pure",
) -> tuple[Fraction, ...]:
    """Split a budget so that the sum of weight * variance is least; the parts sum to it exactly.

    pure (Laplace): eps_j ~ (w_j D_j^2)^(1/3); zCDP (Gaussian): rho_j ~ D_j sqrt(w_j).

    >>> split(1, [1, 1], [1, 1])
    (Fraction(1, 2), Fraction(1, 2))
    """
    budget = positive(total, "total")
    if len(weights) != len(sensitivities) or not weights:
        raise ParameterError("split needs one weight and one sensitivity per query")
    pairs = [
        (
            as_float(positive(w, "weight"), "weight"),
            as_float(positive(d, "sensitivity"), "sensitivity"),
        )
        for w, d in zip(weights, sensitivities, strict=True)
    ]
    if rule not in ("pure", "zcdp"):
        raise ParameterError(f"rule must be 'pure' or 'zcdp', got {quote(rule)}")
    shares = [(w * d * d) ** (1 / 3) if rule == "pure" else d * math.sqrt(w) for w, d in pairs]
    grain = 10**12
    amounts = [budget * Fraction(int(share / math.fsum(shares) * grain), grain) for share in shares]
    if len({round(share, 12) for share in shares}) == 1:
        return tuple(budget / len(amounts) for _ in amounts)
    largest = max(range(len(amounts)), key=lambda i: amounts[i])
    amounts[largest] += budget - sum(amounts, Fraction(0))
    return tuple(amounts)


@refuse_beyond_floats
def group(loss: ls.Loss, size: int) -> ls.Loss:
    """The loss towards `size` units together, or towards a person with up to `size` rows.

    >>> group(ls.DiscreteGaussian(10, 1), 3)
    DiscreteGaussian(sigma=10, sensitivity=3, neighbours='add_remove', unit='3 x unit')
    """
    check_loss(loss)
    whole_number(size, "size")
    keep = {
        "neighbours": loss.neighbours,
        "unit": loss.unit if size == 1 else f"{size} x {loss.unit}",
    }
    if size == 1:
        return loss
    if isinstance(loss, ls.Repeated):
        return ls.Repeated(group(loss.loss, size), loss.count)
    if isinstance(loss, ls.Composed):
        return ls.compose(*(group(component, size) for component in loss.losses))
    if isinstance(loss, ls.Gaussian):
        return ls.Gaussian(loss.sigma, loss.sensitivity * size, **keep)  # type: ignore[arg-type]
    if isinstance(loss, ls.GaussianSum):
        return ls.GaussianSum(loss.sigma, loss.clip_norm * size, **keep)  # type: ignore[arg-type]
    if isinstance(loss, ls.PoissonSampled):
        # one of them is drawn with probability 1 - (1-q)^size; then all of them at worst
        # (docs/proofs/composition.md, section 7)
        return ls.PoissonSampled(1 - (1 - loss.q) ** size, group(loss.loss, size))
    if isinstance(loss, ls.SampledWithoutReplacement) and loss.neighbours == "replace":
        rate = _drawn_rate(loss.sample_size, loss.population_size, size)
        inner = group(loss.loss, size)
        return (
            inner
            if rate == 1
            else ls.SampledWithoutReplacement(rate.numerator, rate.denominator, inner)
        )
    if isinstance(loss, ls.Laplace):
        return ls.Laplace(loss.scale, loss.sensitivity * size, **keep)  # type: ignore[arg-type]
    if isinstance(loss, ls.DiscreteLaplace):
        return ls.DiscreteLaplace(loss.scale, loss.sensitivity * size, **keep)  # type: ignore[arg-type]
    if isinstance(loss, ls.DiscreteGaussian):
        return ls.DiscreteGaussian(loss.sigma, loss.sensitivity * size, **keep)  # type: ignore[arg-type]
    if isinstance(loss, ls.DiscreteGaussianVector):
        return ls.DiscreteGaussianVector(loss.sigma, loss.l2_squared * size**2, **keep)  # type: ignore[arg-type]
    if isinstance(loss, ls.RoundedGaussian):
        return ls.RoundedGaussian(loss.sigma, loss.l2_squared * size**2, **keep)  # type: ignore[arg-type]
    if isinstance(loss, ls.ZCDP) and loss.delta == 0:
        return ls.ZCDP(loss.rho * size**2, **keep)  # type: ignore[arg-type]
    if isinstance(loss, ls.Approx) and loss.epsilon > 0:
        unit_epsilon = float(loss.epsilon)
        ratio = math.expm1(size * unit_epsilon) / math.expm1(unit_epsilon) * (1 + 1e-14)
        if float(loss.delta) * ratio >= 1:
            raise RefusedError(
                f"a group of {size} has delta above one: the guarantee is empty",
                rule=PrivacyRule.GROUP_PRIVACY,
            )
        return ls.Approx(loss.epsilon * size, loss.delta * Fraction(ratio), **keep)  # type: ignore[arg-type]
    epsilon = pure_epsilon(loss)
    if epsilon is not None and not infinite_mass(loss) and not isinstance(loss, ls.Parallel):
        return ls.Pure(epsilon * size, **keep)  # type: ignore[arg-type]
    raise RefusedError(
        f"no group-privacy rule for {type(loss).__name__}: state it for the larger unit by its own "
        f"sensitivity, "
        "or convert to Approx(epsilon, delta) first and group that",
        rule=PrivacyRule.GROUP_PRIVACY,
    )


def _drawn_rate(sample_size: int, population_size: int, size: int) -> Fraction:
    """Compute the probability that a sample of fixed size holds some of `size` units.

    It is rounded up to a short fraction.
    """
    missed = Fraction(1)
    for i in range(min(size, population_size)):
        missed *= Fraction(max(0, population_size - sample_size - i), population_size - i)
    rate = 1 - missed
    return (
        rate
        if rate.denominator < 1 << 64
        else Fraction(-(-rate.numerator * (1 << 64) // rate.denominator), 1 << 64)
    )


@refuse_beyond_floats
def amplify(epsilon: Number, q: Number, delta: Number = 0) -> tuple[Bounds, Fraction]:
    """Compute (eps', delta') of an (eps, delta)-DP mechanism on a sample (theorem 3.28).

    They are log(1 + q (e^eps - 1)) and q delta. For Poisson sampling under add_remove and
    fixed-size sampling (q = m/n) under replace; not for all-or-nothing.

    >>> round(amplify(1, 0.01)[0].upper, 12)
    0.017036863236
    """
    rate = positive(q, "q")
    if rate > 1:
        raise ParameterError(f"q must lie in (0, 1], got {q}")
    upper = amplified_epsilon(exact(epsilon, "epsilon"), rate)
    return Bounds(float(upper) * (1 - 3e-16) - 1e-29, float(upper) * (1 + 3e-16)), rate * exact(
        delta, "delta"
    )


@refuse_beyond_floats
def unamplify(epsilon: Number, q: Number) -> float:
    """The epsilon a mechanism may have so that its sample is `epsilon`-DP: log(1 + (e^eps - 1)/q),
    rounded down."""
    rate = as_float(positive(q, "q"), "q")
    goal = as_float(positive(epsilon, "epsilon"), "epsilon")
    value = math.log1p(math.expm1(goal) / rate) if goal < 700 else goal - math.log(rate)
    return value * (1 - 1e-14)


@refuse_beyond_floats
def accuracy_floor(epsilon: Number, delta: Number, units: int, queries: int) -> float | None:
    """Compute a root-mean-square error that no (epsilon, delta)-DP algorithm beats on every
    dataset.

    For the means of `queries` yes/no questions over `units` answers (theorem 3.24): needs delta <=
    1/(100 n) and at least 200 (e^eps - 1)^2 n questions; None where the theorem says nothing.

    >>> round(accuracy_floor(1, 1e-6, 1000, 1_000_000), 7)
    0.0363735
    >>> accuracy_floor(1, 1e-6, 1000, 590_000) is None
    True
    """
    eps = as_float(positive(epsilon, "epsilon"), "epsilon")
    target = exact(delta, "delta")
    whole_number(units, "units")
    whole_number(queries, "queries")
    grown = math.expm1(eps) * (1 + 1e-14)
    if target * 100 * units > 1 or queries < 200 * grown**2 * units * (1 + 1e-14):
        return None
    return min(math.sqrt(queries) / (16 * units * grown), 0.1) * (1 - 1e-14)


@refuse_beyond_floats
def cautions(loss: ls.Loss, delta: Number, units: int | None = None) -> list[str]:
    """List what a reader of the number should be told, such as a delta that is too large."""
    target = exact(delta, "delta")
    notes = []
    if units is not None and target * whole_number(units, "units") >= 1:
        notes.append(
            f"delta = {number_text(target)} is not below 1/n = {1 / units:g}: releasing one unit "
            f"outright would "
            "satisfy it"
        )
    upper = curve_epsilon(loss, target).upper
    if upper > 10:
        notes.append(
            f"epsilon = {upper:.3g} bounds the odds by e^{upper:.3g}: attach attack-based evidence"
        )
    if not math.isfinite(upper):
        notes.append("no finite epsilon at this delta")
    elif curve_delta(loss, 0).lower > 0.5:
        notes.append("an attacker between two neighbours can be right more than 75% of the time")
    return notes
