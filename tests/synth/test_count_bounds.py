"""What is known of the error: bounds of counts and of pairs that were not measured, held against
exact tables, with planted bugs that the same checks find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

import dither.synth.choice_bounds as choice_bounds
import dither.synth.count_bounds as count_bounds
from dither.synth import load_synthetic
from dither.synth.choice_bounds import bound_candidates
from dither.synth.columns import SynthColumn
from dither.synth.conditions import CountEstimate
from dither.synth.count_bounds import bound_count, bound_noise
from dither.synth.estimate import Measurement
from dither.synth.fitted import FittedTable
from dither.synth.groupings import ValueGrouping
from dither.synth.methods import _start
from dither.synth.model import GraphicalModel
from dither.synth.steps import MadeChoice, MarginalCandidate
from tests.synth.survey import invent_people, open_survey

SIZES = (3, 2, 3, 2)
GROUPINGS = (
    ValueGrouping((0, 0, 1)),
    ValueGrouping((0, 1)),
    ValueGrouping((0, 1, 1)),
    ValueGrouping((0, 1)),
)
CLIQUES = ((0, 1), (1, 2), (3,))
DRAWS = np.random.default_rng(3)


def group_counts(rows: np.ndarray, clique: tuple[int, ...]) -> np.ndarray:
    """Exact counts of groups."""
    shape = [GROUPINGS[a].size for a in clique]
    codes = [np.array(GROUPINGS[a].labels)[rows[:, a]] for a in clique]
    flat = np.ravel_multi_index(codes, shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(float)


def make_fitted(rows: np.ndarray, noise: float, is_gaussian: bool = True) -> FittedTable:
    """Noisy tables of the cliques; a model that knows nothing."""
    draw = DRAWS.normal if is_gaussian else DRAWS.laplace
    scale = noise if is_gaussian else noise / np.sqrt(2)
    measurements = []
    for clique in CLIQUES:
        counts = group_counts(rows, clique)
        noisy = counts + draw(0, scale, counts.shape)
        measurements.append(Measurement(clique, noisy, np.full(counts.shape, noise**2)))
    model = GraphicalModel(tuple(g.size for g in GROUPINGS), float(len(rows)), {})
    return FittedTable(model, GROUPINGS, (), tuple(measurements))


def draw_rows() -> np.ndarray:
    """Rows whose columns depend on each other, by chance."""
    law = DRAWS.dirichlet(np.full(int(np.prod(SIZES)), 0.2))
    codes = DRAWS.choice(len(law), int(DRAWS.integers(1, 40)), p=law)
    return np.stack(np.unravel_index(codes, SIZES), axis=1)


def draw_condition() -> dict[int, np.ndarray]:
    chosen = DRAWS.choice(4, int(DRAWS.integers(1, 5)), replace=False)
    return {int(a): (DRAWS.random(SIZES[a]) < 0.6).astype(float) for a in chosen}


def count_exactly(rows: np.ndarray, where: dict[int, np.ndarray]) -> int:
    return int(np.prod([shares[rows[:, a]] for a, shares in where.items()], axis=0).sum())


def count_outside(runs: int, noise: float, is_gaussian: bool = True) -> int:
    """How often the exact count of a random condition lies outside its bounds."""
    outside = 0
    for _ in range(runs):
        rows = draw_rows()
        where = draw_condition()
        bounds = bound_count(make_fitted(rows, noise, is_gaussian), where, is_gaussian)
        assert bounds is not None
        exact = count_exactly(rows, where)
        outside += not bounds.low - 1e-6 <= exact <= bounds.high + 1e-6
    return outside


def test_without_noise_every_exact_count_lies_within_the_bounds() -> None:
    assert count_outside(400, 1e-9) == 0


@pytest.mark.parametrize("is_gaussian", [True, False])
def test_with_noise_the_bounds_hold_as_often_as_they_say(is_gaussian: bool) -> None:
    runs = 400
    assert binom.sf(count_outside(runs, 3.0, is_gaussian) - 1, runs, 0.05) > 1e-9


def take_any_group(*arguments: Any, is_any: bool) -> np.ndarray:
    """Planted: the lower end counts groups in which some values are asked for as whole ones."""
    return MARK_GROUPS(*arguments, is_any=True)


MARK_GROUPS = count_bounds._mark_groups
PLANTED: dict[str, tuple[str, Callable[..., Any], float]] = {
    "groups by any value": ("_mark_groups", take_any_group, 1e-9),
    "no rows that break another condition": ("_bound_failing", lambda rest, rated: 0.0, 1e-9),
    "no noise": ("bound_noise", lambda *_: 0.0, 3.0),
}


@pytest.mark.parametrize(("name", "planted", "noise"), PLANTED.values(), ids=PLANTED)
def test_planted_bugs_in_bounds_of_counts_are_found(
    name: str, planted: Callable[..., Any], noise: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without noise no exact count may lie outside, with noise at most one in twenty."""
    monkeypatch.setattr(count_bounds, name, planted)
    outside = count_outside(400, noise)
    assert outside > 3 if noise < 1 else binom.sf(outside - 1, 400, 0.05) < 1e-9


