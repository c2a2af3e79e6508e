"""Clusters of like counts: the cheapest cuts, what is paid, what clusters follow from, and planted
bugs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import dither
from dither import steward
from dither.audit.black_box import test as audit_mechanism
from dither.audit.step_workloads import make_clusters_run
from dither.audit.verdict import Budget
from dither.errors import BudgetError, DitherError
from dither.plan import operator_norms
from dither.plan.apply_operator import multiply
from dither.plan.operators import check_operator
from dither.workloads import clustered_histogram
from dither.workloads.clustered_histogram import (
    MOST_CELLS,
    AskedClusters,
    Cluster,
    cluster_cells,
    find_most_scattered,
    make_cluster_operator,
)
from tests.workloads.conftest import PURPOSE, Survey


def find_cost(counts: np.ndarray, clusters: list[Cluster], variance: float) -> float:
    """By the definition: squared distances from means, and the noise of every count, spread."""
    spread = sum(float(((counts[c] - counts[c].mean()) ** 2).sum()) for c in clusters)
    return spread + sum(variance / len(cluster) for cluster in clusters)


def list_cuts(cells: int) -> list[list[tuple[int, int]]]:
    """All ways to cut a line."""
    ways = []
    for inner in product((False, True), repeat=cells - 1):
        ends = [0, *(spot + 1 for spot, is_cut in enumerate(inner) if is_cut), cells]
        ways.append(list(pairwise(ends)))
    return ways


def test_clusters_are_the_cheapest_of_all_cuts() -> None:
    """Against all cuts of up to eight sorted counts."""
    draws = np.random.default_rng(3)
    for cells in (1, 2, 5, 8):
        for variance in (0.5, 20.0, 400.0):
            noisy = draws.integers(-5, 40, cells)
            clusters = cluster_cells(
                noisy.tolist(), threshold=4.0, variance=variance, most_scattered=cells
            )
            assert sorted(cell for cluster in clusters for cell in cluster) == list(range(cells))
            counts = np.where(noisy > 4, noisy, 0)
            order = np.argsort(-counts, kind="stable")
            cheapest = min(
                find_cost(counts, [order[first:stop].tolist() for first, stop in cut], variance)
                for cut in list_cuts(cells)
            )
            assert find_cost(counts, clusters, variance) == pytest.approx(cheapest)


def test_every_cell_is_in_one_cluster_and_operators_add_them_up() -> None:
    """Whatever was released: one unit of one row moves one count by one, by the kernel's norms."""
    draws = np.random.default_rng(4)
    for cells, most in ((1, 1), (7, 1), (60, 3), (300, 2)):
        noisy = draws.integers(-50, 200, cells).tolist()
        clusters = cluster_cells(noisy, threshold=0.0, variance=30.0, most_scattered=most)
        operator = check_operator(make_cluster_operator(clusters, cells))
        assert operator_norms.column_norms(operator).l1.tolist() == [1] * cells
        exact = draws.integers(0, 9, cells)
        expected = [int(exact[cluster].sum()) for cluster in clusters]
        assert multiply(operator, exact).tolist() == expected
        gaps = [c for c in clusters if c[-1] - c[0] + 1 > len(c)]
        assert len(gaps) <= most


@pytest.mark.all
def test_the_largest_operators_are_taken_by_the_kernel() -> None:
    draws = np.random.default_rng(5)
    for cells in (2048, MOST_CELLS):
        noisy = draws.integers(0, 30, cells).tolist()
        most = find_most_scattered(cells)
        clusters = cluster_cells(noisy, threshold=0.0, variance=1.0, most_scattered=most)
        check_operator(make_cluster_operator(clusters, cells))


def test_a_preview_is_free_and_both_steps_are_paid_once(survey: Survey) -> None:
    con = survey.connect("pure")
    asked = con.clustered_histogram(["age", "cost"], table="survey", epsilon=1)
    preview = asked.preview()
    assert survey.read_spent() == 0 and preview.charge.amount == pytest.approx(1)
    assert not preview.stored
    first = asked.answer()
    assert survey.read_spent() == preview.charge.amount <= 1
    assert asked.answer().counts == first.counts and asked.preview().stored
    assert survey.read_spent() == preview.charge.amount
    assert F(first.info["charged"]) == preview.charge.amount
    assert len(first.info["releases"]) == 2
    assert first.half_width == preview.cluster_half_width


def test_clusters_follow_from_the_first_release_alone(survey: Survey) -> None:
    """From the released cells, which are on record, the same clusters are computed."""
    con = survey.connect("pure")
    asked = con.clustered_histogram(["age", "cost"], table="survey", epsilon=1)
    result = asked.answer()
    (noisy,) = asked._asker.release(asked.first).values
    clusters = cluster_cells(
        noisy,
        threshold=clustered_histogram.THRESHOLD * 2 / 0.7,
        variance=2 * (2 / 0.3) ** 2,
        most_scattered=find_most_scattered(160),
    )
    assert [*map(list, result.clusters)] == clusters


def test_counts_are_right_without_much_noise(survey: Survey) -> None:
    con = survey.connect("pure")
    asked = con.clustered_histogram(["age", "cost"], table="survey", epsilon=4000)
    result = asked.answer()
    true = np.zeros((16, 10))
    np.add.at(true, (survey.age, survey.cost), 1)
    assert np.abs(result.expand() - true).max() <= 1
    assert result.count_between(age=(0, 7)) == pytest.approx(true[:8].sum(), abs=1)
    assert result.biased and "no interval" in result.notes[0]
    cells = result.to_dict()
    assert cells["count"] == pytest.approx(result.expand().ravel().tolist())
    assert cells["age"][:11] == [0] * 10 + [1] and cells["cost"][:2] == [0, 1]
    sums = result.list_clusters().to_pydict()
    assert sum(sums["cells"]) == 160
    for cluster, count, low, high in zip(
        result.clusters, sums["count"], sums["count_low"], sums["count_high"], strict=True
    ):
        assert low <= true.ravel()[list(cluster)].sum() <= high and low <= count <= high


