"""Bugs that people have really written, each with its real parameters, each caught by the functions
that pass ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dither import local
from dither.local.odds import odds
from dither.privacy.noise import Words
from tests.case_lists import mark_between
from tests.local.seeded_words import SeededWords


@dataclass(frozen=True)
class MisprintedHash(local.LocalHash):
    """The book's OLH: every other hash value with probability 1 / (1 + e**epsilon). Sums to 1.25 at
    ln 3."""

    @property
    def other(self) -> Fraction:
        return 1 / (1 + self.odds)


@dataclass(frozen=True)
class MisprintedResponse(local.Direct):
    """The book's randomised-response estimator: sum(y) + p - 1 with one constant for any n."""

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        found: NDArray[Any] = (tally + self.p - 1) / np.array(2 * self.p - 1, object)
        return found


@dataclass(frozen=True)
class UnaryAtFullEpsilon(local.SymmetricUnary):
    """Each bit at epsilon instead of epsilon/2 (pure-LDP before 1.2.0, issue 11)."""

    @property
    def p(self) -> Fraction:
        return self.odds / (self.odds + 1)


@dataclass(frozen=True)
class RoundedDirect(local.Direct):
    """p as the float64 e**eps / (e**eps + d - 1): the ratio may pass e**eps by one unit in the last
    place."""

    @property
    def p(self) -> Fraction:
        return Fraction(
            math.nextafter(math.exp(self.epsilon) / (math.exp(self.epsilon) + self.domain - 1), 1)
        )

    @property
    def q(self) -> Fraction:
        return (1 - self.p) / (self.domain - 1)


@dataclass(frozen=True)
class OneOverG(local.LocalHash):
    """q = 1/g although the hash does not collide with exactly that probability."""

    @property
    def q(self) -> Fraction:
        return Fraction(1, self.size)


@dataclass(frozen=True)
class KeepsOnlyTrueBits(local.OptimisedUnary):
    """Zeros never become ones: a one gives the value away."""

    @property
    def q(self) -> Fraction:
        return Fraction(0)


@dataclass(frozen=True)
class HalfVariance(local.OptimisedUnary):
    """States the variance without its second term."""

    def user_variance(self, value: int) -> NDArray[Any]:
        return np.array([self.noise_variance] * self.domain, object)


