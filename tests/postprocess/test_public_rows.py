"""Answers beside rows of public tables: joined after they were released, and one noisy number for
each public row in a condition. At a price without noise they are what an engine says."""

from __future__ import annotations

import datetime
from fractions import Fraction

import duckdb
import pytest

from dither import ParameterError, QueryError, RefusedError, connect, steward
from dither.catalog import load
from dither.postprocess.stabilised_averages import stabilise_averages
from dither.privacy.kernel.public_rows import read_public_rows
from dither.question.unit_limits import PartLimits
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
    with pytest.raises(ParameterError, match="computed from 2 answers, and limits= are for others"):
        con.sql(BY_PART, epsilon=1, limits=limits)


def test_limits_of_parts_are_bought_once_and_charged_as_announced(shop):
    con, _ = shop
    before = con.budget().pots[0].spent
    limits = con.suggest("limits", BY_PART, epsilon=10_000)
    assert con.budget().pots[0].spent - before == Fraction(limits.info["charged"]) <= 10_000
    assert con.suggest("limits", BY_PART, epsilon=10_000).limits == limits.limits
    assert [name for name, _ in limits.limits.parts] == ["part_1", "part_2"]
    words = limits.lines()
    assert words[0].startswith("part_1: COUNT(*): one person adds 0 to ")
    assert any(line.startswith("part_2: SUM(price): one person adds") for line in words)
    before = con.budget().pots[0].spent
    preview = con.preview(BY_PART, epsilon=90, limits=limits)
    result = con.sql(BY_PART, epsilon=90, limits=limits)
    spent = con.budget().pots[0].spent - before
    assert spent == preview.charged.amount == Fraction(result.info["charged"]) <= 90
    assert "SUM(price) of a group clamped to" in "; ".join(result.answers[1].columns[0].limits)
    assert "at most 1 groups per person" in result.answers[0].columns[1].limits
    again = con.sql(BY_PART, epsilon=90, limits=limits)
    assert again.to_dict() == result.to_dict()
    assert con.budget().pots[0].spent - before == spent


def test_a_part_is_limited_where_another_waits_for_no_average(shop):
    """What COUNT(*) gives has no public middle: the part that compares with it has no limits."""
    con, _ = shop
    sql = "SELECT SUM(price) AS s FROM lines WHERE quantity < (SELECT COUNT(*) / 9 FROM lines)"
    limits = con.suggest("limits", sql, epsilon=1).limits
    assert [(name, own is None) for name, own in limits.parts] == [
        ("part_1", False),
        ("part_2", True),
    ]
    con.sql(sql, epsilon=1, limits=limits)


def test_limits_hold_where_the_number_narrows_what_is_averaged(shop):
    """At a price without noise. The two rows without a price have the quantity 1, and 4.5 narrows
    the bounds of the quantity that the middle between them stands for: part 1 would be paid, and
    part 2 refused."""
    con, _ = shop
    sql = (
        "SELECT AVG(quantity) AS a FROM lines WHERE quantity < "
        "(SELECT 4.5 * AVG(quantity) FROM lines WHERE price < 1)"
    )
    limits = con.suggest("limits", sql, epsilon=1000)
    assert limits.limits.parts[1][1].clamps[1].aggregate == "SUM(quantity - 25)"
    before = con.budget().pots[0].spent
    result = con.sql(sql, epsilon=300_000, limits=limits)
    assert con.budget().pots[0].spent - before == Fraction(result.info["charged"])
    assert result.to_dict()["a"][0] == pytest.approx(2.5, abs=0.1)


@pytest.mark.parametrize(
    ("limits", "sql", "words"),
    [
        (PartLimits((("part_1", None),)), BY_PART, "limits= are for others"),
        (PartLimits((("part_1", None), ("part_2", 3))), BY_PART, "takes what con.suggest bought"),
        (PartLimits((("part_1", None),)), "SELECT COUNT(*) FROM lines", "asked in parts"),
    ],
)
def test_limits_of_other_parts_are_refused_before_anything_is_spent(shop, limits, sql, words):
    con, _ = shop
    before = con.budget().pots[0].spent
    with pytest.raises(ParameterError, match=words):
        con.sql(sql, epsilon=1, limits=limits)
    with pytest.raises(ParameterError, match=words):
        con.preview(sql, epsilon=1, limits=limits)
    assert con.budget().pots[0].spent == before


def test_a_rehearsal_of_parts_with_limits_is_free(shop):
    con, _ = shop
    limits = con.suggest("limits", BY_PART, epsilon=10)
    before = con.budget().pots[0].spent
    assert con.sql(BY_PART, epsilon=90, limits=limits, dry_run=True).notes
    assert con.budget().pots[0].spent == before


def test_the_condition_has_stabilised_averages_and_the_answer_those_that_were_released(shop):
    con, _ = shop
    result = con.sql(BY_PART, epsilon=20)  # noise that keeps averages off their bounds
    assert any("drawn towards the average of all groups" in note for note in result.notes)
    first = result.answers[0]
    released = first.to_dict(intervals=False)["AVG(quantity)"]
    stabilised = stabilise_averages(first).column("AVG(quantity)").to_pylist()
    keys = first.table.column("code_of_row").to_pylist()
    assert released != stabilised
    for key, value, drawn in zip(keys, released, stabilised, strict=True):
        assert value == drawn if key is None else 1 <= drawn <= 50
        if key is not None:
            assert f"THEN {0.5 * drawn:.6f}" in result.answers[1].info["sql"]
    assert stabilise_averages(first).equals(stabilise_averages(first))


def test_one_average_of_all_rows_is_compared_with_as_it_was_released(shop):
    con, _ = shop
    sql = "SELECT COUNT(*) AS n FROM lines WHERE quantity < (SELECT AVG(quantity) FROM lines)"
    result = con.sql(sql, epsilon=1)
    assert not result.notes
    released = result.answers[0].to_dict(intervals=False)["AVG(quantity)"][0]
    assert f"{released:.6f}" in result.answers[1].info["sql"]
