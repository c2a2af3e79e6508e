"""The two halves: budget for life, memoisation, merging, storage, and what is said about it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dither import BudgetError, ParameterError, local
from dither.local import postprocess
from dither.local.check import largest_ratio
from dither.local.odds import at_most_exp
from dither.local.wire import HEADER_BYTES
from tests.local.seeded_words import SeededWords


def test_the_budget_lasts_for_the_lifetime() -> None:
    client = local.Client(local.Direct(1, 10), lifetime_epsilon=3)
    for value in (1, 2, 3):
        client.report(value)
    assert (client.spent, client.left, client.changes_covered) == (3, 0, 3)
    with pytest.raises(BudgetError, match="never renews by itself"):
        client.report(4)
    assert len(client.report(2)) == HEADER_BYTES + 1  # an answer given before is free
    assert client.spent == 3


def test_without_memoisation_every_report_is_charged() -> None:
    client = local.Client(local.Direct("0.1", 10), lifetime_epsilon=1, memoise=False)
    for _ in range(10):
        client.report(1)
    with pytest.raises(BudgetError):
        client.report(1)


def test_renewal_is_an_act_that_is_told() -> None:
    client = local.Client(local.Direct(1, 4), lifetime_epsilon=1)
    client.report(0)
    with pytest.raises(ParameterError, match="reason"):
        client.renew(1, because=" ")
    client.renew(1, because="user agreed to the 2027 survey")
    client.report(1)
    assert (
        client.loss().epsilon == 2
        and client.loss().neighbours == "replace"
        and client.loss().unit == "user"
    )
    assert "2027 survey" in client.statement() and "when the answer changed" in client.statement()


def test_a_budget_that_pays_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="does not pay one report"):
        local.Client(local.Direct(2, 4), lifetime_epsilon=1)


def test_state_survives_the_device_restarting() -> None:
    protocol = local.bloom_rappor(bits=16, hashes=2, cohorts=64, f=0.5, p=0.5, q=0.75)
    client = local.Client(protocol, lifetime_epsilon=9)
    first = client.report("dark")
    again = local.Client.from_json(json.loads(json.dumps(client.to_json())))
    assert (again.spent, again._memos, again._device) == (
        client.spent,
        client._memos,
        client._device,
    )
    assert again.report("dark")[5:7] == first[5:7]  # same cohort
    assert again.spent == client.spent
    again.report("light")
    with pytest.raises(BudgetError):
        again.report("auto")


def test_the_state_is_saved_before_anything_leaves() -> None:
    stored: list[dict[str, object]] = []
    client = local.Client(local.Direct(1, 4), lifetime_epsilon=2, save=stored.append)
    client.report(1)
    client.report(1)
    assert [state["budget"]["charges"][0]["answers"] for state in stored] == [1]  # type: ignore[index]

    def full_disk(state: dict[str, object]) -> None:
        raise OSError("no space left")

    broken = local.Client.from_json(stored[0], save=full_disk)
    with pytest.raises(OSError, match="no space"):
        broken.report(2)
    assert broken.spent == 2  # charged although nothing left
    with pytest.raises(OSError, match="no space"):
        broken.report(2)  # the memoised answer does not slip out unsaved either


def test_rappor_speaks_afresh_from_one_memory() -> None:
    client = local.Client(local.basic_rappor(64, f=0.5, p=0.25, q=0.75), lifetime_epsilon=10)
    reports = {client.report(7) for _ in range(20)}
    assert len(reports) > 10 and client.spent == client.protocol.epsilon


def test_memoisation_shows_when_a_value_changes() -> None:
    """Rule device-lifetime, exactly: the pattern of repeats is not protected. Histories with one
    pattern are.

    (a, a) against (a, b): a transcript with two different reports is possible for the second alone.
    (a, b) against (c, d): every ratio is at most e**(2 epsilon).
    """
    protocol = local.Direct(1, 4)
    laws = [protocol.law(value) for value in range(4)]

    def transcript(history: tuple[int, int]) -> dict[bytes, Fraction]:
        first, second = history
        if first == second:
            return {x + x: w for x, w in laws[first].items()}
        return {x + y: w * v for x, w in laws[first].items() for y, v in laws[second].items()}

    assert largest_ratio([transcript((0, 0)), transcript((0, 1))]) is None
    same_pattern = [transcript((a, b)) for a in range(4) for b in range(4) if a != b]
    ratio = largest_ratio(same_pattern)
    assert (
        ratio is not None
        and at_most_exp(ratio, Fraction(2))
        and not at_most_exp(ratio, Fraction(1))
    )


def test_equal_values_are_one_value() -> None:
    client = local.Client(local.OptimisedUnary(1, 20), lifetime_epsilon=1)
    assert client.report(7) == client.report(np.int64(7)) == client.report(np.uint8(7))


def test_all_protocols_of_a_device_share_its_budget() -> None:
    """Rule device-lifetime: a fixed budget over the lifetime of the *device*, whatever is asked of
    it."""
    budget = local.DeviceBudget(3)
    themes = local.Client(local.Direct(2, 5), budget=budget)
    hours = local.Client(local.OneBit(1, 0, 24), budget=budget)
    themes.report(1)
    hours.report(7.5)
    assert budget.left == 0 and [c.protocol.split()[1] for c in budget.charges] == [
        "direct",
        "one_bit",
    ]
    for client, value in ((themes, 2), (hours, 9.0)):
        with pytest.raises(BudgetError):
            client.report(value)
    again = local.DeviceBudget.from_json(json.loads(json.dumps(budget.to_json())))
    back = local.Client.from_json(themes.to_json(), budget=again)
    assert back.spent == 3 and back.report(1) == themes.report(1)
    with pytest.raises(ParameterError, match="DeviceBudget"):
        local.Client(local.Direct(1, 5))


def test_labels() -> None:
    labels = ["dark", "light", "other"]
    client = local.Client(local.Direct(8, 3), lifetime_epsilon=16, labels=labels)
    collector = local.Aggregator(client.protocol)
    collector.add(client.report("dark"))
    collector.add(client.report("never seen"))
    assert [row["label"] for row in collector.estimate(labels).rows()] == labels
    with pytest.raises(ParameterError, match="'other'"):
        local.Client(local.Direct(8, 2), lifetime_epsilon=8, labels=["a", "b"]).report("c")


def test_errors_never_repeat_a_value() -> None:
    with pytest.raises(ParameterError) as caught:
        local.Client(local.Direct(1, 10), lifetime_epsilon=1).report(424242)
    assert "424242" not in str(caught.value)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=0, max_size=60), st.integers(0, 60), st.integers(0, 2**32)
)
def test_merging_is_adding(values: list[int], cut: int, seed: int) -> None:
    for protocol in (
        local.OptimisedUnary(1, 7),
        local.Hadamard(2, 7),
        local.OptimalHash(1, 7),
        local.Subset(1, 7),
    ):
        payloads = protocol.randomise(np.array(values, np.int64), SeededWords(seed))
        whole, left, right = (local.Aggregator(protocol) for _ in range(3))
        whole.add_payloads(payloads)
        left.add_payloads(payloads[:cut])
        right.add_payloads(payloads[cut:])
        merged = local.Aggregator.from_bytes(right.to_bytes()).merge(left)
        assert (merged.tally == whole.tally).all() and merged.reports == whole.reports == len(
            values
        )


def test_other_protocols_are_not_merged() -> None:
    with pytest.raises(ParameterError):
        local.Aggregator(local.Direct(1, 3)).merge(local.Aggregator(local.Direct(2, 3)))
    with pytest.raises(ParameterError):
        local.Aggregator.from_bytes(b"nothing of ours")
    with pytest.raises(ParameterError):
        local.Aggregator.from_bytes(local.Aggregator(local.Direct(1, 3)).to_bytes()[:-8])


def test_reports_before_a_failing_source_are_counted() -> None:
    """Up to 65,535 buffered reports were lost when the iterator raised."""
    protocol = local.Direct(1, 4)
    report = local.Client(protocol, lifetime_epsilon=1).report(2)

    def read_socket() -> Iterator[bytes]:
        yield from [report] * 5
        yield b"junk"
        raise ConnectionError("gone")

    collector = local.Aggregator(protocol)
    with pytest.raises(ConnectionError, match="gone"):
        collector.add_many(read_socket())
    assert (collector.reports, collector.rejected) == (5, 1)


def test_the_halves_load_no_engine() -> None:
    program = (
        "import sys; from dither import local; local.Client(local.Direct(1, 4), "
        "lifetime_epsilon=1).report(2);"
        "heavy = {'duckdb', 'sqlglot', 'pyarrow', 'scipy', 'matplotlib', 'pandas', "
        "'pydantic'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(0, 1e6))
def test_norm_sub_is_the_projection(values: list[float], total: float) -> None:
    given_values = np.array(values)
    found = postprocess.norm_sub(given_values, total)
    assert (found >= 0).all() and found.sum() == pytest.approx(total, abs=1e-6 * (1 + total))
    # optimality: one multiplier for all positive entries, no smaller one for the zero entries
    shift = given_values - found
    if (found > 0).any():
        level = shift[found > 0].mean()
        assert np.allclose(shift[found > 0], level, atol=1e-6 * (1 + abs(level)))
        assert (given_values[found == 0] <= level + 1e-6 * (1 + abs(level))).all()


def test_post_processing_by_name() -> None:
    found = local.Direct(1, 4).estimate(np.array([300, 50, 10, 40]), 400)
    assert found.processed("norm_sub").sum() == pytest.approx(400)
    assert found.processed("norm").sum() == pytest.approx(400)
    assert (found.processed("clip") >= 0).all()
    assert np.count_nonzero(found.processed("base_cut")) == 1
    with pytest.raises(ParameterError, match="norm_sub"):
        found.processed("wishful")


def test_consistent_trees_add_up_and_help() -> None:
    truth = np.array([10.0, 20.0, 30.0, 40.0])
    generator, gain = np.random.default_rng(0), []
    for _ in range(200):
        noisy = [
            np.array([100.0]),
            truth.reshape(2, 2).sum(1) + generator.normal(0, 5, 2),
            truth + generator.normal(0, 5, 4),
        ]
        levels = postprocess.consistent_tree(noisy, [0.0, 25.0, 25.0], 2)
        assert levels[2].reshape(2, 2).sum(1) == pytest.approx(levels[1]) and levels[
            1
        ].sum() == pytest.approx(100)
        gain.append(np.square(noisy[2] - truth).sum() - np.square(levels[2] - truth).sum())
    assert np.mean(gain) > 0


def test_plots_draw() -> None:
    found = local.Direct(1, 4).estimate(np.array([300, 50, 10, 40]), 400)
    assert found.plot().axes