@dataclass(frozen=True)
class ForgetsHashes(local.BloomRappor):
    """The loss of one hash stated for a filter with two."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", self.steps.lifetime(1))


@dataclass(frozen=True)
class WrongHadamardRow(local.Hadamard):
    """Row v instead of v + 1: the constant row carries no information, so value 0 cannot be
    estimated."""

    def _of_values(self, table: NDArray[Any]) -> NDArray[Any]:
        values = np.arange(self.domain)
        return table[values % self.blocks, values // self.blocks]


LAWS: list[tuple[Callable[[], local.Protocol], str]] = [
    (lambda: MisprintedHash(str(math.log(3)), 4, 4, 3), "law: probabilities sum to 1.25"),
    (lambda: MisprintedResponse(1, 2), "estimate: biased"),
    (lambda: UnaryAtFullEpsilon(1, 3), "privacy: a ratio of 7.38906"),
    (lambda: RoundedDirect(1, 2), "privacy: a ratio of 2.71828"),
    (lambda: OneOverG(1, 4, 3, 3), "estimate: biased"),
    (lambda: KeepsOnlyTrueBits(1, 3), "privacy: an output is possible"),
    (lambda: HalfVariance(1, 3), "estimate: the variance differs"),
    (lambda: ForgetsHashes(Fraction(1), 4, 2, 2), "privacy: a ratio of 81"),
    (lambda: WrongHadamardRow(1, 5, 1), "estimate: biased"),
]


@pytest.mark.parametrize(("make", "problem"), LAWS, ids=[problem for _, problem in LAWS])
def test_the_exact_audit_catches_it(make: Callable[[], local.Protocol], problem: str) -> None:
    assert any(found.startswith(problem) for found in local.check(make()).problems), local.check(
        make()
    ).problems


@dataclass(frozen=True)
class LazyKeep(local.Direct):
    """States its law rightly but draws the other value from all d (may draw the own again)."""

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> NDArray[np.uint8]:
        from dither.privacy.noise import bernoulli, uniform_below

        keep = bernoulli(self.p, len(values), source=source)
        return np.where(
            keep, values, uniform_below(self.domain, len(values), source=source)
        ).astype(np.uint8)[:, None]


@dataclass(frozen=True)
class SeedsFromTheValue(local.LocalHash):
    """The hash seed is a function of the value: every support count still looks right for that
    value."""

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> NDArray[np.uint8]:
        payloads = super().permanent(values, source, devices).copy()
        payloads[:, :8] = 0
        payloads[:, 0] = np.asarray(values) % 7
        return payloads


def test_the_law_test_catches_randomisers_that_do_not_draw_their_law() -> None:
    words = SeededWords(1)
    assert local.same_law(local.Direct(1, 5), 2, 20_000, words)
    assert not local.same_law(LazyKeep(1, 5), 2, 20_000, words)
    assert not local.same_law(SeedsFromTheValue(1, 4, 2, 3), 2, 20_000, words)


class ResetsDaily(local.Client):
    """Forgets its memoised answers every day and charges only the first (the practice criticised in
    the book)."""

    def report(self, value: Any) -> bytes:
        self._memos.clear()
        found, left = super().report(value), self.budget._left
        if self.budget.answers > 1:
            self.budget._left = left + self.protocol.epsilon  # the day's charge is forgotten
        return found


class NeverRefuses(local.Client):
    """Renews its budget silently."""

    def report(self, value: Any) -> bytes:
        self.budget._lifetime += self.protocol.epsilon
        self.budget._left += self.protocol.epsilon
        return super().report(value)


def test_clients_that_draw_more_than_they_charge_are_caught() -> None:
    protocol = local.OptimisedUnary(1, 8)
    history = [3] * 30
    assert local.check_client(local.Client(protocol, lifetime_epsilon=5), history) == ()
    assert (
        local.check_client(local.Client(protocol, lifetime_epsilon=5, memoise=False), history) == ()
    )
    assert local.check_client(ResetsDaily(protocol, lifetime_epsilon=5), history)[0].startswith(
        "client: 30 answers"
    )
    silent = NeverRefuses(protocol, lifetime_epsilon=5, memoise=False)
    assert any(
        "without a recorded renewal" in problem for problem in local.check_client(silent, history)
    )


def test_a_reset_every_day_is_a_new_answer_every_day() -> None:
    """What the reset gives away: 30 fresh answers of one user, counted bit by bit, name the
    value."""
    protocol, words = local.OptimisedUnary(2, 8), SeededWords(2)
    fresh = protocol.permanent(np.full(30, 5), words)
    kept = np.repeat(protocol.permanent(np.array([5]), words), 30, axis=0)
    assert protocol.tally(fresh).argmax() == 5
    assert set(protocol.tally(kept)) <= {0, 30}


FULL_SIZE = [
    local.Direct(1, 1024),
    local.OptimisedUnary(1, 1024),
    local.SymmetricUnary(1, 1024),
    local.OptimalHash(1, 1024),
    local.Hadamard(1, 1024),
    local.Subset(1, 1024),
    local.HadamardSketch(1, 256, 4, 64),
]


@pytest.mark.parametrize("protocol", mark_between(FULL_SIZE, step=3), ids=lambda p: p.type)
def test_at_full_size_reports_show_no_more_than_epsilon(protocol: local.Protocol) -> None:
    """Statistically, where outputs cannot be enumerated: a bound that passes the truth once in 1e9
    runs."""
    assert (
        local.epsilon_at_least(protocol, 3, 700 % len(protocol.inputs()), 1_500, SeededWords(31))
        <= 1
    )


def test_at_full_size_the_statistical_bound_sees_a_doubled_epsilon() -> None:
    found = local.epsilon_at_least(UnaryAtFullEpsilon(1, 1024), 3, 700, 3_000, SeededWords(32))
    assert found > 1


def test_the_odds_rounded_up_are_caught() -> None:
    up = odds(Fraction(1)) * (1 + Fraction(1, 2**38))
    assert not local.odds.at_most_exp(up, Fraction(1))
