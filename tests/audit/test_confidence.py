"""Confidence: published numbers, exact coverage by enumeration, and the power formula against the
exact power."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from dither.audit.alpha_budget import next_share, share
from dither.audit.confidence import (
    ceiling,
    hoeffding_runs,
    log_ratio,
    lower,
    power,
    runs_needed,
    upper,
)
from dither.errors import ParameterError


def test_the_numbers_of_the_spec():
    """FPR and FNR limits, and the epsilons that follow."""
    assert upper(0, 1000, 0.025) == pytest.approx(0.00368208, rel=1e-5)
    assert upper(500, 1000, 0.025) == pytest.approx(0.53145083, rel=1e-7)
    fpr, fnr = upper(0, 1000, 0.025), upper(500, 1000, 0.025)
    assert log_ratio(1 - fnr, fpr, 1e-5) == pytest.approx(4.84614, abs=1e-5)
    assert norm.ppf(1 - fpr) - norm.ppf(fnr) == pytest.approx(2.60099, abs=1e-5)
    assert ceiling(1000, 0.025, 1e-5) == pytest.approx(5.60058, abs=1e-5)
    assert ceiling(100, 0.025) == pytest.approx(3.28135, abs=1e-5)
    assert ceiling(10_000, 0.025) == pytest.approx(7.90483, abs=1e-5)
    assert log_ratio(1 - upper(400, 1000, 0.025), upper(400, 1000, 0.025), 0) == pytest.approx(
        0.277277, abs=1e-6
    )
    assert log_ratio(1 - upper(500, 1000, 0.025), upper(500, 1000, 0.025), 0) == 0
    assert hoeffding_runs(0.05, 0.05) == 738  # the book prints 737


@pytest.mark.parametrize("alpha", [0.2, 0.01])
def test_an_end_misses_the_truth_at_most_alpha_of_the_time_whatever_the_truth(alpha):
    """Exactly: the probability over all outcomes, for every truth on a grid."""
    runs = 40
    lows = np.array([lower(k, runs, alpha) for k in range(runs + 1)])
    highs = np.array([upper(k, runs, alpha) for k in range(runs + 1)])
    for truth in np.linspace(0.001, 0.999, 333):
        law = binom.pmf(np.arange(runs + 1), runs, truth)
        assert law[lows > truth].sum() <= alpha and law[highs < truth].sum() <= alpha


def test_ends_are_rounded_outwards_also_for_huge_samples_and_tiny_rates():
    for runs, hits, alpha in itertools.product((10, 10**6, 10**12), (0, 1, 7), (0.05, 1e-6, 4e-11)):
        assert binom.cdf(hits, runs, upper(hits, runs, alpha)) <= alpha
        if hits:
            assert binom.sf(hits - 1, runs, lower(hits, runs, alpha)) <= alpha


def test_the_power_is_a_lower_bound_of_the_exact_power_and_close_to_it():
    one, two, runs, epsilon, alpha = 0.8, 0.1, 60, 1.0, 1e-3
    exact = sum(
        binom.pmf(x, runs, one) * binom.pmf(y, runs, two)
        for x in range(runs + 1)
        for y in range(runs + 1)
        if lower(x, runs, alpha) > math.exp(epsilon) * upper(y, runs, alpha)
    )
    assert exact - 0.15 <= power(one, two, runs, epsilon, 0.0, alpha) <= exact
    assert runs_needed(0.2, 0.1, 1.0, 0.0, alpha) is None  # breaks nothing
    needed = runs_needed(0.8, 0.1, epsilon, 0.0, alpha)
    assert (
        power(0.8, 0.1, needed, epsilon, 0.0, alpha)
        >= 0.99
        > power(0.8, 0.1, needed // 2, epsilon, 0.0, alpha)
    )


def test_the_black_box_needs_more_than_ten_to_the_eleven_runs_for_two_of_the_bugs():
    """2.9e11 and 1.5e11 by a sharper test; two Clopper-Pearson ends need about twice as many."""
    tail = lambda t: float(sum(math.exp(-k * k / (2 * 3.73063**2)) for k in range(t, 200)))
    total = 1 + 2 * tail(1)
    needed = runs_needed(tail(14) / total, tail(15) / total, 1.0, 1e-5, 2.5e-10)
    assert 2.9e11 < needed < 1e12


def test_all_runs_of_a_year_share_one_rate(tmp_path):
    """Rule audits-fixed-in-advance: nightly runs spend one error budget over the year."""
    file = tmp_path / "year.json"
    spent = [next_share(file, 0.01, year=2026) for _ in range(400)]
    assert spent[0] == 0.005 and sum(spent) < 0.01
    assert sum(share(k, 0.01) for k in range(1, 10**5)) <= 0.01
    assert next_share(file, 0.01, year=2027) == 0.005
    with pytest.raises(ParameterError):
        share(1, 1.5)
