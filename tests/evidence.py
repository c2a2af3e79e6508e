"""Statistical evidence with a computed false-alarm rate, by exact binomial and hypergeometric
tails.

No asymptotics: each event's count is Binomial(n, p) if the sampler is right, both of its tails are
evaluated by the incomplete beta function, and the events of one test share the rate by the union
bound. With K events, each is given `FALSE_ALARM / K`, so a correct sampler fails a test with
probability at most FALSE_ALARM = 1e-9.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from mpmath import mp, mpf
from numpy.typing import NDArray
from scipy.stats import binom, hypergeom

FALSE_ALARM = 1e-9


def assert_counts(
    counts: Mapping[str, int], draws: int, probabilities: Mapping[str, float]
) -> None:
    """Fails if the count of some event lies in a tail of its binomial law below FALSE_ALARM /
    (number of events)."""
    assert counts.keys() == probabilities.keys()
    share = FALSE_ALARM / len(counts) / 2
    for event, count in counts.items():
        p = probabilities[event]
        low, high = binom.cdf(count, draws, p), binom.sf(count - 1, draws, p)
        assert low > share and high > share, (
            f"{event}: {count} of {draws}, expected {draws * p:.1f} +- "
            f"{np.sqrt(draws * p * (1 - p)):.1f}"
        )


def assert_unrelated(magnitudes: NDArray[np.float64], seconds: NDArray[np.float64]) -> None:
    """Fails if large magnitudes gather among slow (or fast) runs.

    Given the times, magnitudes that do not influence them are exchangeable: the number of large
    ones among the slow half is hypergeometric, exactly, whatever the times look like (drift, bursts
    and other processes included).
    """
    n = len(seconds)
    slow = np.argsort(seconds, kind="stable")[n // 2 :]
    large = np.zeros(n, bool)
    large[np.argsort(magnitudes, kind="stable")[n // 2 :]] = True
    met = int(large[slow].sum())
    law = hypergeom(n, int(large.sum()), len(slow))
    assert min(law.cdf(met), law.sf(met - 1)) > FALSE_ALARM / 2, (
        f"{met} of {len(slow)} slow runs were large"
    )


def to_real(number: Fraction) -> mpf:
    """The number at the working precision of mpmath."""
    return mpf(number.numerator) / number.denominator


def laplace_tail(scale: Fraction, t: int, *, signed: bool = True) -> mpf:
    """P(Z >= t): closed form. t may be negative."""
    a = mp.exp(-mpf(scale.denominator) / scale.numerator)
    if not signed:
        return a ** max(t, 0)
    return a**t / (1 + a) if t >= 1 else 1 - a ** (1 - t) / (1 + a)


def gaussian_tail(sigma: Fraction, t: int) -> mpf:
    """P(Z >= t): a sum of 60 sigma terms up to sigma = 60, Euler-Maclaurin (error below 1e-10 of
    it) above."""
    s = to_real(sigma)
    if t < 1:
        return 1 - gaussian_tail(sigma, 1 - t)
    if s <= 60:
        total = mp.jtheta(3, 0, mp.exp(-1 / (2 * s * s)))
        return (
            mp.fsum(mp.exp(-(mpf(k) ** 2) / (2 * s * s)) for k in range(t, t + int(60 * s) + 10))
            / total
        )
    f = mp.exp(-(mpf(t) ** 2) / (2 * s * s)) / (s * mp.sqrt(2 * mp.pi))
    return mp.erfc(t / (s * mp.sqrt(2))) / 2 + f / 2 + t / s**2 * f / 12
