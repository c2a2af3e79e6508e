"""Parameters: values are written into the text as constants, and can be nothing else."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import duckdb
import pytest

from dither import ParameterError, connect
from dither.sql.parameters import write_parameters
from dither.sql.parse import parse
from tests.datasets import clinic

VALUES = [
    0,
    -7,
    10**30,
    2.5,
    -1e-7,
    1e22,
    Decimal("12.30"),
    True,
    False,
    "",
    "it's",
    "a -- b",
    "'; DROP TABLE visits; --",
    "\\' OR 1=1",
    "$1 ? :a",
    "ä\u202e",
    datetime.date(2024, 2, 29),
    datetime.datetime(2024, 2, 29, 23, 59, 58),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize(
    ("sql", "wrap"),
    [("SELECT ?", lambda v: [v]), ("SELECT $1", lambda v: [v]), ("SELECT :a", lambda v: {"a": v})],
)
def test_a_value_is_the_constant_that_duckdb_would_take(value, sql, wrap):
    """The oracle is DuckDB's own binding of the same value."""
    literal = write_parameters(sql, wrap(value)).removeprefix("SELECT ")
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT {literal} = ?", [value]).fetchall() == [(True,)]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_stays_one_constant(value):
    """Whatever a text holds, the question has the same shape as with the value 1."""
    tree = parse(write_parameters("SELECT COUNT(*) FROM t WHERE a = ? AND b -? > 1", [value, 2]))
    shape = parse("SELECT COUNT(*) FROM t WHERE a = 1 AND b -2 > 1")
    assert [type(term) for term in tree.args["where"].this.flatten()] == [
        type(term) for term in shape.args["where"].this.flatten()
    ]
    assert tree.args["from_"] == shape.args["from_"] and len(tree.expressions) == 1


def test_what_looks_like_a_parameter_is_none():
    sql = "SELECT '?', \"a?\", x::int, y[1:2], {'k': 1} FROM t -- ?"
    assert write_parameters(sql, []) == sql


def test_named_values_may_be_used_twice():
    assert write_parameters("a > :x AND b < :x AND c = $y", {"x": 1, "y": 2}) == (
        "a > 1 AND b < 1 AND c = 2"
    )


@pytest.mark.parametrize(
    ("sql", "params", "message"),
    [
        ("SELECT ?", [], "no value for 1"),
        ("SELECT ?", [1, 2], "no parameter 2"),
        ("SELECT :a", {"b": 1}, "no value for a, no parameter b"),
        ("SELECT ?", [None], "IS NULL"),
        ("SELECT ?", [math.inf], "finite"),
        ("SELECT ?", [math.nan], "finite"),
        ("SELECT ?", [10**60], "60 digits"),
        ("SELECT ?", [1e-70], "60 digits"),
        ("SELECT ?", [b"a"], "no constant"),
        ("SELECT ?", [[1]], "no constant"),
        ("SELECT ?", ["\ud800"], "no Unicode"),
        ("SELECT ?", [datetime.datetime(2024, 1, 1, microsecond=5)], "whole seconds"),
        ("SELECT ?", "a", "a list of values"),
        ("SELECT ?", 3, "a list of values"),
    ],
)
def test_a_value_that_is_no_constant_is_refused(sql, params, message):
    with pytest.raises(ParameterError, match=message):
        write_parameters(sql, params)


@pytest.fixture
def con(tmp_path):
    rows = [clinic.row(f"v{i}", f"p{i}", ward="north", cost="100") for i in range(50)]
    file, place = clinic.register(tmp_path, rows)
    clinic.open_total(place)
    return connect(file)


def test_the_stored_question_has_its_values_written_out(con):
    sql = "SELECT COUNT(*) AS n FROM visits WHERE cost > ? AND ward = ?"
    result = con.sql(sql, epsilon=1, params=[10, "north"])
    written = "SELECT COUNT(*) AS n FROM visits WHERE cost > 10 AND ward = 'north'"
    assert result.info["sql"] == written
    again = con.sql(written, epsilon=1)
    assert again.info["repeated"] and again.to_dict() == result.to_dict()
    named = sql.replace("> ?", "> :least").replace("= ?", "= $ward")
    values = {"least": 10, "ward": "north"}
    assert con.preview(named, epsilon=1, params=values).stored
    assert written in str(con.explain(named, epsilon=1, params=values))


def test_a_parameter_without_a_value_costs_nothing(con):
    with pytest.raises(ParameterError):
        con.sql("SELECT COUNT(*) FROM visits WHERE cost > ?", epsilon=1, params=[])
    assert [pot.spent for pot in con.budget().pots] == [0]
