"""Joins with groups of an owner in PostgreSQL: one by one or all at once, the rows are the same."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction as F

import pytest

from dither.data.engines.postgres.dialect import LOOKUPS, POSTGRES
from dither.data.lower.dialect import writing_in
from dither.data.lower.plan import plan_sql
from dither.plan.algebra import (
    Cells,
    Column,
    Compare,
    Count,
    CountUnits,
    Filter,
    IsNull,
    Join,
    Maximum,
    Minimum,
    Named,
    PerUnit,
    Plan,
    Project,
    Scan,
    Sum,
)
from dither.plan.analyse import analyse_node
from tests.data.engines.twins import on_engine
from tests.datasets import hospital

PATIENTS = Scan("patients")
VISITS = Scan("visits")
ITEMS = Scan("items")
BY_INDEX = "/* by index */ "


def group(source: Plan, *keys: str, column: str = "qty") -> Plan:
    """Rows, sums and ends of an owner by keys, under names of their own."""
    columns = [Named(f"in_{key}", Column(key)) for key in keys]
    rows = Project(source, (*columns, Named("of", Column(column))))
    aggregates = (
        Named("rows", Count()),
        Named("least", Minimum("of")),
        Named("largest", Maximum("of")),
        Named("total", Sum("of")),
    )
    return PerUnit(rows, tuple(f"in_{key}" for key in keys), aggregates)


def meet(left: Plan, right: Plan, *names: str, kind: str = "inner") -> Plan:
    return Join(left, right, tuple((name, f"in_{name}") for name in names), kind)


MANY = Filter(ITEMS, Compare("qty", ">", F(1)))
FEW = Filter(VISITS, Compare("score", ">", F(2)))
JOINS = [
    meet(VISITS, group(ITEMS, "visit"), "visit"),
    meet(VISITS, group(ITEMS, "visit"), "visit", kind="left"),
    meet(FEW, group(MANY, "visit"), "visit"),
    meet(FEW, group(MANY, "visit"), "visit", kind="left"),
    meet(PATIENTS, group(VISITS, column="score")),
    meet(PATIENTS, group(VISITS, column="cost"), kind="left"),
    meet(VISITS, group(VISITS, "score", column="cost"), "score"),
    meet(VISITS, group(VISITS, "diag", column="cost"), "diag", kind="left"),
    Filter(meet(VISITS, group(ITEMS, "visit"), "visit"), Compare("largest", ">", F(3))),
]


@pytest.fixture(scope="module")
def copy(postgres: str) -> Iterator[hospital.Registered]:
    rows = hospital.random_people(30, 3)
    rows["items"] = [
        hospital.item(row["visit"], str(quantity), drug)
        for position, row in enumerate(rows["visits"])
        for quantity, drug in ((1, "a"), (1, "a"), (5, "b"), (None, "c"))[: position % 5]
    ]
    with (
        hospital.registered(rows) as registered,
        on_engine(registered, "postgres", postgres) as other,
    ):
        yield other


def write_sql(copy: hospital.Registered, plan: Plan, dialect: object) -> str:
    with writing_in(dialect):
        return plan_sql(analyse_node(plan, copy.catalog, copy.facts))


@pytest.mark.parametrize("plan", JOINS)
def test_rows_are_those_of_the_oracle(copy, plan, monkeypatch):
    expected = copy.expected(plan)
    assert expected
    assert copy.rows(plan) == expected
    looked_up = write_sql(copy, plan, LOOKUPS)
    assert "LATERAL" in looked_up
    assert "LATERAL" not in write_sql(copy, plan, POSTGRES)
    monkeypatch.setattr(copy.measurer.engine, "dialect", LOOKUPS)
    assert copy.rows(plan) == expected


UNMATCHED = [
    Filter(meet(VISITS, group(ITEMS, "visit"), "visit", kind="left"), IsNull("rows")),
    Filter(meet(FEW, group(MANY, "visit"), "visit", kind="left"), IsNull("rows")),
    Filter(meet(VISITS, group(FEW, "diag", column="cost"), "diag", kind="left"), IsNull("rows")),
]


@pytest.mark.parametrize("plan", UNMATCHED)
def test_rows_without_a_match_are_found_without_groups(copy, plan):
    assert copy.rows(plan) == copy.expected(plan)
    texts = {write_sql(copy, plan, dialect) for dialect in (POSTGRES, LOOKUPS)}
    assert len(texts) == 1 and all("NOT EXISTS" in text for text in texts)


@pytest.mark.parametrize("plan", JOINS)
def test_the_integers_are_the_same_whichever_is_run(copy, plan):
    query = Cells(plan, (), (Count(), CountUnits()))
    rows = copy.expected(plan)
    owners = {owner for owner, _ in rows}
    copy.measurer.prepare(query)
    assert copy.measurer.measure(query).tolist() == [[sum(rows.values()), len(owners)]]
    for dialect in (POSTGRES, LOOKUPS):
        text = copy.measurer._write_sql(query, None, dialect)
        for run in (text, BY_INDEX + text):
            assert copy.measurer.engine.fetch_rows(run) == [(0, sum(rows.values()), len(owners))]


LOOKED_UP = (
    "SELECT count(*) FROM visits AS l JOIN LATERAL (SELECT * FROM (SELECT dither_unit, visit FROM "
    "items GROUP BY 1, 2) AS r WHERE r.dither_unit = l.dither_unit OFFSET 0) AS r ON TRUE"
)
ROW_BY_ROW = (
    "SELECT count(*) FROM patients AS l JOIN LATERAL (SELECT * FROM wards AS r "
    "WHERE l.sex = length(r.county) OFFSET 0) AS r ON TRUE"
)


def test_the_cheaper_statement_is_run(copy):
    engine = copy.measurer.engine
    dear = "SELECT count(*) FROM visits AS a, visits AS b, visits AS c WHERE a.score < b.score"
    engine.connection.execute("SET enable_seqscan = off")
    try:
        run = engine.compile("name", dear, is_kept=False, rewrite=lambda _: LOOKED_UP)
        assert run == BY_INDEX + LOOKED_UP
        run = engine.compile("name", LOOKED_UP, is_kept=False, rewrite=lambda _: dear)
        assert run == BY_INDEX + LOOKED_UP
    finally:
        engine.connection.execute("RESET enable_seqscan")


def test_groups_that_are_not_looked_up_in_an_index_are_computed_all_at_once(copy):
    """However cheap the server believes the other statement to be."""
    dear = "SELECT count(*) FROM visits AS a, visits AS b, visits AS c WHERE a.score < b.score"
    engine = copy.measurer.engine
    assert engine.compile("name", dear, is_kept=False, rewrite=lambda _: ROW_BY_ROW) == dear
