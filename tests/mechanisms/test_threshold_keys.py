"""Key selection by a threshold, by its exact law: all neighbours of small tables."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction as F

import numpy as np
import pytest

from dither.accounting.rho_conversion import delta_from_rho
from dither.laws import find_error_law
from dither.privacy.kernel.rho_within import rho_within
from dither.privacy.losses import Adjacency
from dither.privacy.mechanisms import gaussian_keys, key_selection
from dither.privacy.mechanisms.gaussian_keys import CountedKeys, GaussianKeys, ThresholdKeys
from dither.privacy.mechanisms.key_selection import TruncatedGeometricKeys
from tests.case_lists import mark_between
from tests.mechanisms.planted import Bug

REPLACE = Adjacency("replace")
TINY = 1e-12
LAWS = [
    ThresholdKeys(F(2), 6, 2),
    ThresholdKeys(F(3, 2), 4, 1, "replace"),
    ThresholdKeys(F(5, 2), 9, 2, "replace"),
    GaussianKeys(F(2), 6, 2, "replace"),
    CountedKeys(F(5, 2), 8, 2),
]


def list_atoms(keys: GaussianKeys, owners: int) -> np.ndarray:
    """Logarithms of the law of one key, by definition: hidden, then each count that is shown."""
    values = np.arange(keys.threshold, _reach(keys))
    if owners == 0:
        return np.array([0.0] + [-np.inf] * len(values))
    noise = np.arange(-_reach(keys), _reach(keys) + 1)
    total = np.logaddexp.reduce(_log_weights(keys, noise))
    hidden = np.logaddexp.reduce(_log_weights(keys, noise[noise + owners < keys.threshold]))
    return np.array([hidden, *_log_weights(keys, values - owners)]) - total


def _log_weights(keys: GaussianKeys, noise: np.ndarray) -> np.ndarray:
    return -(noise**2) / (2 * float(keys.sigma) ** 2)


def _reach(keys: GaussianKeys) -> int:
    return keys.threshold + math.ceil(14 * keys.sigma) + 12


def list_neighbours(keys: GaussianKeys) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Owners of all keys that one unit can move, with and without it, or before and after.

    Other people own a key or do not: 0, 1 or 2 of them, or so many that it is surely shown.
    """
    m = keys.groups
    moves = [(0, 1)] * m if keys.neighbours == "add_remove" else [(0, 1)] * m + [(1, 0)] * m
    crowds = (0, 1, 2, keys.threshold + 10)
    pairs = []
    for others in itertools.product(crowds, repeat=len(moves)):
        before = tuple(n + own for n, (own, _) in zip(others, moves, strict=True))
        after = tuple(n + own for n, (_, own) in zip(others, moves, strict=True))
        pairs += [(before, after), (after, before)]
    return pairs


def divergence(log_p: np.ndarray, log_q: np.ndarray, order: float) -> float:
    """The Renyi divergence of two laws that are positive everywhere."""
    return float(np.logaddexp.reduce(order * log_p + (1 - order) * log_q)) / (order - 1)


@pytest.mark.parametrize("keys", mark_between(LAWS, step=2), ids=str)
def test_a_lone_owner_shows_within_delta_and_all_else_is_within_rho(keys):
    """Approximate zCDP by its definition (Bun, Steinke 2016).

    The event of one database is that no key is shown which the other cannot show. Given it, such a
    key is hidden on both, and the divergences of the others add up.
    """
    rho = float(keys.loss().rho)
    delta = float(keys.loss().delta)
    laws = {n: list_atoms(keys, n) for pair in list_neighbours(keys) for n in (*pair[0], *pair[1])}
    worst_delta = 0.0
    worst_order = dict.fromkeys((2.0, 16.0), 0.0)
    moves = {
        move for before, after in list_neighbours(keys) for move in zip(before, after, strict=True)
    }
    apart = {
        (*move, order): divergence(*(laws[n] for n in move), order)
        for move in moves
        for order in worst_order
        if 0 not in move
    }
    for before, after in list_neighbours(keys):
        moved = list(zip(before, after, strict=True))
        hidden = math.exp(sum(laws[n][0] for n, other in moved if other == 0))
        worst_delta = max(worst_delta, 1 - hidden)
        common = [pair for pair in moved if 0 not in pair]
        for order in worst_order:
            sums = sum(apart[n, other, order] for n, other in common)
            worst_order[order] = max(worst_order[order], sums)
    assert worst_delta <= delta + TINY
    assert all(value <= order * rho + TINY for order, value in worst_order.items())
    # both claims are reached: crowds make thresholds vanish, empty keys leave nothing but them
    assert worst_order[2.0] > 0.999 * 2 * rho
    if isinstance(keys, ThresholdKeys):
        assert worst_delta > delta * (1 - 1e-9)


