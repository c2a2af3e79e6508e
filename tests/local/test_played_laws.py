"""Attacks on the local protocols by someone who does not believe their `law`, their clients or their collectors."""

from __future__ import annotations

import copy
import json
import os
import pickle
import shutil
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from dither import BudgetError, DitherError, ParameterError, local
from dither.local.check import largest_ratio
from dither.local.coins import Coins, chance
from dither.local.odds import at_most_exp
from dither.local.protocol import one_row
from dither.privacy.noise import Words
from tests.case_lists import mark_between
from tests.local.replay import Player, played_law
from tests.local.seeded_words import SeededWords

EVERY: list[local.Protocol] = [
    local.Direct(1, 3),
    local.Direct("0.1", 2),
    local.SymmetricUnary(1, 3),
    local.OptimisedUnary(1, 3),
    local.LocalHash(1, 4, 2, 2),
    local.LocalHash(1, 4, 3, 3),
    local.Hadamard(1, 5, 1),
    local.Hadamard(3, 9),
    local.Hadamard(2, 4, 4),
    local.BitFlip(1, 4, 2),
    local.CountMeanSketch(1, 5, 2, 4, "x", 3),
    local.HadamardSketch(1, 5, 3, 4, "x", 3),
    local.basic_rappor(2, f="1/2", p="1/4", q="3/4"),
    local.bloom_rappor(bits=3, hashes=2, cohorts=2, f="1/2", p="1/2", q="3/4"),
    local.OneBit(1),
    local.RepeatedOneBit(1, 0, 10, 5, "1/5"),
    local.Piecewise(1, cells=8),
    local.Hybrid(1, cells=5),
    local.SquareWave(1, 0, 1, 6),
    local.VectorMean(1, -1, 1, 3, 2),
    local.VectorMean(2, -1, 1, 2, 2),
    local.SparseMean(1, 1, 5, 3, 2),
    local.Marginals(1, 3, 2),
    local.Hierarchy(1, 4, 2),
    local.Haar(1, 8),
    local.PrefixSearch(1, 2, 1, 1, 3),
    local.FragmentPuzzle(1, bits=2, step=1, tag_bits=1, prime_bits=3),
    local.EdgeResponse(1, users=3),
]
IDS = [f"{p.type}-{i}" for i, p in enumerate(EVERY)]


def _sent(protocol: local.Protocol, value: Any) -> dict[bytes, Fraction]:
    """What really leaves for a value: the code of `permanent`, all coins both ways."""
    law, lost = played_law(lambda player: protocol.permanent(one_row(value), player.source())[0].tobytes())
    assert lost == 0
    return law


@pytest.mark.parametrize("protocol", mark_between(EVERY, step=3), ids=IDS)
def test_what_the_code_sends_is_within_e_to_the_epsilon(protocol: local.Protocol) -> None:
    """The law of the code itself, not of `law`: sums to one, every ratio certified, one length for every value."""
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
        single, lost = played_law(lambda player, v=value: protocol.one(v, player, device))
        many, _ = played_law(
            lambda player, v=value: protocol.permanent(one_row(v), player.source(), np.array([device]))[0].tobytes()
        )
        assert lost == 0 and single == many


def _work_is_silent(protocol: local.Protocol, way: str) -> bool:
    def send(player: Player, value: Any) -> tuple[bytes, int]:
        if way == "one":
            sent = protocol.one(value, player)
        else:
            sent = protocol.permanent(one_row(value), player.source())[0].tobytes()
        return sent, player.place

    for group in protocol.neighbours()[:4]:
        ratio = largest_ratio([played_law(lambda player, v=value: send(player, v))[0] for value in group])
        if ratio is None or not at_most_exp(ratio, protocol.epsilon):
            return False
    return True


@dataclass(frozen=True)
class EarlyReturn(local.Direct):
    """Draws a lie only when it lies: an observer of the work knows which answers are true."""

    def one(self, value: Any, coins: Any, device: int = 0) -> bytes:
        if coins.coin(chance(self.p)):
            return bytes([value])
        other = coins.below(self.domain - 1)
        return bytes([other + (other >= value)])


def test_work_that_tells_is_caught() -> None:
    protocol = EarlyReturn(1, 3)
    assert played_law(lambda player: protocol.one(1, player))[0] == protocol.law(1)  # its reports alone are right
    assert not _work_is_silent(protocol, "one")


