"""Tree counter: levels, prefix variance, exact blocks, closeness."""

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.mechanisms import tree_counter
from dither.mechanisms.tree_counter import TreeCounter, tree_sensitivity
from dither.plan.norms import Sensitivity
from dither.privacy.losses import Adjacency, DiscreteGaussianVector, Pure
from dither.privacy.mechanisms.laplace import IntegerLaplace
from tests.mechanisms.closeness import assert_close, pure_epsilon
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded


def blocks_holding(step, steps):
    """Brute force: complete dyadic blocks of 1..steps that hold a step."""
    return sum(
        (-(-step // (1 << level))) << level <= steps for level in range(steps.bit_length() + 1)
    )


def test_tree_sensitivity_by_brute_force():
    """Exactly n.bit_length() released nodes hold leaf 1, for n = 1 to 1024."""
    for steps in range(1, 1025):
        most = blocks_holding(1, steps)
        assert most == TreeCounter.for_epsilon(1, steps=steps).levels == steps.bit_length()
        assert tree_sensitivity(steps, 1, 1, "add_remove").l1 >= most
    for steps in (1, 2, 7, 8, 9, 33):
        assert (
            max(blocks_holding(step, steps) for step in range(1, steps + 1)) == steps.bit_length()
        )
    moved = tree_sensitivity(8, 3, 2, "replace")
    assert (moved.l1, moved.linf, moved.l2_squared) == (16 * 3, 4 * 3, 4 * (2 + 4 + 4 + 4) * 9)


def move_blocks(changes):
    """Brute force: how far changes of the steps move each block that is in a prefix."""
    steps = len(changes)
    return [
        sum(changes[end - (1 << level) : end])
        for level in range(steps.bit_length())
        for end in range(1 << level, steps + 1, 2 << level)
    ]


def test_a_unit_in_several_steps_moves_shared_blocks_by_all_of_them():
    """Steps 1 to 4 of 1,024: 150 in squared L2, not 4 times the 11 levels."""
    for steps, most, largest in ((1, 1, 2), (5, 2, 1), (8, 2, 3), (8, 4, 1), (9, 3, 1)):
        for neighbours, size in (("add_remove", largest), ("replace", 2 * largest)):
            stated = tree_sensitivity(steps, largest, most, neighbours)
            for chosen in combinations(range(steps), min(most, steps)):
                changes = [size * (step in chosen) for step in range(steps)]
                moved = np.array(move_blocks(changes))
                assert np.count_nonzero(moved) <= stated.l0
                assert np.abs(moved).sum() <= stated.l1
                assert np.abs(moved).max() <= stated.linf
                assert (moved**2).sum() <= stated.l2_squared
    first_four = np.array(move_blocks([1] * 4 + [0] * 1020))
    counter = TreeCounter.for_rho("0.5", steps=1024, steps_per_unit=4)
    assert (first_four**2).sum() == 150
    assert 150 / (2 * counter.noise.sigma**2) <= Fraction(1, 2)


class Silent(IntegerLaplace):
    """No noise: the sums must then be exact."""

    def release(self, values, *, source=None):
        return np.atleast_1d(values)


def test_sums_are_exact_without_noise():
    for steps in (1, 2, 3, 8, 13, 100):
        values = np.arange(steps) ** 2 - 5
        quiet = TreeCounter(steps, Silent(Fraction(1), tree_sensitivity(steps, 1, 1, "add_remove")))
        assert quiet.release(values).tolist() == np.cumsum(values).tolist()
        running = quiet.start()
        assert [running.add(int(value)) for value in values] == np.cumsum(values).tolist()
    huge = TreeCounter(3, Silent(Fraction(1), tree_sensitivity(3, 1, 1, "add_remove")))
    assert huge.release([2**62, 2**62, 2**62]).tolist() == [2**62, 2**63, 3 * 2**62]


@pytest.mark.all
def test_prefix_variance_is_popcount():
    """The variance of prefix t is popcount(t) times one noise."""
    counter, source = TreeCounter.for_epsilon(1, steps=15), Seeded(3)
    sums = np.array([counter.release([0] * 15, source=source) for _ in range(2_500)])
    running = counter.start(source=source)
    assert len([running.add(0) for _ in range(15)]) == 15
    for step in (1, 3, 7, 8, 15):
        law = counter.error(step)
        assert law.noises == step.bit_count()
        assert abs(sums[:, step - 1].var() / law.variance - 1) < 0.5
        assert (np.abs(sums[:, step - 1]) > law.interval(0.9)).mean() <= 0.1
    assert (
        abs(np.cov(sums[:, 0], sums[:, 2])[0, 1]) < 60
    )  # prefix 3 = block(1,2) + block(3): new noise
    one = counter.error(1).variance
    assert abs(np.cov(sums[:, 7], sums[:, 8])[0, 1] / one - 1) < 0.5  # block(1..8) is drawn once


def test_numbers_of_the_spec():
    """lambda(1000) = 15.8196 and lambda(1024) = 16.5917 with bit_length levels, eps 1, delta
    1e-5."""
    for steps, printed in ((1000, 15.8196), (1024, 16.5917)):
        levels = TreeCounter.for_epsilon(1, steps=steps).levels
        assert abs(math.sqrt(2 * levels * (math.log(1e5) + 1)) - printed) < 5e-5


@pytest.mark.all
def test_tree_counter_closeness():
    """One unit in the first of eight steps: the four blocks that hold it are the sums after 1, 2, 4
    and 8."""
    counter = TreeCounter.for_epsilon(2, steps=8)

    def codes(values, seed):
        source = Seeded(seed)
        sums = np.array(
            [counter.release(values, source=source)[[0, 1, 3, 7]] for _ in range(1_500)]
        )
        return (sums > 0) @ [1, 2, 4, 8]

    assert_close(codes([1] + [0] * 7, 1), codes([0] * 8, 2), 2)
    assert pure_epsilon(counter.loss()) == 2


def test_losses_and_refusals():
    assert TreeCounter.for_epsilon(1, steps=8).loss() == Pure(1)
    assert TreeCounter.for_rho(0.5, steps=8).loss() == DiscreteGaussianVector(2, 4)
    assert TreeCounter.for_epsilon(1, steps=8, adjacency=Adjacency("replace")).noise.scale == 8
    with pytest.raises(ParameterError):
        TreeCounter(
            8, IntegerLaplace.for_epsilon(1, Sensitivity.of(cells=3))
        )  # ceil(log2 8) = 3 is one too few
    for bad in (0, 1.5, True):
        with pytest.raises(ParameterError):
            TreeCounter.for_epsilon(1, steps=bad)
    counter = TreeCounter.for_epsilon(1, steps=2)
    for values in ([1], [1, 2, 3], [0.5, 1.0]):
        with pytest.raises(ParameterError):
            counter.release(values)
    running = counter.start()
    running.add(1), running.add(1)
    with pytest.raises(ParameterError):
        running.add(1)
    with pytest.raises(ParameterError):
        counter.error(3)


BUGS = {
    "tree-ceil-log2-levels": Bug(
        "levels = ceil(log2 n), the printed formula: one too few for every power of two",
        test_tree_sensitivity_by_brute_force,
        (
            (
                tree_counter,
                "tree_sensitivity",
                lambda steps, *rest: tree_sensitivity(
                    (steps + 1) // 2 if steps.bit_count() == 1 else steps, *rest
                ),
            ),
            (TreeCounter, "levels", property(lambda self: math.ceil(math.log2(self.steps)))),
            (TreeCounter, "__post_init__", lambda self: None),
        ),
    ),
    "tree-blocks-move-by-one-step": Bug(
        "every block moves by one step of a unit, though several lie in it",
        test_a_unit_in_several_steps_moves_shared_blocks_by_all_of_them,
        (
            (
                tree_counter,
                "tree_sensitivity",
                lambda steps, largest, k, neighbours: Sensitivity.of(
                    cells=steps.bit_length() * k, largest=largest
                ),
            ),
        ),
    ),
    "tree-noise-of-one-level": Bug(
        "noise for one block on every block",
        test_tree_counter_closeness,
        (
            (
                tree_counter,
                "tree_sensitivity",
                lambda steps, largest, k, neighbours: Sensitivity.of(largest=largest),
            ),
            (TreeCounter, "__post_init__", lambda self: None),
        ),
    ),
}
