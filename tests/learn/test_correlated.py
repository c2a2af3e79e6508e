"""Correlated noise without PyTorch: factors against dense matrices, sensitivities by brute force,
errors against bounds of the literature, groups, and the mistakes that rule P4 names."""

from __future__ import annotations

import math
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom, norm

from dither.errors import ParameterError
from dither.learn.deep.correlated import (
    GroupDrawer,
    draw_groups,
    find_slots,
    plan_correlated,
    round_root_up,
)
from dither.learn.deep.factors import (
    BandedFactor,
    TreeFactor,
    check_coefficients,
    choose_bands,
    measure_prefix_error,
    square_banded,
    square_tree,
)
from dither.learn.deep.sampling import EMPTY
from dither.privacy.noise import SystemSource
from dither.privacy.noise.rounded import rounded_gaussian
from tests.evidence import assert_counts

SETTINGS = {"n": 4_000, "batch": 400, "epochs": 3, "epsilon": 1, "delta": "1e-5", "unit": "example"}


def write_matrix(factor, steps: int) -> np.ndarray:
    """The rows of a factor, from what it adds up of unit vectors."""
    return np.array([factor.add(row) for row in np.eye(steps, dtype=np.int64)])


def brute_force(matrix: np.ndarray, separation: int) -> int:
    """The largest squared norm over all starts and all signs of a unit's steps."""
    steps = len(matrix)
    largest = 0
    for start in range(separation):
        taken = range(start, steps, separation)
        for signs in product((-1, 0, 1), repeat=len(taken)):
            moved = sum(sign * matrix[:, step] for sign, step in zip(signs, taken, strict=True))
            largest = max(largest, int(np.sum(np.asarray(moved) ** 2)))
    return largest


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 8, 12])
def test_the_tree_is_a_matrix_of_blocks_and_its_sensitivity_is_exact(steps) -> None:
    matrix = write_matrix(TreeFactor(), steps)
    for step in range(1, steps + 1):
        size = step & -step
        expected = [step - size < column <= step for column in range(1, steps + 1)]
        assert matrix[step - 1].tolist() == [int(is_in) for is_in in expected]
    for separation in range(1, steps + 1):
        if -(-steps // separation) <= 7:
            assert square_tree(steps, separation) == brute_force(matrix, separation)
    assert square_tree(steps, steps) == steps.bit_length()  # one step lies in all levels


@pytest.mark.parametrize("separation", [2, 3, 5])
def test_bands_are_a_matrix_and_their_sensitivity_is_a_bound_that_is_met(separation) -> None:
    coefficients = (5, 3, -2)[: min(3, separation)]
    steps = 3 * separation
    matrix = write_matrix(BandedFactor(coefficients), steps)
    expected = sum(c * np.eye(steps, k=-j) for j, c in enumerate(coefficients))
    assert matrix.tolist() == expected.astype(int).tolist()
    assert square_banded(coefficients, steps, separation) == brute_force(matrix, separation)
    with pytest.raises(ParameterError):  # bands that overlap would need another bound
        square_banded((5, 3, -2, 1, 1, 1), steps, separation)


@pytest.mark.parametrize("make", [TreeFactor, lambda: BandedFactor((8, 3, 1))])
def test_estimates_are_the_steps_plus_inverted_noise(make) -> None:
    """By a dense solver: C^-1 (C x + z)."""
    generator = np.random.default_rng(1)
    values, noise = (generator.integers(-50, 50, (20, 3)) for _ in range(2))
    factor = make()
    estimates = [factor.undo(factor.add(x) + z) for x, z in zip(values, noise, strict=True)]
    matrix = write_matrix(make(), 20)
    assert np.allclose(estimates, values + np.linalg.solve(matrix, noise))


def test_prefixes_of_a_tree_have_one_noise_for_each_binary_digit() -> None:
    inverse = np.linalg.inv(write_matrix(TreeFactor(), 31))
    variances = np.sum(np.cumsum(inverse, 0) ** 2, 1)
    assert np.allclose(variances, [step.bit_count() for step in range(1, 32)])


def test_optimised_bands_lie_between_the_bound_and_the_root() -> None:
    """The mean variance of prefixes is at least (sum of singular values of the prefix matrix /
    steps)^2; those are 1 / (2 sin((2k - 1) pi / (4 steps + 2))). The factor of Fichtenberger,
    Henzinger and Upadhyay (2023), the root of the prefix matrix, is where the search starts."""
    steps = 64
    angles = (2 * np.arange(1, steps + 1) - 1) * math.pi / (4 * steps + 2)
    least = (np.sum(1 / (2 * np.sin(angles))) / steps) ** 2
    root = tuple(round(2**20 * math.comb(2 * j, j) / 4**j) for j in range(steps))
    error = measure_prefix_error(choose_bands(steps, steps), steps)
    assert least <= error <= 1.02 * measure_prefix_error(root, steps)
    assert error <= 1.3 * least
    few = [measure_prefix_error(choose_bands(steps, bands), steps) for bands in (1, 2, 4, 8, 16)]
    assert few == sorted(few, reverse=True)
    assert few[0] == pytest.approx((steps + 1) / 2)  # independent noise: variances 1 .. steps
    assert few[2] <= measure_prefix_error(root[:4], steps)


@pytest.mark.parametrize("noise", ["tree", "banded"])
def test_a_plan_costs_what_one_gaussian_release_costs(noise) -> None:
    """Delta of the Gaussian mechanism by Balle and Wang, from the rows' noise and a brute-force
    sensitivity."""
    plan = plan_correlated(noise=noise, bands=None, **SETTINGS)
    assert plan.separation == 10 and plan.steps == 30
    matrix = write_matrix(plan.make_factor(), plan.steps)
    moved = math.sqrt(brute_force(matrix, plan.separation))
    mu = moved / float(plan.row_multiplier)
    delta = norm.cdf(mu / 2 - 1 / mu) - math.e * norm.cdf(-mu / 2 - 1 / mu)
    assert 0.999 * float(plan.loss_delta) <= delta <= float(plan.loss_delta) * (1 + 1e-6)
    assert plan.loss_delta < plan.delta
    spent = [plan.find_spent(steps) for steps in (0, 1, 10, 11, 30)]
    assert spent == sorted(spent) and spent[0] == 0 and 0.999 < spent[-1] <= 1.000001
    loss = plan.run_loss(30, 10**9, 10)
    assert loss.clip_norm >= 10 * moved and loss.clip_norm <= 10 * moved + 1e-6


def test_groups_fit_into_their_slots_but_with_a_small_chance() -> None:
    """Oracle: scipy's binomial tail."""
    plan = plan_correlated(noise="tree", bands=None, **SETTINGS)
    chance = plan.separation * binom.sf(plan.capacity, plan.n, 1 / plan.separation)
    assert chance * (1 + math.e) <= 1e-5 * 1e-3
    assert find_slots(100, 1, F(1), F(1, 10**9)) == 100


def test_every_unit_takes_part_in_each_separation_th_step_and_groups_are_uniform() -> None:
    plan = plan_correlated(noise="tree", bands=None, **SETTINGS)
    drawer = GroupDrawer(4_000, plan, plan.capacity, SystemSource())
    taken: dict[int, list[int]] = {}
    for step in range(plan.steps):
        for unit in drawer.draw(is_last=False).tolist():
            if unit != EMPTY:
                taken.setdefault(unit, []).append(step)
    assert len(taken) == 4_000
    for steps in taken.values():
        assert steps == list(range(steps[0], plan.steps, plan.separation))
    groups = draw_groups(30_000, 7, SystemSource())
    counts = {str(group): int(np.sum(groups == group)) for group in range(7)}
    assert_counts(counts, 30_000, dict.fromkeys(counts, 1 / 7))
    again = draw_groups(30_000, 7, SystemSource())
    assert np.mean(groups == again) < 0.2  # no function of the order of rows


def test_a_real_factor_shows_what_integer_noise_should_hide() -> None:
    """Planted (rule P4): C = [[1, 0], [1/2, 1]] and integer noise. The fraction of the second row
    tells x = (0, 0) from (1, 0) in every draw; noise that is multiplied does the same."""
    noise = rounded_gaussian(100, (2, 200))
    for value, fraction in ((0, 0.0), (1, 0.5)):
        second = 0.5 * value + noise[1]
        assert np.all(second % 1 == fraction)
    assert np.all((2 * noise[0] + 1) % 2 == 1)
    for coefficients in ((1.0, 0.5), (F(1, 2),), (0, 1), (), (np.float64(2),)):
        with pytest.raises(ParameterError):
            check_coefficients(coefficients)
    with pytest.raises(ParameterError):
        BandedFactor((2, 0.5))


def test_planted_mistakes_of_sensitivity_are_caught() -> None:
    """A tree priced by the ceiling of the logarithm, a unit priced for one step of several, and
    squares of uses added where a unit is in one block twice."""
    matrix = write_matrix(TreeFactor(), 8)
    assert math.ceil(math.log2(8)) < brute_force(matrix, 8) == square_tree(8, 8)
    assert square_tree(8, 8) < brute_force(matrix, 2) == square_tree(8, 2)
    added = max(int(np.sum(matrix[:, start::2] ** 2)) for start in range(2))
    assert added < brute_force(matrix, 2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"noise": "banded", "bands": 11},
        {"noise": "banded", "bands": 0},
        {"noise": "banded", "bands": 65, "batch": 10},
        {"noise": "tree", "bands": 2},
        {"batch": 5_000},
        {"epochs": 10**7},
        {"epsilon": 0},
    ],
)
def test_what_has_no_proof_is_refused(wrong) -> None:
    with pytest.raises(ParameterError):
        plan_correlated(**{"noise": "tree", "bands": None} | SETTINGS | wrong)


def test_roots_are_rounded_up() -> None:
    for square in (F(2), F(10**12), F(1, 3), F(49)):
        assert square <= round_root_up(square) ** 2 <= square * (1 + F(1, 10**9)) + F(1, 10**9)