@pytest.mark.parametrize("protocol", mark_between(EVERY, step=3), ids=IDS)
@pytest.mark.parametrize("way", ["one", "permanent"])
def test_the_number_of_draws_tells_no_more(protocol: local.Protocol, way: str) -> None:
    """Work is an output too: payload and number of draws together stay within e**epsilon."""
    assert _work_is_silent(protocol, way)


def test_subsets_are_drawn_by_their_law() -> None:
    """The loop has no last step: cut after 11 draws, what is known lies below the law, and all but little is known."""
    protocol = local.Subset(1, 4)
    laws = []
    for value in (0, 3):
        for send in (
            lambda player, v=value: protocol.permanent(np.array([v]), player.source())[0].tobytes(),
            lambda player, v=value: protocol.one(v, player),
        ):
            law, lost = played_law(send, depth=11)
            stated = protocol.law(value)
            assert all(law[y] <= stated[y] <= law[y] + lost for y in stated) and lost < Fraction(1, 20)
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

    def permanent(self, values: Any, source: Words, devices: NDArray[np.int64] | None = None) -> NDArray[np.uint8]:
        from dither.local import direct

        keep = direct.bernoulli(self.p, len(values), source=source)
        other = direct.uniform_below(self.domain, len(values), source=source)
        return np.where(keep, values, other).astype(np.uint8)[:, None]


@dataclass(frozen=True)
class LengthTells(local.Direct):
    """Sends as many bytes as its answer needs: the size is part of the report."""

    def one(self, value: Any, coins: Any, device: int = 0) -> bytes:
        return super().one(value, coins, device).rstrip(b"\0")


def test_the_player_catches_what_a_stated_law_hides() -> None:
    assert _sent(LazyKeep(1, 3), 1) != LazyKeep(1, 3).law(1)
    told, _ = played_law(lambda player: LengthTells(1, 3).one(1, player))
    assert {len(y) for y in told} != {1}


@pytest.mark.parametrize("reports", [1, 2])
def test_averaging_rappor_reports_learns_no_more_than_the_memory(reports: int) -> None:
    """Longitudinal: all transcripts of several instantaneous reports of one value, within the lifetime loss."""
    protocol = local.basic_rappor(2, f="1/2", p="1/4", q="3/4")

    def life(player: Player, value: int) -> bytes:
        memo = protocol.permanent(np.array([value]), player.source())
        return b"".join(protocol.instant(memo, player.source())[0].tobytes() for _ in range(reports))

    laws = [played_law(lambda player, v=value: life(player, v))[0] for value in (0, 1)]
    ratio = largest_ratio(laws)
    assert ratio is not None and at_most_exp(ratio, protocol.epsilon)
    if reports == 1:
        assert at_most_exp(ratio, protocol.epsilon_one)
    else:
        assert not at_most_exp(ratio, protocol.epsilon_one)  # one report's figure is for one report


def test_rounded_values_show_when_the_rounding_changes() -> None:
    """1BitMean in repetition: 10, 11 and 10, 60 both change once, yet their transcripts differ by more than e**2.

    With one offset for life the first pair mostly has one rounded value, so one bit; the second always has two. The
    stated loss is between histories whose *rounded* values change together; what is said must say so.
    """
    protocol = local.RepeatedOneBit(1, 0, 100, 50)

    def life(player: Player, history: tuple[int, int]) -> bytes:
        device = player.below(50)
        memos: dict[str, bytes] = {}
        for value in history:
            key = protocol.memo_key(value, device)
            memos[key] = memos.get(key) or protocol.one(value, player, device)
        return b"".join(memos[protocol.memo_key(value, device)] for value in history)

    near, far = (played_law(lambda player, h=history: life(player, h))[0] for history in ((10, 11), (10, 60)))
    ratio = largest_ratio([near, far])
    assert ratio is not None and not at_most_exp(ratio, Fraction(2))
    assert any("when the rounding changed" in text for text in local.UNPROTECTED)


