"""Answers beside rows of public tables: joined after they were released, and one noisy number for
each public row in a condition. At a price without noise they are what an engine says."""

from __future__ import annotations

import datetime

import duckdb
import pytest

from dither import ParameterError, QueryError, RefusedError, connect, steward
from dither.catalog import load
from dither.privacy.kernel.public_rows import read_public_rows
from dither.rules import PrivacyRule
from dither.state import State
from tests.datasets.catalog_texts import write_head, write_private_head
from tests.datasets.regional_clinic import PURPOSE

CATALOG = (
    write_head("shop", "nobody", "person: {protected: true}")
    + write_private_head("lines", "{column: person}", 4)
    + """\
      person: {type: id}
      part:   {type: integer, bounds: [1, 5000], nulls: drop, provenance: the test}
      quantity: {type: integer, bounds: [1, 50], nulls: drop, provenance: the test}
      price:  {type: integer, bounds: [0, 100], nulls: drop, provenance: the test}
  parts:
    kind: public
    from: parts.csv
    unique: [[part_id]]
    columns:
      part_id: {type: integer, bounds: [1, 5000], nulls: drop, provenance: the test}
      brand:   {type: text, width: 8, nulls: drop}
      weight:  {type: decimal, bounds: [0, 9], resolution: 0.01, nulls: keep, provenance: the test}
      made:    {type: date, bounds: [2020-01-01, 2020-12-31], nulls: drop, provenance: the test}
      colour:  {type: category, values: [red, blue], other: keep, nulls: keep}
      sold:    {type: boolean, nulls: drop}
"""
)
PARTS = [
    (1, "a", "0.25", "2020-01-01", "red", "true"),
    (20, "a", "", "2020-02-29", "blue", "false"),
    (300, "b", "2.5", "2020-03-01", "green", "true"),
    (4000, "b", "9", "2020-12-31", "", "true"),
]
BEST = (
    "WITH totals (part_no, total) AS (SELECT part, SUM(price) FROM lines WHERE part < 1000 "
    "GROUP BY part) SELECT part_id, brand, weight, made, colour, sold, total FROM parts, totals "
    "WHERE part_id = part_no AND total = (SELECT MAX(total) FROM totals) ORDER BY part_id"
)
BY_PART = (
    "SELECT SUM(price) AS s FROM lines, parts WHERE part_id = part AND brand = 'a' AND quantity < "
    "(SELECT 0.5 * AVG(quantity) FROM lines WHERE part = part_id)"
)
JOINED = (
    "SELECT p.brand, t.n FROM (SELECT colour, COUNT(*) AS n FROM lines JOIN parts ON part = part_id"
    " GROUP BY colour) t JOIN parts AS p ON t.colour = p.colour AND p.part_id < 100 ORDER BY 1, 2"
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A connection whose prices leave no noise, and an engine with the same rows."""
    folder = tmp_path_factory.mktemp("shop")
    lines = [(f"p{i}", (1, 20, 300, 4000)[i % 4], i % 50 + 1, i * 7 % 100) for i in range(200)]
    write(folder / "lines.csv", "person,part,quantity,price", lines)
    write(folder / "parts.csv", "part_id,brand,weight,made,colour,sold", PARTS)
    file = folder / "shop.yaml"
    file.write_text(CATALOG)
    steward.register(file)
    steward.open_pot(
        State.beside(file),
        load(file),
        "total",
        epsilon="9000000",
        ceiling="10000000",
        purpose=PURPOSE,
    )
    bare = duckdb.connect()
    bare.execute(f"CREATE TABLE lines AS SELECT * FROM '{folder / 'lines.csv'}'")
    bare.execute(
        "CREATE TABLE parts AS SELECT part_id, brand, weight, made, CASE WHEN colour IN ('red', "
        "'blue') THEN colour WHEN colour <> '' THEN 'other' END AS colour, sold FROM "
        f"'{folder / 'parts.csv'}'"
    )
    return connect(file), bare


def write(file, head, rows):
    file.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.mark.parametrize(
    "sql",
    [pytest.param(BEST, marks=pytest.mark.all), BY_PART, JOINED],
    ids=["best", "by_part", "joined"],
)
def test_an_answer_without_noise_is_that_of_an_engine(shop, sql):
    con, bare = shop
    answer = con.sql(sql, epsilon=300_000).to_dict(intervals=False)
    cursor = bare.execute(sql)
    names = [column[0] for column in cursor.description]
    rows = cursor.fetchall()
    assert rows and list(answer) == names
    assert [tuple(map(plain, row)) for row in zip(*answer.values(), strict=True)] == [
        tuple(map(plain, row)) for row in rows
    ]


def plain(value):
    is_exact = value is None or isinstance(value, (str, bool, datetime.date))
    return value if is_exact else round(float(value))


def test_a_preview_prices_both_parts_and_reads_public_rows_alone(shop):
    con, _ = shop
    preview = con.preview(BY_PART, epsilon=2)
    assert preview.price == 2
    assert [column.name for column in preview.columns] == ["AVG(quantity)", "s"]
    assert "waits for the number of another answer" in preview.columns[1].notes[-1]


def test_public_rows_come_in_their_own_units(shop):
    con, bare = shop
    rows = con._curator.read_public("parts")
    expected = bare.execute("SELECT * FROM parts ORDER BY part_id").fetchall()
    found = sorted(zip(*rows.to_pydict().values(), strict=True))
    assert found == expected


def test_rows_of_people_are_never_read_so(shop):
    con, _ = shop
    with pytest.raises(RefusedError, match="lines is not public") as caught:
        read_public_rows(con._kernel, con._kernel.version, "lines")
    assert caught.value.rule is PrivacyRule.REGISTERED_TABLES


def test_more_rows_than_the_bound_are_not_handed_out(shop, monkeypatch):
    from dither.privacy.kernel import public_rows

    con, _ = shop
    monkeypatch.setattr(public_rows, "MOST_PUBLIC_ROWS", 3)
    with pytest.raises(RefusedError, match="more than 3 rows"):
        read_public_rows(con._kernel, con._kernel.version, "parts")


@pytest.mark.parametrize(
    "sql",
    [
        BY_PART.replace("AND brand = 'a' ", "").replace("part = part_id)", "part < part_id)"),
        BY_PART.replace("WHERE part = part_id)", "WHERE part = part_id OR quantity = 3)"),
        BY_PART.replace("FROM lines, parts", "FROM lines l, lines m, parts"),
        "SELECT COUNT(*) FROM lines, parts WHERE quantity > (SELECT AVG(quantity) FROM lines "
        "WHERE part = part_id AND weight > 1)",
        "SELECT t.n FROM (SELECT COUNT(*) AS n FROM lines) t, lines",
    ],
)
def test_other_ties_to_outer_rows_stay_refused(shop, sql):
    con, _ = shop
    before = con.budget().pots[0].spent
    with pytest.raises(QueryError):
        con.sql(sql, epsilon=1)
    assert con.budget().pots[0].spent == before


def test_limits_are_bought_for_the_one_part_of_a_question_over_its_answer(shop):
    con, _ = shop
    limits = con.suggest("limits", BEST, epsilon=100)
    result = con.sql(BEST, epsilon=900, limits=limits)
    assert "clamped" in str(result.columns[0].limits)
    with pytest.raises(ParameterError, match="computed from several"):
        con.sql(BY_PART, epsilon=1, limits=limits)
