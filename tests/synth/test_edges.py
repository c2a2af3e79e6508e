"""Bins with public edges: checked before reading, used in counts, rows, conditions and reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dither.synth.columns
from dither.data.measure import Measurer
from dither.errors import ParameterError
from dither.plan.algebra import Call
from dither.plan.domain import Domain
from dither.synth import PublicTable, load_synthetic
from dither.synth.columns import SynthColumn, make_codes, widen_edges
from dither.synth.edges import MOST_EDGES, read_edges, write_bins
from tests.synth.survey import invent_people, open_survey

LARGE = 300.0
"""At this epsilon counts have a standard error below 1 row: an error of 10 has a chance under
1e-12."""
PAY = [500, "1250.5", Decimal("3999.9")]
BEGUN = ["2003-05-01", date(2005, 1, 1)]
WISH = {"pay": PAY, "begun": BEGUN}


@pytest.fixture(scope="module")
def people() -> pa.Table:
    return invent_people(3000)


@pytest.fixture(scope="module")
def con(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_survey(tmp_path_factory.mktemp("survey"), people, epsilon=3000)


@pytest.fixture(scope="module")
def made(con: Any) -> Any:
    return con.synthesize("people", epsilon=LARGE, columns=["pay", "begun", "town"], bins=WISH)


def find_pay_code(value: Decimal | None) -> int:
    """By hand: bins begin at 0, 500, 1250.5 and 3999.9, and null comes last."""
    if value is None:
        return 4
    return sum(value >= Decimal(edge) for edge in ("500", "1250.5", "3999.9"))


def find_begun_code(day: date) -> int:
    return (day >= date(2003, 5, 1)) + (day >= date(2005, 1, 1))


def count_codes(table: pa.Table) -> np.ndarray:
    pairs = zip(table["pay"].to_pylist(), table["begun"].to_pylist(), strict=True)
    counts = Counter((find_pay_code(pay), find_begun_code(day)) for pay, day in pairs)
    return np.array([[counts[pay, begun] for begun in range(3)] for pay in range(5)])


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "not in order": ({"pay": [900, 500]}, "must increase"),
    "twice": ({"pay": [500, 500.0]}, "must increase"),
    "at the lower bound": ({"pay": [0, 500]}, "lower bound"),
    "above the upper bound": ({"pay": [500, 5000.1]}, "upper one"),
    "beside the grid": ({"pay": [500, 600.05]}, "steps of 0.1"),
    "no number": ({"pay": ["high"]}, "edge of pay"),
    "nan": ({"pay": [float("nan")]}, "edge of pay"),
    "an endless number": ({"pay": ["1e999999999"]}, "edge of pay"),
    "a truth value": ({"pay": [True]}, "edge of pay"),
    "none": ({"pay": []}, "1 to 49 edges"),
    "too many": ({"pay": [*range(1, MOST_EDGES + 2)]}, "1 to 49 edges"),
    "a number for a date": ({"begun": [2005]}, "a date such as"),
    "no date": ({"begun": ["2005-13-01"]}, "a date such as"),
    "a category": ({"sport": ["run"]}, "has no order"),
    "a truth column": ({"town": [1]}, "has no order"),
    "a text": ({"pay": "500"}, "whole number, or a list"),
    "half a bin": ({"pay": 2.5}, "whole number, or a list"),
    "another column": ({"wage": [5]}, "none of the columns"),
    "a column left out": ({"age": [5]}, "none of the columns"),
    "not by column": (["pay"], "by column"),  # type: ignore[dict-item]
}


@pytest.mark.parametrize(("bins", "words"), WRONG.values(), ids=WRONG)
def test_wrong_edges_are_refused_before_anything_is_read_or_charged(
    con: Any, bins: Any, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: Any) -> None:
        raise AssertionError("data was read")

    monkeypatch.setattr(Measurer, "measure", read)
    before = con.budget().pots[0].spent
    columns = ["pay", "begun", "sport", "town"]
    with pytest.raises(ParameterError, match=words):
        con.synthesize("people", epsilon=1, columns=columns, bins=bins)
    assert con.budget().pots[0].spent == before


def test_counts_are_those_of_bins_that_begin_at_the_edges(made: Any, people: pa.Table) -> None:
    np.testing.assert_allclose(made.find_marginal("pay", "begun"), count_codes(people), atol=10)


def test_rows_lie_in_the_bins_and_bounds(made: Any, people: pa.Table) -> None:
    rows = made.sample()
    np.testing.assert_allclose(count_codes(rows), count_codes(people), atol=15)
    pay = [value for value in rows["pay"].to_pylist() if value is not None]
    assert all(0 <= value <= 5000 and value % Decimal("0.1") == 0 for value in pay)
    assert all(date(2001, 1, 1) <= day <= date(2020, 12, 31) for day in rows["begun"].to_pylist())
    assert {find_pay_code(value) for value in pay} == {0, 1, 2, 3}


def test_conditions_follow_the_edges(made: Any) -> None:
    first = made.find_marginal("pay")[0]
    assert made.count({"pay": (0, Decimal("499.9"))}).value == pytest.approx(first)
    assert made.count({"pay": [Decimal("499.9")]}).value == pytest.approx(first / 5000)


def test_report_and_certificate_say_that_edges_were_asked_for(made: Any) -> None:
    words = [
        "bins of pay begin at 500, 1250.5, 3999.9: chosen by the asker",
        "bins of begun begin at 2003-05-01, 2005-01-01: chosen by the asker",
    ]
    assert {*words} <= {*made.certificate()["unprotected"]}
    page = made.report()
    assert all(sentence in page for sentence in words)
    assert "1250.5 to 3999.8" in page


def test_a_saved_model_keeps_its_edges_and_the_hash_commits_to_them(
    made: Any, tmp_path: Path
) -> None:
    made.save(tmp_path / "model.json")
    again = load_synthetic(tmp_path / "model.json")
    assert again.columns == made.columns and again.key == made.key
    assert again.sample(99).equals(made.sample(99))
    moved = replace(made.columns[0], edges=(5000, 12506, 39999))
    assert replace(made, columns=(moved, *made.columns[1:])).key != made.key


def test_a_table_starts_from_one_with_the_same_edges_alone(con: Any, made: Any) -> None:
    wish = {"epsilon": 10, "columns": ["pay", "begun", "town"], "start_from": made}
    assert con.synthesize("people", bins=WISH, **wish).columns == made.columns
    with pytest.raises(ParameterError, match="other columns, bins or labels"):
        con.synthesize("people", bins=WISH | {"pay": [500]}, **wish)


def test_public_rows_outside_the_bounds_are_refused(con: Any) -> None:
    columns = ["age", "town"]
    rows = pa.table({"age": [1, 8], "town": [True, False]})  # ages end at 7
    start = PublicTable(rows, provenance="invented")
    with pytest.raises(ParameterError, match="inside the domain"):
        con.synthesize("people", epsilon=1, columns=columns, bins={"age": [4]}, start_from=start)


def test_edges_travel_as_texts_and_are_read_alike(con: Any) -> None:
    written = write_bins({**WISH, "age": 4})
    assert written["begun"] == ["2003-05-01", "2005-01-01"] and written["age"] == 4
    assert make_survey_columns(con, written) == make_survey_columns(con, WISH)


def make_survey_columns(con: Any, bins: Any) -> list[SynthColumn]:
    version = con._curator.kernel.version
    table = next(t for t in version.catalog.private_tables if t.name == "people")
    coded = make_codes(table, ("pay", "begun"), version.analyses, bins, {})
    return [column for column, _ in coded]


def test_times_are_read_in_utc_unless_they_name_a_zone() -> None:
    """2021-01-10 00:00 UTC is second 1,610,236,800, by `date -u -d`."""
    day = 1_610_236_800
    domain = Domain("timestamp", False, day - 86_400, day + 86_400, Fraction(1))
    edges = ["2021-01-10", "2021-01-10T08:00:00+02:00", datetime(2021, 1, 10, 8)]
    assert read_edges("seen", domain, edges) == (day, day + 6 * 3600, day + 8 * 3600)
    for wrong in ("8 o'clock", 5, "2021-01-10 08:00:00.5"):
        with pytest.raises(ParameterError, match="whole seconds"):
            read_edges("seen", domain, [wrong])


def test_linked_rows_follow_every_so_many_edges_of_their_owner(con: Any) -> None:
    pay, _ = make_survey_columns(con, {"pay": [*range(100, 2000, 100)], "begun": BEGUN})
    wide = widen_edges(pay, 8)
    assert wide.edges == (3000, 6000, 9000, 12000, 15000, 18000)  # 20 bins, three in each
    assert pay.find_wider_codes(wide).tolist() == [code // 3 for code in range(20)] + [7]
    columns = {"people": ["begun"], "trips": ["length"]}
    bins = {"begun": BEGUN, "length": [4]}
    pair = con.synthesize_linked("people", "trips", epsilon=LARGE, columns=columns, bins=bins)
    parents, children = pair.sample()
    owners = dict(zip(parents["people_id"].to_pylist(), parents["begun"].to_pylist(), strict=True))
    begun = np.array([find_begun_code(owners[key]) for key in children["people_id"].to_pylist()])
    is_long = np.array(children["length"].to_pylist()) >= 4
    # a length of 4 begins with day 3 * 914, in June 2008: none of the first two bins has one
    assert is_long[begun < 2].mean() < 0.05 < is_long[begun == 2].mean()


def test_a_value_on_an_edge_is_in_the_bin_that_begins_there(
    people: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug compares by "at most", which puts it into the bin before."""
    position = people.column_names.index("pay")
    pay = pa.array([Decimal("500.0")] * people.num_rows)
    con = open_survey(tmp_path, people.set_column(position, "pay", pay), epsilon=3000)
    wish = {"epsilon": LARGE, "columns": ["pay"], "bins": {"pay": PAY}}
    expected = [0, people.num_rows, 0, 0, 0]
    right = con.synthesize("people", **wish).find_marginal("pay")
    np.testing.assert_allclose(right, expected, atol=10)

    def compare_by_at_most(function: str, arguments: Any) -> Call:
        return Call("le" if function == "lt" else function, arguments)

    monkeypatch.setattr(dither.synth.columns, "Call", compare_by_at_most)
    wrong = con.synthesize("people", **wish).find_marginal("pay")
    assert abs(wrong - expected).max() > 1000
