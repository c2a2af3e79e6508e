"""Trees, boosting, k-means and the Lasso: sums against counts in plain Python, models against what
made the data, the kernel against arrays, and planted mistakes."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from dither import accounting, learn
from dither.errors import ParameterError, RefusedError
from dither.learn.boosting import choose_trees
from dither.learn.clip import add_cut_rows
from dither.learn.columns import FEATURE_SCALE, declare_columns
from dither.learn.decision_tree import choose_split
from dither.learn.encode import FeatureRows, encode_rows
from dither.learn.kmeans import move_centres, score_centres
from dither.learn.lasso import step_towards
from dither.learn.residuals import FACTOR_SCALE, find_slopes
from dither.learn.sums import ArraySums, ChoicePlan, ReleasePlan
from dither.learn.table_columns import find_rows, list_feature_columns, read_table_features
from dither.learn.table_sums import TableSums
from dither.learn.trees import count_rows, draw_splits, find_leaves, list_column_splits
from dither.plan.tree_functions import ScoredTree
from dither.privacy.losses import ADD_REMOVE, Adjacency
from tests.datasets.regional_clinic import Clinic
from tests.learn.test_tables import NAMES, ROWS, clinic, connect, invent_patients

__all__ = ["clinic"]
FACTS = declare_columns(["a", "b"], {"a": (0, 5)}, {"b": "xyz"}, "auto")
QUIET = F(10**8)


def invent(rows: int = 300) -> tuple[FeatureRows, Any]:
    draws = np.random.default_rng(3)
    a = draws.uniform(-1, 7, rows)
    a[::10] = np.nan
    b = draws.choice(list("xyzw"), rows).astype(object)
    return encode_rows(FACTS, [a, b]), draws.integers(-1, 3, rows)


def walk(splits: Any, features: list[int]) -> int:
    """The oracle: one row, split by split, on the formed features."""
    node = 0
    while node < len(splits):
        first, stop = splits[node]
        node = 2 * node + (2 if any(features[first:stop]) else 1)
    return node - len(splits)


def test_leaves_and_counts_are_those_of_a_walk_through_the_tree() -> None:
    rows, labels = invent()
    formed = np.rint(rows.expand()).astype(int)
    for depth in range(4):
        splits = draw_splits(FACTS, depth)
        leaves = [walk(splits.tolist(), row.tolist()) for row in formed]
        assert find_leaves(splits, rows).tolist() == leaves
        counts = np.zeros((1 << depth, 3, 1 + FACTS.width - FACTS.dense_width), int)
        for leaf, label, row in zip(leaves, labels, formed, strict=True):
            if label >= 0:
                counts[leaf, label] += [1, *row[FACTS.dense_width :]]
        assert (count_rows(splits, rows, labels, 3) == counts).all()


def test_splits_are_edges_values_and_missing_ones() -> None:
    """a has 6 bins and missing ones, from feature 2; b has 3 values and others, from 9."""
    numbers, values = list_column_splits(FACTS)
    assert numbers == [(3, 8), (4, 8), (5, 8), (6, 8), (7, 8), (8, 9)]
    assert values == [(9, 10), (10, 11), (11, 12), (12, 13)]


def test_the_purest_split_is_chosen_and_none_where_noise_could_have_made_it() -> None:
    counts = np.zeros((2, 1 + FACTS.width - FACTS.dense_width))
    counts[:, 0] = 100, 100
    counts[:, 1:7] = [50, 30, 10, 5, 5, 0], [0, 10, 10, 30, 30, 20]
    assert choose_split(counts, FACTS, 1.0) == (4, 8)
    assert choose_split(counts, FACTS, 50.0) == (0, 0)


def make_sums(rows: FeatureRows, labels: Any, releases: int, adjacency: Any = ADD_REMOVE) -> Any:
    return ArraySums(rows, labels, ReleasePlan(QUIET * releases, releases), adjacency)


def list_moves(kind: str) -> list[float]:
    """How far a row moves what is summed, as a share of what is paid for: all rows of a table."""
    rows, labels = invent(60)
    labels = np.maximum(labels, 0) % 2
    splits = np.array([(5, 8), (9, 10), (10, 11)])
    forest = [ScoredTree(tuple(map(tuple, splits.tolist())), (5, -70_000, 90_000, 2**20))]
    moves = []
    for i in range(rows.size):
        sums = make_sums(rows.slice(i, i + 1), labels[i : i + 1], 1)
        if kind == "histograms":
            released = sums.release_histograms(splits, 2)
            squared = 1 + FACTS.hot_columns
        elif kind == "leaves":
            released = sums.release_leaf_counts(splits, 2)
            squared = 1
        else:
            released = sums.release_slopes(forest, splits)
            squared = 17 / 16
        moves.append(float((released**2).sum() / squared))
    return moves


@pytest.mark.parametrize("kind", ["histograms", "leaves", "slopes"])
def test_no_row_moves_a_sum_of_leaves_by_more_than_is_paid_for(kind: str) -> None:
    """One row alone, with noise of 1e-4: its squared norm is what the sensitivity allows."""
    moves = list_moves(kind)
    assert 0.9 < max(moves) < 1.01


def test_a_histogram_paid_as_one_count_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: the sensitivity of a histogram is that of a count, though a row is counted once
    for every column."""
    honest = ArraySums._pay_squared
    losses = []
    for plant in (False, True):

        def pay(self: Any, squared: int, length: int, is_planted: bool = plant) -> Any:
            return honest(self, squared // (3 if is_planted else 1), length)

        monkeypatch.setattr(ArraySums, "_pay_squared", pay)
        rows, labels = invent(20)
        sums = make_sums(rows, labels, 1)
        sums.release_histograms(np.zeros((0, 2), int), 3)
        (loss,) = sums._losses
        unit = int(loss.l2_squared) / 256**2
        formed = count_rows(np.zeros((0, 2), int), rows.slice(1, 2), np.array([0]), 3)
        losses.append((formed**2).sum() <= unit)
    assert losses == [True, False]


def test_slopes_are_those_of_the_logistic_loss() -> None:
    """Oracle: sigmoid - y and its derivative by NumPy, to the 2**-10 of the table."""
    margins = np.linspace(-5, 5, 41)
    labels = np.arange(41) % 2
    slopes, curvatures = find_slopes(margins * FEATURE_SCALE * FACTOR_SCALE, labels)
    chances = 1 / (1 + np.exp(-margins))
    assert np.abs(slopes / FACTOR_SCALE - (chances - labels)).max() < 1e-3
    assert np.abs(curvatures / FACTOR_SCALE - chances * (1 - chances)).max() < 1e-3
    assert (find_slopes(np.zeros(2), np.array([-1, 2])) == 0).all()


def test_the_kernel_and_arrays_release_the_same(clinic: Clinic) -> None:
    """One arithmetic in two places, at a price that leaves noise of 1/1,400 of the clip norm:
    twenty standard deviations, and a step a row."""
    con = connect(clinic)
    rows = find_rows(con, "patients")
    features = read_table_features(rows, list_feature_columns(rows, "readmitted", NAMES), "auto")
    plan = ReleasePlan(F(4 * 10**6), 4)
    people = invent_patients().replace("", None)
    encoded = encode_rows(features.facts, [people[name].to_numpy() for name in NAMES])
    labels = people["readmitted"].to_numpy().astype(int)
    arrays = ArraySums(encoded, labels, plan, ADD_REMOVE)
    splits = draw_splits(features.facts, 2)
    forest = [ScoredTree(tuple(map(tuple, splits.tolist())), (5, -70_000, 90_000, 2**17))]
    theta = score_centres(np.random.default_rng(1).uniform(-1, 1, (3, encoded.facts.width - 1)))
    with TableSums(con, rows.plan, features, "readmitted", plan) as table:
        for ask, clip in (
            (lambda sums: sums.release_histograms(splits, 2), 3.0),
            (lambda sums: sums.release_leaf_counts(splits, 2), 1.0),
            (lambda sums: sums.release_slopes(forest, splits), 1.04),
            (lambda sums: sums.release_nearest(theta, 3.0), 3.0),
        ):
            gap = np.abs(ask(table) - ask(arrays)).max()
            assert gap < clip * (40 / 1400 + ROWS / 65536)


TRAINED_ON: dict[str, tuple[str | None, list[str]]] = {
    "KMeans": (None, ["age", "stays"]),
    "Lasso": ("stays", ["age", "urgent"]),
}


@pytest.mark.parametrize("name", ["DecisionTree", "GradientBoosting", "KMeans", "Lasso"])
def test_a_table_trains_them_and_pays_first(clinic: Clinic, name: str) -> None:
    con = connect(clinic)
    target, columns = {
        "KMeans": (None, ["age", "stays"]),
        "Lasso": ("stays", ["age", "urgent"]),
    }.get(name, ("readmitted", ["age", "ward"]))
    kind = getattr(learn, name)
    settings = {"trees": 8} if name == "GradientBoosting" else {}
    model = kind(epsilon=20, n=ROWS, **settings)
    plan = model.plan(con, "patients", target=target, columns=columns)
    assert clinic.spent() == {"total": 0} and "charged first" in str(plan)
    model.fit_table(con, "patients", target=target, columns=columns)
    spent = clinic.spent()["total"]
    assert F(plan.rho) * F(999, 1000) < spent <= F(plan.rho) * F(1001, 1000)
    assert model.guarantee_.epsilon <= 20 and model.guarantee_.releases == plan.releases
    frame = invent_patients()[columns].replace("", None)
    again = learn.read_model(learn.write_model(model))
    assert (again.predict(frame) == model.predict(frame)).all()
    assert "ledger" in learn.write_model_card(model, purpose="a test")
    if name == "DecisionTree":
        assert model.score(frame, invent_patients()["readmitted"]) > 0.7
    assert clinic.verify().ok


def test_what_they_refuse_costs_nothing(clinic: Clinic) -> None:
    con = connect(clinic)
    for model, target, columns in (
        (learn.GradientBoosting(epsilon=1, n=ROWS), "ward", ["age"]),
        (learn.DecisionTree(epsilon=1, n=ROWS, bins=None), "readmitted", ["age"]),
        (learn.DecisionTree(epsilon=1, n=ROWS, depth=9), "readmitted", ["age"]),
        (learn.KMeans(epsilon=1, n=ROWS), None, ["ward"]),
        (learn.KMeans(epsilon=1, n=ROWS, n_clusters=0), None, ["age"]),
        (learn.Lasso(epsilon=1, n=ROWS, radius=0), "stays", ["age"]),
        (learn.Lasso(epsilon=1, n=ROWS), "ward", ["age"]),
    ):
        with pytest.raises((ParameterError, RefusedError)):
            model.fit_table(con, "patients", target=target, columns=columns)
    assert clinic.spent() == {"total": 0}


def invent_quadrants() -> tuple[Any, Any]:
    """The label is whether two numbers have the same sign: no linear model is right for 60%."""
    X = np.random.default_rng(5).uniform(-1, 1, (4000, 2))
    return X, ((X[:, 0] > 0) == (X[:, 1] > 0)).astype(int)


def test_boosting_learns_what_no_line_can() -> None:
    X, y = invent_quadrants()
    options: dict[str, Any] = {"epsilon": 5, "n": 4000, "bounds": (-1, 1), "classes": (0, 1)}
    assert learn.LogisticRegression(**options).fit(X, y).score(X, y) < 0.7
    model = learn.GradientBoosting(**options).fit(X, y)
    assert model.score(X, y) > 0.8
    assert 4.99 < model.guarantee_.epsilon <= 5


def test_a_tree_finds_the_bin_that_made_the_labels() -> None:
    X, _ = invent_quadrants()
    y = np.digitize(X[:, 0], [-0.4, 0.4])
    model = learn.DecisionTree(
        epsilon=3, n=4000, bounds=(-1, 1), classes=(0, 1, 2), bins={0: [-0.4, 0, 0.4], 1: [0]}
    ).fit(X, y)
    assert model.score(X, y) > 0.95
    assert np.allclose(model.predict_proba(X).sum(axis=1), 1)


def test_centres_are_those_of_the_groups() -> None:
    draws = np.random.default_rng(6)
    truth = np.array([[10.0, 80.0], [60.0, 20.0]])
    X = truth[draws.integers(0, 2, 4000)] + draws.normal(0, 4, (4000, 2))
    gaps = []
    for _ in range(12):
        model = learn.KMeans(epsilon=3, n=4000, bounds=(0, 100), n_clusters=2).fit(X)
        order = np.argsort(model.cluster_centers_[:, 0])
        gaps.append(np.abs(model.cluster_centers_[order] - truth).max())
    assert np.median(gaps) < 4
    assert not hasattr(model, "labels_")


def test_a_centre_without_rows_goes_beside_the_largest() -> None:
    released = np.array([[100.0, 50.0, 0.0], [0.5, 0.1, 0.1]])
    moved = move_centres(np.array([[0.0, 0.0], [0.9, -0.9]]), released, 10.0)
    assert np.allclose(moved[0], [0.5, 0]) and np.abs(moved[1] - moved[0]).max() <= 0.3


# -- the Lasso: acceptance test 7 of the chapter on optimisation, and the mistakes it prints -------


def run_frank_wolfe(steps: int, share: Any) -> float:
    """The excess loss of exact steps on a toy Lasso, whose best weights are inside the ball."""
    draws = np.random.default_rng(2)
    X = draws.uniform(-1, 1, (200, 20))
    truth = np.zeros(20)
    truth[:2] = 0.5, -0.3
    y = X @ truth
    theta = np.zeros((1, 20))
    for step in range(steps):
        gradient = X.T @ (X @ theta[0] - y)
        best = int(np.argmax(np.abs(gradient)))
        chosen = (best + 1) * int(np.sign(gradient[best]))
        theta = share(theta, chosen, 1.0, step)
    return float(((X @ theta[0] - y) ** 2).mean())


def test_steps_that_shrink_converge_and_a_constant_step_stalls() -> None:
    """Planted bug: the constant step of the printed algorithm leaves 1/e of the start."""
    steps = 400

    def step_constantly(theta: Any, chosen: int, radius: float, step: int) -> Any:
        moved = (1 - 1 / (steps + 2)) * theta
        moved[0, abs(chosen) - 1] -= radius * np.sign(chosen) / (steps + 2)
        return moved

    start = run_frank_wolfe(0, step_towards)
    assert run_frank_wolfe(steps, step_towards) < start / 1000
    assert run_frank_wolfe(steps, step_constantly) > start / 100


def test_choices_compose_to_the_stated_epsilon() -> None:
    X = np.random.default_rng(4).uniform(-1, 1, (500, 4))
    model = learn.Lasso(
        epsilon=2, delta=1e-6, n=500, bounds=(-1, 1), target_bounds=(-1, 1), steps=50
    ).fit(X, X[:, 1] / 2)
    loss = accounting.from_json(model.guarantee_.loss)
    assert accounting.epsilon(loss, 1e-6).upper == model.guarantee_.epsilon <= 2
    (repeated,) = loss.losses
    assert (
        repeated.count == 50
        and repeated.loss.epsilon == ChoicePlan(repeated.loss.epsilon**2 * 50 / 8, 50).epsilon
    )


def test_the_scale_of_a_choice_is_that_of_a_sum() -> None:
    """Planted bug: the printed scale has 1 / n, which belongs to the mean. The range of a choice,
    score moves over scale, must not be above epsilon: with 1 / n it is n times that."""
    rows, _ = invent(100)
    plan = ChoicePlan(F(1, 8), 1)  # epsilon is 1
    sums = ArraySums(rows, np.zeros(100), plan, ADD_REMOVE)
    seen = []

    class Choice:
        def __init__(self, epsilon: F, sensitivity: int, *rest: Any) -> None:
            seen.append((epsilon, sensitivity))

        def loss(self) -> Any:
            return plan.find_loss(ADD_REMOVE)

        def release(self, scores: Any) -> int:
            return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dither.learn.sums.ScoreSelection", Choice)
        sums.choose_coordinate(np.zeros((1, FACTS.width)), 2.0)
    ((epsilon, sensitivity),) = seen
    moves = [
        np.abs(
            add_cut_rows(
                rows.slice(i, i + 1),
                np.array([2.0 * FACTOR_SCALE]),
                65536 / (2.0 * FACTOR_SCALE * FEATURE_SCALE),
                65536,
            )
        ).max()
        for i in range(100)
    ]
    scale = 2 * sensitivity / epsilon
    assert max(moves) == sensitivity and 2 * max(moves) / scale <= epsilon
    assert 2 * max(moves) / (scale / 100) > epsilon


def test_cut_numbers_are_bounded_one_by_one_whatever_the_row() -> None:
    rows, _ = invent(50)
    factors = np.random.default_rng(1).standard_cauchy(50) * FACTOR_SCALE
    factors[:2] = np.nan, np.inf
    singles = [add_cut_rows(rows.slice(i, i + 1), factors[i : i + 1], 1e-6, 64) for i in range(50)]
    assert max(np.abs(vector).max() for vector in singles) == 64
    assert (singles[0] == 0).all() and (singles[1] == 0).all()
    assert (add_cut_rows(rows, factors, 1e-6, 64) == sum(singles)).all()


def test_the_lasso_finds_a_column_among_more_than_people() -> None:
    """n = 1,500, 1,600 columns, epsilon 10: the scale of a choice is below 9, and the gradient of
    the right column leads by 200 at first: another is chosen with a chance below 1e-6, and then
    several times below 1e-9."""
    draws = np.random.default_rng(7)
    X = draws.uniform(-1, 1, (1500, 1600))
    y = 0.6 * X[:, 3]
    model = learn.Lasso(epsilon=10, n=1500, bounds=(-1, 1), target_bounds=(-1, 1)).fit(X, y)
    assert np.argmax(np.abs(model.coef_)) == 3 and model.score(X, y) > 0.5
    assert np.abs(model.weights_).sum() <= 1 + 1e-9


def test_replaced_rows_cost_twice_the_noise() -> None:
    rows, labels = invent(30)
    adjacency = Adjacency("replace", "row")
    sums = make_sums(rows, labels, 1, adjacency)
    sums.release_leaf_counts(np.zeros((0, 2), int), 3)
    (loss,) = sums._losses
    assert loss.l2_squared == (2 * 256) ** 2 and loss.neighbours == "replace"


def test_settings_follow_from_public_numbers_alone() -> None:
    assert choose_trees(F(1), 100.0) == 400 and choose_trees(F(1, 10**6), 100.0) == 50
