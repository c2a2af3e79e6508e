"""Laws of the code itself, every coin played both ways, against the `law` that a protocol
states."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dither import local
from dither.local.check import largest_ratio
from dither.local.coins import Coins, chance
from dither.local.odds import at_most_exp
from dither.local.values import one_row
from dither.privacy.noise import Words
from tests.case_lists import mark_between
from tests.local.replay import Player, played_law
from tests.local.seeded_words import SeededWords
from tests.local.small_protocols import EVERY, IDS


def _sent(protocol: local.Protocol, value: Any) -> dict[bytes, Fraction]:
    """What really leaves for a value: the code of `permanent`, all coins both ways."""
    law, lost = played_law(
        lambda player: protocol.permanent(one_row(value), player.source())[0].tobytes()
    )
    assert lost == 0
    return law


@pytest.mark.parametrize("protocol", mark_between(EVERY, step=3), ids=IDS)
def test_what_the_code_sends_is_within_e_to_the_epsilon(protocol: local.Protocol) -> None:
    """The law of the code itself, not of `law`: sums to one, every ratio certified, one length for
    every value."""
    sizes = set()
    for group in protocol.neighbours():
        laws = [_sent(protocol, value) for value in group]
        assert all(sum(law.values()) == 1 for law in laws)
        sizes |= {len(payload) for law in laws for payload in law}
        ratio = largest_ratio(laws)
        assert ratio is not None and at_most_exp(ratio, protocol.epsilon)
        stated = [{y: w for y, w in protocol.law(value).items() if w} for value in group]
        assert laws == stated
    assert sizes == {protocol.payload_bytes}


@pytest.mark.parametrize("protocol", mark_between(EVERY, step=3), ids=IDS)
def test_one_report_has_the_law_of_many(protocol: local.Protocol) -> None:
    """Devices draw by `one`, simulations by `permanent`: the same law, exactly."""
    device = 0
    for value in protocol.inputs()[:2]:
        single, lost = played_law(lambda player, v=value: protocol.permanent_one(v, player, device))
        many, _ = played_law(
            lambda player, v=value: protocol.permanent(
                one_row(v), player.source(), np.array([device])
            )[0].tobytes()
        )
        assert lost == 0 and single == many


def _work_is_silent(protocol: local.Protocol, way: str) -> bool:
    def send(player: Player, value: Any) -> tuple[bytes, int]:
        if way == "one":
            sent = protocol.permanent_one(value, player)
        else:
            sent = protocol.permanent(one_row(value), player.source())[0].tobytes()
        return sent, player.place

    for group in protocol.neighbours()[:4]:
        ratio = largest_ratio(
            [played_law(lambda player, v=value: send(player, v))[0] for value in group]
        )
        if ratio is None or not at_most_exp(ratio, protocol.epsilon):
            return False
    return True


@dataclass(frozen=True)
class EarlyReturn(local.Direct):
    """Draws a lie only when it lies: an observer of the work knows which answers are true."""

    def permanent_one(self, value: Any, coins: Any, device: int = 0) -> bytes:
        if coins.coin(chance(self.p)):
            return bytes([value])
        other = coins.below(self.domain - 1)
        return bytes([other + (other >= value)])


def test_work_that_tells_is_caught() -> None:
    protocol = EarlyReturn(1, 3)
    assert played_law(lambda player: protocol.permanent_one(1, player))[0] == protocol.law(
        1
    )  # its reports alone are right
    assert not _work_is_silent(protocol, "one")


@pytest.mark.parametrize("protocol", mark_between(EVERY, step=3), ids=IDS)
@pytest.mark.parametrize("way", ["one", "permanent"])
def test_the_number_of_draws_tells_no_more(protocol: local.Protocol, way: str) -> None:
    """Work is an output too: payload and number of draws together stay within e**epsilon."""
    assert _work_is_silent(protocol, way)


def test_subsets_are_drawn_by_their_law() -> None:
    """The loop has no last step: cut after 11 draws, what is known lies below the law, and all but
    little is known."""
    protocol = local.Subset(1, 4)
    laws = []
    for value in (0, 3):
        for send in (
            lambda player, v=value: protocol.permanent(np.array([v]), player.source())[0].tobytes(),
            lambda player, v=value: protocol.permanent_one(v, player),
        ):
            law, lost = played_law(send, depth=11)
            stated = protocol.law(value)
            assert all(law[y] <= stated[y] <= law[y] + lost for y in stated) and lost < Fraction(
                1, 20
            )
            # what is missing is the same share of all sets with the value, and of all sets without
            for inside in (True, False):
                missing = {stated[y] - law[y] for y in stated if bool(y[0] >> value & 1) is inside}
                assert len(missing) == 1
        laws.append(protocol.law(value))
    ratio = largest_ratio(laws)
    assert ratio is not None and at_most_exp(ratio, Fraction(1))


@dataclass(frozen=True)
class LazyKeep(local.Direct):
    """States its law rightly but draws the other value from all d."""

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> NDArray[np.uint8]:
        from dither.local import direct

        keep = direct.bernoulli(self.p, len(values), source=source)
        other = direct.uniform_below(self.domain, len(values), source=source)
        return np.where(keep, values, other).astype(np.uint8)[:, None]


@dataclass(frozen=True)
class LengthTells(local.Direct):
    """Sends as many bytes as its answer needs: the size is part of the report."""

    def permanent_one(self, value: Any, coins: Any, device: int = 0) -> bytes:
        return super().permanent_one(value, coins, device).rstrip(b"\0")


def test_the_player_catches_what_a_stated_law_hides() -> None:
    assert _sent(LazyKeep(1, 3), 1) != LazyKeep(1, 3).law(1)
    told, _ = played_law(lambda player: LengthTells(1, 3).permanent_one(1, player))
    assert {len(y) for y in told} != {1}


@pytest.mark.parametrize("reports", [1, 2])
def test_averaging_rappor_reports_learns_no_more_than_the_memory(reports: int) -> None:
    """Longitudinal: all transcripts of several instantaneous reports of one value, within the
    lifetime loss."""
    protocol = local.basic_rappor(2, f="1/2", p="1/4", q="3/4")

    def life(player: Player, value: int) -> bytes:
        memo = protocol.permanent(np.array([value]), player.source())
        return b"".join(
            protocol.instant(memo, player.source())[0].tobytes() for _ in range(reports)
        )

    laws = [played_law(lambda player, v=value: life(player, v))[0] for value in (0, 1)]
    ratio = largest_ratio(laws)
    assert ratio is not None and at_most_exp(ratio, protocol.epsilon)
    if reports == 1:
        assert at_most_exp(ratio, protocol.epsilon_one)
    else:
        assert not at_most_exp(ratio, protocol.epsilon_one)  # one report's figure is for one report


def test_rounded_values_show_when_the_rounding_changes() -> None:
    """1BitMean in repetition: 10, 11 and 10, 60 both change once, yet their transcripts differ by
    more than e**2.

    With one offset for life the first pair mostly has one rounded value, so one bit; the second
    always has two. The stated loss is between histories whose *rounded* values change together;
    what is said must say so.
    """
    protocol = local.RepeatedOneBit(1, 0, 100, 50)

    def life(player: Player, history: tuple[int, int]) -> bytes:
        device = player.below(50)
        memos: dict[str, bytes] = {}
        for value in history:
            key = protocol.memo_key(value, device)
            memos[key] = memos.get(key) or protocol.permanent_one(value, player, device)
        return b"".join(memos[protocol.memo_key(value, device)] for value in history)

    near, far = (
        played_law(lambda player, h=history: life(player, h))[0] for history in ((10, 11), (10, 60))
    )
    ratio = largest_ratio([near, far])
    assert ratio is not None and not at_most_exp(ratio, Fraction(2))
    assert any("when the rounding changed" in text for text in local.UNPROTECTED)


def test_exact_coins_at_their_threshold() -> None:
    """p = 1/3: the word floor(2**64 / 3) alone cannot decide; the next one does, at the right
    place."""

    class Fixed(Words):
        def __init__(self, *given: int) -> None:
            self.given = list(given)

        def words(self, count: int, width: int = 64) -> np.ndarray:
            assert count == 8
            return np.array((self.given + [0] * 8)[:8][::-1], np.uint64)

    third = chance(Fraction(1, 3))
    tie = 2**64 // 3
    assert Coins(Fixed(tie - 1)).coin(third) and not Coins(Fixed(tie + 1)).coin(third)
    assert Coins(Fixed(tie, tie - 1)).coin(third) and not Coins(Fixed(tie, tie + 1)).coin(third)
    assert not Coins(Fixed(0)).coin(chance(Fraction(0))) and Coins(Fixed(2**64 - 1)).coin(
        chance(Fraction(1))
    )
    assert not Coins(Fixed(2**63)).coin(chance(Fraction(1, 2)))
    assert Coins(Fixed(2**64 - 1, 5)).below(3) == 2  # 2**64 - 1 is past the last multiple of three


@pytest.mark.parametrize(
    "p", [Fraction(1, 2), Fraction(3, 8), Fraction(1, 3), Fraction(0), Fraction(1)]
)
def test_exact_bits_of_one_report(p: Fraction) -> None:
    coins, ones = Coins(SeededWords(4)), 0
    for _ in range(300):
        ones += coins.bits(p, 100).bit_count()
    assert abs(ones - 30_000 * p) <= 6.2 * (30_000 * float(p * (1 - p))) ** 0.5


def test_transcripts_of_several_values_add_up() -> None:
    """Client.report itself, played: two values reported, against two others, within e**(2 epsilon),
    not e**epsilon."""
    protocol = local.Direct(1, 3)

    def life(player: Player, history: tuple[int, ...]) -> bytes:
        return b"".join(protocol.permanent_one(value, player) for value in dict.fromkeys(history))

    laws = [
        played_law(lambda player, h=history: life(player, h))[0]
        for history in product(range(3), repeat=2)
        if len(set(history)) == 2
    ]
    ratio = largest_ratio(laws)
    assert (
        ratio is not None
        and at_most_exp(ratio, Fraction(2))
        and not at_most_exp(ratio, Fraction(1))
    )
