"""Noisy counts of the keys that a threshold shows: their exact law, their intervals, and what must
not leave. The privacy of the law is in `test_threshold_keys.py`, counts included."""

from __future__ import annotations

import math
from fractions import Fraction as F
from functools import cache

import numpy as np
import pytest

from dither.laws import GaussianErrorLaw, ShownCountLaw, find_error_law
from dither.plan.algebra import Keys, Scan
from dither.privacy.kernel.randomise import randomise
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.mechanisms.gaussian_keys import CountedKeys, ThresholdKeys
from dither.privacy.noise import SystemSource
from tests.case_lists import mark_between
from tests.datasets.clinic import catalog
from tests.evidence import assert_counts
from tests.kernel.calibrating import calibrate
from tests.mechanisms.planted import Bug
from tests.mechanisms.test_threshold_keys import divergence, list_atoms

KEYS = CountedKeys(F(3), 10, 2)
LARGE = CountedKeys.for_rho(F(1, 20), F(1, 10**6), groups=10)
DRAWS = 20_000
OPEN = {"values__[north, south], other__keep": "values: undeclared, width: 8"}


def test_counts_follow_the_law_of_the_selection() -> None:
    """Hidden, or shown with v >= threshold with the chance of n + Z = v: `list_atoms`, by
    definition."""
    for owners in (1, 8, 13):
        atoms = np.exp(list_atoms(KEYS, owners))
        released = KEYS.release_exact([owners] * DRAWS, SystemSource())
        values = range(KEYS.threshold, KEYS.threshold + 6)
        counts = {str(value): released.count(value) for value in values}
        law = {str(value): float(atoms[1 + i]) for i, value in enumerate(values)}
        assert_counts(
            {**counts, "hidden": released.count(0)}, DRAWS, {**law, "hidden": float(atoms[0])}
        )
        assert all(value == 0 or value >= KEYS.threshold for value in released)


def test_keys_that_nobody_owns_have_no_count() -> None:
    assert CountedKeys(F(50), 2, 1).release_exact([0] * 1000, SystemSource()) == [0] * 1000


def test_what_the_kernel_releases_is_the_counts_of_shown_keys_alone() -> None:
    query = Keys(Scan("visits"), ("ward",))
    request = Request((Step(query, "counted_keys", F(1)),), Price(rho=F(1)), "total")
    steps = calibrate(request, catalog(**OPEN), F(1, 10**6))
    threshold = steps[0].mechanism.threshold
    exact = {(f"ward {i:03}",): 1 + i % threshold for i in range(600)} | {(None,): threshold}
    (keys,) = randomise(steps, [exact], SystemSource())
    assert 0 < len(keys) < len(exact)
    assert all(len(key) == 2 and int(key[1]) >= threshold for key in keys)
    assert {key[:1] for key in keys} <= set(exact)


def test_the_loss_is_that_of_the_selection_without_counts() -> None:
    plain = ThresholdKeys(LARGE.sigma, LARGE.threshold, LARGE.groups)
    assert LARGE.loss() == plain.loss() and LARGE.stored_name != plain.stored_name


@cache
def list_chances(keys: CountedKeys, owners: int) -> tuple[float, ...]:
    """The chances of v = threshold, threshold + 1, ..., given that the key is shown."""
    shown = np.exp(list_atoms(keys, owners)[1:])
    return tuple(shown / math.fsum(shown))


def find_coverage(keys: CountedKeys, owners: int, lower: list[int], half: int) -> float:
    """How often the intervals hold the owners, given that the key is shown; `lower` has the lower
    end of every count from the threshold on."""
    chances = list_chances(keys, owners)
    return math.fsum(
        chance
        for i, chance in enumerate(chances)
        if lower[i] <= owners <= keys.threshold + i + half
    )