def test_a_certificate_names_both_releases_and_what_they_cost(survey: Survey) -> None:
    con = survey.connect("pure")
    result = con.clustered_histogram(["age"], table="survey", epsilon=1).answer()
    body = result.certificate()["body"]
    assert all(name in body["release"]["id"] for name in result.info["releases"])
    assert F(body["guarantee"]["epsilon"]) == survey.read_spent()


def test_noise_is_that_of_a_unit_with_two_rows(survey: Survey) -> None:
    """rows_per_unit 2, 0.3 of epsilon: scale 2 / 0.3."""
    asked = survey.connect("pure").clustered_histogram(["age"], table="survey", epsilon=1)
    assert "6.66" in asked.preview().noise


@pytest.mark.parametrize(
    "change",
    [
        {"by": []},
        {"by": ["code"]},
        {"by": ["nothing"]},
        {"by": ["age", "age"]},
        {"epsilon": 0},
        {"epsilon": None},
        {"confidence": 2},
        {"where": "nothing = 1"},
    ],
    ids=str,
)
def test_bad_questions_are_refused_before_anything_is_spent(
    survey: Survey, change: dict[str, object]
) -> None:
    con = survey.connect("pure")
    terms: dict[str, object] = {"by": ["age", "cost"], "table": "survey", "epsilon": 1}
    with pytest.raises(DitherError):
        con.clustered_histogram(**{**terms, **change}).answer()  # type: ignore[arg-type]
    assert survey.read_spent() == 0


def test_both_steps_cost_the_sum_of_their_prices() -> None:
    """The largest log ratio over all outcomes: |difference| / scale of every number that moves.
    Clusters are those of the first outcome, the same for both databases."""
    largest = 0.0
    for noisy in product((0, 2, 7), repeat=4):
        clusters = cluster_cells(noisy, threshold=1.0, variance=4.0, most_scattered=4)
        for cell in range(4):
            moved = sum(cell in cluster for cluster in clusters)
            largest = max(largest, 0.7 + 0.3 * moved)
    assert largest == pytest.approx(1)


def test_clusters_that_share_a_cell_are_caught() -> None:
    """Planted: a cell in every cluster. The kernel's norms grow with them, and so does the noise;
    a price from one cluster alone would not be the sum."""
    clusters = cluster_cells([9, 0, 0, 9], threshold=1.0, variance=1.0, most_scattered=4)
    shared = [sorted({0, *cluster}) for cluster in clusters]
    assert len(shared) > 1
    assert operator_norms.largest_norms(make_cluster_operator(shared, 4)).l1 == len(shared)


def test_a_second_step_that_nobody_pays_for_is_caught(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: clusters are counted at the whole price, after the cells."""

    def count(asked: AskedClusters, clusters: list[Cluster]) -> object:
        return asked._price(make_cluster_operator(clusters, asked._cells), asked.epsilon)

    monkeypatch.setattr(AskedClusters, "_price_clusters", count)
    with pytest.raises(AssertionError):
        test_a_preview_is_free_and_both_steps_are_paid_once(survey)


Run = Callable[[list[int]], list[int]]
RUNS = Budget(20_000, 1e-9)
PAIR = ([3, 0, 0, 3], [3, 0, 1, 3])


@pytest.mark.all
def test_an_audit_of_both_steps_finds_nothing() -> None:
    run = make_clusters_run(F(1, 2), F(1, 2))
    verdict = audit_mechanism(run, *PAIR, 1, budget=RUNS, vectorised=False)
    assert verdict.outcome != "violated"


@pytest.mark.parametrize(
    ("run", "pair"),
    [
        (make_clusters_run(F(1, 2), F(1, 2), is_exact=True), ([40, 44], [40, 45])),
        (make_clusters_run(F(1, 2), F(4)), ([30], [31])),
    ],
    ids=["clusters of exact counts", "second step not charged"],
)
def test_an_audit_finds_planted_bugs(run: Run, pair: tuple[list[int], list[int]]) -> None:
    """At a claim of 1. With noise of variance 8 two cells are one cluster up to a difference of 4,
    and two from 5; a second step of epsilon 4 beside the first costs 4.5."""
    verdict = audit_mechanism(run, *pair, 1, budget=Budget(4_000, 1e-9), vectorised=False)
    assert verdict.outcome == "violated"


def test_budgets_around_the_own_one_must_hold_both_steps(survey: Survey) -> None:
    """The group could pay both, and all groups together the first alone: it was charged."""
    catalog = steward.registered_catalog(survey.state)
    terms: dict[str, Any] = {"epsilon": 1, "ceiling": 10, "purpose": PURPOSE}
    steward.open_pot(survey.state, catalog, "total", policy="separate", **terms)
    for name in ("left", "right"):
        steward.open_pot(survey.state, catalog, name, kind="group", inside="total", **terms)
    left, right = (dither.connect(survey.file, pot=name) for name in ("left", "right"))
    right.sql("SELECT COUNT(*) FROM survey", epsilon=F(1, 2))
    asked = left.clustered_histogram(["age"], table="survey", epsilon=F(3, 5))
    with pytest.raises(BudgetError, match="left in budget 'total'. Nothing was spent"):
        asked.answer()
    spent = {pot.name: pot.spent for pot in steward.open_ledger(survey.state).pots()}
    assert spent["left"] == 0 and spent["total"] == F(1, 2)
