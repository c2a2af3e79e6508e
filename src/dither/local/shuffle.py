"""Amplification by shuffling (Feldman, McMillan, Talwar 2021): n local reports, mixed by a trusted
shuffler.

The mixed reports of n users with an epsilon0-local randomiser are dominated by the pair (A + D, C -
A + 1 - D) against (A + 1 - D, C - A + D), C ~ Bin(n - 1, e**-epsilon0), A ~ Bin(C, 1/2), D ~
Bernoulli(e**epsilon0 / (e**epsilon0 + 1)); `numerical` computes its hockey-stick divergence, all
cut tails counted as failures; `closed_form` is the paper's theorem. Guarantee: (epsilon, delta),
replace, unit user, for one report a user, towards whoever sees only the mixed reports. `users`
counts honest ones: take off those who may collude with the reader, and those who may not report.
The shuffler itself sees each report, and has epsilon0 towards it.

>>> round(closed_form(1, 1_000_000, 1e-6), 4)
0.0235
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, log, sqrt

import numpy as np

from dither.canonical import Number, exact, positive
from dither.errors import ParameterError
from dither.given_numbers import as_float
from dither.local.protocol import UNIT, Protocol
from dither.privacy.losses import Approx
from dither.privacy.numbers import refuse_beyond_floats

_TAIL = 1e-3  # share of delta given to the cut tails of C
_SAFETY = 1 + 1e-6  # SciPy's binomial tails err by far less


@refuse_beyond_floats
def closed_form(epsilon0: Number, users: int, delta: Number) -> float:
    """Compute ln(1 + (E-1)/(E+1) (8 sqrt(E ln(4/delta)/n) + 8 E/n)), theorem 3.1.

    Raises ParameterError unless epsilon0 <= ln(n / (16 ln(2/delta))).
    """
    e0 = as_float(positive(epsilon0, "epsilon0"), "epsilon0")
    d = as_float(positive(delta, "delta"), "delta")
    if e0 > log(users / (16 * log(2 / d))):
        raise ParameterError(
            "the closed form needs epsilon0 <= ln(n / (16 ln(2/delta))): use the numerical bound"
        )
    e = exp(e0)
    return log(1 + (e - 1) / (e + 1) * (8 * sqrt(e * log(4 / d) / users) + 8 * e / users))


def delta_at(epsilon: float, epsilon0: Number, users: int, tail: float) -> float:
    """Bound delta of the dominating pair at `epsilon` from above.

    Values of C outside 1 - `tail` count in full.
    """
    from scipy.stats import binom

    e0 = as_float(positive(epsilon0, "epsilon0"), "epsilon0")
    low, high = (int(binom.ppf(q, users - 1, exp(-e0))) for q in (tail / 2, 1 - tail / 2))
    c = np.arange(max(0, low - 1), min(users - 1, high + 1) + 1)
    truth = exp(e0) / (1 + exp(e0))
    # P(x) / Q(x) for x = A + D: monotone in x, so the divergence is a tail of x >= t for each c
    shrink = truth / (1 - truth)
    ratio = (
        (exp(epsilon) * shrink - 1) / (shrink - exp(epsilon)) if exp(epsilon) < shrink else np.inf
    )
    if np.isinf(ratio):
        return 0.0
    # weights of x given c: P ~ truth b(x-1) + (1-truth) b(x); P/Q > e^eps  iff  b(x-1)/b(x) =
    # x/(c-x+1) > ratio
    start = np.floor(ratio * (c + 1) / (1 + ratio)) + 1
    upper_less = binom.sf(start - 2, c, 0.5)  # P(A >= t - 1)
    upper = binom.sf(start - 1, c, 0.5)  # P(A >= t)
    p = truth * upper_less + (1 - truth) * upper
    q = (1 - truth) * upper_less + truth * upper
    excess = np.maximum(p - exp(epsilon) * q, 0.0)
    mass = binom.pmf(c, users - 1, exp(-e0))
    outside = binom.cdf(c[0] - 1, users - 1, exp(-e0)) + binom.sf(c[-1], users - 1, exp(-e0))
    return float((mass * excess).sum() * _SAFETY + outside + 1e-15)


@refuse_beyond_floats
def numerical(epsilon0: Number, users: int, delta: Number) -> float:
    """Find by bisection the least epsilon with delta_at(epsilon) <= delta; never above epsilon0."""
    d = as_float(positive(delta, "delta"), "delta")
    if users < 2:
        raise ParameterError("shuffling needs at least two users")
    low, high = 0.0, as_float(positive(epsilon0, "epsilon0"), "epsilon0")
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (low, middle) if delta_at(middle, epsilon0, users, _TAIL * d) <= d else (middle, high)
        )
        if high - low < 1e-6 * high:
            break
    return high


@refuse_beyond_floats
def amplified(protocol: Protocol, users: int, delta: Number) -> Approx:
    """State what one shuffled round costs a user, as a loss that the accountants understand.

    >>> from dither import local
    >>> amplified(local.Direct(1, 4), 100_000, "1e-6").neighbours
    'replace'
    """
    epsilon = numerical(protocol.epsilon, users, delta)
    rounded = Fraction(int(epsilon * 2**40) + 1, 2**40)
    return Approx(
        min(rounded, protocol.epsilon), exact(delta, "delta"), neighbours="replace", unit=UNIT
    )
