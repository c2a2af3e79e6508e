"""Box noise: the law, the price of every neighbour, and what is refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither.errors import ParameterError
from dither.laws import BoxErrorLaw, find_error_law
from dither.plan.norms import Sensitivity
from dither.privacy.losses import Adjacency, Pure
from dither.privacy.mechanisms import IntegerBox, box
from dither.privacy.noise import box as sampler
from dither.privacy.noise import discrete_laplace
from tests.case_lists import mark_between
from tests.mechanisms.closeness import assert_close, assert_law, pure_epsilon
from tests.mechanisms.lattice import Lattice, norm
from tests.mechanisms.planted import Bug
from tests.mechanisms.seeded import Seeded
from tests.sources import Refusing

BOXES = [
    ((1, 2), Fraction(1)),
    ((1, 1), Fraction(1, 2)),
    ((3, 40), Fraction(1)),
    ((1, 2, 1), Fraction(1)),
    ((1,) * 4, Fraction(1, 2)),
]


def test_box_draws_follow_the_law():
    """Every integer near zero by itself, all others together, by exact binomial tails; seeded: a
    fixed verdict."""
    for place, (sides, scale) in enumerate(BOXES):
        reach = [2 if len(sides) > 2 else 4] * len(sides)
        near = list(itertools.product(*(range(-n, n + 1) for n in reach)))
        law = Lattice(sides, scale, 40)
        inside = [float(law.pmf(z)) for z in near]
        drawn = IntegerBox(scale, sides, 1).release(
            np.zeros((40_000, len(sides)), int), source=Seeded(place)
        )
        codes = np.ravel_multi_index(
            tuple(np.clip(drawn.T + reach[0], 0, 2 * reach[0])), [2 * n + 1 for n in reach]
        )
        outside = (np.abs(drawn) > reach[0]).any(axis=1)
        assert_law(np.where(outside, len(near), codes), [*inside, 1 - sum(inside)])
        assert_moments(drawn, law)


def assert_moments(drawn, law):
    """The mean squares, to seven standard errors of their own law (a bound, not an exact level:
    seeded draws)."""
    for column in range(drawn.shape[1]):
        squares = drawn[:, column].astype(float) ** 2
        assert abs(squares.mean() - float(law.variance(column))) < 7 * squares.std() / math.sqrt(
            len(squares)
        )


def changes(sides, cells, rows):
    """All changes of a few cells that `rows` rows can make: sum over cells of the norm at most
    rows."""
    one = [tuple(range(-rows * side, rows * side + 1)) for side in sides]
    for change in itertools.product(itertools.product(*one), repeat=cells):
        if sum(norm(cell, sides) for cell in change) <= rows:
            yield change


@pytest.mark.parametrize(
    ("sides", "cells", "rows"),
    mark_between([((1, 2), 1, 2), ((2, 3), 1, 1), ((1, 1, 2), 1, 1), ((1, 2), 2, 1)], step=2),
)
def test_no_ratio_of_neighbours_exceeds_the_charged_epsilon_and_the_corner_meets_it(
    sides, cells, rows
):
    """Exactly, in fractions: the logarithm of a ratio is the difference of norms over the scale."""
    mechanism = IntegerBox.for_epsilon(Fraction(3, 7), sides, rows)
    epsilon = pure_epsilon(mechanism.loss())
    assert epsilon <= Fraction(3, 7)
    worst = Fraction(0)
    span = range(-4, 5) if cells == 1 else range(-2, 3)
    outputs = list(itertools.product(itertools.product(span, repeat=len(sides)), repeat=cells))
    before = [sum(norm(cell, sides) for cell in output) for output in outputs]
    for change in changes(sides, cells, rows):
        for output, had in zip(outputs, before, strict=True):
            moved = (
                tuple(a - b for a, b in zip(x, y, strict=True))
                for x, y in zip(output, change, strict=True)
            )
            worst = max(worst, (sum(norm(cell, sides) for cell in moved) - had) / mechanism.scale)
    assert worst == epsilon


def test_box_closeness():
    """A person with two rows: both at a corner of one cell, or one in each of two cells. Seeded;
    false alarm 1e-9."""
    mechanism = IntegerBox.for_epsilon(1, (1, 3), rows=2)
    assert mechanism.loss() == Pure(1)
    for place, change in enumerate(
        ([[2, 6], [0, 0]], [[1, 3], [1, -3]], [[2, -6], [0, 0]], [[1, 0], [0, 3]])
    ):
        seen = []
        for cells, seed in (([[0, 0], [0, 0]], 2 * place), (change, 2 * place + 1)):
            drawn = mechanism.release(np.tile(cells, (60_000, 1)), source=Seeded(seed)).reshape(
                -1, 4
            )
            # in which step of half the move each number lies: few outputs, and the whole shift
            # between neighbours
            step = np.sign(np.array(change).ravel()) * (drawn - np.array(change).ravel() / 2)
            seen.append((np.clip(np.floor(step + 0.5), -1, 1) + 1) @ [1, 3, 9, 27])
        assert_close(seen[0].astype(int), seen[1].astype(int), pure_epsilon(mechanism.loss()))


@settings(max_examples=200)
@given(
    st.fractions(Fraction(1, 10**6), 900),
    st.lists(st.integers(1, 10**6), min_size=2, max_size=4),
    st.integers(1, 99),
)
def test_the_charged_loss_never_exceeds_the_price_asked(epsilon, sides, rows):
    mechanism = IntegerBox.for_epsilon(epsilon, tuple(sides), rows, Adjacency("replace", "person"))
    loss = mechanism.loss()
    assert loss == Pure(rows / mechanism.scale, neighbours="replace", unit="person")
    assert epsilon * (
        1 - Fraction(1, 2**18)
    ) <= loss.epsilon <= epsilon or mechanism.scale == Fraction(1, 1000)


def test_one_number_of_a_box_has_its_own_scale_sensitivity_and_error():
    both = IntegerBox.for_epsilon(
        Fraction(1, 2), (1, 500), rows=3, adjacency=Adjacency(unit="person")
    )
    assert both.scale == 6 and find_error_law(both, 1).noise_scale == 3000
    assert both.column_sensitivity(1) == Sensitivity.of(cells=3, largest=1500, l1=1500)
    assert find_error_law(both, 1) == BoxErrorLaw((1, 500), Fraction(6), 1)
    for column in (-1, 2, None):
        with pytest.raises(ParameterError, match="no number"):
            find_error_law(both, column)


@pytest.mark.parametrize(
    "bad",
    [
        {"scale": 0},
        {"scale": Fraction(1, 1001)},
        {"scale": float("nan")},
        {"scale": 2**60},
        {"sides": (1,)},
        {"sides": (1,) * 5},
        {"sides": ()},
        {"sides": 2},
        {"sides": "12"},
        {"sides": (1, 0)},
        {"sides": (1, -2)},
        {"sides": (1, 2.0)},
        {"sides": (1, True)},
        {"sides": (1, 2**60)},
        {"rows": 0},
        {"rows": 2.5},
        {"rows": "2"},
        {"rows": None},
        {"rows": True},
        {"neighbours": "friends"},
        {"unit": ""},
    ],
)
def test_a_box_that_means_nothing_cannot_be_built(bad):
    wanted = {"scale": Fraction(2), "sides": (1, 2), "rows": 1, **bad}
    with pytest.raises(ParameterError):
        IntegerBox(**wanted)
    if "scale" not in bad:
        del wanted["scale"]
        box = (wanted.pop("sides"), wanted.pop("rows"))
        with pytest.raises(ParameterError):
            IntegerBox.for_epsilon(Fraction(1, 2), *box, Adjacency(**wanted))


def test_a_list_of_sides_is_a_tuple_of_them():
    assert hash(IntegerBox(2, [1, 2], 1)) == hash(IntegerBox(2, (1, 2), 1))


@pytest.mark.parametrize(
    "values",
    [
        [[0.5, 1]],
        np.zeros((3, 2)),
        [[True, False]],
        [["a", "b"]],
        [[None, 1]],
        [1, 2],
        5,
        [[1, 2], [3]],
        [[1, 2, 3]],
        [[]],
        np.zeros((0, 3), int),
        np.zeros((2, 2, 2), int),
    ],
)
def test_other_values_than_rows_of_exact_integers_are_refused_before_a_word_is_drawn(values):
    with pytest.raises(ParameterError):
        IntegerBox(2, (1, 2), 1).release(values, source=Refusing())


@pytest.mark.parametrize("scale", [Fraction(1, 3), 50, 2**57])
@pytest.mark.parametrize(
    "values", [[[1, 2], [3, 4]], np.zeros((0, 2), int), [], [[2**70, -(2**63)]], [[-1, 2**63]]]
)
def test_a_release_has_a_row_for_each_cell_and_exact_sums(values, scale):
    released = IntegerBox(scale, (1, 2), 1).release(values)
    given = np.array(values, object).reshape(-1, 2)
    assert released.shape == given.shape
    for noisy, value in zip(released.ravel().tolist(), given.ravel().tolist(), strict=True):
        assert type(noisy) is int and abs(noisy - value) <= 2 * 80 * max(
            1, scale
        )  # fails with probability below 1e-30
    assert (released.dtype == np.int64) == all(
        -(2**63) <= value < 2**63 for value in released.ravel().tolist()
    )


def one_sign(sides, scale, count, source):
    """Sizes right, one sign for all numbers of a cell."""
    drawn = np.abs(sampler.box_noise(sides, scale, count, source))
    return drawn * (1 - 2 * (source.words(count, 1).astype(np.int64)))[:, None]


def accept_by_the_least(values, sides, scale, source):
    sizes = np.abs(values.astype(float)) / (np.array(sides) * float(scale))
    gap = sizes.mean(axis=1) - sizes.min(axis=1)
    return source.words(len(values), 53) * 2.0**-53 < np.exp(-gap)


def without_rows(cls, epsilon, sides, rows):
    return cls(1 / Fraction(epsilon), sides, rows)


BUGS = {
    "box-keeps-all": Bug(
        "proposals released as they are",
        test_box_draws_follow_the_law,
        ((sampler, "_accepted", lambda values, *_: np.ones(len(values), bool)),),
    ),
    "box-least-for-largest": Bug(
        "kept by the least of the numbers instead of the largest",
        test_box_draws_follow_the_law,
        ((sampler, "_accepted", accept_by_the_least),),
    ),
    "box-narrow-proposals": Bug(
        "proposals of scale side * scale instead of d * side * scale",
        test_box_draws_follow_the_law,
        (
            (
                sampler,
                "discrete_laplace",
                lambda scale, count, *, source: discrete_laplace(scale / 2, count, source=source),
            ),
        ),
    ),
    "box-one-sign": Bug(
        "one sign for all numbers of a cell",
        test_box_draws_follow_the_law,
        ((box, "box_noise", one_sign),),
    ),
    "box-rows-forgotten": Bug(
        "the scale of one row for a person with two",
        test_box_closeness,
        (
            (IntegerBox, "for_epsilon", classmethod(without_rows)),
            (IntegerBox, "loss", lambda self: Pure(1)),
        ),
    ),
}
