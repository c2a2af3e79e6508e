"""Warm starts and paid checks: what was paid before is free to those who paid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom, norm

from dither.errors import ParameterError
from dither.synth import PublicTable, load_synthetic
from dither.synth.groupings import keep_all
from dither.synth.quality import bound_distance, bound_square
from dither.synth.warm_start import find_public_potentials
from tests.synth.survey import invent_people, open_survey

COLUMNS = ["age", "work", "town", "sport", "pay"]


@pytest.fixture(scope="module")
def people() -> pa.Table:
    return invent_people(3000)


@pytest.fixture(scope="module")
def con(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_survey(tmp_path_factory.mktemp("start"), people, epsilon=1000)


@pytest.fixture(scope="module")
def earlier(con: Any) -> Any:
    return con.synthesize("people", epsilon=2, columns=COLUMNS, method="aim")


def spent(con: Any) -> float:
    return float(con.budget().pots[0].spent)


def test_a_warm_start_pays_for_pairs_alone(con: Any, earlier: Any, tmp_path: Path) -> None:
    earlier.save(tmp_path / "model.json")
    saved = load_synthetic(tmp_path / "model.json")
    before = spent(con)
    made = con.synthesize("people", epsilon=2, columns=COLUMNS, method="aim", start_from=saved)
    assert 1.99 < spent(con) - before <= 2
    assert all(len(step.columns) == 2 for step in made.released)
    assert made.facts["started_from"].startswith(f"release {earlier.facts['release']}, paid before")
    kept = {measurement.clique for measurement in earlier.fitted.measurements}
    assert kept <= {measurement.clique for measurement in made.fitted.measurements}


def test_a_warm_start_is_for_the_pots_that_paid_and_the_same_rows(con: Any, earlier: Any) -> None:
    before = spent(con)
    ask = {"epsilon": 1, "columns": COLUMNS, "method": "aim"}
    for facts, words in (
        ({"pots": ["another"]}, "paid by other budgets"),
        ({"version": 7}, "another version"),
        ({"table": "trips"}, "another table"),
    ):
        other = replace(earlier, facts=earlier.facts | facts)
        with pytest.raises(ParameterError, match=words):
            con.synthesize("people", **ask, start_from=other)
    with pytest.raises(ParameterError, match="other columns"):
        con.synthesize("people", **(ask | {"columns": ["age", "work"]}), start_from=earlier)
    with pytest.raises(ParameterError, match="several columns"):
        con.synthesize("people", **(ask | {"method": "mst"}), start_from=earlier)
    with pytest.raises(ParameterError, match="start_from is"):
        con.synthesize("people", **ask, start_from="model.json")
    assert spent(con) == before


def test_bought_labels_of_an_earlier_table_are_not_bought_again(con: Any) -> None:
    ask = {"epsilon": 2, "columns": ["age", "hobby"], "method": "aim"}
    earlier = con.synthesize("people", **ask, labels_epsilon=5)
    before = spent(con)
    made = con.synthesize("people", **ask, start_from=earlier)
    assert 1.99 < spent(con) - before <= 2
    assert made.columns == earlier.columns
    assert made.facts["sources"] == [earlier.facts["release"], *earlier.facts["sources"]]


def test_a_starting_point_is_refused_before_labels_are_bought(con: Any, earlier: Any) -> None:
    before = spent(con)
    ask = {"epsilon": 1, "columns": [*COLUMNS, "hobby"], "method": "aim", "labels_epsilon": 1}
    rows = pa.table({"age": [1, 2], "work": ["desk", "desk"]})
    for start in (earlier, PublicTable(rows, provenance="invented"), "model.json"):
        with pytest.raises(ParameterError):
            con.synthesize("people", **ask, start_from=start)
    assert spent(con) == before


def test_other_labels_of_a_public_table_are_other(con: Any, people: pa.Table) -> None:
    public = PublicTable(people, provenance="invented")
    ask = {"epsilon": 2, "columns": ["age", "hobby"], "method": "aim", "labels_epsilon": 5}
    made = con.synthesize("people", **ask, start_from=public)
    hobby = made.columns[1]
    assert {"chess", "cards"} <= {*hobby.labels}
    assert hobby.encode(pa.chunked_array([["rare 2", "chess"]])).tolist() == [
        hobby.size - 1,
        hobby.labels.index("chess"),
    ]


def test_a_public_table_says_what_depends_on_what(con: Any, people: pa.Table) -> None:
    """Work follows age in the public table too: the tree has this pair, and its potential moves
    independent columns as far as the public rows are."""
    public = PublicTable(invent_people(2000, seed=9), provenance="an open survey of another year")
    made = con.synthesize("people", epsilon=1, columns=COLUMNS, start_from=public)
    assert "an open survey" in made.facts["started_from"]
    groupings = [keep_all(column.size) for column in made.columns]
    potentials = find_public_potentials(public, made.columns, groupings)
    assert len(potentials) == len(COLUMNS) - 1 and (0, 1) in potentials
    joint = np.exp(potentials[0, 1]) / 32
    assert np.abs(joint / joint.sum() - 1 / 32).sum() / 2 > 0.3
    with pytest.raises(ParameterError, match="provenance"):
        PublicTable(people, provenance="")
    with pytest.raises(ParameterError, match="inside the domain"):
        rows = public.rows.set_column(1, "age", pa.array([99] * 2000))
        con.synthesize("people", epsilon=1, columns=COLUMNS, start_from=PublicTable(rows, "x"))


def test_a_check_is_charged_and_bounds_the_distance(con: Any, people: pa.Table) -> None:
    """Independent columns miss that work follows age: the real distance is above 0.3."""
    made = con.synthesize("people", epsilon=20, columns=["age", "work"], method="independent")
    before = spent(con)
    checked = con.check_synthetic(made, epsilon=20)
    assert 19.9 < spent(con) - before <= 20
    (check,) = checked.quality
    assert check.columns == ("age", "work") and check.estimate > 0.3
    assert check.upper >= check.estimate
    assert "Checked against the data" in checked.report()
    assert checked.sample().equals(made.sample())
    with pytest.raises(ParameterError, match="a pair is two"):
        con.check_synthetic(made, epsilon=1, pairs=[("age", "sport")])


def test_the_bound_of_a_check_holds_and_is_not_idle() -> None:
    """200 checks of a model that is right, and of one that is off by a tenth: binomial(200, 0.05)
    is above 35 with probability below 1e-9."""
    draws = np.random.default_rng(3)
    model = np.full((10, 10), 100.0)
    off = np.where(np.arange(100).reshape(10, 10) % 2, 110.0, 90.0)
    for real, distance in ((model, 0.0), (off, 0.05)):
        bounds = [
            bound_distance(real + draws.normal(0, 8, (10, 10)), model, 64.0, is_gaussian=True)
            for _ in range(200)
        ]
        assert sum(most < distance for _, most in bounds) <= 35
        assert np.mean([most for _, most in bounds]) < 0.09


LAWS = {
    "normal": lambda draws, shape: draws.normal(0, 10, shape),
    "laplace": lambda draws, shape: draws.laplace(0, 10 / np.sqrt(2), shape),
    "discrete laplace": lambda draws, shape: (
        draws.geometric(1 - np.exp(-np.sqrt(2) / 10), shape)
        - draws.geometric(1 - np.exp(-np.sqrt(2) / 10), shape)
    ),
}
DISTANCES = (0.0, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)
RUNS = 500


def list_misses(law: str, bound: Any, chance: float) -> list[int]:
    """How often of 500 times a bound is below the true squared distance: for counts that are off
    in one cell and in all, by so many standard errors of one cell together."""
    draws = np.random.default_rng(11)
    misses = []
    for cells in (1, 4, 25, 100):
        noise = LAWS[law](draws, (RUNS, cells))
        for distance in DISTANCES:
            flat = np.full(cells, 10 * distance / np.sqrt(cells))
            alone = np.where(np.arange(cells) == 0, 10 * distance, 0.0)
            for off in (flat, alone):
                square = float(np.square(off).sum())
                zero = np.zeros(cells)
                bounds = [
                    bound(off + own, zero, 100.0, chance, is_gaussian=law == "normal")
                    for own in noise
                ]
                misses.append(sum(most < square - 1e-6 for most in bounds))
    return misses


def bound_square_at_estimate(
    noisy: Any, model: Any, variance: float, chance: float, *, is_gaussian: bool
) -> float:
    """Planted: the standard error at the estimate, which is too small where the estimate is low."""
    cells = noisy.size
    square = float(np.square(noisy - model).sum()) - cells * variance
    error = np.sqrt(2 * cells * variance**2 + 4 * variance * max(0.0, square))
    return max(0.0, square + float(norm.isf(chance)) * error)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("chance", [0.05, 0.0125])
def test_the_bound_of_a_squared_distance_misses_no_more_than_it_says(
    law: str, chance: float
) -> None:
    """For every true distance. A miss is at most binomial, and 72 cases share the 1e-9."""
    worst = max(list_misses(law, bound_square, chance))
    assert binom.sf(worst - 1, RUNS, chance) > 1e-9 / 72
    planted = max(list_misses(law, bound_square_at_estimate, chance))
    assert binom.sf(planted - 1, RUNS, chance) < 1e-9 / 72
