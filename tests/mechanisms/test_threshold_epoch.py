"""Epochs of online answers: the exact law of all outcomes against the claim, and planted bugs
(docs/proofs/sparse-vector.md#online-answers)."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product
from typing import Any

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.privacy.losses import Pure
from dither.privacy.mechanisms.threshold_epoch import ThresholdEpoch
from dither.privacy.noise import SystemSource
from tests.mechanisms.planted import Bug

EPOCH = ThresholdEpoch(F(2), F(4), F(2), 1)
THRESHOLD = 0
NOISES = np.arange(-200, 201)


def find_tail(scale: F, least: np.ndarray) -> np.ndarray:
    """P(Z >= least) of integer Laplace noise, by its closed form."""
    base = np.exp(-1 / float(scale))
    above = base ** np.maximum(least, 0) / (1 + base)
    below = 1 - base ** (1 - np.minimum(least, 0)) / (1 + base)
    return np.where(least > 0, above, below)


def find_mass(scale: F, numbers: np.ndarray) -> np.ndarray:
    return find_tail(scale, numbers) - find_tail(scale, numbers + 1)


def find_chances(epoch: ThresholdEpoch, distances: tuple[int, ...]) -> np.ndarray:
    """The chance that the first hit is the k-th query, for every k, and of no hit at all."""
    reached = find_mass(epoch.threshold_scale, NOISES)
    chances = []
    for distance in distances:
        hit = find_tail(epoch.query_scale, THRESHOLD + NOISES - distance)
        chances.append((reached * hit).sum())
        reached = reached * (1 - hit)
    return np.array([*chances, reached.sum()])


def find_worst_ratio(epoch: ThresholdEpoch) -> float:
    """The largest log ratio of the outcomes of comparisons, over neighbours that differ by 1.

    Small cases in full; and many misses that all move one way before a hit that moves the other,
    which is where a threshold without noise of its own pays for every miss.
    """
    cases = list(product(product((0, 2), repeat=3), product((-1, 0, 1), repeat=3)))
    cases += [((9,) * 12 + (hit,), (1,) * 12 + (-1,)) for hit in (3, 9)]
    cases += [((3,) * 12 + (hit,), (1,) * 12 + (-1,)) for hit in (3, 9)]
    worst = 0.0
    for distances, moves in cases:
        others = tuple(abs(d + move) for d, move in zip(distances, moves, strict=True))
        ratios = np.log(find_chances(epoch, distances) / find_chances(epoch, others))
        worst = max(worst, float(np.abs(ratios).max()))
    return worst


def find_comparison_claim(epoch: ThresholdEpoch) -> float:
    return float(epoch.loss().epsilon - F(epoch.sensitivity) / epoch.value_scale)


def test_no_outcome_of_comparisons_exceeds_the_claim() -> None:
    worst = find_worst_ratio(EPOCH)
    claim = find_comparison_claim(EPOCH)
    assert 0.5 * claim < worst <= claim


def test_the_answer_of_a_hit_has_noise_of_its_own() -> None:
    """Its law is that of integer Laplace noise: masses of neighbours differ by exp(D / scale)."""
    masses = find_mass(EPOCH.value_scale, np.arange(-5, 6))
    assert np.abs(np.diff(np.log(masses))).max() <= 1 / 2 + 1e-12


@pytest.mark.parametrize("sensitivity", [1, 2, 8])
def test_an_epoch_costs_at_most_its_price(sensitivity: int) -> None:
    for price in (F(1, 100), F(1), F(10)):
        assert ThresholdEpoch.for_epsilon(price, sensitivity).loss().epsilon <= price


def test_far_distances_are_decided_and_answers_are_near() -> None:
    epoch = ThresholdEpoch.for_epsilon(F(1), 1)
    source = SystemSource()
    threshold = epoch.draw_threshold(10**4, source)
    assert epoch.is_hit(10**6, threshold, source) and not epoch.is_hit(0, threshold, source)
    assert abs(epoch.answer_hit(10**6, source) - 10**6) < 10**3
    assert "threshold" in epoch.describe()


@pytest.mark.parametrize("change", [{"sensitivity": 0}, {"query_scale": 0}, {"value_scale": -1}])
def test_what_has_no_proof_is_refused(change: dict[str, int]) -> None:
    terms = {"threshold_scale": 1, "query_scale": 1, "value_scale": 1, "sensitivity": 1}
    with pytest.raises(ParameterError):
        ThresholdEpoch(**(terms | change))  # type: ignore[arg-type]


def claim_without(*, comparisons: int, threshold: int) -> Any:
    """The loss of an epoch with these factors in the place of 2 and 1."""

    def loss(epoch: ThresholdEpoch) -> Pure:
        moved = epoch.sensitivity
        return Pure(
            threshold * moved / epoch.threshold_scale
            + comparisons * moved / epoch.query_scale
            + moved / epoch.value_scale
        )

    return loss


KEEPS = test_no_outcome_of_comparisons_exceeds_the_claim
BUGS = {
    "epoch-no-factor-2": Bug(
        "a hit pays for one move, not for that of the threshold too",
        KEEPS,
        ((ThresholdEpoch, "loss", claim_without(comparisons=1, threshold=1)),),
    ),
    "epoch-free-threshold": Bug(
        "the noisy threshold is not paid for",
        KEEPS,
        ((ThresholdEpoch, "loss", claim_without(comparisons=2, threshold=0)),),
    ),
}
