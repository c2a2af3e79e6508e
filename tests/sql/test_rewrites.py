"""Ways to write SQL that mean the same: each binds to the very queries of its plain form."""

from __future__ import annotations

import pytest

from dither import QueryError
from dither.catalog import parse
from dither.sql.bind import bind
from dither.sql.parse import parse as parse_text
from dither.sql.rewrites import rewrite
from tests.datasets import clinic, hospital, shop

CLINIC = clinic.catalog()
HOSPITAL = hospital.catalog()
SHOP = parse(shop.CATALOG)
SAME = [
    ("SELECT COUNT(*) FROM main.visits", "SELECT COUNT(*) FROM visits"),
    (f'SELECT COUNT(*) FROM "{CLINIC.dataset}"."visits"', "SELECT COUNT(*) FROM visits"),
    (
        "SELECT main.visits.ward, COUNT(*) FROM main.visits GROUP BY main.visits.ward",
        "SELECT ward, COUNT(*) FROM visits GROUP BY ward",
    ),
    (
        "SELECT ward, COUNT(*) AS n, n * 2 AS m, m + 1 AS k FROM visits GROUP BY ward",
        "SELECT ward, COUNT(*) AS n, COUNT(*) * 2 AS m, COUNT(*) * 2 + 1 AS k FROM visits "
        "GROUP BY ward",
    ),
    ("SELECT VAR(cost) AS v FROM visits", "SELECT VARIANCE(cost) AS v FROM visits"),
    ("SELECT VARIANCE_POP(cost) AS v FROM visits", "SELECT VAR_POP(cost) AS v FROM visits"),
    ("SELECT STD(cost) AS v FROM visits", "SELECT STDDEV(cost) AS v FROM visits"),
    (
        "SELECT TOP 2 ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC",
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2",
    ),
    (
        "SELECT TOP (2) ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC",
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 2",
    ),
    (
        "SELECT TOP 2 ward, COUNT(*) // 7 AS n FROM visits GROUP BY ward ORDER BY ward",
        "SELECT ward, COUNT(*) // 7 AS n FROM visits GROUP BY ward ORDER BY ward LIMIT 2",
    ),
    ("SELECT VAR(cost * PI()) AS v FROM visits", "SELECT VAR(cost * 3.14159265) AS v FROM visits"),
    (
        "WITH visits AS (SELECT * FROM main.visits WHERE urgent) SELECT COUNT(*) FROM visits",
        "WITH t AS (SELECT * FROM visits WHERE urgent) SELECT COUNT(*) FROM t",
    ),
]


@pytest.mark.parametrize(("written", "plain"), SAME)
def test_a_question_binds_as_its_plain_form(written, plain):
    assert bind(written, CLINIC).queries == bind(plain, CLINIC).queries
    formulas = [output.formula for output in bind(written, CLINIC).outputs]
    assert formulas == [output.formula for output in bind(plain, CLINIC).outputs]
    assert bind(written, CLINIC).limit == bind(plain, CLINIC).limit
    assert bind(written, CLINIC).order == bind(plain, CLINIC).order


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) FROM lines l, orders o, customers c WHERE o.o_customer = c.c_key "
        "AND l.l_order = o.o_number AND l.l_year = o.o_year AND vip",
        "SELECT COUNT(*) FROM lines l, customers c, orders o WHERE l_order = o_number "
        "AND vip AND c_key = o_customer AND l_year = o_year",
    ],
)
def test_tables_in_a_list_are_joined_by_the_equalities_of_where(sql):
    joined = (
        "SELECT COUNT(*) FROM lines l JOIN orders o ON l.l_order = o.o_number "
        "AND l.l_year = o.o_year JOIN customers c ON c.c_key = o.o_customer WHERE vip"
    )
    assert bind(sql, SHOP).queries == bind(joined, SHOP).queries


def test_a_table_that_nothing_ties_is_refused():
    with pytest.raises(QueryError, match="no equality of WHERE ties"):
        bind("SELECT COUNT(*) FROM orders o, customers c WHERE vip", SHOP)