def test_exact_coins_at_their_threshold() -> None:
    """p = 1/3: the word floor(2**64 / 3) alone cannot decide; the next one does, at the right place."""

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
    assert not Coins(Fixed(0)).coin(chance(Fraction(0))) and Coins(Fixed(2**64 - 1)).coin(chance(Fraction(1)))
    assert not Coins(Fixed(2**63)).coin(chance(Fraction(1, 2)))
    assert Coins(Fixed(2**64 - 1, 5)).below(3) == 2  # 2**64 - 1 is past the last multiple of three


@pytest.mark.parametrize("p", [Fraction(1, 2), Fraction(3, 8), Fraction(1, 3), Fraction(0), Fraction(1)])
def test_exact_bits_of_one_report(p: Fraction) -> None:
    coins, ones = Coins(SeededWords(4)), 0
    for _ in range(300):
        ones += coins.bits(p, 100).bit_count()
    assert abs(ones - 30_000 * p) <= 6.2 * (30_000 * float(p * (1 - p))) ** 0.5


def test_a_client_holds_no_random_state() -> None:
    """Two clients in one state, asked for new answers, do not repeat each other (a resumed snapshot would)."""
    client = local.Client(local.OptimisedUnary(1, 256), lifetime_epsilon=100, memoise=False)
    twin = local.Client.from_json(client.to_json())
    assert client.report(3) != twin.report(3)  # equal with probability below 2**-90
    assert not any(isinstance(part, Words) for part in vars(client).values())


def test_budgets_and_clients_cannot_be_copied() -> None:
    client = local.Client(local.Direct(1, 4), lifetime_epsilon=1)
    for thing in (client, client.budget):
        for act in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="cannot be copied"):
                act(thing)
    with pytest.raises(AttributeError):
        client.budget.lifetime_epsilon = Fraction(9)  # type: ignore[misc]


def test_a_forked_child_does_not_spend() -> None:
    client = local.Client(local.Direct(1, 4), lifetime_epsilon=2)
    first = client.report(0)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        told = b"?"
        try:
            told = b"same" if client.report(0) == first else b"other"
            try:
                client.report(1)
                told += b" spent"
            except BudgetError:
                told += b" refused"
        finally:
            os.write(write, told)
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"same refused"
    assert client.report(1) and client.left == 0


def test_old_states_are_refused_where_they_can_be_seen() -> None:
    client = local.Client(local.Direct(1, 4), lifetime_epsilon=3)
    client.report(0)
    old = json.loads(json.dumps(client.to_json()))
    client.report(1)
    assert client.budget.answers == 2
    with pytest.raises(ParameterError, match="old copy"):
        local.Client.from_json(old, known_answers=2)
    assert local.Client.from_json(client.to_json(), known_answers=2).left == 1
    shared = local.DeviceBudget(3)
    with pytest.raises(ParameterError, match="older than this client"):
        local.Client.from_json(client.to_json(), budget=shared)
    shared = local.DeviceBudget.from_json(client.budget.to_json())
    shared.charge("another collection", Fraction(1))
    assert local.Client.from_json(client.to_json(), budget=shared, known_answers=3).left == 0
    with pytest.raises(ParameterError, match="older than this client"):
        local.Client.from_json(client.to_json(), budget=shared, known_answers=4)


def test_a_budget_in_a_file_is_opened_never_made_anew(tmp_path: Path) -> None:
    """A program that starts every day and opens "its" budget gets the one that it spent yesterday."""
    path = tmp_path / "budget.json"
    for day in range(3):
        client = local.Client(local.Direct(1, 4), budget=local.budget_file(path, 2))
        if day < 2:
            client.report(day)
        else:
            with pytest.raises(BudgetError):
                client.report(day)
        with pytest.raises(ParameterError, match="open already"):
            local.budget_file(path, 2)
        del client
    with pytest.raises(ParameterError, match="cannot be opened with another"):
        local.budget_file(path, 9)
    budget = local.budget_file(path, 2, known_answers=2)
    budget.renew(1, because="the user agreed")
    del budget
    again = local.budget_file(path, 2)
    assert again.left == 1 and again.renewals[0].because == "the user agreed"
    del again
    with pytest.raises(ParameterError, match="old copy"):
        local.budget_file(path, 2, known_answers=3)
    path.write_text("{}")
    with pytest.raises(ParameterError, match="not replaced"):
        local.budget_file(path, 2)
    path.unlink()
    with pytest.raises(ParameterError, match="not made anew"):
        local.budget_file(path, 2, known_answers=2)


