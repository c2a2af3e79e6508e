"""Box noise: a proposal is kept by exactly its probability, word for word, and what is kept is kept
in order."""

from __future__ import annotations

import itertools
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from mpmath import mp, mpf

from dither.privacy.noise import box, discrete_laplace
from dither.privacy.noise.box import _accepted, _exp_minus, box_noise
from dither.privacy.noise.source import SystemSource
from tests.case_lists import mark_between
from tests.evidence import assert_counts
from tests.sources import TestSource

ALL = 1 << 53  # words that decide over one proposal
LARGEST_WORD = (1 << 64) - 1
BOXES = [
    ((1, 1), Fraction(1)),
    ((1, 500), Fraction(10)),
    ((2, 3, 5), Fraction(1, 3)),
    ((1, 1, 1, 1), Fraction(7)),
    ((4, 1), Fraction(1, 40)),
    ((1, 2**50, 3), Fraction(2**8)),
    ((2**57, 1), Fraction(3, 2)),
]


def exponent(z, sides, scale):
    """Of the chance to be kept, from the definition: the norm of z less that which the proposals
    have already."""
    norms = [Fraction(abs(int(value)), side) / scale for value, side in zip(z, sides, strict=True)]
    return max(norms) - sum(norms) / len(norms)


def chance(x):
    return mp.exp(-mpf(x.numerator) / x.denominator)


def kept_words(values, sides, scale, after):
    """How many of the 2**53 first words keep each proposal, if further words are all `after`; by
    bisection.

    More uniform means less chance, so the words that keep a proposal are the first ones.
    """
    low, high = (
        np.zeros(len(values), np.int64),
        np.full(len(values), ALL, np.int64),
    )  # low keep, high may not
    while (low < high).any():
        middle = (low + high + 1) // 2
        kept = _accepted(
            values, sides, scale, TestSource(np.maximum(middle - 1, 0).tolist(), after)
        )
        low, high = (
            np.where(kept & (low < high), middle, low),
            np.where(kept | (low == high), high, middle - 1),
        )
    return low


def proposals(sides, scale):
    """Zero, the neighbourhood of the corner, real proposals, and far ones that no float decides."""
    near = list(itertools.product((0, 1, -2), repeat=len(sides)))
    drawn = np.stack(
        [discrete_laplace(len(sides) * side * scale, 40).astype(object) for side in sides], axis=1
    )
    units = [max(1, int(side * scale)) for side in sides]
    far = [
        [k * unit if i == 0 else -i * unit for i, unit in enumerate(units)]
        for k in (20, 63, 64, 65, 90)
    ]
    values = np.array([*map(list, near), *drawn.tolist(), *far], object)
    wide = any(abs(int(value)) >= 2**63 for value in values.ravel())
    return values if wide else values.astype(np.int64)


@pytest.mark.parametrize(("sides", "scale"), mark_between(BOXES, step=3))
def test_a_proposal_is_kept_by_the_floor_or_the_ceiling_of_its_exact_probability(sides, scale):
    values = proposals(sides, scale)
    fewest, most = (
        kept_words(values, sides, scale, LARGEST_WORD),
        kept_words(values, sides, scale, 0),
    )
    with mp.workdps(60):
        for z, few, many in zip(values, fewest, most, strict=True):
            exact = chance(exponent(z, sides, scale)) * ALL
            assert (few, many) == (int(mp.floor(exact)), int(mp.ceil(exact))), z


def test_the_float_of_the_chance_errs_by_far_less_than_its_margin():
    x = np.concatenate(
        [np.linspace(0, 64, 3001), np.arange(513) / 8, np.nextafter(np.arange(1, 513) / 8, 0)]
    )
    with mp.workdps(40):
        worst = max(
            abs(mpf(float(found)) - mp.exp(-mpf(float(at))))
            for at, found in zip(x, _exp_minus(x), strict=True)
        )
    assert worst < mpf(2) ** -50


