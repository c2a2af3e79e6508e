"""Questions in SQL: what they bind to, and what an error says."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dither import QueryError
from dither.catalog import parse
from dither.plan.algebra import (
    And,
    Cells,
    Compare,
    Count,
    CountUnits,
    Filter,
    IsNull,
    Join,
    Not,
    Or,
    PerUnit,
    Scan,
    Sum,
)
from dither.plan.analyse import analyse
from dither.plan.facts import Facts
from dither.question.expressions import Apply, Constant, Grouping, KeyValue, Noisy
from dither.question.recipe import GroupingSet
from dither.sql.bind import bind
from tests.datasets import clinic, hospital, shop

FACTS = clinic.catalog()
HOSPITAL = hospital.catalog()
PUBLIC = Facts(
    (("counties", ("county",), 1), ("counties", ("region",), 2), ("wards", ("county",), 2)),
    (("counties", "county", ("ash", "elm", "oak")),),
)


def condition(where: str):
    plan = bind(f"SELECT COUNT(*) FROM visits WHERE {where}", FACTS).queries[0].plan
    assert isinstance(plan, Filter)
    return plan.condition


def test_a_question_becomes_one_query_with_a_column_per_distinct_aggregate():
    recipe = bind(
        "SELECT ward AS station, COUNT(*) AS n, SUM(cost), COUNT(*) AS again FROM visits GROUP BY "
        "ward",
        FACTS,
    )
    scan = Scan("visits")
    assert recipe.queries == (Cells(scan, ("ward",), (Count(), Sum("cost"))),)
    assert [(output.name, output.role, output.formula) for output in recipe.outputs] == [
        ("station", "key", KeyValue(0)),
        ("n", "value", Noisy(0)),
        ("sum_cost", "value", Noisy(1)),
        ("again", "value", Noisy(0)),
    ]
    assert recipe.sets == (GroupingSet((0,), None, ((0, 0), (0, 1))),)
    assert [atom.aggregate for atom in recipe.atoms] == ["COUNT(*)", "SUM(cost)"]
    assert recipe.atoms[1].unit == Fraction(1, 100) and recipe.atoms[1].display == "number"
    assert recipe.atoms[1].limits == ("at most 3 rows per person", "cost clamped to [-10, 500]")


@pytest.mark.parametrize(
    ("where", "meaning"),
    [
        ("age >= 18", Compare("age", ">=", Fraction(18))),
        ("18 <= age", Compare("age", ">=", Fraction(18))),
        ("AGE > -1.5", Compare("age", ">", Fraction(-3, 2))),
        ("cost = 0.1", Compare("cost", "=", Fraction(1, 10))),
        ("cost > 1 + 2 * 3", Compare("cost", ">", Fraction(7))),
        ("ward = 'north'", Compare("ward", "=", "north")),
        ("ward <> 'other'", Compare("ward", "<>", "other")),
        ("urgent", Compare("urgent", "=", Fraction(1))),
        ("NOT urgent", Not(Compare("urgent", "=", Fraction(1)))),
        ("urgent = FALSE", Compare("urgent", "=", Fraction(0))),
        ("day < DATE '2024-02-01'", Compare("day", "<", Fraction(19754))),
        ("day < '2024-02-01'", Compare("day", "<", Fraction(19754))),
        ("day < DATE '2024-01-01' + INTERVAL 1 MONTH", Compare("day", "<", Fraction(19754))),
        ("cost IS NULL", IsNull("cost")),
        ("cost IS NOT NULL", Not(IsNull("cost"))),
        (
            "age BETWEEN 1 AND 2",
            And((Compare("age", ">=", Fraction(1)), Compare("age", "<=", Fraction(2)))),
        ),
        ("kind IN ('a', 'b')", Or((Compare("kind", "=", "a"), Compare("kind", "=", "b")))),
    ],
)
def test_conditions(where, meaning):
    assert condition(where) == meaning


def test_where_narrows_the_bounds_of_what_is_summed():
    recipe = bind("SELECT SUM(cost) FROM visits WHERE cost <= 20 AND cost >= 10", FACTS)
    assert recipe.atoms[0].limits[1] == "cost clamped to [10, 20]"


def test_tables_meet_by_owner_which_the_plan_does_not_name():
    sql = "SELECT sex, COUNT(*) FROM patients p JOIN visits v ON p.person = v.person GROUP BY sex"
    (query,) = bind(sql, HOSPITAL, PUBLIC).queries
    assert query.plan == Join(Scan("patients"), Scan("visits"), (), "inner")
    assert analyse(query.plan, HOSPITAL, PUBLIC).node.rows == 3


def test_a_foreign_key_is_as_good_as_the_owner_and_keeps_the_childs_limit():
    sql = "SELECT COUNT(*) FROM visits v JOIN items i ON v.visit = i.visit"
    (query,) = bind(sql, HOSPITAL, PUBLIC).queries
    assert query.plan == Join(Scan("visits"), Scan("items"), (("visit", "visit"),), "inner")
    assert analyse(query.plan, HOSPITAL, PUBLIC).node.rows == 4


def test_per_person_first_has_one_row_per_person():
    sql = "SELECT AVG(n) FROM (SELECT person, LEAST(COUNT(*), 2) AS n FROM visits GROUP BY person)"
    recipe = bind(sql, HOSPITAL, PUBLIC)
    inner = recipe.queries[0].plan
    while not isinstance(inner, PerUnit):
        inner = inner.source
    assert inner == PerUnit(Scan("visits"), (), inner.columns)
    assert analyse(recipe.queries[0].plan, HOSPITAL, PUBLIC).node.rows == 1
    assert [query.columns for query in recipe.queries] == [(Count(), Sum("value"))]


def test_grouping_sets_share_atoms_and_have_queries_of_their_own():
    recipe = bind(
        "SELECT ward, GROUPING(ward) AS g, COUNT(*) FROM visits GROUP BY ROLLUP (ward)", FACTS
    )
    assert recipe.sets == (GroupingSet((0,), None, ((0, 0),)), GroupingSet((), None, ((1, 0),)))
    assert recipe.outputs[1].formula == Grouping(0) and recipe.outputs[1].role == "key"


def test_having_order_and_limit_are_formulas_over_the_same_atoms():
    sql = (
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward HAVING n > 5 ORDER BY "
        "SUM(cost) / n DESC, 1 LIMIT 2 OFFSET 1"
    )
    recipe = bind(sql, FACTS)
    assert recipe.having == Apply("gt", (Noisy(0), Constant(Fraction(5))))
    assert [(order.formula, order.descending, order.nulls_first) for order in recipe.order] == [
        (Apply("divide", (Noisy(1), Noisy(0))), True, False),
        (KeyValue(0), False, False),
    ]
    assert (recipe.limit, recipe.offset, [len(query.columns) for query in recipe.queries]) == (
        2,
        1,
        [2],
    )


def test_public_keys_become_a_key_list():
    sql = (
        "SELECT c.county, COUNT(v.visit) AS n FROM counties c LEFT JOIN visits v ON "
        "v.county = c.county GROUP BY c.county"
    )
    recipe = bind(sql, HOSPITAL, PUBLIC)
    assert recipe.keys[0].domain.labels == ("ash", "elm", "oak", "other")
    key = KeyValue(0)
    assert recipe.having == Apply(
        "and", (Apply("not", (Apply("is_null", (key,)),)), Apply("ne", (key, Constant("other"))))
    )


def test_labels_of_a_case_are_keys():
    recipe = bind(
        "SELECT CASE WHEN age < 18 THEN 'young' ELSE 'old' END AS g, COUNT(*) FROM visits GROUP BY "
        "g",
        FACTS,
    )
    assert recipe.keys[0].column == "g" and recipe.keys[0].domain.labels == ("young", "old")


def test_first_days_of_months_are_keys_and_no_other_days():
    recipe = bind(
        "SELECT date_trunc('month', day) AS m, COUNT(*) FROM visits WHERE day >= '2024-10-15' "
        "GROUP BY m",
        FACTS,
    )
    assert recipe.keys[0].dated
    assert recipe.keys[0].domain.labels == ("2024-10-01", "2024-11-01", "2024-12-01")
    assert not recipe.keys[0].domain.nullable  # a day that is compared is not null


ERRORS = [
    ("", "the question is empty: write SELECT COUNT(*) FROM table"),
    ("SELECT COUNT(*) FROM visits; DROP TABLE visits",
    "one question at a time: remove everything after the first ';'"),
    ("DELETE FROM visits", "only SELECT is answered, not DELETE: questions never change data"),
    ("SELECT COUNT(*) FROM visit",
    "no table visit: did you mean visits?\n  SELECT COUNT(*) FROM visit\n                "
        "       ^^^^^"),
    ("SELECT SUM(cots) FROM visit",
    "no table visit: did you mean visits?\n  SELECT SUM(cots) FROM visit\n               "
        "         ^^^^^"),
    ("SELECT SUM(cots) FROM visits",
    "no column cots in visits: did you mean cost?\n  SELECT SUM(cots) FROM visits\n      "
        "       ^^^^"),
    ("SELECT SUM(v.cots) FROM visits v",
    "no column cots in v: did you mean cost?\n  SELECT SUM(v.cots) FROM visits v\n       "
        "      ^^^^^^"),
    ("SELECT SUM(w.cost) FROM visits v",
    "no table w in this FROM: there are v\n  SELECT SUM(w.cost) FROM visits v\n          "
        "   ^^^^^^"),
    ("SELECT age FROM visits",
    "a column that is neither a key nor inside an aggregate: it has many values "
        "in a group. Instead: add it to GROUP BY, or aggregate it, as in AVG(age) [rule: "
            "only noisy aggregates leave]\n"
     "  SELECT age FROM visits\n         ^^^"),
    ("SELECT patient, COUNT(*) FROM visits",
    "an id outside COUNT(DISTINCT ...), joins and GROUP BY in a subquery: ids name "
        "people or rows, and are never shown, grouped by or computed with. "
     "Instead: COUNT(DISTINCT patient) counts people; GROUP BY patient works inside a subquery "
     "[rule: ids are never read]\n"
     "  SELECT patient, COUNT(*) FROM visits\n         ^^^^^^^"),
    ("SELECT COUNT(*) FROM visits GROUP BY patient", "an id outside COUNT(DISTINCT ...)"),
    ("SELECT COUNT(*) FROM visits WHERE patient = 'p1'", "an id outside COUNT(DISTINCT ...)"),
    ("SELECT COUNT(*) FROM visits WHERE visit = 'v1'", "an id outside COUNT(DISTINCT ...)"),
    ("SELECT COUNT(*) FROM visits WHERE ward = 'nort'",
    "ward has no declared label 'nort': did you mean north?\n"
     "  SELECT COUNT(*) FROM visits WHERE ward = 'nort'\n                                    ^^^^"),
    ("SELECT COUNT(*) FROM visits WHERE ward < 'north'",
    "ward is a category: compare it with = or <>\n"
     "  SELECT COUNT(*) FROM visits WHERE ward < 'north'\n                      "
     "              ^^^^"),
    ("SELECT COUNT(*) FROM visits WHERE ward = 3",
    "ward is a category: compare it with a quoted label\n"),
    ("SELECT COUNT(*) FROM visits WHERE age = '40'", "age is a number: compare it with a number\n"),
    ("SELECT COUNT(*) FROM visits WHERE urgent = 1",
    "urgent is a truth value: compare it with TRUE or FALSE\n"),
    ("SELECT COUNT(*) FROM visits WHERE day = '2024-02-31'",
    "day is a date: compare it with DATE '2026-01-31'\n"),
    ("SELECT COUNT(*) FROM visits WHERE day = DATE '2024-02-31'",
    "'2024-02-31' is no date that can be read"),
    ("SELECT COUNT(*) FROM visits WHERE age",
    "age is no truth value: compare it, as in age = ...\n  SELECT COUNT(*) FROM visits "
        "WHERE age\n                                    ^^^"),
    ("SELECT SUM(ward) FROM visits",
    "SUM needs a number with declared bounds; ward is a category\n  SELECT "
        "SUM(ward) FROM visits\n             ^^^^"),
    ("SELECT MEDIAN(ward) FROM visits",
    "a quantile needs a number, date or timestamp; ward is a category\n  SELECT MEDIAN(ward) FROM "
    "visits\n                ^^^^"),
    ("SELECT ward FROM visits GROUP BY ward",
    "a question without an aggregate: rows are never shown. Instead: add one, "
        "such as COUNT(*) [rule: only noisy aggregates leave]"),
    ("SELECT COUNT(*), COUNT(*) FROM visits",
    "two columns would be called count: rename one with AS"),
    ("SELECT COUNT(*) AS n, SUM(age) AS n_low FROM visits",
    "two columns would be called n_low: rename one with AS"),
    ("SELECT COUNT(*) FROM visits LIMIT ward", "LIMIT and OFFSET take a whole number"),
    ("SELECT COUNT(*) FROM visits ORDER BY 2", "there is no column 2: the positions are 1 to 1"),
    ("SELECT COUNT(*) FROM visits GROUP BY 7", "there is no column 7: the positions are 1 to 1"),
    ("SELECT COUNT(*) FROM visits a JOIN visits a ON a.patient = a.patient",
    "two tables of one name: give one an alias, as in JOIN visits AS b\n"),
    ("SELECT COUNT(*) FROM visits a JOIN visits b ON a.patient = b.patient WHERE age > 3",
    "age is ambiguous: write a.age or b.age\n"),
    ("SELECT SUM(ln(age)) FROM visits",
    "ln is refused: its last digits depend on the machine's libm, and no float goes "
        "towards the noise [rule: a function without a rule is refused]\n"),
    ("SELECT COUNT(*) FROM visits WHERE kind ILIKE 'a%'",
    "ilike is refused: it depends on the engine's version of Unicode or on its collation "
        "[rule: a function without a rule is refused]\n"),
    ("SELECT COUNT(*) FROM visits WHERE day < CURRENT_DATE",
    "current_date is refused: randomness and time come from the kernel, never from a "
        "question [rule: a function without a rule is refused]"),
    ("SELECT ANY_VALUE(age) FROM visits",
    "any_value is refused: its value depends on the order of rows, and so on other people's "
        "rows [rule: a function without a rule is refused]\n"),
    ("SELECT SUM(clmp(age, 0, 3)) FROM visits",
    "no function clmp: did you mean clamp? [rule: a function without a rule is "
        "refused]\n  SELECT SUM(clmp(age, 0, 3)) FROM visits\n             ^^^^^^^^^^^^^^"),
    ("SELECT COUNT(*) FROM visits WHERE kind LIKE '%%%%%%%%%a'",
    "like: the pattern has at most 8 % and no backslash [rule: functions take their "
        "declared arguments]"),
    ("SELECT COUNT(*) FROM visits HAVING COUNT(*)",
    "COUNT(*) is no truth value: compare it, as in COUNT(*) > 0"),
    ("SELECT NOT SUM(age) AS x FROM visits",
    "SUM(age) is no truth value: compare it, as in SUM(age) > 0\n  SELECT NOT SUM(age) "
        "AS x FROM visits\n             ^^^^^^^"),
    ("SELECT SUM(age) FROM visits HAVING", "the question is not SQL"),
    ("SELECT COUNT(*) FRM visits", "the question is not SQL"),
    ("SELECT COUNT(*) FROM visits QUALIFY 1 = 1",
    "window functions: their value depends on the order of rows"),
    ("SELECT COUNT(*) FROM other.visits", "no schema other: the schemas are main and clinic"),
    ("SELECT COUNT(*) FROM (VALUES (1)) t",
    "FROM something that is no registered table or subquery"),
    ("SELECT HISTOGRAM(ward) FROM visits",
    "HISTOGRAM needs a number with declared bounds, not a category: GROUP BY it"),
    ("SELECT SUM(age * age * age * age * age * age * age * age * age * age * age * age * "
     "age * age * age * age * age * age * age) FROM visits",
     "a value could have more than 37 digits: round it, or narrow the bounds it is computed "
         "from [rule: widths come from the catalog]"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "message"), ERRORS, ids=[sql or "empty" for sql, _ in ERRORS])
def test_an_error_names_the_rule_the_place_and_the_remedy(sql, message):
    with pytest.raises(QueryError) as caught:
        bind(sql, FACTS)
    assert str(caught.value).startswith(message), str(caught.value)


def test_an_error_knows_its_place_in_the_text():
    sql = "SELECT ward,\n       SUM(cots)\nFROM visits GROUP BY ward"
    with pytest.raises(QueryError) as caught:
        bind(sql, FACTS)
    assert sql[caught.value.start : caught.value.end] == "cots"


@pytest.mark.parametrize(
    ("sql", "on"),
    [
        ("SELECT COUNT(*) FROM orders o JOIN customers c ON o.o_customer = c.c_key", ()),
        (
            "SELECT COUNT(*) FROM lines l JOIN orders o ON l.l_order = o.o_number AND l.l_year = "
            "o.o_year",
            (("l_order", "o_number"), ("l_year", "o_year")),
        ),
    ],
)
def test_the_owner_is_found_by_keys_of_other_names_and_of_several_columns(sql, on):
    plan = bind(sql, parse(shop.CATALOG)).queries[0].plan
    assert isinstance(plan, Join) and plan.on == on


def test_half_a_key_does_not_lead_to_the_owner():
    with pytest.raises(QueryError, match="a join of two private tables that does not say"):
        bind(
            "SELECT COUNT(*) FROM lines l JOIN orders o ON l.l_order = o.o_number",
            parse(shop.CATALOG),
        )
    counted = (
        bind("SELECT COUNT(DISTINCT o_customer) FROM orders", parse(shop.CATALOG))
        .queries[0]
        .columns
    )
    assert counted == (CountUnits(),)
