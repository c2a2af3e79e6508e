"""A black-box test of P1(S) <= e^epsilon P2(S) + delta, both ways, that falsely fails with
probability at most 1e-9.

Outputs are integers (other outputs are numbered by the caller). The event S (a point, a half-line,
or the set of outputs whose ratio is too large) is chosen on the first half of the draws; the second
half decides, by Clopper-Pearson bounds at alpha / 4 each: two bounds, two directions, one event
each, so the union bound gives alpha.
"""

import math
from fractions import Fraction

import numpy as np
from scipy import stats

from dither.privacy.losses import (
    Approx,
    BoundedRange,
    Composed,
    DiscreteLaplace,
    Pure,
    RandomizedResponse,
    Repeated,
)

ALPHA = 1e-9


def assert_close(first, second, epsilon, delta=0.0, alpha=ALPHA):
    """Fails if the draws of two neighbours show that the claim is false."""
    codes = np.unique(np.concatenate([np.ravel(first), np.ravel(second)]))
    one, two = np.searchsorted(codes, np.ravel(first)), np.searchsorted(codes, np.ravel(second))
    for a, b in ((one, two), (two, one)):
        event = _event(a[: len(a) // 2], b[: len(b) // 2], len(codes), float(epsilon), float(delta))
        low = _lower(int(event[a[len(a) // 2 :]].sum()), len(a) - len(a) // 2, alpha / 4)
        high = _upper(int(event[b[len(b) // 2 :]].sum()), len(b) - len(b) // 2, alpha / 4)
        assert low <= math.exp(float(epsilon)) * high + float(delta), (
            f"an event has probability above {low:.6f} on one neighbour and below {high:.6f} on "
            f"the other"
        )


def _event(a, b, outputs, epsilon, delta):
    p, q = np.bincount(a, minlength=outputs) / len(a), np.bincount(b, minlength=outputs) / len(b)
    events = [p > math.exp(epsilon) * q]
    order = np.arange(outputs)
    heavy = np.argsort(-p)[:50]
    events += (
        [order == i for i in heavy] + [order <= i for i in heavy] + [order >= i for i in heavy]
    )

    def excess(event):
        one, two = p[event].sum(), q[event].sum()
        spread = math.sqrt(
            (one / len(a)) + math.exp(2 * epsilon) * two / len(b) + 1.0 / len(a) ** 2
        )
        return (one - math.exp(epsilon) * two - delta) / spread

    return max(events, key=excess)


def _lower(hits, draws, alpha):
    return 0.0 if hits == 0 else float(stats.beta.ppf(alpha, hits, draws - hits + 1))


def _upper(hits, draws, alpha):
    return 1.0 if hits == draws else float(stats.beta.ppf(1 - alpha, hits + 1, draws - hits))


def assert_law(draws, law, alpha=ALPHA):
    """Fails (falsely at most once in 1e9) if integer draws do not follow `law`, a list of P(0),
    P(1), ...

    Each cell is tested by its exact binomial law; cells share alpha.
    """
    counts = np.bincount(np.ravel(draws), minlength=len(law))
    assert len(counts) == len(law), "an output outside the law"
    for cell, (count, probability) in enumerate(zip(counts, law, strict=True)):
        p = min(1.0, max(0.0, float(probability)))
        assert stats.binomtest(int(count), len(draws), p).pvalue > alpha / len(law), (
            f"cell {cell} is off"
        )


def pure_epsilon(loss):
    """The epsilon that basic composition gives to a loss made of pure parts."""
    if isinstance(loss, Repeated):
        return loss.count * pure_epsilon(loss.loss)
    if isinstance(loss, Composed):
        return sum(pure_epsilon(part) for part in loss.losses)
    if isinstance(loss, DiscreteLaplace):
        return Fraction(loss.sensitivity) / loss.scale
    assert isinstance(loss, (Pure, BoundedRange, RandomizedResponse, Approx)), loss
    return loss.epsilon
