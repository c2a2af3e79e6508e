"""Exact confidence: Clopper-Pearson ends, what a sample size can show at best, and the power of a
test.

No asymptotics. An end at level a misses the truth with probability at most a, whatever the truth
is; several ends share one rate by the union bound. docs/proofs/audit.md#confidence.
"""

from __future__ import annotations

import math
from functools import lru_cache

from scipy.special import betainccinv, betaincinv
from scipy.stats import binom

from dither.errors import ParameterError

_OUTWARD = 1e-9  # relative: far above the error of the inverse beta function, which is tested


def check_alpha(alpha: float) -> float:
    """Return alpha as a float, or refuse what does not lie strictly between 0 and 1."""
    if not 0 < float(alpha) < 1:
        raise ParameterError(
            f"alpha must lie in (0, 1), got {alpha}: the rate of false alarms, e.g. 1e-6"
        )
    return float(alpha)


def lower(hits: int, runs: int, alpha: float) -> float:
    """Compute a number that the true probability exceeds, with confidence at least 1 - alpha.

    >>> round(lower(500, 1000, 0.025), 8)
    0.46854917
    """
    if hits <= 0:
        return 0.0
    return float(betaincinv(hits, runs - hits + 1, alpha)) * (1 - _OUTWARD)


def upper(hits: int, runs: int, alpha: float) -> float:
    """Compute a number that the true probability is below, with confidence at least 1 - alpha.

    >>> round(upper(0, 1000, 0.025), 8)
    0.00368208
    """
    if hits >= runs:
        return 1.0
    return min(1.0, float(betainccinv(hits + 1, runs - hits, alpha)) * (1 + _OUTWARD))


def log_ratio(likely: float, rare: float, delta: float) -> float:
    """The least epsilon >= 0 with likely <= e^epsilon rare + delta: ln((likely - delta) / rare)."""
    if likely <= delta:
        return 0.0
    return math.inf if rare <= 0 else max(0.0, math.log((likely - delta) / rare))


def ceiling(runs: int, alpha: float, delta: float = 0.0) -> float:
    """The largest epsilon that this many runs on each side can show, with the clearest event there
    is.

    >>> round(ceiling(1000, 0.025, 1e-5), 5), round(ceiling(100, 0.025), 5)
    (5.60058, 3.28135)
    """
    return log_ratio(lower(runs, runs, alpha), upper(0, runs, alpha), delta)


def power(
    likely: float, rare: float, runs: int, epsilon: float, delta: float, alpha: float
) -> float:
    """Bound from below the chance that an event is seen to break the claim.

    The event has the probabilities `likely` and `rare`. The claim is refuted if lower(X) >
    e^epsilon upper(Y) + delta. For every threshold x the pair (X >= x, Y <= y(x)) refutes it, and X
    and Y are independent: the best product over x is a bound.

    >>> power(0.5, 0.1, 10_000, 1.0, 0.0, 1e-9) > 0.99, power(0.5, 0.19, 100, 1.0, 0.0, 1e-9) < 0.01
    (True, True)
    """
    best = 0.0
    for chance in (1e-12, 1e-11, 1e-10, 1e-9, 1e-6, 1e-4, 1e-3, 3e-3, 1e-2, 0.05, 0.1, 0.25, 0.5):
        x = int(binom.ppf(chance, runs, likely))
        y = _largest_quiet(lower(x, runs, alpha), runs, epsilon, delta, alpha)
        if y >= 0:
            best = max(best, float(binom.sf(x - 1, runs, likely)) * float(binom.cdf(y, runs, rare)))
    return best


def runs_needed(
    likely: float, rare: float, epsilon: float, delta: float, alpha: float, wanted: float = 0.99
) -> int | None:
    """Find the runs on each side that give at least this power, within 2%.

    None above 10^15 or if the event breaks nothing.

    >>> runs_needed(0.5, 0.1, 1.0, 0.0, 1e-9) < 3_000
    True
    """
    if likely <= math.exp(epsilon) * rare + delta:
        return None
    low, high = 1, 64
    while power(likely, rare, high, epsilon, delta, alpha) < wanted:
        low, high = high, high * 2
        if high > 10**15:
            return None
    while high > low * 1.02 + 1:
        middle = (low + high) // 2
        low, high = (
            (low, middle)
            if power(likely, rare, middle, epsilon, delta, alpha) >= wanted
            else (middle, high)
        )
    return high


def _largest_quiet(low: float, runs: int, epsilon: float, delta: float, alpha: float) -> int:
    """Find the largest y with low > e^epsilon upper(y) + delta, or -1.

    That is where P[Binomial(runs, bar) <= y] < alpha.
    """
    bar = (low - delta) * math.exp(-epsilon)
    if not 0 < bar <= 1 or upper(0, runs, alpha) >= bar:
        return -1
    high = runs if bar == 1 else int(binom.ppf(alpha, runs, bar)) + 2
    step = 1
    while (
        high - step > 0 and upper(high - step, runs, alpha) >= bar
    ):  # the inverse may be off by rounding
        step *= 2
    low_end = max(0, high - step)
    while high - low_end > 1:
        middle = (low_end + high) // 2
        low_end, high = (middle, high) if upper(middle, runs, alpha) < bar else (low_end, middle)
    return low_end


@lru_cache(maxsize=4096)
def hoeffding_runs(error: float, alpha: float) -> int:
    """The hold-out size after which |estimate - truth| >= error has probability at most alpha.

    >>> hoeffding_runs(0.05, 0.05), hoeffding_runs(0.01, 0.05)
    (738, 18445)
    """
    return math.ceil(math.log(2 / alpha) / (2 * error * error))
