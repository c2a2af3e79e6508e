"""Ends of quantiles on generated data: they hold the quantile between them, and not much more."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from scipy.stats import binom

from dither.privacy.mechanisms import Quantile, QuantilesWithEnds
from tests.case_lists import mark_between

CELLS = 2_000
LEVEL = F(95, 100)
RELEASES = 300
FALSE_ALARM = 1e-9
AIMED = QuantilesWithEnds.rows
"""How many rows away an end is aimed, by the theorem, whatever a test plants."""
LEAST_HITS = binom.ppf(FALSE_ALARM, RELEASES, float(LEVEL))


def make_values(name: str) -> np.ndarray:
    """5,000 invented values on a grid of 2,000 cells, the same in every run."""
    draw = np.random.default_rng(7)
    values = {
        "skewed": draw.lognormal(5, 0.8, 5_000),
        "uniform": draw.uniform(0, CELLS, 5_000),
        "two heaps": np.where(draw.random(5_000) < 0.5, 300, 1_700) + draw.normal(0, 20, 5_000),
        "few": draw.uniform(900, 1_000, 40),
    }[name]
    return np.clip(values, 0, CELLS - 1).astype(int)


def count_hits(name: str, share: F) -> tuple[int, int]:
    """Of so many releases: how often the ends hold the exact quantile, and lie within 2t rows."""
    values = make_values(name)
    mechanism = QuantilesWithEnds(Quantile(share, F(7, 8)), F(1, 16), LEVEL, CELLS)
    counts = np.bincount(values, minlength=CELLS)
    rows = len(values)
    reach = 2 * AIMED(mechanism, share)
    exact = np.sort(values)[-(-rows * share.numerator // share.denominator) - 1]
    covers = narrow = 0
    for _ in range(RELEASES):
        _, low, high = mechanism.release(counts)
        covers += low <= exact <= high
        narrow += (
            np.count_nonzero(values <= low) > share * rows - reach
            and np.count_nonzero(values >= high) > (1 - share) * rows - reach
        )
    return covers, narrow


@pytest.mark.parametrize("share", [F(1, 2), F(9, 10)], ids=["median", "ninth"])
@pytest.mark.parametrize("name", mark_between(["skewed", "uniform", "two heaps", "few"], step=2))
def test_ends_cover_and_lie_within_the_rows_that_are_stated(name, share):
    """docs/proofs/quantiles.md#ends: both events have probability at least the level."""
    covers, narrow = count_hits(name, share)
    assert covers >= LEAST_HITS and narrow >= LEAST_HITS


def test_planted_ends_that_are_aimed_too_far_are_seen(monkeypatch):
    monkeypatch.setattr(QuantilesWithEnds, "rows", lambda self, share: 4 * AIMED(self, share))
    covers, narrow = count_hits("uniform", F(1, 2))
    assert covers >= LEAST_HITS > narrow


def test_planted_ends_that_are_aimed_at_the_quantile_are_seen(monkeypatch):
    monkeypatch.setattr(QuantilesWithEnds, "rows", lambda self, share: 1)
    covers, _ = count_hits("uniform", F(1, 2))
    assert covers < LEAST_HITS
