"""Slots follow from the plan and declared sizes, and from nothing that the rows are."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dither.answer.leased import write_request
from dither.curator import operator_work, tree_work, work_bounds
from dither.curator.declared_rows import count_declared_rows
from dither.curator.operator_work import count_operations
from dither.curator.planning_work import FEW_PLANNED, PLANNED_S, bound_planning
from dither.curator.work_bounds import BYTE_S, ROW_S, bound_work
from dither.embedded import EmbeddedCurator
from dither.errors import RefusedError
from dither.plan.algebra import (
    Call,
    Cells,
    Column,
    Count,
    Filter,
    Join,
    Linear,
    Named,
    Project,
    Scan,
    Scores,
    UnitVectors,
    Value,
)
from dither.plan.analyse import Analysed
from dither.plan.encodings import Binned, Intercept, Scaled
from dither.plan.expressions import Compare, Or
from dither.plan.network_functions import NetworkGradient, NetworkLayer
from dither.plan.operators import Dense, Kronecker, Stack, Total
from dither.plan.scores import evaluate_scores
from dither.plan.tree_functions import ScoredTree, TreeCounts, TreeGradient
from dither.plan.utilities import DistanceCandidate, Distances
from dither.privacy.kernel.request import Price
from dither.session import Connection
from tests.datasets import clinic
from tests.datasets.served_clinic import BY_WARD, COUNT, ROWS


def open_clinic(folder, rows) -> Connection:
    _, state = clinic.register(folder, rows)
    clinic.open_total(state, "1000", "1000")
    return Connection(EmbeddedCurator(folder / "clinic.yaml"))


def price(con: Connection, sql: str):
    return con._curator.kernel.price(con.request(sql, epsilon=1))


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("bounds")
        patch.setenv("XDG_STATE_HOME", str(folder / "xdg"))
        yield open_clinic(folder / "clinic", ROWS)


def test_the_bound_is_the_same_whoever_is_in_the_data(con, tmp_path, monkeypatch):
    """A hundred rows of forty people, or none at all: the same figure, and so the same slots."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    empty = open_clinic(tmp_path / "clinic", [])
    for sql in (COUNT, BY_WARD):
        assert bound_work(price(con, sql)) == bound_work(price(empty, sql)) > 0


def test_the_bound_is_the_price_list_by_hand(con):
    """COUNT over a scan of at most 1,000 rows: read once, aggregated once."""
    priced = price(con, COUNT)
    (step,) = priced.steps
    analysed = priced.version.kernel_analyses.analyse_rows(step.step.query.plan)
    assert count_declared_rows(analysed) == 1000
    length = len(work_bounds.dumps(priced.request.to_json()))
    rows = 2000 * ROW_S + 1000 * length * BYTE_S
    rest = work_bounds.PRICED_BYTE_S * length + work_bounds.NUMBER_S + work_bounds.STEP_S
    assert bound_work(priced) == pytest.approx(rows + rest)


def test_a_longer_condition_and_more_groups_hold_longer(con):
    longer = COUNT + " WHERE " + " OR ".join(f"age = {n}" for n in range(2, 60, 2))
    assert bound_work(price(con, longer)) > bound_work(price(con, COUNT))
    assert bound_work(price(con, BY_WARD)) > bound_work(price(con, COUNT))


def test_many_comparisons_hold_as_long_as_they_are_planned(con):
    """Eight thousand were compiled for 1.9 s, held 1 s, and were a miss for a tiny epsilon."""
    few, many = (
        Or(tuple(Compare("age", "=", Fraction(value % 60)) for value in range(count)))
        for count in (60, 8000)
    )
    bounds = []
    for condition in (few, many):
        cells = Cells(Filter(Scan("visits"), condition), (), (Count(),))
        request = write_request(cells, Price(epsilon=1), "total", None, True)
        bounds.append(bound_work(con._curator.kernel.price(request)))
    assert bounds[0] < 0.05 and bounds[1] > 1.98