def test_an_equality_across_a_list_is_no_less_than_a_join():
    """A list of tables without the owner's equality stays refused, whatever else is equal."""
    with pytest.raises(QueryError):
        bind("SELECT COUNT(*) FROM orders o, customers c WHERE o.paid = c.vip", SHOP)


def test_two_tables_of_one_name_are_refused():
    with pytest.raises(QueryError, match="no equality of WHERE ties"):
        bind(
            "SELECT COUNT(*) FROM orders o, lines c, customers c WHERE o.o_customer = c.c_key "
            "AND c.c_key = o.o_customer",
            SHOP,
        )


def test_tables_in_a_list_keep_their_order_where_it_is_shown():
    joined = (
        "SELECT COUNT(*) FROM (SELECT * FROM lines l, {} WHERE o.o_customer = c.c_key "
        "AND l.l_order = o.o_number AND l.l_year = o.o_year) AS t WHERE vip"
    )
    assert bind(joined.format("orders o, customers c"), SHOP).queries
    with pytest.raises(QueryError, match="no equality of WHERE ties"):
        bind(joined.format("customers c, orders o"), SHOP)


def test_a_natural_join_of_three_tables_names_all_columns_that_they_share():
    changed = hospital.catalog(**{"      level:  {": "      beds:  {"})
    sql = "SELECT COUNT(*) FROM visits NATURAL JOIN counties NATURAL JOIN wards"
    joins = rewrite(parse_text(sql), changed).args["joins"]
    shared = [[name.name for name in join.args["using"]] for join in joins]
    assert shared == [["county"], ["beds", "county"]]


def test_a_natural_join_names_the_columns_that_both_sides_have():
    natural = bind("SELECT COUNT(*) FROM patients NATURAL JOIN visits", HOSPITAL)
    using = bind("SELECT COUNT(*) FROM patients JOIN visits USING (person)", HOSPITAL)
    assert natural.queries == using.queries


@pytest.mark.parametrize("name", ["other.visits", '"main"."nothing"', "main.nothing.visits"])
def test_another_schema_is_refused(name):
    with pytest.raises(QueryError):
        bind(f"SELECT COUNT(*) FROM {name}", CLINIC)


def test_a_table_whose_name_is_given_to_another_is_not_read_for_it():
    with pytest.raises(QueryError):
        bind(
            "WITH visits AS (SELECT * FROM main.visits WHERE urgent) SELECT COUNT(*) "
            "FROM main.visits",
            CLINIC,
        )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT TOP 2 WITH TIES ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n",
        "SELECT TOP 2 PERCENT ward, COUNT(*) AS n FROM visits GROUP BY ward",
        "SELECT TOP 2 ward, COUNT(*) AS n FROM visits GROUP BY ward LIMIT 3",
        "SELECT TOP 99999999999999999999 ward, COUNT(*) AS n FROM visits GROUP BY ward",
    ],
)
def test_more_than_a_number_of_rows_after_top_is_refused(sql):
    with pytest.raises(QueryError):
        bind(sql, CLINIC)


def test_a_column_goes_before_an_output_of_the_same_name():
    recipe = bind("SELECT COUNT(*) AS cost, SUM(cost) AS s FROM visits", CLINIC)
    plain = bind("SELECT COUNT(*) AS n, SUM(cost) AS s FROM visits", CLINIC)
    assert recipe.queries == plain.queries


def test_a_name_that_doubles_itself_is_not_written_out_for_ever():
    outputs = ["COUNT(*) AS a0", *(f"a{i} + a{i} AS a{i + 1}" for i in range(40))]
    with pytest.raises(QueryError):
        bind(f"SELECT {', '.join(outputs)} FROM visits", CLINIC)


def test_the_name_of_a_weekday_is_a_key_of_seven_labels():
    named = bind("SELECT DAYNAME(day) AS d, COUNT(*) AS n FROM visits GROUP BY d", CLINIC)
    cases = " ".join(
        f"WHEN EXTRACT(dow FROM day) = {number} THEN '{label}'"
        for number, label in enumerate(
            ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
        )
    )
    plain = bind(f"SELECT CASE {cases} END AS d, COUNT(*) AS n FROM visits GROUP BY d", CLINIC)
    assert named.queries == plain.queries