@pytest.mark.parametrize("keys", LAWS[:2], ids=str)
def test_no_set_of_outputs_exceeds_the_converted_price(keys):
    """The hockey-stick divergence of all keys together, noisy counts of shown keys included."""
    for epsilon in (F(1, 2), F(3, 2)):
        allowed = float(keys.loss().delta) + delta_from_rho(keys.loss().rho, epsilon)
        for before, after in list_neighbours(keys):
            joint = [_multiply([list_atoms(keys, n) for n in owners]) for owners in (before, after)]
            excess = joint[0] - math.exp(epsilon) * joint[1]
            assert float(excess[excess > 0].sum()) <= allowed + TINY


def _multiply(laws: list[np.ndarray]) -> np.ndarray:
    product = np.ones(1)
    for law in laws:
        product = np.multiply.outer(product, np.exp(law)).ravel()
    return product


def test_under_add_remove_both_laws_are_one():
    old = GaussianKeys.for_rho(F(1, 20), F(1, 10**6), groups=10)
    new = ThresholdKeys.for_rho(F(1, 20), F(1, 10**6), groups=10)
    assert (old.sigma, old.threshold, old.loss()) == (new.sigma, new.threshold, new.loss())


@pytest.mark.parametrize("groups", [1, 3, 10])
def test_under_replace_the_threshold_is_lower_and_rho_the_same(groups):
    old, new = (
        law.for_rho(F(1, 100), F(1, 10**6), groups=groups, adjacency=REPLACE)
        for law in (GaussianKeys, ThresholdKeys)
    )
    assert new.sigma == old.sigma and new.loss().rho == old.loss().rho
    assert new.threshold < old.threshold
    assert new.loss().delta <= F(1, 10**6)


@pytest.mark.parametrize(
    ("groups", "geometric", "threshold"), [(3, 40, 43), (5, 67, 56), (10, 132, 81), (20, 263, 116)]
)
def test_owners_for_every_other_show_at_epsilon_1(groups, geometric, threshold):
    """The figures of docs/proofs/key-selection.md, half of delta for the conversion."""
    delta = F(1, 10**6)
    rho = rho_within(F(1), delta / 2)
    by_threshold = ThresholdKeys.for_rho(rho, delta / 2, groups=groups)
    optimal = TruncatedGeometricKeys(F(1), delta, groups)
    assert find_error_law(optimal).size_shown(F(1, 2)) == geometric
    assert find_error_law(by_threshold).size_shown(F(1, 2)) == threshold


def test_a_replaced_owner_of_two_keys_shows_within_delta_and_rho() -> None:
    test_a_lone_owner_shows_within_delta_and_all_else_is_within_rho(
        ThresholdKeys(F(2), 6, 2, "replace")
    )


BUGS = {
    "threshold-keys-one-lone-key": Bug(
        "delta for one key, where a unit brings m",
        test_a_replaced_owner_of_two_keys_shows_within_delta_and_rho,
        ((ThresholdKeys, "count_lone_keys", classmethod(lambda cls, groups, neighbours: 1)),),
    ),
    "threshold-keys-replaced-like-added": Bug(
        "rho for m keys, where a replaced unit moves 2m",
        test_a_replaced_owner_of_two_keys_shows_within_delta_and_rho,
        tuple(
            (module, "check_groups", lambda groups, neighbours: groups)
            for module in (key_selection, gaussian_keys)
        ),
    ),
}