def test_a_charge_that_cannot_be_stored_pays_for_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    client = local.Client(local.Direct(1, 4), budget=local.budget_file(folder / "budget", 2))
    shutil.rmtree(folder)
    with pytest.raises(OSError, match="budget"):
        client.report(1)
    assert client.spent == 1 and client._memos == {}  # charged, and no answer exists that could leave


def test_states_that_contradict_themselves_are_refused() -> None:
    client = local.Client(local.Direct(1, 4), lifetime_epsilon=2)
    client.report(0)
    state = client.to_json()
    for path, value in [
        (("budget", "charges", 0, "answers"), 0),
        (("budget", "charges", 0, "answers"), 9),
        (("budget", "charges", 0, "epsilon"), "-1/1"),
        (("budget", "renewals"), [{"epsilon": "5/1", "because": "x"}]),
        (("memos", "0"), "ffff"),
        (("dither_local_client",), 2),
    ]:
        broken = json.loads(json.dumps(state))
        inner = broken
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value
        with pytest.raises(DitherError):
            local.Client.from_json(broken)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.fractions(Fraction(1, 1000), 3, max_denominator=1000), max_size=12), st.booleans())
def test_the_integer_ledger_adds_like_fractions(prices: list[Fraction], store: bool) -> None:
    """A stale copy of the remainder, kept while the units widened, once doubled a budget."""
    budget, spent = local.DeviceBudget("7/3"), Fraction(0)
    for price in prices:
        if spent + price > budget.lifetime_epsilon:
            with pytest.raises(BudgetError):
                budget.charge("x", price)
        else:
            budget.charge("x", price)
            spent += price
        if store:
            budget = local.DeviceBudget.from_json(json.loads(json.dumps(budget.to_json())))
        assert budget.spent == spent and budget.left == budget.lifetime_epsilon - spent >= 0


@pytest.mark.parametrize(
    ("protocol", "otherwise", "strange"),
    [
        (local.Direct(1, 4), 3, [None, -1, 4, 2**70, 1.5, "x", True]),
        (local.OptimalHash(1, 100), 99, [None, -1, 100, "x"]),
        (local.OneBit(1, 0, 10), 0.0, [float("nan"), None, "x"]),
        (local.VectorMean(1, -1, 1, 3, 1), [0.0, 0.0, 0.0], [[0.0], [float("nan")] * 3]),
        (local.SparseMean(1, 1, 5, 3, 1), {}, [{7: 1.0}, {0: float("nan")}, None]),
        (local.RepeatedOneBit(1, 0, 10, 5), 0, [None, 1.5, "x"]),
        (local.PlanarLaplace(1, radius=10), [0.0, 0.0], [[float("nan"), 0.0], None, [1.0]]),
    ],
    ids=lambda p: getattr(p, "type", None),
)
def test_a_value_without_a_place_is_no_silence(protocol: local.Protocol, otherwise: Any, strange: list[Any]) -> None:
    """Missing and unforeseen values raise without `otherwise` (and never an error of another kind), report with it."""
    plain = local.Client(protocol, lifetime_epsilon=50)
    total = local.Client(protocol, lifetime_epsilon=50, otherwise=otherwise)
    usual = total.report(otherwise)
    for value in strange:
        with pytest.raises(ParameterError):
            plain.report(value)
        assert total.report(value) == usual  # one answer for all of them
    assert plain.spent == 0 and total.budget.answers == 1
    again = local.Client.from_json(json.loads(json.dumps(total.to_json())))
    assert again.report(strange[0]) == usual


def test_labels_and_otherwise() -> None:
    client = local.Client(local.Direct(1, 3), lifetime_epsilon=9, labels=["a", "b", "other"])
    assert client.report(None) == client.report("zzz") == client.report(7) == client.report("other")
    with pytest.raises(ParameterError, match="different"):
        local.Client(local.Direct(1, 3), lifetime_epsilon=9, labels=["a", "a", "other"])
    with pytest.raises(ParameterError):
        local.Client(local.Direct(1, 3), lifetime_epsilon=9, otherwise=3)
    with pytest.raises(ParameterError, match="more labels"):
        local.Client(local.Direct(1, 3), lifetime_epsilon=9, labels=["a", "b", "c", "other"])
    client = local.Client(local.VectorMean(1, -1, 1, 2, 1), lifetime_epsilon=9, otherwise=np.zeros(2))
    assert json.dumps(client.to_json())


