"""Two linked synthetic tables: fresh keys, rows that follow their owner, one charge."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dither.catalog import parse
from dither.errors import ParameterError
from dither.plan.analysed_query import Analyses
from dither.synth import load_linked
from dither.synth.columns import make_codes
from dither.synth.linked import LINK_BINS, plan_linked
from dither.synth.synthesize import find_table
from tests.datasets.catalog_texts import write_head, write_private_head
from tests.synth.survey import (
    DAYS_A_LENGTH,
    FIRST_DAY,
    invent_people,
    invent_trips,
    open_survey,
)

COLUMNS = {"people": ["town", "sport", "age"]}


@pytest.fixture(scope="module")
def people() -> pa.Table:
    return invent_people(3000)


@pytest.fixture(scope="module")
def con(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_survey(tmp_path_factory.mktemp("linked"), people, epsilon=1000)


@pytest.fixture(scope="module")
def pair(con: Any) -> Any:
    return con.synthesize_linked("people", "trips", epsilon=300, columns=COLUMNS)


def test_one_charge_pays_for_both_tables(con: Any, pair: Any) -> None:
    assert 299 < float(con.budget().pots[0].spent) <= 300
    assert pair.sample(10)[0].num_rows == 10


def test_keys_are_fresh_numbers_and_every_row_has_its_parent(pair: Any) -> None:
    parents, trips = pair.sample()
    assert parents["people_id"].to_pylist() == list(range(1, parents.num_rows + 1))
    assert trips["trips_id"].to_pylist() == list(range(1, trips.num_rows + 1))
    assert {*trips["people_id"].to_pylist()} <= {*parents["people_id"].to_pylist()}
    assert trips.column_names == ["trips_id", "people_id", "by_car", "length", "day"]
    assert parents.column_names == ["people_id", "town", "sport", "age"]
    again = pair.sample()
    assert again[0].equals(parents) and again[1].equals(trips)


def test_rows_of_one_parent_are_in_the_order_of_their_dates(pair: Any) -> None:
    """P45: by date, ties by content, so that nothing of the source's order is kept; and no id of
    the source is anywhere in the tables."""
    parents, trips = pair.sample()
    rows = [
        (row["people_id"], row["day"], row["by_car"], row["length"]) for row in trips.to_pylist()
    ]
    assert rows == sorted(rows)
    texts = {str(value) for table in (parents, trips) for c in table.columns for value in c}
    assert not texts & {f"p{n}" for n in range(3000)} | texts & {f"t{n}" for n in range(9000)}


def test_how_many_rows_parents_have_is_kept(people: pa.Table, pair: Any) -> None:
    """The noise is below 3 rows at epsilon 300, but for a chance under 1e-12."""
    owners = Counter(invent_trips(people)["person"].to_pylist())
    real = Counter(owners.values())
    real[0] = people.num_rows - len(owners)
    np.testing.assert_allclose(pair.rows_of_parents, [real[n] for n in range(4)], atol=30)
    _, trips = pair.sample()
    drawn = Counter(Counter(trips["people_id"].to_pylist()).values())
    assert all(abs(drawn[n] - real[n]) < 40 for n in (1, 2, 3))


def test_rows_follow_their_owner(pair: Any) -> None:
    """In the source a trip is by car if, and only if, its owner lives in no town."""
    parents, trips = pair.sample()
    in_town = parents["town"].to_numpy(zero_copy_only=False)
    owners = trips["people_id"].to_numpy() - 1
    by_car = trips["by_car"].to_numpy(zero_copy_only=False)
    assert np.mean(by_car != in_town[owners]) > 0.97


def test_rows_follow_a_date_of_their_owner_in_wide_bins(con: Any) -> None:
    """In the source the length of a trip is the eighth of the period in which its owner began.
    Drawn days fall into 64 bins, four of which lie across two eighths: 0.9 leaves room for them;
    without the link a third of the trips would agree."""
    made = con.synthesize_linked("people", "trips", epsilon=300, columns={"people": ["begun"]})
    parents, trips = made.sample()
    owners = trips["people_id"].to_numpy() - 1
    days = np.array([(day - FIRST_DAY).days for day in parents["begun"].to_pylist()])
    assert np.mean(trips["length"].to_numpy() == 1 + days[owners] // DAYS_A_LENGTH) > 0.9
    page = made.report()
    assert "Values of trips follow begun (in 8 ranges) of their person" in page
    assert "one person at most 3 trips" in page
    assert "people: person, age, work, town, sport, pay, ended, hobby, note; trips: trip" in page


@pytest.mark.parametrize("bins", [8, 30, 64])
def test_codes_of_wide_bins_are_those_of_the_first_value(con: Any, bins: int) -> None:
    """The oracle encodes the first value of every bin anew."""
    analyses = con._kernel.version.analyses
    table = find_table(con.catalog, "people")
    for name in ("pay", "begun"):
        ((narrow, _),) = make_codes(table, (name,), analyses, {name: bins}, {})
        ((wide, _),) = make_codes(table, (name,), analyses, {name: LINK_BINS}, {})
        codes = np.arange(narrow.size, dtype=np.int32)
        first = narrow.decode(codes, np.zeros(len(codes)))
        expected = wide.encode(pa.chunked_array([first]))
        assert narrow.find_wider_codes(wide).tolist() == expected.tolist()


def test_a_parent_of_many_labels_alone_is_refused() -> None:
    labels = ", ".join(f"l{number}" for number in range(600))
    catalog = parse(
        write_head("many", "many", "pid: {protected: true}")
        + write_private_head("t", "{column: pid}", 1)
        + f"      pid: {{type: id}}\n      a: {{type: category, values: [{labels}], "
        + "other: drop, nulls: drop}\n"
    )
    with pytest.raises(ParameterError, match="at most 512 values"):
        plan_linked(catalog, Analyses(catalog), "t", "t", {}, "aim", {})


def test_what_cannot_be_linked_is_refused(con: Any) -> None:
    before = con.budget().pots[0].spent
    with pytest.raises(ParameterError, match="one row for each"):
        con.synthesize_linked("trips", "people", epsilon=1)
    assert con.budget().pots[0].spent == before


def test_the_page_says_what_rows_follow(pair: Any, tmp_path: Path) -> None:
    page = pair.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    assert "Values of trips follow town, sport, age of their person" in page
    assert page.count("What is private about it</h2>") == 1
    columns = page.split("<h2>trips: Columns")[1].split("<h2>trips: Expected")[0]
    assert "by_car" in columns and "owner_" not in columns
    assert pair.certificate()["links"] == list(pair.links)


def test_saved_linked_tables_give_the_same_rows_again(pair: Any, tmp_path: Path) -> None:
    pair.save(tmp_path / "pair.json")
    again = load_linked(tmp_path / "pair.json")
    assert all(a.equals(b) for a, b in zip(again.sample(), pair.sample(), strict=True))
    assert again.key == pair.key
