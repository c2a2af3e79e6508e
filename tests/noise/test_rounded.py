"""Rounded Gaussian noise is drawn exactly: the first 16 bits, sure coins, decided coins, and draws
against the exact law (mpmath's normal distribution function)."""

from __future__ import annotations

import random
from fractions import Fraction as F
from itertools import pairwise

import numpy as np
import pytest
from mpmath import mp, mpf

from dither.errors import ParameterError
from dither.privacy.noise import SystemSource, rounded
from dither.privacy.noise.rounded import accept_exactly, plan_rounded, rounded_gaussian
from dither.privacy.noise.table import RESIDUAL
from tests.case_lists import mark_between
from tests.evidence import assert_counts, to_real
from tests.sources import Refusing, TestSource

SIGMAS = [F(1, 1000), F(1, 3), F(1), F(37, 10), F(40), F(1000), F(10**6) / 7, F(2**38)]
DRAWS = 200_000


def phi(value: mpf) -> mpf:
    return mp.erfc(-value / mp.sqrt(2)) / 2


@pytest.mark.parametrize("sigma", mark_between(SIGMAS, step=3), ids=str)
def test_the_first_sixteen_bits_decide_the_cell_whatever_follows(sigma: F) -> None:
    """As many words mean a cell as the table counts: whole slices and what is left of them."""
    plan = plan_rounded(sigma)
    slices = plan.cells[::2]
    decided = plan.sure[::2] > 0
    assert (plan.sure[::2] == plan.sure[1::2]).all()
    assert (plan.cells[1::2] == ~slices)[decided].all()
    assert 0.98 < decided.mean() < 1 and not decided[np.flatnonzero(~decided)[0] :].any()
    words = dict.fromkeys(range(plan.table.first, plan.table.largest + 1), 0)
    for cell in slices[decided]:
        words[int(cell)] += 2**49
    begin = int(decided.sum()) << 49
    ends = [0, *map(int, plan.ends)]
    for cell, (start, end) in enumerate(pairwise(ends), plan.table.first):
        words[cell] += end - start
        if end > start:
            edges = np.array([begin + start, begin + end - 1], np.uint64)
            assert (plan.find_cells(edges) == cell).all()
    assert tuple(words.values()) == plan.table.counts
    left_over = 2**64 - begin - ends[-1]
    assert left_over == plan.table.left_over
    beyond = np.array([begin + ends[-1], 2**64 - 1], np.uint64)
    assert left_over == 0 or (plan.find_cells(beyond) == RESIDUAL).all()


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_one_look_up_gives_the_rounded_cell_and_its_sure_coins(sigma: F) -> None:
    """For all 65,536 beginnings of a word, at both ends of the offset and of the coin."""
    plan = plan_rounded(sigma)
    heads = np.arange(1 << 16, dtype=np.uint64)
    cells = plan.cells
    decided = plan.sure > 0
    for offset in (0, 2**40 - 1, 2**39, 2**39 - 1):
        for coin in (0, 255):
            drawn = np.full(1 << 16, offset << 24 >> (64 - plan.drawn_bits))
            proposals = rounded.Proposals(
                heads.astype(np.uint16),
                drawn.astype(f"u{plan.drawn_bits // 8}"),
                np.full(1 << 16, coin, np.uint8),
            )
            values = np.empty(1 << 16, np.int64)
            unsure = rounded.propose_rounded(plan, proposals, values)
            offsets = np.full(1 << 16, offset, np.uint64)
            assert (values == plan.round_cells(cells, offsets))[decided].all()
            assert (np.flatnonzero(plan.sure <= coin) == unsure).all()


@pytest.mark.parametrize("sigma", [F(40), F(10**7), F(2**38)], ids=str)
def test_a_whole_word_keeps_the_bits_that_were_drawn_and_draws_the_others(sigma: F) -> None:
    """All 64 bits are there once each: head, 40 bits of the offset, coin."""
    plan = plan_rounded(sigma)
    kind = f"u{plan.drawn_bits // 8}"
    most = 2**plan.drawn_bits - 1
    for fresh in (0, 2**64 - 1):
        for drawn in (0, 1, most):
            proposals = rounded.Proposals(
                np.array([0, 0xABCD], np.uint16),
                np.array([0, drawn], kind),
                np.array([0, 0xEF], np.uint8),
            ).choose(np.array([1]))
            word = int(proposals.complete_words(TestSource([], fresh))[0])
            after = 64 - plan.drawn_bits
            offset = (drawn << after | fresh & (2**after - 1)) >> 24
            assert word == 0xABCD << 48 | offset << 8 | 0xEF


@pytest.mark.parametrize("sigma", [F(1, 3), F(1000), F(2**38)], ids=str)
def test_a_sure_coin_lies_below_every_acceptance_of_its_cell(sigma: F) -> None:
    plan = plan_rounded(sigma)
    heads = range(0, 1 << 16, 2)
    coins = {int(plan.cells[head]): int(plan.sure[head]) for head in heads if plan.sure[head]}
    with mp.workprec(200):
        for cell, sure in coins.items():
            assert mpf(sure) / 256 <= mp.exp(-to_real(plan.exponent(cell, F(1))))