EMPTY = 450
LABELS = 1000


def start_from_labels(noise: float) -> FittedTable:
    """The start of a method on a column whose first labels have no rows, as aim makes it."""
    exact = np.repeat([0.0, 200.0], [EMPTY, LABELS - EMPTY])

    def measure(clique: Any, groupings: Any, price: Fraction) -> Measurement:
        noisy = exact + np.rint(DRAWS.normal(0, noise, LABELS))
        return Measurement(clique, noisy, np.full(LABELS, noise**2))

    steps: Any = SimpleNamespace(measure=measure, zeros={})
    column = SynthColumn(
        "label", "category", LABELS, False, 0, 1, 0, LABELS - 1, Fraction(1), ("",) * LABELS
    )
    state = _start(steps, (column,), Fraction(1))
    measured = tuple(state.measured.values())
    return FittedTable(state.model, tuple(state.groupings), (), measured, {}, state.single_counts)


def count_misses_of_empty_labels(runs: int) -> int:
    """How often the bounds of all empty labels but one miss the exact number, 0."""
    wanted = np.zeros(LABELS)
    wanted[1:EMPTY] = 1.0
    missed = 0
    for _ in range(runs):
        fitted = start_from_labels(noise=10.0)
        bounds = bound_count(fitted, {0: wanted}, True)
        assert bounds is not None and fitted.groupings[0].size < LABELS
        missed += not bounds.low <= 0 <= bounds.high
    return missed


def list_groups_as_if_public(fitted: FittedTable, where: Any) -> list[Any]:
    """Planted: groups of single counts are taken as if they had been fixed beforehand."""
    return [count_bounds._CountedTable(m, fitted.groupings) for m in fitted.measurements]


