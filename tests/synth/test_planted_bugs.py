"""Synthetic tables are functions of what the lease answered: methods replayed against neighbours,
and planted bugs that the same checks catch."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dither.plan.algebra import JointScores, Query
from dither.plan.scores import evaluate_scores
from dither.privacy.mechanisms.score_selection import ScoreSelection
from dither.synth.columns import SynthColumn
from dither.synth.estimate import Measurement, estimate_total
from dither.synth.fitted import FittedTable
from dither.synth.methods import METHODS, choose_method
from dither.synth.model import GraphicalModel
from dither.synth.steps import MarginalCandidate, TableSteps
from dither.synth.synthesize import plan_table
from tests.synth.survey import invent_people, open_survey

COLUMNS = ("age", "work", "town")
Fit = Callable[[TableSteps, tuple[SynthColumn, ...], Any], FittedTable]


class RecordingLease:
    """Passes steps on to a lease and keeps what they gave."""

    def __init__(self, lease: Any) -> None:
        self.lease = lease
        self.answers: list[tuple[Query, dict[str, Any], tuple[int, ...], Fraction]] = []

    @property
    def left(self) -> Fraction:
        return self.lease.left

    def release(self, query: Query, **price: Any) -> tuple[int, ...]:
        values = self.lease.release(query, **price)
        self.answers.append((query, price, values, self.lease.left))
        return values


class ReplayingLease:
    """Gives the answers of another run, as long as the same is asked: reads no data at all."""

    def __init__(self, recorded: RecordingLease, left: Fraction) -> None:
        self._waiting = list(recorded.answers)
        self.left = left

    def release(self, query: Query, **price: Any) -> tuple[int, ...]:
        asked, paid, values, left = self._waiting.pop(0)
        assert (query.hash, price) == (asked.hash, paid), "another question: it depends on the data"
        self.left = left
        return values


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """The survey, and the survey without its last person."""
    people = invent_people(400)
    folder = tmp_path_factory.mktemp("neighbours")
    connections = []
    for name, table in (("with", people), ("without", people.slice(0, 399))):
        (folder / name).mkdir()
        connections.append((open_survey(folder / name, table, epsilon=1000), table))
    return tuple(connections)


def fit_on(con: Any, table: pa.Table, fit: Fit, lease: Any, measure: str = "rho") -> FittedTable:
    """Run a method as `measure_table` does; planted ones get the table too."""
    analyses = con._kernel.version.analyses
    plan = plan_table(con.catalog, analyses, "people", COLUMNS, "aim", {})
    steps = TableSteps(lease, plan.plan, plan.names, analyses, measure)
    return fit(steps, plan.columns, table)


def find_leak(neighbours: tuple[Any, Any], fit: Fit, measure: str = "rho") -> str | None:
    """What differs between neighbours though the lease answered the same; None where nothing."""
    (first, people), (second, fewer) = neighbours
    price = Fraction(1, 10)
    with first.lease(**{measure: price}) as lease:
        recorded = RecordingLease(lease)
        expected = fit_on(first, people, fit, recorded, measure)
    try:
        got = fit_on(second, fewer, fit, ReplayingLease(recorded, price), measure)
    except AssertionError as error:
        return str(error)
    if got.model.total != expected.model.total:
        return "the number of rows"
    if got.model.sizes != expected.model.sizes:
        return "the domain"
    same = all(
        (table == got.model.potentials[clique]).all()
        for clique, table in expected.model.potentials.items()
    )
    return None if same else "the model"


def call_method(name: str) -> Fit:
    return lambda steps, columns, _: METHODS[name](steps, columns)


@pytest.mark.parametrize("name", ["independent", "histogram", "mst", "aim", "mwem", "privbayes"])
def test_a_method_is_a_function_of_what_the_lease_answered(
    neighbours: tuple[Any, Any], name: str
) -> None:
    assert find_leak(neighbours, call_method(name)) is None


def plant_exact_total(name: str) -> Fit:
    """Planted in a method: the exact number of rows."""

    def fit(steps: TableSteps, columns: tuple[SynthColumn, ...], table: pa.Table) -> FittedTable:
        fitted = METHODS[name](steps, columns)
        model = fitted.model
        exact = GraphicalModel(model.sizes, float(table.num_rows), model.potentials)
        return FittedTable(exact, fitted.groupings, fitted.singles)

    return fit


def use_values_of_the_data(
    steps: TableSteps, columns: tuple[SynthColumn, ...], table: pa.Table
) -> FittedTable:
    """Planted: a domain that holds the values that occur, here one more for every 400 rows."""
    model = GraphicalModel((1 + table.num_rows // 400,), 1.0, {(0,): np.zeros(2)})
    return FittedTable(model, (), ())


class UnchargedChoices(TableSteps):
    """Planted: choices by exact numbers; the noisy ones that are paid for are not looked at."""

    table: pa.Table

    def choose(self, candidates: list[MarginalCandidate], groupings: Any, price: Fraction) -> int:
        super().choose(candidates, groupings, price)
        return self.table.num_rows % len(candidates)


def plant_uncharged_choices(name: str) -> Fit:
    """Planted in a method: its choices follow the data for free."""

    def fit(steps: TableSteps, columns: tuple[SynthColumn, ...], table: pa.Table) -> FittedTable:
        planted = UnchargedChoices.__new__(UnchargedChoices)
        planted.__dict__ |= steps.__dict__ | {"table": table}
        return METHODS[name](planted, columns)

    return fit


PLANTED = {
    **{f"{name} with exact n": (plant_exact_total(name), "the number of") for name in METHODS},
    **{
        f"{name} with choices for free": (plant_uncharged_choices(name), "another question")
        for name in ("mst", "aim", "mwem", "privbayes")
    },
    "domain from data": (use_values_of_the_data, "the domain"),
}


@pytest.mark.parametrize(("planted", "leak"), PLANTED.values(), ids=PLANTED)
def test_planted_bugs_are_caught(neighbours: tuple[Any, Any], planted: Fit, leak: str) -> None:
    caught = find_leak(neighbours, planted, "epsilon")  # delta lasts for few leases of rho
    assert caught is not None and caught.startswith(leak)


@pytest.mark.parametrize(
    ("sizes", "method"), [((9,), "independent"), ((4, 64), "histogram"), ((4, 65), "aim")]
)
def test_auto_is_decided_by_public_sizes(sizes: tuple[int, ...], method: str) -> None:
    columns = tuple(
        SynthColumn(f"c{size}", "category", size, False, 0, 1, 0, size - 1, Fraction(1), ())
        for size in sizes
    )
    assert choose_method("auto", columns) == method
    assert choose_method("mst", columns) == ("mst" if len(sizes) > 1 else "independent")


def test_every_choice_is_paid_for(neighbours: tuple[Any, Any]) -> None:
    """A choice that costs nothing would be the planted bug of a peer: its price is 0."""
    (con, table), _ = neighbours
    with con.lease(rho=Fraction(1, 10)) as lease:
        recorded = RecordingLease(lease)
        fit_on(con, table, call_method("aim"), recorded)
    left = Fraction(1, 10)
    for query, _, _, after in recorded.answers:
        assert after < left, type(query).__name__
        left = after
    assert any(isinstance(query, JointScores) for query, *_ in recorded.answers)


def test_a_total_of_noise_below_zero_is_one_row() -> None:
    """Planted elsewhere: a negative total turns every count of the model negative."""
    noisy = Measurement((0,), np.array([-30.0, 5.0]), np.ones(2))
    assert estimate_total([noisy])[0] == 1.0


# -- prices of choices, by the exact law ---------------------------------------------------------


def find_ratio(scale: Fraction, weights: tuple[int, ...]) -> float:
    """The largest log ratio of the probabilities of one candidate, over all tables of up to three
    rows of 2 x 2 values and one row more: the exponential mechanism's exact law."""
    members = write_members(weights)
    cells = list(product(range(2), repeat=2))

    def find_law(rows: tuple[tuple[int, int], ...]) -> np.ndarray:
        scores = []
        for axis, member in enumerate(members):
            counts = np.zeros((2, 1), object)
            for row in rows:
                counts[row[axis], 0] += 1
            scores.append(float(evaluate_scores(member, counts, 100)[0]))
        logs = np.array(scores) / float(scale)
        return logs - np.logaddexp.reduce(logs)

    return max(
        float(np.abs(find_law((*rows, row)) - find_law(rows)).max())
        for size in range(4)
        for rows in product(cells, repeat=size)
        for row in cells
    )