@pytest.mark.parametrize("level", mark_between([F(1, 2), F(95, 100), F(999, 1000)], step=2))
@pytest.mark.parametrize("keys", [KEYS, LARGE], ids=["small", "large"])
def test_intervals_hold_given_that_the_key_is_shown(keys: CountedKeys, level: F) -> None:
    law = find_error_law(keys, 1)
    assert isinstance(law, ShownCountLaw)
    counts = [keys.threshold + i for i in range(len(list_chances(keys, 1)))]
    lower = law.find_lower_ends(counts, level)
    worst = min(
        find_coverage(keys, owners, lower, law.interval(level))
        for owners in range(1, keys.threshold + 40)
    )
    assert worst >= float(level)
    assert lower[0] == 1 and lower == sorted(lower)


def test_the_symmetric_interval_would_not_hold() -> None:
    """Ten keys a person, as in docs/proofs/key-selection.md: it never holds a lone owner."""
    half = GaussianErrorLaw(LARGE.sigma).interval(F(95, 100))
    counts = [LARGE.threshold + i for i in range(len(list_chances(LARGE, 1)))]
    symmetric = [count - half for count in counts]
    assert find_coverage(LARGE, 1, symmetric, half) == 0.0


def test_lower_ends_are_the_smallest_that_the_rule_allows() -> None:
    """Against the sum by definition, n by n."""
    law = find_error_law(KEYS, 1)
    weights = {z: math.exp(-(z**2) / 18) for z in range(-120, 121)}
    tail = {k: math.fsum(w for z, w in weights.items() if z >= k) for k in range(-120, 121)}
    for count in range(KEYS.threshold, 60):
        ends = [
            n
            for n in range(1, count + 1)
            if tail[count - n] > 0.025 * tail[max(-120, KEYS.threshold - n)]
        ]
        assert law.find_lower_ends([count], F(95, 100)) == [ends[0]]


def test_a_count_that_is_drawn_anew_would_cost_more() -> None:
    """The coin of the selection, and a count with noise of its own where it is shown: the law of
    two looks. By the Renyi divergence of order 2, ours costs at most 2 rho, that one more."""
    noise = np.exp(-(np.arange(-60, 61) ** 2) / (2 * float(KEYS.sigma) ** 2))
    noise /= noise.sum()

    def list_fresh(owners: int) -> np.ndarray:
        """The logarithms of hidden, then of every count that is shown."""
        hidden = np.exp(list_atoms(KEYS, owners)[0])
        count = np.zeros(len(noise) + 40)
        count[owners : owners + len(noise)] = noise
        with np.errstate(divide="ignore"):
            return np.log(np.append((1 - hidden) * count, hidden))

    allowed = 2 * float(KEYS.loss().rho) / KEYS.groups
    near = range(KEYS.threshold - 6, KEYS.threshold + 6)
    ours = max(divergence(list_atoms(KEYS, n + 1), list_atoms(KEYS, n), 2.0) for n in near)
    fresh = max(_diverge(list_fresh(n + 1), list_fresh(n)) for n in near)
    assert ours <= allowed * (1 + 1e-9) < 1.3 * allowed < fresh


def _diverge(first: np.ndarray, second: np.ndarray) -> float:
    """The divergence of order 2, where both laws are positive."""
    both = np.isfinite(first) & np.isfinite(second)
    return divergence(first[both], second[both], 2.0)


def _count_anew(self: CountedKeys, exact: object, source: object) -> list[int]:
    is_chosen, _ = self.release(exact, source=source)
    _, fresh = CountedKeys(self.sigma, 2, self.groups).release(exact, source=source)
    return [int(count) if chosen else 0 for chosen, count in zip(is_chosen, fresh, strict=True)]


def _count_all(self: CountedKeys, exact: object, source: object) -> list[int]:
    """The counts of all keys, a few people off."""
    return [int(owners) + 3 for owners in np.asarray(exact)]


BUGS = {
    "counts-drawn-anew": Bug(
        "the count of a shown key gets noise of its own, at no charge",
        test_counts_follow_the_law_of_the_selection,
        ((CountedKeys, "release_exact", _count_anew),),
    ),
    "counts-of-unshown-keys": Bug(
        "keys below the threshold leave with their noisy counts",
        test_what_the_kernel_releases_is_the_counts_of_shown_keys_alone,
        ((CountedKeys, "release_exact", _count_all),),
    ),
}