def test_bounds_hold_where_the_noise_chose_the_groups_and_planted_groups_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At most one in twenty may miss; by groups far more do: high noise keeps a label apart."""
    assert binom.sf(count_misses_of_empty_labels(100) - 1, 100, 0.05) > 1e-9
    monkeypatch.setattr(count_bounds, "_list_usable", list_groups_as_if_public)
    assert binom.sf(count_misses_of_empty_labels(400) - 1, 400, 0.05) < 1e-9  # about a fifth


def test_an_older_file_has_no_bounds_by_groups_that_its_own_noise_chose() -> None:
    fitted = replace(start_from_labels(noise=10.0), single_counts=())
    assert fitted.groupings[0].size < LABELS
    assert bound_count(fitted, {0: np.ones(LABELS)}, True) is None


@pytest.mark.parametrize("chance", [0.01, 0.001])
def test_noise_stays_below_its_bound(chance: float) -> None:
    """One Laplace noise of scale b exceeds t with chance e^(-t/b)/2, exactly; of sums of unequal
    ones it is counted how often they do."""
    reach = bound_noise(np.array([2.0]), chance, is_gaussian=False)  # scale 1
    assert np.exp(-reach) / 2 <= chance
    scales = np.array([1.0, 3.0, 0.5, 2.0])
    sums = DRAWS.laplace(0, scales, (40_000, 4)).sum(axis=1)
    above = int((sums > bound_noise(2 * scales**2, chance, is_gaussian=False)).sum())
    assert binom.sf(above - 1, 40_000, chance) > 1e-9
    assert bound_noise(np.array([9.0]), 0.025, is_gaussian=True) == pytest.approx(6.407, abs=1e-3)
    assert bound_noise(np.zeros(0), chance, is_gaussian=True) == 0


def find_worst_tail(weights: Callable[[Any, float], Any]) -> float:
    """How much more often than stated sums of noise on whole numbers exceed their bound, by their
    exact laws: one to eight numbers, and the chances that a table or ten of them take."""
    worst = 0.0
    for sigma in (0.3, 0.5, 0.65, 0.95, 1.5, 3.0, 4.1, 10.0):
        noise = np.arange(-int(9 * sigma) - 4, int(9 * sigma) + 5)
        law = weights(noise, sigma) / weights(noise, sigma).sum()
        sums = np.ones(1)
        for cells in range(1, 9):
            sums = np.convolve(sums, law)
            values = np.arange(len(sums)) - len(sums) // 2
            for chance in (0.005, 0.0025, 0.0005, 1e-6):
                reach = bound_noise(np.full(cells, sigma**2), chance, is_gaussian=True)
                worst = max(worst, float(sums[values > reach].sum()) / chance)
    return worst


def weigh_integer(noise: Any, sigma: float) -> Any:
    return np.exp(-(noise**2) / (2 * sigma**2))


def weigh_rounded(noise: Any, sigma: float) -> Any:
    """Of a normal number that is rounded; both ends are taken on the side where they are exact."""
    ends = np.abs(noise) - 0.5, np.abs(noise) + 0.5
    return norm.sf(ends[0] / sigma) - norm.sf(ends[1] / sigma)


@pytest.mark.parametrize("weights", [weigh_integer, weigh_rounded])
def test_noise_on_whole_numbers_stays_below_its_bound(weights: Callable[[Any, float], Any]) -> None:
    """A sum above 9.9 rows is one of at least 10: of few numbers that is far more than a part."""
    assert 0.9 < find_worst_tail(weights) <= 1


# -- pairs that were not measured ------------------------------------------------------------------


def find_broken_bounds(bound: Callable[[MadeChoice, Measurement], Any]) -> int:
    """How many candidates lie farther from their targets than their bounds say, over choices that
    take the largest score, without noise."""
    broken = 0
    for _ in range(50):
        exact = {pair: DRAWS.integers(0, 50, (4, 4)).astype(float) for pair in PAIRS}
        targets = {pair: exact[pair] + DRAWS.integers(-40, 40) for pair in PAIRS}
        candidates = [
            MarginalCandidate(pair, targets[pair], float(DRAWS.integers(-300, 0))) for pair in PAIRS
        ]
        distances = [float(np.abs(exact[pair] - targets[pair]).sum()) for pair in PAIRS]
        scores = [d + c.offset for d, c in zip(distances, candidates, strict=True)]
        choice = MadeChoice(candidates, int(np.argmax(scores)), 1e-9)
        fresh = Measurement(
            PAIRS[choice.position], exact[PAIRS[choice.position]], np.full((4, 4), 1e-9)
        )
        bounds = bound(choice, fresh)
        broken += sum(bounds[p].distance < d for p, d in zip(PAIRS, distances, strict=True))
    return broken


PAIRS = list(combinations(range(4), 2))


def forget_offsets(choice: MadeChoice, fresh: Measurement) -> Any:
    """Planted: candidates are taken to fit as well as the chosen one, whatever their penalties."""
    plain = [MarginalCandidate(c.clique, c.target) for c in choice.candidates]
    return bound_candidates(MadeChoice(plain, choice.position, choice.scale), fresh)


def test_no_candidate_lies_farther_than_its_bound_and_planted_offsets_are_found() -> None:
    assert find_broken_bounds(bound_candidates) == 0
    assert find_broken_bounds(forget_offsets) > 10


def test_targets_and_penalties_are_rounded_in_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores are in eighths of a row. The chosen candidate's score is rounded up twice, the other's
    down twice: in scores both have 2, in rows they differ by nearly a quarter."""
    monkeypatch.setattr(
        choice_bounds,
        "bound_square",
        lambda noisy, model, *_, **__: float(np.square(noisy - model).sum()),
    )
    written = (((0,), 0.0626, 0.0626), ((1,), 0.3124, 0.0624), ((2,), 0.0, 0.0))
    candidates = [
        MarginalCandidate(clique, np.array([target]), offset) for clique, target, offset in written
    ]
    scores = [round(8 * target) + round(8 * offset) for _, target, offset in written]
    assert scores == [2, 2, 0]
    nothing = Measurement((0,), np.zeros(1), np.zeros(1))
    bounds = bound_candidates(MadeChoice(candidates, 0, 0.0), nothing)
    assert 0.3124 <= bounds[1,].distance < 0.3130