def test_a_uniform_is_accepted_exactly_below_the_exponential() -> None:
    """At and beside the threshold, with the further bits of offset and uniform at both extremes."""
    draws = random.Random(1)
    plan = plan_rounded(F(1000))
    ones = 2**64 - 1
    for _ in range(300):
        cell = draws.choice([0, 1, 40, 150, plan.table.largest])
        away = draws.choice([0, 1, 2**40 - 1, draws.randrange(2**40)])
        with mp.workprec(300):
            near = mp.exp(-to_real(plan.exponent(cell, F(away, 2**40)))) * 2**53
            far = mp.exp(-to_real(plan.exponent(cell, F(away + 1, 2**40)))) * 2**53
        below = int(mp.floor(far)) - 1
        above = int(mp.ceil(near))
        for after in (0, ones):
            assert accept_exactly(plan, cell, away, below, TestSource([], after))
            if above < 2**53:
                assert not accept_exactly(plan, cell, away, above, TestSource([], after))
    # between both the further bits decide: the largest uniform loses, the smallest wins
    uniform = int(mp.floor(mp.exp(-to_real(plan.exponent(100, F(1, 3)))) * 2**53))
    away = 2**40 // 3
    assert accept_exactly(plan, 100, away, uniform, TestSource([], 0))
    assert not accept_exactly(plan, 100, away, uniform, TestSource([], ones))


def test_floats_decide_as_fractions_do() -> None:
    draws = np.random.default_rng(2)
    plan = plan_rounded(F(1000))
    cells = draws.integers(0, plan.table.largest, 3000)
    away = draws.integers(0, 2**40, 3000).astype(np.uint64)
    uniforms = (2**53 - draws.integers(0, 2**50, 3000)).astype(np.uint64)
    decisions = rounded._accept(plan, cells, away, uniforms, TestSource([], 0))
    for index in range(3000):
        assert decisions[index] == accept_exactly(
            plan, int(cells[index]), int(away[index]), int(uniforms[index]), TestSource([], 0)
        )


def check_draws(sigma: F, draws: int = DRAWS) -> None:
    """Body, tails, sign, zero and parity of the drawn integers against exact probabilities."""
    step = max(1, int(sigma) // 3)
    edges = [step * number for number in range(-6, 7)]
    values = rounded_gaussian(sigma, draws)
    counts = {f"at least {edge}": int((values >= edge).sum()) for edge in edges}
    exact = to_real(sigma)
    chances = {f"at least {edge}": float(phi(-(edge - mpf("0.5")) / exact)) for edge in edges}
    counts["zero"] = int((values == 0).sum())
    chances["zero"] = float(2 * phi(mpf("0.5") / exact) - 1)
    if sigma >= 30:  # parity is even but for e^(-pi^2 sigma^2 / 2)
        counts["odd"] = int((values & 1).sum())
        chances["odd"] = 0.5
    assert_counts(counts, draws, chances)


@pytest.mark.parametrize("sigma", SIGMAS, ids=str)
def test_draws_follow_the_law_of_rounded_normal_numbers(sigma: F) -> None:
    check_draws(sigma)


@pytest.mark.parametrize("bug", ["every coin is sure", "no sign", "round down"])
def test_a_planted_bug_is_caught(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    guide = rounded._guide
    if bug == "every coin is sure":
        # cells as wide as sigma itself, so that one block shows it
        monkeypatch.setattr(rounded, "_NEAR", 2)
        monkeypatch.setattr(rounded, "_count_sure", lambda cell, rate: 255)
    elif bug == "no sign":
        monkeypatch.setattr(
            rounded, "_guide", lambda table: (np.abs(guide(table)[0]), guide(table)[1])
        )
    else:
        monkeypatch.setattr(
            rounded, "_guide", lambda table: (guide(table)[0] - 20, guide(table)[1])
        )
    plan_rounded.cache_clear()
    try:
        with pytest.raises(AssertionError):
            check_draws(F(1000))
    finally:
        plan_rounded.cache_clear()


def test_wide_cells_are_drawn_exactly_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same cells without the bug: that they are wide costs time alone."""
    monkeypatch.setattr(rounded, "_NEAR", 2)
    plan_rounded.cache_clear()
    try:
        check_draws(F(1000))
    finally:
        plan_rounded.cache_clear()


def test_a_cell_without_a_sure_coin_keeps_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells so wide that no coin of the far ones is sure: their first bits decide them all the
    same, and none of their words is one of the residual."""
    monkeypatch.setattr(rounded, "_NEAR", 2)
    plan = plan_rounded.__wrapped__(F(1000))
    heads = np.flatnonzero(plan.sure[: 2 * plan.decided] == 0)
    assert len(heads) > 4
    words = heads.astype(np.uint64) << np.uint64(48)
    values, _ = rounded._decide(plan, words, SystemSource())
    assert (values == plan.round_cells(plan.cells[heads], np.zeros(len(heads), np.uint64))).all()


@pytest.mark.parametrize("sigma", [F(1, 1001), F(2**38 + 1), 0, -1, float("nan"), True])
def test_a_sigma_outside_the_proved_range_is_refused_before_anything_is_drawn(
    sigma: object,
) -> None:
    with pytest.raises(ParameterError):
        rounded_gaussian(sigma, 5, source=Refusing())  # type: ignore[arg-type]


def test_shapes_and_sizes() -> None:
    assert rounded_gaussian(5, (2, 3)).shape == (2, 3) and rounded_gaussian(5, 0).shape == (0,)
    assert isinstance(rounded_gaussian(5), int)