def test_joins_are_planned_longer_by_the_cube_of_their_number():
    """A hundred and twenty with a table of four rows took 3.8 s: a miss at will."""
    leaf = Analysed(Scan("wards"), None, {})
    for count, units in ((5, 0), (40, 160), (120, 4320)):
        rows = Analysed(Scan("visits"), None, {})
        for _ in range(count):
            plan = Join(rows.plan, leaf.plan, (("ward", "ward"),), "left")
            rows = Analysed(plan, None, {}, (rows, leaf))
        assert bound_planning([rows]) == pytest.approx(PLANNED_S * max(0, units - FEW_PLANNED))


def test_lookups_in_lists_are_planned_like_joins():
    """Each is a join with its list: 160 of them took 3.2 s and held 0.5 s."""
    leaf = Analysed(Scan("visits"), None, {})
    for count, units in ((5, 3 * 5), (40, 3 * 40 + 160), (160, 3 * 160 + 10_240)):
        calls = [
            Call("index_in", (Column("note"), Value("text", "a"), Value("text", f"b{number}")))
            for number in range(count)
        ]
        plan = Project(leaf.plan, tuple(Named(f"n{i}", call) for i, call in enumerate(calls)))
        bound = bound_planning([Analysed(plan, None, {}, (leaf,))])
        assert bound == pytest.approx(PLANNED_S * max(0, units - FEW_PLANNED))


def test_a_question_whose_declared_sizes_pass_an_hour_is_refused_for_free(con, monkeypatch):
    monkeypatch.setattr(work_bounds, "LONGEST_WORK_S", 1e-9)
    with pytest.raises(RefusedError, match="smaller max_rows"):
        bound_work(price(con, COUNT))
    assert con._curator.kernel.ledger.pot("total").spent == 0


def make_network(width: int) -> UnitVectors:
    """Gradients of a network with one hidden layer of a feature and a constant."""
    hidden = NetworkLayer(tuple((0, 0) for _ in range(width)), "tanh", False)
    last = NetworkLayer(3 * ((0,) * (width + 1),), "none", False)  # three wards
    function = NetworkGradient("ward", (hidden, last))
    features = (Intercept(), Scaled("age"))
    return UnitVectors(Scan("visits"), features, function, Fraction(1), Fraction(1, 100))


def test_a_training_is_bounded_by_its_steps_and_declared_sizes(con):
    """A hidden layer of one number: 8 weights, and at most 1,000 rows."""
    vectors = make_network(1)
    analyses = con._curator.kernel.version.analyses
    rows = analyses.analyse_rows(vectors.plan)
    step_s = work_bounds.TRAINING_STEP_S + 8 * work_bounds.TRAINED_NUMBER_S
    step_s += 8_000 * work_bounds.VECTOR_NUMBER_S * (1 + 8 / work_bounds.LONG_VECTOR)
    expected = 2_000 * ROW_S + 10 * step_s
    assert work_bounds.bound_training(vectors, rows, 10) == pytest.approx(expected)
    work_bounds.check_training(vectors, analyses, 10, expected * 1.001)
    work_bounds.check_training(vectors, analyses, 10, None)
    with pytest.raises(RefusedError, match="--job-slot"):
        work_bounds.check_training(vectors, analyses, 10, expected * 0.999)
    with pytest.raises(RefusedError, match="keeps at most"):
        work_bounds.check_training(vectors, analyses, 10**7, None)


def test_a_sum_of_vectors_holds_as_long_as_all_their_numbers_take(con):
    """It held the slots of a count: two misses at once, for a millionth of rho."""
    request = write_request(make_network(256), Price(rho=1), "total", None, False)
    priced = con._curator.kernel.price(request)
    assert bound_work(priced) > 1000 * (2 * 256 + 3 * 257) * work_bounds.VECTOR_NUMBER_S