def write_members(weights: tuple[int, ...]) -> tuple[Any, ...]:
    """A choice between two columns, as `TableSteps` writes it, with these weights."""
    from dither.plan.algebra import Scan
    from dither.synth.groupings import keep_all

    steps = TableSteps.__new__(TableSteps)
    steps.__dict__ |= {"_plan": Scan("t"), "_names": ("a", "b")}
    targets = (np.array([0.0, 3.0]), np.array([3.0, 0.0]))
    return tuple(
        steps._write_member(
            MarginalCandidate((axis,), targets[axis], weight=weight), [keep_all(2)] * 2, 0.0
        )
        for axis, weight in enumerate(weights)
    )


def test_a_choice_is_within_its_price_and_planted_prices_are_not() -> None:
    """Sensitivity is weight * 8 for one row: scale 2 * 3 * 8 / epsilon keeps every ratio within
    epsilon. Priced as monotone, or without weights or scale, it does not."""
    weights = (3, 3)
    sensitivity = 3 * 8
    epsilon = Fraction(1)
    right = ScoreSelection(epsilon, sensitivity).scale
    assert find_ratio(right, weights) <= 1
    monotone = ScoreSelection(epsilon, sensitivity, is_monotone=True).scale
    assert find_ratio(monotone, weights) > 1.2
    assert find_ratio(ScoreSelection(epsilon, 8).scale, weights) > 2
    assert find_ratio(ScoreSelection(epsilon, 3).scale, weights) > 2
