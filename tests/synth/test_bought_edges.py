"""Bins at bought quantiles: paid by the same lease, refused before reading, never read off the
data, and the same again where a table starts from an earlier one."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dither.data.measure import Measurer
from dither.errors import ParameterError
from dither.synth import load_synthetic
from dither.synth.bought_edges import (
    COLUMN_SHARE,
    MOST_SHARE,
    buy_edges,
    list_edge_wishes,
    place_edges,
)
from dither.synth.edges import BoughtEdges
from dither.synth.synthesize import SynthPrice
from tests.synth.survey import invent_people, open_survey
from tests.synth.test_planted_bugs import RecordingLease, ReplayingLease

LARGE = 300.0
"""At this epsilon the ranks of quantiles are off by a few rows of 3,000."""
ROWS = 3000
COLUMNS = ["pay", "begun", "town"]
WISH = {"pay": "buy:5", "begun": "buy:4"}


def invent_skewed() -> pa.Table:
    """People of whom two thirds are paid 1000, and the others less than 10."""
    people = invent_people(ROWS)
    pay = [Decimal(n % 100) / 10 if n % 3 == 0 else Decimal(1000) for n in range(ROWS)]
    position = people.column_names.index("pay")
    return people.set_column(position, "pay", pa.array(pay, pa.decimal128(10, 1)))


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_survey(tmp_path_factory.mktemp("survey"), invent_skewed(), epsilon=3000)


@pytest.fixture(scope="module")
def made(con: Any) -> Any:
    return con.synthesize("people", epsilon=LARGE, columns=COLUMNS, bins=WISH)


def find_edges(made: Any) -> dict[str, tuple[int, ...]]:
    return {column.name: column.edges for column in made.columns if column.edges}


def test_bins_hold_about_equal_counts_and_a_frequent_value_has_one_of_its_own(made: Any) -> None:
    """Of 3,000 rows 1,000 lie below 10 and 2,000 at 1000: of the quantiles at 600, 1,200, 1,800 and
    2,400 rows the last three are 1000, whose bin ends at the next value, 1000.1."""
    first, *others = find_edges(made)["pay"]
    assert others == [10_000, 10_001] and 55 < first < 65
    counts = made.find_marginal("pay")
    np.testing.assert_allclose(counts, [600, 400, 2000, 0, 0], atol=80)  # the last is null
    np.testing.assert_allclose(made.find_marginal("begun"), [ROWS / 4] * 4, atol=80)
    pay = made.sample()["pay"].to_pylist()
    assert abs(pay.count(Decimal(1000)) - 2000) < 80


def test_one_charge_pays_for_edges_and_counts_and_every_step_is_stated(con: Any) -> None:
    before = con.budget().pots[0].spent
    made = con.synthesize("people", epsilon=40, columns=COLUMNS, bins=WISH)
    assert float(con.budget().pots[0].spent - before) == pytest.approx(40, rel=0.02)
    asked = Fraction(made.facts["lease"].split(" ")[1])
    steps = [step for step in made.released if step.kind == "edges"]
    assert [(step.columns, step.cells) for step in steps] == [(("pay",), 4), (("begun",), 3)]
    assert all(step.price == pytest.approx(float(asked / 20), rel=1e-3) for step in steps)
    assert sum(step.price for step in made.released) <= float(asked) * (1 + 1e-5)
    certificate = made.certificate()
    assert not any("begin at" in fact for fact in certificate["unprotected"])
    page = made.report()
    assert "bought quantiles at rho" in page and "chosen by the asker" not in page
    # four quantiles take three rounds: the rows on the places of two choices are in no later part
    ties = "rows in rank (more where many rows share one value: by about 1/32 of these)"
    assert ties in steps[0].write_words() and ties in page


@pytest.mark.parametrize("count", [1, 3, 4, 5, 20])
def test_all_columns_together_take_at_most_a_fifth(count: int) -> None:
    names = [f"c{number}" for number in range(count)]
    price = SynthPrice("rho", Fraction(1), "rho 1")
    wishes = list_edge_wishes({"t": names}, {"t": dict.fromkeys(names, "buy")}, price)
    total = sum(wish.price.value for wish in wishes)
    assert total == min(count * COLUMN_SHARE, MOST_SHARE)


def test_edges_lie_inside_the_bounds_whatever_was_released() -> None:
    """All answers of up to three quantiles over 0 to 3: edges increase, there is at least one, and
    no more than there are quantiles."""
    domain = SimpleNamespace(listed=(0, 3))
    analyses: Any = SimpleNamespace(
        analyse_rows=lambda plan: SimpleNamespace(columns={"a": domain}),
        analyse_query=lambda query: SimpleNamespace(points=SimpleNamespace(step=1)),
    )
    wish: Any = SimpleNamespace(name="a", query=SimpleNamespace(plan=None))
    for size in (1, 2, 3):
        for values in product(range(4), repeat=size):
            edges = place_edges(values, wish, analyses)
            assert 1 <= len(edges) <= size, values
            assert all(0 < edge <= 3 for edge in edges), values
            assert all(earlier < later for earlier, later in pairwise(edges)), values


WRONG: dict[str, tuple[dict[str, Any], float, str]] = {
    "one bin": ({"pay": "buy:1"}, 1, "2 to 50 bought bins"),
    "too many": ({"pay": "buy:51"}, 1, "2 to 50 bought bins"),
    "a category": ({"sport": "buy"}, 1, "has no order"),
    "a truth column": ({"town": "buy"}, 1, "has no order"),
    "fewer values": ({"age": "buy:9"}, 1, "8 values, too few"),
    "another word": ({"pay": "bought"}, 1, "'buy' for edges"),
    "another column": ({"wage": "buy"}, 1, "none of the columns"),
    "too little": ({"pay": "buy"}, 0.001, "below what bought bins need"),
}


@pytest.mark.parametrize(("bins", "epsilon", "words"), WRONG.values(), ids=WRONG)
def test_wrong_wishes_are_refused_before_anything_is_read_or_charged(
    con: Any, bins: Any, epsilon: float, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: Any) -> None:
        raise AssertionError("data was read")

    monkeypatch.setattr(Measurer, "measure", read)
    before = con.budget().pots[0].spent
    columns = ["pay", "age", "sport", "town"]
    with pytest.raises(ParameterError, match=words):
        con.synthesize("people", epsilon=epsilon, columns=columns, bins=bins)
    assert con.budget().pots[0].spent == before


def test_an_earlier_table_lends_its_edges_and_a_file_keeps_them(
    con: Any, made: Any, tmp_path: Path
) -> None:
    made.save(tmp_path / "model.json")
    again = load_synthetic(tmp_path / "model.json")
    assert again.columns == made.columns and again.sample(50).equals(made.sample(50))
    wish = {"epsilon": 10, "columns": COLUMNS, "start_from": again}
    second = con.synthesize("people", bins=WISH, **wish)
    assert find_edges(second) == find_edges(made)
    assert all(step.kind != "edges" for step in second.released)
    named = tuple(replace(column, has_bought_edges=False) for column in again.columns)
    wish["start_from"] = replace(again, columns=named)
    with pytest.raises(ParameterError, match="other columns, bins or labels"):
        con.synthesize("people", bins=WISH, **wish)


def test_linked_tables_buy_edges_of_both_out_of_one_charge(con: Any) -> None:
    before = con.budget().pots[0].spent
    columns = {"people": ["pay", "town"], "trips": ["by_car", "length"]}
    pair = con.synthesize_linked(
        "people", "trips", epsilon=50, columns=columns, bins={"pay": "buy:4", "length": "buy:3"}
    )
    assert float(con.budget().pots[0].spent - before) == pytest.approx(50, rel=0.02)
    prices = [step.price for table in (pair.parent, pair.child) for step in table.released]
    asked = float(Fraction(pair.parent.facts["lease"].split(" ")[1]))
    assert asked * 0.9 < sum(prices) <= asked * (1 + 1e-5)
    assert find_edges(pair.parent)["pay"] and find_edges(pair.child)["length"]
    assert pair.child.released[-1].kind == "edges"
    assert "bought quantiles" in pair.report()


# -- edges are functions of what the lease released ------------------------------------------------


@pytest.fixture(scope="module")
def neighbours(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, list[Any]]]:
    people = invent_people(400)
    tables = (people, people.slice(0, 399))
    folders = [tmp_path_factory.mktemp("one") for _ in tables]
    return [
        (open_survey(folder, table, epsilon=1000), table["begun"].to_pylist())
        for folder, table in zip(folders, tables, strict=True)
    ]


def buy_exactly(wishes: Any, lease: Any, analyses: Any, days: list[Any]) -> Any:
    """Planted: the quantiles of the rows, with the released ones thrown away."""
    bought = buy_edges(wishes, lease, analyses)
    ordered = sorted(days)
    exact = tuple(len(ordered) + day.toordinal() for day in ordered[:: len(ordered) // 7])
    return replace(bought, edges={"people": {"begun": BoughtEdges(exact)}})


@pytest.mark.parametrize("is_planted", [False, True])
def test_edges_follow_from_what_was_released_and_planted_ones_do_not(
    neighbours: Any, is_planted: bool
) -> None:
    price = SynthPrice("epsilon", Fraction(1), "epsilon 1")
    wishes = list_edge_wishes({"people": ["begun"]}, {"people": {"begun": "buy:8"}}, price)
    bought = []
    recorded: Any = None
    for con, days in neighbours:
        analyses = con._kernel.version.analyses
        with con.lease(epsilon=1) as lease:
            steps = RecordingLease(lease) if recorded is None else ReplayingLease(recorded, 1)
            if is_planted:
                bought.append(buy_exactly(wishes, steps, analyses, days))
            else:
                bought.append(buy_edges(wishes, steps, analyses))
        recorded = recorded or steps
    assert (bought[0].edges == bought[1].edges) is not is_planted