def test_operators_are_bounded_by_what_they_add_up(con):
    """Eighteen sums of a million cells held one slot, and were four misses for a tiny epsilon."""
    assert count_operations(Kronecker((Dense(((1, 1, 1), (1, 1, 1))), Total(4)))) == 24 + 2 * 5
    keys = ("kind", "age", "score", "day")
    cells = Cells(Scan("visits"), keys, (Count(),))
    analyses = con._curator.kernel.version.analyses
    size = analyses.analyse_query(cells).cells
    assert size > 900_000
    request = write_request(Linear(cells, Total(size)), Price(epsilon=1), "total", None, True)
    (step,) = request.steps
    steps = tuple(replace(step, weight=Fraction(1, 18)) for _ in range(18))
    priced = con._curator.kernel.price(replace(request, steps=steps))
    assert bound_work(priced) > 18 * size * operator_work.CELL_S > 1.6  # it took 1.6 s
    few = size // 64
    operators = [
        Kronecker((Dense(((entry,) * 64,) * 64), Dense(((entry,),)), Total(few)))
        for entry in (1, 1 << 40)
    ]
    plain, wide = (
        operator_work.bound_operators(Linear(cells, operator), analyses) for operator in operators
    )
    assert wide > plain + 64 * 64 * few * 100e-9  # no 64 bits hold its products


@pytest.mark.parametrize("heavy", [{"weight": 1 << 20}, {"target": (1 << 60,) * 9}])
def test_one_heavy_candidate_makes_all_scores_long(con, heavy):
    """Scores of all candidates are integers of one kind: where one is past 64 bits, 200 choices of
    200,000 cells held a second and took 1.4, and were a miss for a tiny epsilon."""
    cells = Cells(Scan("visits"), ("age", "score"), (Count(),))
    analyses = con._curator.kernel.version.analyses
    size = analyses.analyse_query(cells).cells
    light = [DistanceCandidate(1, Total(size), (5,)) for _ in range(50)]
    rows = len(heavy.get("target", (1,)))
    first = DistanceCandidate(1, Stack((Total(size),) * rows), ((1 << 44),) * rows)
    plain, long = (
        operator_work.bound_operators(Scores(cells, Distances(8, (*light, known))), analyses)
        for known in (first, replace(first, **heavy))
    )
    assert long > plain + 50 * size * 100e-9
    query = Scores(cells, Distances(8, (*light, replace(first, **heavy))))
    numbers = np.ones((size, 1), np.int64)
    assert evaluate_scores(query, numbers, 1000).dtype == object
    query = Scores(cells, Distances(8, (*light, first)))
    assert evaluate_scores(query, numbers, 1000).dtype == np.int64


def make_trees(function) -> UnitVectors:
    features = (Intercept(), Binned("age", tuple(map(Fraction, range(10, 60, 10)))))
    return UnitVectors(Scan("visits"), features, function, Fraction(1), Fraction(1, 100))


def test_a_training_of_trees_is_bounded_by_its_largest_steps(con):
    """The first level has one leaf and the eighth 128: nine steps had the bound of the first, and
    levels of 50 features took 0.07 s and 22 s for 100,000 rows. A forest gains a tree each step."""
    analyses = con._curator.kernel.version.analyses
    tree = make_trees(TreeCounts("ward", 3, (), False))
    rows = analyses.analyse_rows(tree.plan)
    numbers = work_bounds.count_vector_numbers(tree, rows)
    first_s = 1000 * numbers * work_bounds.VECTOR_NUMBER_S
    steps_s = 9 * work_bounds.TRAINING_STEP_S
    assert work_bounds.bound_training(tree, rows, 9) - steps_s > (2**8 - 1) * first_s
    forest = make_trees(TreeGradient("kind", 1, (), ((1, 5), (1, 2), (2, 5))))
    grown_s = 1000 * 1000 * 999 / 2 * 3 * tree_work.BRANCH_S
    steps_s = 1000 * work_bounds.TRAINING_STEP_S
    assert work_bounds.bound_training(forest, rows, 1000) - steps_s > grown_s


def test_a_forest_in_one_request_holds_as_long_as_its_branches_take(con):
    """Branches over no feature and over four: requests of the same length."""
    bounds = []
    for stop in (1, 5):
        tree = ScoredTree(((1, stop),) * 255, (0,) * 256)
        vectors = make_trees(TreeGradient("kind", 1, (tree,) * 20, ()))
        request = write_request(vectors, Price(rho=1), "total", None, False)
        bounds.append(bound_work(con._curator.kernel.price(request)))
    added_s = 1000 * 20 * 255 * 4 * tree_work.BRANCH_FEATURE_S
    assert bounds[1] - bounds[0] == pytest.approx(added_s)