@pytest.mark.parametrize(("sides", "scale"), BOXES)
def test_every_number_is_proposed_at_the_number_of_sides_times_its_scale(sides, scale):
    """With the test above: exp(-mean) proposed times exp(-(max - mean)) kept is exp(-max)."""
    asked = []

    def spy(wanted, count, *, source):
        asked.append(wanted)
        return discrete_laplace(wanted, count, source=source)

    with mock.patch.object(box, "discrete_laplace", spy):
        box_noise(sides, scale, 1, SystemSource())
    assert set(asked) == {len(sides) * side * scale for side in sides}
    assert asked[: len(sides)] == [len(sides) * side * scale for side in sides]


@pytest.mark.parametrize("count", [0, 1, 7, 20_000])
def test_what_is_kept_is_the_first_of_all_that_could_be_kept_whatever_the_batches(count):
    batches: list[np.ndarray] = []

    def numbered(_scale, tried, *, source):  # two columns of a batch, both numbered through
        past = sum(map(len, batches[::2]))
        batches.append(batches[-1] if len(batches) % 2 else np.arange(past, past + tried))
        return batches[-1]

    with (
        mock.patch.object(box, "discrete_laplace", numbered),
        mock.patch.object(box, "_accepted", lambda values, *_: values[:, 0] % 3 == 1),
    ):
        found = box_noise((1, 1), Fraction(9), count, SystemSource())
    assert found.tolist() == [[1 + 3 * k] * 2 for k in range(count)]


def test_one_element_beyond_int64_makes_python_integers_of_all():
    blocks = [
        np.array([1, 2**70, 3], object),
        np.array([4, 5, 6], object),
        np.arange(7, 16),
        np.arange(7, 16),
    ]
    with (
        mock.patch.object(box, "discrete_laplace", side_effect=blocks),
        mock.patch.object(box, "_accepted", lambda values, *_: np.ones(len(values), bool)),
    ):
        found = box_noise((1, 1), Fraction(9), 5, SystemSource())
    assert found.dtype == object and all(type(value) is int for value in found.ravel())
    assert found.tolist() == [[1, 4], [2**70, 5], [3, 6], [7, 7], [8, 8]]


@pytest.mark.parametrize(
    ("sides", "scale", "draws"),
    [
        ((1, 1), 2**40, 200_000),
        ((2**45, 2**45 + 1), 2**10, 5_000),
        ((1, 3, 2), 2**42, 60_000),
        ((1,) * 4, 2**50, 20_000),
    ],
)
def test_wide_noise_follows_the_law_in_norm_direction_and_sign(sides, scale, draws):
    """On so fine a lattice (2**40 and up) the law is that of the plane to 1e-11: norm / scale has
    r^(d-1) e^-r."""
    z = box_noise(sides, Fraction(scale), draws, SystemSource())
    sizes = np.abs(z.astype(np.float64)) / (np.array(sides, float) * scale)
    norm, first = sizes.max(axis=1), sizes.argmax(axis=1)
    count = len(sides)
    with mp.workdps(30):
        above = {x: float(mp.gammainc(count, x, regularized=True)) for x in (0.2, 1, 2, 4, 8, 14)}
    counts = {f"norm above {x}": int((norm > x).sum()) for x in above}
    expected = {f"norm above {x}": p for x, p in above.items()}
    for signs in itertools.product((1, -1), repeat=count):
        event = f"signs {signs}"
        counts[event] = int((np.sign(z.astype(np.float64)) == signs).all(axis=1).sum())
        expected[event] = 0.5**count
    for side in range(count):
        counts[f"largest is {side}"], expected[f"largest is {side}"] = (
            int((first == side).sum()),
            1 / count,
        )
    # given the largest, every other number is uniform below it
    next_one = sizes[np.arange(draws), (first + 1) % count] / norm
    counts |= {
        "next below a half": int((next_one < 0.5).sum()),
        "next below a tenth": int((next_one < 0.1).sum()),
    }
    expected |= {"next below a half": 0.5, "next below a tenth": 0.1}
    assert_counts(counts, draws, expected)