REPORTERS = [*EVERY, local.Subset(1, 5), local.Degrees(1), local.PlanarLaplace(1, radius=9)]


@pytest.mark.parametrize("protocol", REPORTERS, ids=[f"{p.type}-{i}" for i, p in enumerate(REPORTERS)])
def test_hostile_payloads_are_counted_or_rejected(protocol: local.Protocol) -> None:
    generator, size = np.random.default_rng(0), protocol.payload_bytes
    honest = np.concatenate([protocol.permanent(one_row(v), SeededWords(i)) for i, v in enumerate(protocol.inputs())])
    flipped = np.repeat(honest, 40, axis=0)[:400].copy()
    flipped[np.arange(len(flipped)), generator.integers(0, size, len(flipped))] ^= np.uint8(1) << generator.integers(
        0, 8, len(flipped), np.uint8
    )
    rows = np.concatenate(
        [
            honest,
            flipped,
            generator.integers(0, 256, (500, size), np.uint8),
            generator.integers(0, 3, (500, size), np.uint8),
            np.zeros((1, size), np.uint8),
            np.full((1, size), 255, np.uint8),
        ]
    )
    collector = local.Aggregator(protocol)
    collector.add_payloads(rows)
    assert collector.reports + collector.rejected == len(rows) and collector.reports >= len(honest)
    again = local.Aggregator.from_bytes(collector.to_bytes())
    assert again.reports == collector.reports and (again.tally == collector.tally).all()
    if not protocol.keeps_reports:
        assert np.isfinite(collector.estimate().values).all()


@pytest.mark.parametrize("protocol", EVERY, ids=IDS)
def test_only_possible_payloads_are_counted(protocol: local.Protocol) -> None:
    """Every payload that is accepted is one that some client could have sent: random bytes against all laws."""
    possible = {y for value in protocol.inputs() for y in protocol.law(value)}
    if hasattr(protocol, "report_law"):
        possible = {y for value in protocol.inputs() for y in protocol.report_law(value)}
    if protocol.type == "edge_response":
        possible = {y for value in protocol.inputs() for y in protocol.law(value)}
    generator, size = np.random.default_rng(1), protocol.payload_bytes
    rows = np.concatenate([generator.integers(0, high, (2_000, size), np.uint8) for high in (2, 5, 9, 256)])
    for row, good in zip(rows, protocol.valid(rows), strict=True):
        if good:
            assert row.tobytes() in possible
    sent = np.array([list(y) for y in possible], np.uint8)
    assert protocol.valid(sent).all()


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.integers(0, 200))
def test_stored_aggregators_are_read_or_refused(junk: bytes, cut: int) -> None:
    stored = local.Aggregator(local.Direct(1, 3)).to_bytes()
    for hostile in (junk, stored[:5] + junk, stored[: cut % len(stored)] + junk, stored[:9] + junk + stored[9:]):
        with suppress(ParameterError):
            local.Aggregator.from_bytes(hostile)


def test_stored_counts_must_be_possible() -> None:
    def stored(head: dict[str, Any], tally: list[int]) -> bytes:
        text = json.dumps(head).encode()
        return b"dLAG\x01" + len(text).to_bytes(4, "little") + text + np.array(tally, "<i8").tobytes()

    document = local.Direct(1, 3).to_json()
    assert local.Aggregator.from_bytes(stored({"protocol": document, "reports": 3, "rejected": 0}, [1, 1, 1]))
    for head, tally in [
        ({"protocol": document, "reports": -1, "rejected": 0}, [0, 0, 0]),
        ({"protocol": document, "reports": True, "rejected": 0}, [0, 0, 0]),
        ({"protocol": document, "reports": 2**60, "rejected": 0}, [0, 0, 0]),
        ({"protocol": document, "reports": 1, "rejected": 0}, [2**63 - 1, 0, 0]),
        ({"protocol": document, "reports": 1, "rejected": 0}, [-(2**63), 0, 0]),
        ({"protocol": 7, "reports": 1, "rejected": 0}, [0, 0, 0]),
        ({"reports": 1, "rejected": 0}, [0, 0, 0]),
    ]:
        with pytest.raises(ParameterError):
            local.Aggregator.from_bytes(stored(head, tally))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(REPORTERS), st.data())