@pytest.fixture(scope="module")
def people() -> Any:
    return invent_people(3000)


@pytest.fixture(scope="module")
def con(people: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_survey(tmp_path_factory.mktemp("survey"), people, epsilon=3000)


@pytest.fixture(scope="module")
def made(con: Any) -> Any:
    return con.synthesize("people", epsilon=20, columns=["age", "work", "town"], method="mst")


def test_a_count_over_columns_apart_has_bounds_and_says_so(made: Any, people: Any) -> None:
    """mst measures two of three pairs, so that no step has all three columns."""
    where = {"age": (0, 3), "work": ["none", "desk"], "town": [True]}
    estimate = made.count(where)
    exact = sum(
        age <= 3 and work in ("none", "desk") and town
        for age, work, town in zip(
            *(people[name].to_pylist() for name in ("age", "work", "town")), strict=True
        )
    )
    assert estimate.error is None and estimate.low <= exact <= estimate.high
    assert estimate.high - estimate.low < 1500
    assert "not measured together" in estimate.words and "95% confidence" in estimate.words
    alone = made.count({"town": [True]})
    assert alone.error is not None and alone.high - alone.low < 200
    assert made.count({}).low <= 3000 <= made.count({}).high


@pytest.mark.parametrize("method", ["mst", "aim", "mwem"])
def test_pairs_that_were_not_measured_lie_within_their_bounds(
    con: Any, people: Any, method: str
) -> None:
    columns = ["age", "work", "town", "begun"]
    made = con.synthesize("people", epsilon=5, columns=columns, method=method)
    unmeasured = [p for p in made.predict_errors() if p.distance is None]
    assert {p.columns for p in unmeasured if p.at_most is not None} == {
        tuple(columns[a] for a in clique) for clique in made.fitted.gaps
    }
    if method == "mst":
        assert made.fitted.gaps and "model and noise, at most" in made.report()
    codes = [column.encode(people[column.name]) for column in made.columns]
    for clique, gap in made.fitted.gaps.items():
        groupings = [made.fitted.groupings[a] for a in clique]
        rows = [np.array(g.labels)[codes[a]] for a, g in zip(clique, groupings, strict=True)]
        exact = np.zeros([g.size for g in groupings])
        np.add.at(exact, tuple(rows), 1)
        assert np.abs(exact - made.fitted.model.find_marginal(clique)).sum() <= gap


def test_a_file_keeps_the_bounds_and_a_condition_has_none(made: Any, tmp_path: Path) -> None:
    made.save(tmp_path / "model.json")
    again = load_synthetic(tmp_path / "model.json")
    where = {"age": (0, 3), "town": [True]}
    assert again.count(where) == made.count(where)
    assert again.predict_errors() == made.predict_errors()
    some = made.given({"work": ["desk"]})
    count = some.count({"age": (0, 3)})
    assert (count.error, count.low, count.high) == (None, None, None)
    assert count.words.endswith("is not known")
    assert all(p.distance is None and p.at_most is None for p in some.predict_errors())


def test_words_state_the_standard_error_where_there_is_one() -> None:
    words = CountEstimate(1234.5, 6.78, 1200, 1270).words
    assert words == (
        "about 1,234 rows by the model, with a standard error of 6.8 by noise. By what was "
        "measured, between 1,200 and 1,270 with 95% confidence"
    )


def test_a_table_of_noise_says_so(made: Any) -> None:
    """Planted noise of a thousand rows in every count of 3,000 rows."""
    steps = tuple(
        replace(step, error=1000.0) if step.kind == "counts" else step for step in made.released
    )
    noise = replace(made, released=steps)
    assert noise.is_mostly_noise and "mostly noise" in noise.report()
    assert not made.is_mostly_noise and "mostly noise" not in made.report()
