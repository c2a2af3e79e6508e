"""The mechanical proof, part two: cells, comparisons and races over all bit strings at small word
widths."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp

from dither.privacy.noise import coins, samplers
from dither.privacy.noise.argmax import _argmax
from dither.privacy.noise.samplers import plan_for
from dither.privacy.noise.table import RESIDUAL, Law, build
from dither.privacy.noise.wide_tables import Plan, below_exp, draw, propose
from tests.case_lists import mark_between, mark_rest
from tests.evidence import to_real
from tests.sources import TestSource, enumerate_outcomes


def small_plan(
    family: str, near: int, shift: int, *, signed: bool, shared: bool, width: int
) -> Plan:
    rate = Fraction(1, near) if family == "laplace" else Fraction(1, 2 * near * near)
    return Plan(build(Law(family, rate, two_sided=False), width), shift, signed, False, shared)


PLANS = [
    small_plan("laplace", 12, 3, signed=True, shared=True, width=9),
    small_plan("laplace", 12, 2, signed=False, shared=True, width=9),
    small_plan("gaussian", 30, 2, signed=True, shared=True, width=9),
    small_plan("laplace", 10, 2, signed=True, shared=False, width=6),
    small_plan("gaussian", 16, 2, signed=True, shared=False, width=6),
    plan_for("laplace", Fraction(100), True, 6),
    plan_for("laplace", Fraction(17), True, 6, is_few=True),
]


def accepted_proposals(plan: Plan, after: int) -> Counter[tuple[int, int]]:
    """(cell, value) -> accepted strings, over all strings of the words of a proposal whose cell
    needs no residual."""
    width = plan.table.width
    words = np.arange(1 << width, dtype=np.uint64)
    cells = words[plan.table.look_up(words) != RESIDUAL]
    others = [words] if plan.shared else [words, words]
    grid = [part.ravel() for part in np.meshgrid(cells, *others, indexing="ij")]
    values, accepted = propose(plan, TestSource(np.concatenate(grid).tolist(), after), len(grid[0]))
    found = plan.table.look_up(grid[0])
    return Counter(zip(found[accepted].tolist(), values[accepted].tolist(), strict=True))


@pytest.mark.parametrize("plan", mark_between(PLANS, step=2))
def test_a_proposal_is_accepted_by_the_floor_or_the_ceiling_of_its_exact_probability(plan):
    width, spare = plan.table.width, plan.spare
    # a uniform that goes on with ones is as large as it can be, one that goes on with zeros as
    # small
    fewest, most = accepted_proposals(plan, (1 << width) - 1), accepted_proposals(plan, 0)
    seen: dict[int, int] = {}
    # the bits of the place's word that are neither place, nor (if used) sign, nor uniform are free
    free = 1 << (width - plan.shift - 1 - (spare if plan.shared else 0))
    if not plan.signed:
        free *= 2
    for cell, value in most:
        assert seen.setdefault(value, cell) == cell  # every integer comes from one cell only
        magnitude = abs(value)
        y = plan.exponent(cell, magnitude - (cell << plan.shift))
        rate = plan.table.law.rate
        if (
            plan.table.law.family == "laplace"
        ):  # exponents of cell and place add up to the law's, exactly
            assert cell * rate + y == magnitude * rate / (1 << plan.shift)
        else:
            assert cell**2 * rate + y == magnitude**2 * rate / (1 << plan.shift) ** 2
        strings = plan.table.counts[cell - plan.table.first] * free
        exact = mp.exp(-to_real(y)) * 2**spare
        assert fewest[cell, value] == strings * int(mp.floor(exact)), value
        assert most[cell, value] == strings * int(mp.ceil(exact)), value
    last = (plan.table.largest + 1) << plan.shift
    assert sorted(seen) == list(range(-last if plan.signed else 0, last))


@pytest.mark.parametrize("plan", [PLANS[0], PLANS[4]])
def test_a_cell_from_the_residual_is_proposed_like_any_other(plan):
    width = plan.table.width
    word = next(
        w for w in range(1 << width) if plan.table.look_up(np.array([w], np.uint64))[0] == RESIDUAL
    )
    middle = 1 << (width - 1)
    cell = plan.table.residual(TestSource([middle], after=middle))
    values, accepted = propose(
        plan, TestSource([word, 0] if plan.shared else [word, 0, 0], after=middle), 1
    )
    assert accepted[0] and values[0] == cell << plan.shift


@pytest.mark.parametrize("x", ["0", "1/100", "1/3", "1", "3", "9", "50"])
@pytest.mark.parametrize("width", [1, 3])
def test_a_uniform_falls_below_the_exponential_with_its_probability(x, width):
    x = Fraction(x)
    words = 12 // width
    mass, undecided = enumerate_outcomes(
        lambda source: below_exp(x, 0, 0, source, width), width, words
    )
    exact = mp.exp(-to_real(x))
    assert (
        to_real(mass.get(True, Fraction(0)))
        <= exact
        <= to_real(mass.get(True, Fraction(0)) + undecided)
    )
    assert undecided <= Fraction(1, 2**12)  # one string of all can be open, no more


@pytest.mark.parametrize("p", ["0", "1/7", "1/2", "5/8", "999/1000", "1"])
@pytest.mark.parametrize("width", [1, 4])
def test_a_uniform_falls_below_a_rational_with_its_probability(p, width):
    p = Fraction(p)

    def run(source):
        return coins._below(p, int(source.words(1, width)[0]), source, width)

    mass, undecided = enumerate_outcomes(run, width, 12 // width)
    assert mass.get(True, Fraction(0)) <= p <= mass.get(True, Fraction(0)) + undecided
    assert undecided <= Fraction(1, 2**12)


@pytest.mark.parametrize("x", ["0", "1/5", "2", "40"])
def test_the_words_that_decide_for_true_are_the_floor(x):
    x = Fraction(x)
    for width in (3, 8, 64):
        with mp.workprec(200):
            assert coins._exp_floor(x, width) == int(mp.floor(mp.exp(-to_real(x)) * 2**width))


@pytest.mark.parametrize("n", [1, 2, 3, 10, 16])
def test_a_bounded_uniform_gives_every_value_the_same_mass(n):
    mass, undecided = enumerate_outcomes(
        lambda source: int(samplers._kept_below(n, 1, source, 4)[0]), 4, 3
    )
    assert set(mass) == set(range(n)) and len(set(mass.values())) == 1
    assert undecided == (Fraction(16 % n, 16)) ** 3


@pytest.mark.parametrize("n", [5, 37, 63])
def test_a_uniform_wider_than_a_word_gives_every_value_the_same_mass(n):
    mass, _ = enumerate_outcomes(lambda source: samplers._wide_below(n, source, 3), 3, 4)
    assert set(mass) == set(range(n)) and len(set(mass.values())) == 1


RACES = [((0, 1), 1), ((3, 0), Fraction(5, 2)), ((0, 0), 1), ((7, -9), 10)]


@pytest.mark.parametrize(("scores", "scale"), mark_rest(RACES, quick=1))
@pytest.mark.parametrize("noise", ["gumbel", "exponential"])
def test_a_race_is_won_with_its_exact_probability(scores, scale, noise):
    mass, undecided = enumerate_outcomes(
        lambda s: _argmax(list(scores), Fraction(scale), noise, s, 3), 3, 4
    )
    gap = to_real(Fraction(scores[0] - scores[1]) / Fraction(scale))
    first = (
        1 / (1 + mp.exp(-gap))
        if noise == "gumbel"
        else (mp.exp(gap) / 2 if gap < 0 else 1 - mp.exp(-gap) / 2)
    )
    for winner, exact in ((0, first), (1, 1 - first)):
        certain = mass.get(winner, Fraction(0))
        assert to_real(certain) <= exact <= to_real(certain + undecided)
    assert undecided < Fraction(1, 8)


def test_a_race_of_three_is_won_with_its_exact_probability():
    mass, undecided = enumerate_outcomes(
        lambda s: _argmax([0, 1, 2], Fraction(1), "gumbel", s, 2), 2, 6
    )
    total = sum(mp.exp(k) for k in range(3))
    for winner in range(3):
        certain = mass.get(winner, Fraction(0))
        assert to_real(certain) <= mp.exp(winner) / total <= to_real(certain + undecided)
    assert undecided < Fraction(1, 2)


def test_near_ties_of_a_race_are_decided_by_further_words():
    tie = 1 << 63
    assert _argmax([0, 0], Fraction(1), "gumbel", TestSource([tie, tie, 4, 9])) == 0
    assert _argmax([0, 0], Fraction(1), "gumbel", TestSource([tie, tie, 9, 4])) == 1
    assert _argmax([0, 0], Fraction(1), "exponential", TestSource([tie, tie, 4, 9])) == 1


def test_a_far_tail_element_leaves_int64_as_a_python_integer():
    # cells so wide that only what lies beyond the table (355 cells) leaves int64
    plan = small_plan("laplace", 8, 54, signed=True, shared=False, width=64)
    table = plan.table
    assert (table.largest + 1) << plan.shift < 2**63
    size = 1 << (64 - table.columns)
    column, half = divmod(int(np.flatnonzero(table.meaning == RESIDUAL)[-1]), 2)
    word = column * size + (int(table.cut[column]) if half else 0)
    assert table.look_up(np.array([word], np.uint64))[0] == RESIDUAL
    top = (1 << 64) - 1  # the residual's uniform close to 1: a cell far beyond the table
    source = TestSource([word, 0, 0, top], after=1 << 63)
    values = draw(plan, 1, source)
    assert values.dtype == object and type(values[0]) is int
    assert values[0] > 2**63
