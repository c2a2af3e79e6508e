"""The exact tester for finite outputs: the hockey-stick divergence from two laws, with no sampling
and no alpha.

delta(eps) = sum over outputs of max(0, P1(x) - e^eps P2(x)), the larger of both directions.
Rational laws are summed in Fractions with an enclosed e^eps; float laws in float64, with their
rounding added to the bracket. Proof: docs/proofs/audit.md#exact-laws.

>>> hockey_stick({0: Fraction(3, 4), 1: Fraction(1, 4)}, {0: Fraction(1, 4), 1: Fraction(3, 4)}, 0)
Bounds(lower=0.5, upper=0.5)
>>> judge({0: 0.9, 1: 0.1}, {0: 0.5, 1: 0.5}, epsilon=1).outcome
'violated'
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from dither.accounting.bounds import Bounds, down, up
from dither.privacy.noise.enclosure import exp_minus

Law = Mapping[Any, Any]
_BITS = 256
_FLOAT_ERROR = 2.0**-44  # of a sum of probabilities, each a few units in the last place off


def hockey_stick(left: Law, right: Law, epsilon: float | Fraction) -> Bounds:
    """A bracket of the smallest delta with which two laws are (epsilon, delta)-close in both
    directions."""
    ends = [
        _bound_one_direction(a, b, Fraction(epsilon)) for a, b in ((left, right), (right, left))
    ]
    return Bounds(max(end.lower for end in ends), max(end.upper for end in ends))


def smallest_epsilon(left: Law, right: Law, delta: float = 0.0) -> Bounds:
    """Bracket the smallest epsilon whose delta is at most `delta`.

    It is infinite if one side lacks an output.
    """
    if delta == 0:
        worst = max(_log_ratio(left, right, x) for x in {*left, *right})
        return Bounds(worst * (1 - _FLOAT_ERROR), worst * (1 + _FLOAT_ERROR))
    low, high = 0.0, 1.0
    while hockey_stick(left, right, high).upper > delta:
        if high > 512:
            return Bounds(low, math.inf)
        low, high = (
            (high, 2 * high) if hockey_stick(left, right, high).lower > delta else (low, 2 * high)
        )
    top = high
    for _ in range(60):
        middle = (low + top) / 2
        low, top = (
            (low, middle) if hockey_stick(left, right, middle).upper <= delta else (middle, top)
        )
    bottom = 0.0
    last = top
    for _ in range(60):
        middle = (bottom + last) / 2
        bottom, last = (
            (middle, last) if hockey_stick(left, right, middle).lower > delta else (bottom, middle)
        )
    return Bounds(bottom, top)


def _bound_one_direction(left: Law, right: Law, eps: Fraction) -> Bounds:
    """Bound sum over x of max(0, left(x) - e^eps * right(x)) from below and above.

    Fractions give bounds that are off by the rounding of e^eps alone. For floats the sum is
    widened by a bound on its rounding errors.
    """
    if all(isinstance(p, (int, Fraction)) for law in (left, right) for p in law.values()):
        small = exp_minus(eps, _BITS)
        scale = Fraction(1 << _BITS, small.high), Fraction(1 << _BITS, max(1, small.low))
        low = sum(
            (max(Fraction(0), p - scale[1] * right.get(x, 0)) for x, p in left.items()), Fraction(0)
        )
        high = sum(
            (max(Fraction(0), p - scale[0] * right.get(x, 0)) for x, p in left.items()), Fraction(0)
        )
        exact = eps == 0
        return Bounds(
            float(low) if exact else max(0.0, down(float(low))),
            float(high) if exact else up(float(high)),
        )
    factor = math.exp(min(700.0, float(eps)))
    total = math.fsum(
        max(0.0, float(p) - factor * float(right.get(x, 0.0))) for x, p in left.items()
    )
    size = math.fsum(float(p) for p in left.values()) + math.fsum(
        factor * float(right.get(x, 0.0))
        for x, p in left.items()
        if float(p) > factor * float(right.get(x, 0.0)) / 2
    )
    return Bounds(max(0.0, total - _FLOAT_ERROR * size), total + _FLOAT_ERROR * size)


@dataclass(frozen=True)
class ExactVerdict:
    """What two laws show about a claim: a proof for this pair, either way."""

    outcome: Literal["violated", "holds on this pair", "undecided"]
    epsilon: float
    delta: float
    delta_bounds: Bounds
    worst: Hashable
    probabilities: tuple[float, float]


def judge(left: Law, right: Law, *, epsilon: float | Fraction, delta: float = 0.0) -> ExactVerdict:
    """Whether the laws of two neighbours keep the claim; `worst` is the output with the largest
    likelihood ratio."""
    bounds = hockey_stick(left, right, epsilon)
    outcome: Any = "undecided"
    if bounds.lower > delta:
        outcome = "violated"
    elif bounds.upper <= delta + (_FLOAT_ERROR * 4 if delta == 0 else 0.0):
        outcome = "holds on this pair"

    worst = max({*left, *right}, key=lambda x: _log_ratio(left, right, x))
    pair = (float(left.get(worst, 0)), float(right.get(worst, 0)))
    return ExactVerdict(outcome, float(epsilon), float(delta), bounds, worst, pair)


def _log_ratio(left: Law, right: Law, x: Any) -> float:
    """|ln P1(x) / P2(x)|."""
    p = float(left.get(x, 0))
    q = float(right.get(x, 0))
    return 0.0 if p == q == 0 else math.inf if min(p, q) == 0 else abs(math.log(p / q))


def renyi(left: Law, right: Law, order: float) -> float:
    """Compute the Renyi divergence of two float laws at an order above 1, both ways, the larger."""
    divergences = []
    for a, b in ((left, right), (right, left)):
        if any(float(p) > 0 and float(b.get(x, 0)) == 0 for x, p in a.items()):
            return math.inf
        total = math.fsum(
            float(p) ** order * float(b[x]) ** (1 - order) for x, p in a.items() if float(p) > 0
        )
        divergences.append(math.log(total) / (order - 1))
    return max(divergences)
