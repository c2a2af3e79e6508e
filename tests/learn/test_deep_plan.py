"""Plans of deep learning, samples, slots and noise: all that needs no PyTorch."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from fractions import Fraction as F
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from scipy.stats import binom

from dither.errors import ParameterError
from dither.learn import deep
from dither.learn.deep.float_error import (
    SumShape,
    bound_relative_error,
    bound_sensitivity,
    bound_sum_error,
)
from dither.learn.deep.guarantee import explain_guarantee, write_deep_card
from dither.learn.deep.noise import NoiseDrawer
from dither.learn.deep.plan import plan_grid, plan_sampling, read_clip
from dither.learn.deep.sampling import (
    EMPTY,
    SlotDrawer,
    draw_order,
    draw_sample,
    fill_slots,
    group_rows,
)
from dither.learn.guarantees import LIBRARY, ModelGuarantee
from dither.privacy.noise import SystemSource
from tests.evidence import assert_counts
from tests.sources import Refusing, TestSource

SETTINGS = {"n": 2_000, "batch": 100, "epochs": 5, "epsilon": 2, "delta": "1e-5", "unit": "example"}


@pytest.fixture(scope="module")
def plan():
    return plan_sampling(**SETTINGS)


def test_the_noise_of_a_plan_meets_the_budget_by_another_accountant_too(plan) -> None:
    """Oracle: the PLD accountant of dp_accounting, for samples without a limit; full batches may
    cost a little more, and never less than nothing."""
    step = PoissonSampledDpEvent(float(plan.rate), GaussianDpEvent(float(plan.noise_multiplier)))
    accountant = PLDAccountant()
    accountant.compose(SelfComposedDpEvent(step, plan.steps))
    assert 0.99 * 2 < accountant.get_epsilon(1e-5) <= 2
    assert plan.find_spent(plan.steps) <= 2 and plan.find_spent(0) == 0


def test_full_batches_are_rare_and_the_plan_follows_from_declared_numbers(plan) -> None:
    assert plan.steps == 100 and plan.capacity % 8 == 0
    assert binom.sf(plan.capacity, plan.n, float(plan.rate)) < 1e-3
    assert plan_sampling(**SETTINGS) == plan


@pytest.mark.parametrize(
    "wrong",
    [
        {"n": None},
        {"n": 50},
        {"batch": 0},
        {"epochs": 0},
        {"epsilon": None},
        {"epsilon": 0},
        {"delta": 0.1},
        {"epochs": 10**9},
    ],
)
def test_what_is_not_declared_or_has_no_proof_is_refused(wrong) -> None:
    with pytest.raises(ParameterError):
        plan_sampling(**SETTINGS | wrong)


@pytest.mark.parametrize("clip", [0, -1, "1e-9", 10**9])
def test_clip_norms_outside_the_proof_are_refused(clip) -> None:
    with pytest.raises(ParameterError):
        read_clip(clip)


@pytest.mark.parametrize("clip", [F(1), F(3, 10), F(5)])
def test_rounding_to_the_grid_moves_a_sum_by_no_more_than_the_sensitivity(clip: F) -> None:
    """The worst case of rounding: every number of one sum rounds up, and of the other down."""
    numbers = 1_000
    grid = plan_grid(clip, F(1), numbers, F(1))
    step = F(2) ** grid.exponent
    assert clip / 2**21 < step <= clip / 2**20
    length = float(clip / step)
    moved = np.full(numbers, length / np.sqrt(numbers))
    start = np.ceil(moved) - moved - 0.5 + 1e-6
    first = np.rint(start)
    second = np.rint(start + moved)
    assert np.linalg.norm(second - first) <= grid.sensitivity
    assert np.linalg.norm(second - first) > length  # so the clip norm alone would be too little


def test_the_bound_of_float_errors_holds_and_is_reached() -> None:
    """One after the other in float32: every term after the first is lost, half a unit in the last
    place each."""
    terms = 2_000
    values = np.full(terms, 2.0**-24, np.float32)
    values[0] = 1
    total = np.float32(0)
    for value in values:
        total = np.float32(total + value)
    exact = sum((F(float(value)) for value in values), F(0))
    error = abs(F(float(total)) - exact)
    bound = bound_relative_error(terms, "float32") * exact
    assert 0.99 * bound < error <= bound
    shape = SumShape(terms, 1, 1, "float32", 1)
    assert error <= bound_sum_error([shape], terms)
    assert bound_sensitivity([shape], terms) > 1 + 2 * terms * terms * F(1, 2**24)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "tf32"])
def test_formats_without_a_bound_are_refused(dtype: str) -> None:
    with pytest.raises(ParameterError):
        bound_relative_error(10, dtype)


def assert_rates(draw, draws: int) -> None:
    """Coins of three units in two steps: each at its rate, all of them independent."""
    source = SystemSource()
    rate = F(3, 16)
    share = 3 / 16
    counts = {"first": 0, "last": 0, "both": 0, "twice": 0}
    before = draw(3, rate, source)
    for _ in range(draws):
        sample = draw(3, rate, source)
        counts["first"] += 0 in sample
        counts["last"] += 2 in sample
        counts["both"] += 0 in sample and 2 in sample
        counts["twice"] += 0 in sample and 1 in before
        before = sample
    expected = {"first": share, "last": share, "both": share**2, "twice": share**2}
    assert_counts(counts, draws, expected)


def test_every_unit_is_in_with_the_exact_rate_whatever_the_others() -> None:
    assert_rates(draw_sample, 20_000)


def test_planted_mistakes_of_sampling_are_caught() -> None:
    """Twice the rate, one coin for all, shuffled batches of fixed size, and coins that stay."""
    kept: list[np.ndarray] = []

    def stay(units, rate, source):
        if not kept:
            kept.append(draw_sample(units, rate, source))
        return kept[0]

    mistakes = (
        lambda units, rate, source: draw_sample(units, 2 * rate, source),
        lambda units, rate, source: np.arange(units * len(draw_sample(1, rate, source))),
        lambda units, rate, source: draw_order(units, source)[:1],
        stay,
    )
    for mistake in mistakes:
        with pytest.raises(AssertionError):
            assert_rates(mistake, 4_000)


def test_the_coin_compares_whole_words() -> None:
    below = (1 << 28) - 1
    word = below | (1 << 28) << 32
    assert draw_sample(2, F(1, 16), TestSource([word])).tolist() == [0]


def test_orders_are_uniform_and_equal_words_are_drawn_again() -> None:
    source = SystemSource()
    draws = 12_000
    seen = [tuple(draw_order(3, source).tolist()) for _ in range(draws)]
    counts = {str(order): seen.count(order) for order in permutations(range(3))}
    assert_counts(counts, draws, dict.fromkeys(counts, 1 / 6))
    assert draw_order(2, TestSource([7, 7, 9, 4])).tolist() == [1, 0]


def test_slots_of_others_have_the_same_law_with_and_without_a_unit() -> None:
    """The law of the slots of units 0 and 1 in four slots is uniform over 12 pairs either way."""
    source = SystemSource()
    draws = 12_000
    for sample in ([0, 1], [0, 1, 2]):
        counts: dict[str, int] = {f"{a},{b}": 0 for a, b in permutations(range(4), 2)}
        for _ in range(draws):
            slots = fill_slots(np.array(sample), 4, 4, source)
            pair = np.flatnonzero(slots == 0)[0], np.flatnonzero(slots == 1)[0]
            counts[f"{pair[0]},{pair[1]}"] += 1
        assert_counts(counts, draws, dict.fromkeys(counts, 1 / 12))


def test_past_the_capacity_a_random_subset_is_kept_without_an_error() -> None:
    source = SystemSource()
    kept = np.zeros(10, int)
    for _ in range(6_000):
        slots = fill_slots(np.arange(10), 4, 8, source)
        assert (slots == EMPTY).sum() == 4
        kept[slots[slots != EMPTY]] += 1
    counts = {str(unit): int(count) for unit, count in enumerate(kept)}
    assert_counts(counts, 6_000, dict.fromkeys(counts, 0.4))


def test_rows_of_owners_are_cut_by_chance_and_never_by_order() -> None:
    source = SystemSource()
    owners = ["b", "a", "b", "b", "c"]
    kept = dict.fromkeys("023", 0)
    for _ in range(3_000):
        table = group_rows(owners, 5, 2, source)
        assert table.shape == (3, 2)
        assert sorted(table[0].tolist()) == [EMPTY, 1] and sorted(table[2].tolist()) == [EMPTY, 4]
        for row in table[1]:
            kept[str(row)] += 1
    assert_counts(kept, 3_000, dict.fromkeys(kept, 2 / 3))
    with pytest.raises(ParameterError):
        group_rows(owners, 4, 2, Refusing())


def test_noise_is_used_once_and_another_scale_throws_it_away() -> None:
    drawer = NoiseDrawer(64)
    first = drawer.draw(10**6)
    drawer.begin(10**6)
    second = drawer.draw(10**6)
    drawer.begin(10**6)
    quiet = drawer.draw(3)
    assert not np.array_equal(first, second)
    assert np.abs(quiet).max() < 3 * 41 < np.abs(second).max()
    drawer.close()
    assert len(drawer.draw(5)) == 64


def test_a_forked_process_uses_other_noise_than_was_drawn_ahead() -> None:
    drawer = NoiseDrawer(16)
    drawer.begin(10**6)
    drawer._next[2].result()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, drawer.draw(10**6).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 128), np.int64)
    os.close(read)
    os.close(write)
    assert not np.any(theirs == drawer.draw(10**6))
    drawer.close()


def test_noise_cannot_be_copied() -> None:
    drawer = NoiseDrawer(4)
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            copying(drawer)
    drawer.close()


def test_the_library_imports_without_torch() -> None:
    code = (
        "import sys; import dither, dither.learn, dither.learn.deep, dither.learn.deep.plan;"
        "assert not {'torch', 'sklearn', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("ahead", [False, True])
def test_every_sample_is_used_once_and_none_is_copied(plan, ahead: bool) -> None:
    """Also where the next one is drawn on a second thread; a forked child draws its own."""
    drawer = SlotDrawer(plan.n, plan, plan.capacity, SystemSource(), ahead=ahead)
    samples = [frozenset(drawer.draw(is_last=step == 4).tolist()) for step in range(5)]
    assert len(set(samples)) == 5 and drawer._next is None
    assert all(50 < len(sample) <= plan.capacity + 1 for sample in samples)
    drawer.draw(is_last=False)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, drawer.draw(is_last=True).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(reader, 8 * plan.capacity), np.int64)
    assert set(theirs.tolist()) != set(drawer.draw(is_last=True).tolist())
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            copying(drawer)
    drawer.close()


def test_the_card_never_states_less_than_the_guarantee() -> None:
    """Rounded to the nearest, 3.00004 would be stated as 3, and 1.0004e-5 as 1e-5."""
    guarantee = ModelGuarantee(
        epsilon=3.00004,
        delta=1.0004e-5,
        unit="person",
        neighbours="add_remove",
        trust=LIBRARY,
        releases=1,
        loss={},
        public={},
    )
    words = explain_guarantee(guarantee)
    card = write_deep_card(guarantee, "Linear", "a test")
    assert "e^3.00004, plus 1.0004e-5." in words and words in card
    assert "epsilon 3.00004 at delta 1.0004e-5" in card


def test_no_module_that_needs_torch_has_an_example_to_run():
    """`make test` runs the examples of all modules, and has no PyTorch."""
    modules = Path(deep.__file__).parent.glob("*.py")
    texts = {module.name: module.read_text(encoding="utf-8") for module in modules}
    needing = [name for name, text in texts.items() if "import torch" in text]
    assert len(needing) > 10
    assert [name for name in needing if ">>>" in texts[name]] == []
