"""The probability of an infinite loss: what a composition spends whatever epsilon, kept exact.

Masses compose as 1 - prod (1 - delta_j) (docs/proofs/composition.md, section 2). Short products are
exact fractions. Long ones are evaluated with sixty digits and rounded outwards, so that a mass of
1e-400 stays above zero.
"""

from __future__ import annotations

from fractions import Fraction

import mpmath

from dither.accounting.events import Events
from dither.accounting.guarantees import infinite_mass
from dither.accounting.multiprecision import read_fraction, write_fraction
from dither.accounting.training_laws import BEST_OF
from dither.privacy import losses as ls

_MOST_BITS = 20_000
_SLACK = Fraction(1, 10**50)
_NONE = Fraction(0)
_WITH_MASS = (
    ls.Approx,
    ls.ZCDP,
    ls.PoissonSampled,
    ls.SampledWithoutReplacement,
    ls.Composed,
    ls.Repeated,
    *BEST_OF,
)


def mass_at_infinity(events: Events) -> tuple[Fraction, Fraction]:
    """Bound 1 - prod (1 - delta_j), the delta that the events spend whatever epsilon.

    Returns (low, high).
    """
    low: list[tuple[Fraction, int]] = []
    high: list[tuple[Fraction, int]] = []
    for event, count in events.items():
        if not isinstance(event, _WITH_MASS) or _has_no_mass(event):
            continue
        low.append((infinite_mass(event, "lower"), count))
        high.append((infinite_mass(event, "upper"), count))
    if not high:
        return _NONE, _NONE
    lower, upper = compose_masses(high)
    if low != high:
        lower, _ = compose_masses(low)
    return lower, upper


def compose_masses(masses: list[tuple[Fraction, int]]) -> tuple[Fraction, Fraction]:
    """Bound 1 - prod (1 - mass)^count; both bounds are equal where the product is short.

    `masses` are pairs (mass, count).

    >>> compose_masses([(Fraction(1, 10**5), 2)])
    (Fraction(199999, 10000000000), Fraction(199999, 10000000000))
    """
    positive = [(mass, count) for mass, count in masses if mass > 0]
    if any(mass >= 1 for mass, _ in positive):
        return Fraction(1), Fraction(1)
    if sum(count * mass.denominator.bit_length() for mass, count in positive) <= _MOST_BITS:
        rest = Fraction(1)
        for mass, count in positive:
            rest *= (1 - mass) ** count
        return 1 - rest, 1 - rest
    with mpmath.workdps(60):
        logs = [count * mpmath.log1p(-read_fraction(mass)) for mass, count in positive]
        total = write_fraction(-mpmath.expm1(mpmath.fsum(logs)))
    return total * (1 - _SLACK), min(Fraction(1), total * (1 + _SLACK))


def _has_no_mass(event: ls.Loss) -> bool:
    """Remembered on the (frozen) loss: workloads grow by appending to old ones."""
    is_finite: bool | None = event.__dict__.get("_accounting_finite")
    if is_finite is None:
        is_finite = event.__dict__["_accounting_finite"] = infinite_mass(event) == 0
    return is_finite