def test_documents_are_read_or_refused(protocol: local.Protocol, data: st.DataObject) -> None:
    """A document with one field changed is refused, or is the document of the protocol that it makes."""
    tree = protocol.to_json()
    field = data.draw(st.sampled_from(sorted(tree)))
    odd = st.one_of(
        st.none(), st.booleans(), st.integers(-3, 2**70), st.text(max_size=5), st.just([]), st.just({}), st.floats()
    )
    tree[field] = data.draw(st.one_of(odd, st.sampled_from(["1/0", "0/1", "-1/2", "1/3", "2/1", "nan", "1e400"])))
    try:
        made = local.from_json(tree)
    except ParameterError:
        return
    assert made.document() == local.from_json(made.to_json()).document()


def test_merging_with_oneself_is_refused() -> None:
    collector = local.Aggregator(local.Direct(1, 3))
    with pytest.raises(ParameterError, match="twice"):
        collector.merge(collector)


def test_a_user_who_reports_links_twice_counts_once() -> None:
    protocol = local.EdgeResponse(2, users=3)
    rows = protocol.permanent([(2, [True, False]), (1, [True])], SeededWords(3))
    once, twice = protocol.edges(rows), protocol.edges(np.concatenate([rows, rows]))
    assert once.values == twice.values and once.variances == twice.variances


def test_hadamard_intervals_with_many_blocks() -> None:
    """The plug-in variance once added up the clipped noise of a whole block: intervals were five times too wide."""
    oracle, users, runs = local.Hadamard(4, 4096), 2_000, 40
    assert oracle.blocks > 1
    values = np.random.default_rng(2).integers(0, 4096, users)
    truth, words, scores, widths = np.bincount(values, minlength=4096), SeededWords(9), [], []
    exact = oracle.variances(truth.astype(float), users)
    for run in range(runs):
        found = oracle.estimate(oracle.tally(oracle.randomise(values, words)), users)
        scores.append((found.values[run] - truth[run]) / found.errors[run])
        widths.append(float(np.median(found.variances) / np.median(exact)))
    assert chi2.isf(1 - 5e-10, runs) < float(np.square(scores).sum()) < chi2.isf(5e-10, runs) * 1.2
    assert 0.5 < min(widths) <= max(widths) < 2


@pytest.mark.parametrize(
    "protocol", [local.Piecewise(1, cells=4), local.Piecewise(4, cells=5), local.Hybrid(2, cells=8)]
)
def test_the_worst_variance_is_one(protocol: local.Piecewise) -> None:
    """On a coarse grid the worst value lies between two positions; a table of nine values once missed it."""
    shares = [Fraction(i, 96) for i in range(97)]
    worst = max(protocol.second_moment(share) - (2 * share - 1) ** 2 for share in shares)
    assert worst <= protocol.worst_variance <= worst + Fraction(1, 3)


def test_inputs_fit_their_protocol() -> None:
    protocol = local.VectorMean(1, -1, 1, 5, 1)
    assert all(len(value) == 5 for value in protocol.inputs()) and local.check(protocol).ok
    assert local.best_vector("1/2", 3).protocol.epsilon == Fraction(1, 2)


def test_transcripts_of_several_values_add_up() -> None:
    """Client.report itself, played: two values reported, against two others, within e**(2 epsilon), not e**epsilon."""
    protocol = local.Direct(1, 3)

    def life(player: Player, history: tuple[int, ...]) -> bytes:
        return b"".join(protocol.one(value, player) for value in dict.fromkeys(history))

    laws = [
        played_law(lambda player, h=history: life(player, h))[0]
        for history in product(range(3), repeat=2)
        if len(set(history)) == 2
    ]
    ratio = largest_ratio(laws)
    assert ratio is not None and at_most_exp(ratio, Fraction(2)) and not at_most_exp(ratio, Fraction(1))


def test_a_document_whose_loss_has_no_end_is_refused_at_once():
    """f = 1e-75 is a loss of 690, which the search for it never reached: reading the document took for ever."""
    tree = local.bloom_rappor(bits=3, hashes=2, cohorts=2, f="1/2", p="1/2", q="3/4").to_json()
    tree["f"] = "1e-75"
    with pytest.raises(ParameterError, match="beyond"):
        local.from_json(tree)
