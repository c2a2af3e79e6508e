"""Every function of the table, on edge values, in the engine and in the oracle; and what is
refused."""

from __future__ import annotations

import datetime
from fractions import Fraction as F
from pathlib import Path

import pytest

from dither.errors import RefusedError
from dither.plan.algebra import Column, Named, Project, Scan, Value
from dither.plan.analyse import analyse
from dither.plan.functions import FAMILIES, REFUSED, TABLE, domain_of, reference
from tests.case_lists import mark_between
from tests.datasets import hospital
from tests.function_examples import (
    COST,
    COUNTY,
    DAY,
    DAYS,
    EXAMPLES,
    NOTE,
    NOTES,
    NUMBERS,
    SCORE,
    SEEN,
    SEENS,
    c,
    n,
    t,
)


@pytest.fixture(scope="module")
def edge():
    visits = [
        hospital.visit(
            f"v{i}",
            f"p{i % 30}",
            note=NOTES[i % len(NOTES)],
            day=DAYS[i % len(DAYS)],
            score=NUMBERS[i * 7 % len(NUMBERS)],
            cost=NUMBERS[(i * 5 + i // 16) % len(NUMBERS)],
            seen=SEENS[i % len(SEENS)],
            urgent=[None, "true", "false"][i % 3],
            county=["ash", "elm", "oak", "zzz", None][i % 5],
            diag=[None, "7", "abcd", "é", "long label"][i // 2 % 5],
        )
        for i in range(60)
    ]
    people = [hospital.patient(f"p{i}") for i in range(30)]
    with hospital.registered(hospital.raws(people, visits)) as both:
        yield both


def test_every_function_has_examples_a_guard_and_a_null_rule():
    assert set(EXAMPLES) == set(TABLE)
    assert len(TABLE) >= 60
    assert {name: len(family) for name, family in FAMILIES.items()}.keys() == {
        "numbers",
        "text",
        "dates",
        "conditions",
    }
    assert all(function.takes and function.gives and function.guard for function in TABLE.values())


@pytest.mark.parametrize("name", mark_between(sorted(TABLE), step=3))
def test_engine_and_oracle_agree_inside_the_domain(name, edge):
    for call in EXAMPLES[name]:
        plan = Project(Scan("visits"), (Named("x", call), Named("visit", Column("visit"))))
        domain = analyse(plan, edge.catalog, edge.facts).columns["x"]
        found = edge.rows(plan)
        assert found == edge.expected(plan), call
        for _, (value, _) in found:
            inside(domain, value, call)


def inside(domain, value, call) -> None:
    if value is None:
        assert domain.nullable, call
    elif domain.kind == "number":
        assert domain.low * domain.step <= value <= domain.high * domain.step, (call, value)
    elif domain.kind == "date":
        assert domain.low <= (value - datetime.date(1970, 1, 1)).days <= domain.high, (call, value)
    elif domain.kind == "timestamp":
        assert domain.low <= value[1] <= domain.high, (call, value)
    elif domain.kind == "text":
        assert len(value) <= domain.width, (call, value)
    elif domain.kind == "category":
        assert value in domain.labels, (call, value)


@pytest.mark.parametrize("name", mark_between(sorted(TABLE), step=3))
def test_no_function_behind_a_where_raises(name, edge):
    """The engine may evaluate a function on rows that a WHERE removes."""
    from dither.plan.algebra import Cells, Count, Filter, Holds, IsNull, Not

    for call in EXAMPLES[name]:
        inner = Filter(Scan("visits"), Not(IsNull("score")))
        plan = Filter(
            Project(inner, (Named("x", call), Named("score", SCORE))),
            Holds(c("is_not_null", Column("x"))),
        )
        query = Cells(Filter(plan, Holds(c("gt", SCORE, n(99)))), (), (Count(),))
        assert edge.measurer.measure(query).tolist() == [[0]]


def test_refused_functions_say_why():
    assert not set(REFUSED) & set(TABLE)
    for name, why in REFUSED.items():
        with pytest.raises(RefusedError) as caught:
            domain_of(c(name, SCORE), {"score": domain_of(n(1), {})})
        assert why.split(";")[0] in str(caught.value)
    with pytest.raises(RefusedError, match="not in the table"):
        domain_of(c("frobnicate", SCORE), {"score": domain_of(n(1), {})})


@pytest.mark.parametrize(
    "call",
    [
        c("multiply", n(10**30), n(10**30)),
        c("add", SCORE),
        c("add", SCORE, NOTE),
        c("lt", NOTE, t("a")),
        c("eq", COUNTY, t("nowhere")),
        c("eq", SCORE, NOTE),
        c("round", COST, SCORE),
        c("round", COST, n(99)),
        c("replace", NOTE, t(""), t("x")),
        c("lpad", NOTE, n(10**6), t("x")),
        c("lpad", NOTE, n(5), t("")),
        c("replace", c("lpad", NOTE, n(9999), t("x")), t("a"), t("bbbb")),
        c("like", NOTE, t("%" * 9)),
        c("like", NOTE, t("\\")),
        c("add_days", DAY, n(10**7)),
        c("add_days", DAY, n("0.5")),
        c("add_months", DAY, n(110_000)),
        c("add_seconds", SEEN, n(10**15)),
        c("nullif", Column("visit"), Column("visit")),
        c("coalesce", Column("visit"), t("x")),
        c("length", Column("visit")),
        c("clamp", SCORE, n(2), n(1)),
        c("bin", SCORE, n(0)),
        c("power", SCORE, n(9)),
        c("width_bucket", SCORE, n(1), n(1), n(2)),
        c("case", SCORE, n(1)),
        c("not", SCORE),
        c("sqrt", c("multiply", COST, n(2**50))),
        Value("date", F(10**9)),
        Value("boolean", F(2)),
        Value("number", "x"),
        Value("category", "ash"),
        Column("nothing"),
    ],
)
def test_refused_calls(call, edge):
    with pytest.raises(RefusedError):
        analyse(Project(Scan("visits"), (Named("x", call),)), edge.catalog, edge.facts)


def test_deep_and_wide_expressions_are_refused_before_any_work(edge):
    deep = SCORE
    for _ in range(60):
        deep = c("add", deep, deep)
    with pytest.raises(RefusedError, match="deeper"):
        analyse(Project(Scan("visits"), (Named("x", deep),)), edge.catalog, edge.facts)


def test_the_reference_page_is_the_table():
    page = Path(__file__).parents[2] / "docs/reference/functions.md"
    assert page.read_text() == reference.page()
