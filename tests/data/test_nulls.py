"""Nulls of integers are integers in the copy and in every lowered plan; owners are numbers. Each
slip is planted."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from dither.catalog import parse
from dither.data.lower import aggregates, join, limit_groups, nulls, union_all
from dither.data.lower.cells import query_sql
from dither.data.register import registration
from dither.plan import algebra as a
from dither.plan.algebra import Call, Cells, Column, Count, Named, Scan, Sum
from dither.plan.analyse import analyse
from tests.case_lists import mark_between
from tests.datasets import hospital
from tests.neighbours import measured

PEOPLE = [hospital.patient("p1"), hospital.patient("p2", sex=None, born=None)]
VISITS = [
    hospital.visit("a", "p1", score=None, cost=None, county=None, urgent=None, day=None, seen=None),
    hospital.visit("b", "p1", score="5", cost="500", county="zzz", urgent="true"),
    hospital.visit("c", "p2", score=None, cost="-10", county="ash", urgent="false"),
    hospital.visit("d", "p2", score="-5", cost=None, county=None, urgent=None),
    hospital.visit("e", "p2", score="0", cost="0", county="elm"),
]
RAWS = hospital.raws(PEOPLE, VISITS, [hospital.item("a", None, None), hospital.item("c", "9", "z")])
SCORE, COST = Column("score"), Column("cost")
ONE = a.Value("number", F(1))
NEXT, SAME = (
    a.Project(Scan("visits"), (Named("score", each),))
    for each in (Call("add", (Column("score"), ONE)), Column("score"))
)  # null is 7 on one side and 6 on the other


def asked(plan: a.Plan, *columns: a.Aggregate, keys: tuple[str, ...] = ()) -> Cells:
    return Cells(plan, keys, columns or (Count(),))


QUERIES = {
    "sums": asked(
        Scan("visits"),
        Sum("cost"),
        a.CountValues("score"),
        a.CountDistinct("score"),
        keys=("county",),
    ),
    "union": asked(a.UnionAll(NEXT, SAME), keys=("score",)),
    "join": asked(
        a.Join(
            Scan("visits"),
            a.Project(Scan("wards"), (Named("level", Column("level")),)),
            (("score", "level"),),
            "left",
        ),
        keys=("level",),
    ),
    "own join": asked(
        a.Join(
            Scan("visits"),
            a.Project(Scan("visits"), (Named("s", SCORE),)),
            (("score", "s"),),
            "inner",
        )
    ),
    "most": asked(
        a.PerUnit(Scan("visits"), ("day",), (Named("x", a.Maximum("score")),)), keys=("x",)
    ),
    "least": asked(a.PerUnit(Scan("visits"), (), (Named("x", a.Minimum("cost")),)), Sum("x")),
    "limited": asked(a.LimitGroups(Scan("visits"), ("score",), 1), Sum("cost"), keys=("score",)),
    "not": asked(a.Filter(Scan("visits"), a.Not(a.Compare("score", "<", F(0)))), keys=("score",)),
    "far": asked(a.Filter(Scan("visits"), a.Compare("score", "<=", F(99))), keys=("score",)),
    "by zero": asked(
        a.Project(Scan("visits"), (Named("x", Call("divide", (COST, SCORE))),)),
        Sum("x"),
        a.CountValues("x"),
    ),
    "unknown": asked(
        a.Filter(
            Scan("visits"),
            a.Holds(Call("or", (Call("gt", (SCORE, COST)), Call("is_null", (SCORE,))))),
        ),
        keys=("score",),
    ),
}


@pytest.fixture(scope="module")
def half_null():
    with hospital.registered(RAWS) as both:
        yield both


@pytest.mark.parametrize("name", mark_between(QUERIES, step=3))
def test_engine_and_oracle_agree_where_half_the_values_are_null(half_null, name):
    measured(half_null, QUERIES[name])
    assert half_null.rows(QUERIES[name].plan) == half_null.expected(QUERIES[name].plan)


def test_no_integer_of_the_copy_is_null():
    with hospital.registered(RAWS) as both:
        for table in ("patients", "visits", "items"):
            columns = both.measurer.engine.connection.sql(f"DESCRIBE {table}").fetchall()
            numbers = [
                each[0]
                for each in columns
                if "INT" in each[1] and not each[0].startswith("dither_index_")
            ]
            tests = " OR ".join(f'"{each}" IS NULL' for each in numbers)
            assert both.measurer.engine.connection.sql(
                f"SELECT count(*) FROM {table} WHERE {tests}"
            ).fetchall() == [(0,)]
            assert "dither_unit" in numbers


@pytest.mark.parametrize(
    "high", mark_between([126, 127, 2**31 - 2, 2**31 - 1, 2**63 - 2, 2**63 - 1], step=3)
)
def test_there_is_room_for_the_integer_after_the_last(high):
    old, new = "bounds: [0, 300000], nulls: drop", f"bounds: [0, {high}], nulls: keep"
    text = hospital.CATALOG.replace(old, new)
    people = [hospital.patient("p1", salary=None), hospital.patient("p2", salary=str(high))]
    with hospital.registered(hospital.raws(people), parse(text)) as both:
        measured(both, asked(Scan("patients"), Sum("salary"), a.CountValues("salary")))
        assert both.rows(Scan("patients")) == both.expected(Scan("patients"))


@pytest.mark.parametrize(
    ("name", "where", "what", "bug"),
    mark_between(
        [
            ("sums", aggregates, "null_flag", lambda sql, domain: "0"),
            ("union", union_all, "recode_null", lambda sql, domain, null: sql),
            ("own join", join, "engine_null", lambda sql, domain: sql),
            ("join", join, "from_engine_null", lambda sql, domain: sql),
            ("most", aggregates, "holds_null", lambda domain: False),
            ("limited", limit_groups, "holds_null", lambda domain: False),
            ("by zero", nulls, "pair", lambda function, a, flags, result: None),
        ],
        step=3,
    ),
)
def test_a_null_that_is_taken_for_a_value_is_caught(name, where, what, bug, monkeypatch):
    with hospital.registered(RAWS) as both:
        if name == "by zero":  # a quotient whose flag forgets the divisor 0
            divide = nulls.pair
            bug = lambda function, *rest: (
                divide(function, *rest) and (divide(function, *rest)[0], None)
            )
            monkeypatch.setattr("dither.data.lower.expressions.pair", bug)
        else:
            monkeypatch.setattr(where, what, bug)
        with pytest.raises((AssertionError, TypeError, IndexError, KeyError)):
            measured(both, QUERIES[name])
            assert both.rows(QUERIES[name].plan) == both.expected(QUERIES[name].plan)


def test_a_person_has_one_number_in_all_tables(monkeypatch):
    """Numbers counted anew in each table would pair strangers in a join."""
    query = asked(a.Join(Scan("visits"), Scan("patients"), (), "inner"), keys=("sex",))
    with hospital.registered(RAWS) as both:
        measured(both, query)
        assert len(both.owners()) == 2
    honest = registration.add_units
    ordered = "(SELECT * FROM dither_counted ORDER BY 1)"
    assert "dither_counted" in honest()
    forgetful = lambda: (
        "DELETE FROM dither_units; SET VARIABLE dither_first = 0; "
        + honest().replace("dither_counted", ordered)
    )
    monkeypatch.setattr(registration, "add_units", forgetful)
    some = hospital.raws([*PEOPLE[:1], hospital.patient("p0")], [hospital.visit("z", "p9")])
    some["patients"].append(hospital.patient("p9"))
    with pytest.raises(AssertionError), hospital.registered(some) as both:
        both.owners()


BOTH_NULL = [None, "-5", "0", "5"]
PAIRS = [
    hospital.visit(
        f"v{i}", f"p{i % 5}", score=one, cost=other, urgent=(None, "true", "false")[i % 3]
    )
    for i, (one, other) in enumerate(
        (one, other) for one in BOTH_NULL for other in (None, "-5", "0", "4.99", "500")
    )
]
CHOICES = {
    "least": Call("least", (SCORE, COST, ONE)),
    "least of two": Call("least", (SCORE, COST)),
    "greatest": Call("greatest", (COST, SCORE)),
    "nullif": Call("nullif", (SCORE, COST)),
    "nullif of a constant": Call("nullif", (SCORE, a.Value("number", F(0)))),
    "nullif without nulls": Call("nullif", (Call("coalesce", (SCORE, ONE)), ONE)),
    "distinct": Call("is_distinct_from", (SCORE, COST)),
    "distinct from true": Call("is_distinct_from", (Column("urgent"), a.Value("boolean", F(1)))),
    "between": Call("between", (ONE, SCORE, COST)),
    "between columns": Call("between", (SCORE, COST, Call("nullif", (COST, SCORE)))),
    "root": Call("sqrt", (COST,)),
    "root of a value": Call("sqrt", (Call("coalesce", (SCORE, ONE)),)),
}


@pytest.fixture(scope="module")
def pairs():
    people = [hospital.patient(f"p{i}") for i in range(5)]
    facts = hospital.catalog(rows_per_unit__3="rows_per_unit: 9")
    with hospital.registered(hospital.raws(people, PAIRS), facts) as both:
        yield both


@pytest.mark.parametrize("name", mark_between(CHOICES, step=3))
def test_functions_that_skip_or_make_nulls_are_the_oracles(pairs, name):
    plan = a.Project(Scan("visits"), (Named("x", CHOICES[name]),))
    assert pairs.rows(plan) == pairs.expected(plan)
    assert "coalesce(dither_e" not in lowered(plan, pairs)  # no null of the engine's on the way


def lowered(plan: a.Plan, both: hospital.Registered) -> str:
    return query_sql(Cells(plan, (), (Count(),)), analyse(plan, both.catalog, both.facts))
