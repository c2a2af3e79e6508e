"""Plans on neighbours: the engine agrees with the oracle row by row, and no unit reaches further
than claimed."""

from __future__ import annotations

from fractions import Fraction as F

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dither.errors import RefusedError
from dither.plan import algebra as a
from dither.plan.algebra import Cells, Column, Named, Scan
from dither.plan.analyse import analyse, analyse_node
from dither.plan.stability import Owned
from tests.datasets import hospital
from tests.neighbours import check_claim, check_rows, measured
from tests.plan_strategies import conditions, expressions, set_examples

FACTS = hospital.catalog()
with hospital.registered(hospital.raws()) as empty:
    PUBLIC = empty.facts
REPLACE = hospital.catalog(add_remove="replace")
ODD = [
    "",
    None,
    "nan",
    "inf",
    "-inf",
    "1e400",
    "-0.0",
    "0.005",
    "9" * 29,
    "é",
    "x" * 90,
    "null",
    " 1 ",
    "ash",
    "true",
]
odd = st.sampled_from(ODD)
numbers = st.one_of(st.integers(-7, 12).map(str), st.decimals(-12, 510, places=3).map(str), odd)
contents = st.fixed_dictionaries(
    {
        "county": st.one_of(st.sampled_from(["ash", "elm", "oak", "fir", "other"]), odd),
        "diag": st.one_of(st.sampled_from(["flu", "cold", "ache"]), odd),
        "score": numbers,
        "cost": numbers,
        "day": st.one_of(
            st.sampled_from(["2024-01-01", "2024-02-29", "2024-12-31", "0001-01-01", "9999-12-31"]),
            odd,
        ),
        "seen": st.one_of(
            st.sampled_from(["2024-03-01 23:30:00", "2024-06-01T00:10:00Z", "2024-06-01"]), odd
        ),
        "note": st.one_of(st.sampled_from(["a", "A b", "7", "%"]), odd),
        "urgent": st.one_of(st.sampled_from(["true", "false"]), odd),
    }
)
people = st.fixed_dictionaries(
    {
        "sex": st.sampled_from(["f", "m", "q", None]),
        "born": st.sampled_from(["1990-02-28", None, "x"]),
        "salary": numbers,
    }
)


@st.composite
def one_person(draw, name: str, most: int):
    """All raw rows of one person: patient rows, visits (some repeated), items of those visits."""
    patients = [hospital.patient(name, **draw(people)) for _ in range(draw(st.integers(1, 2)))]
    visits, items = [], []
    for _ in range(draw(st.integers(0, most))):
        new = hospital.visit(f"{name}-{draw(st.integers(0, 3))}", name, **draw(contents))
        visits += [new] * draw(st.sampled_from([1, 1, 2]))
        drugs = draw(
            st.lists(st.tuples(numbers, st.sampled_from(["a", "b", "z", None])), max_size=2)
        )
        items += [hospital.item(new["visit"], *each) for each in drugs]
    return patients, visits, items


def together(*some) -> hospital.Raws:
    patients, visits, items = ([row for each in some for row in each[i]] for i in range(3))
    lost = [hospital.visit("lost", "nobody"), hospital.visit("gone", None)]
    return hospital.raws(
        patients, visits + lost, [*items, hospital.item("no visit"), hospital.item(None)]
    )


# -- plans
# --------------------------------------------------------------------------------------------------


def grown(draw, plan, columns, node):
    """A plan over `plan`, by a random operator; it may turn out to be refused."""
    kinds = (
        "category",
        "boolean",
        "number",
        "date",
        "timestamp",
    )  # the oracle's key index is for whole numbers
    keys = [
        name for name, d in columns.items() if (d.kind in kinds and d.step == 1) or d.undeclared
    ]
    key = draw(st.lists(st.sampled_from(keys), max_size=2, unique=True).map(tuple)) if keys else ()
    number = [name for name, domain in columns.items() if domain.kind == "number"]
    some = draw(st.sampled_from(number)) if number else next(iter(columns))
    aggregates = (
        Named("n", a.Count()),
        Named("total", a.Sum(some)),
        Named("least", a.Minimum(some)),
        Named("known", a.CountValues(some)),
        Named("kinds", a.CountDistinct(some)),
    )
    kept = tuple(Named(name, Column(name)) for name in columns if draw(st.booleans()))
    computed = Named(f"x{len(columns)}", expressions(draw, columns, "number"))
    match draw(st.integers(0, 14)):
        case 0 | 1:
            return a.Filter(plan, draw(conditions(columns)))
        case 2 | 3:
            return a.Project(plan, (*kept, computed))
        case 4:
            return a.Join(
                plan,
                Scan("counties"),
                (("county", "county"),),
                draw(st.sampled_from(["inner", "left"])),
            )
        case 5:
            on = draw(
                st.sampled_from(
                    [
                        (("county", "county"),),
                        (("score", "level"),),
                        (("county", "county"), ("score", "level")),
                    ]
                )
            )
            wards = draw(
                st.sampled_from(
                    [Scan("wards"), a.Filter(Scan("wards"), a.Compare("level", ">", F(1)))]
                )
            )
            if on[-1][0] == "score" and len(on) == 1:
                wards = (
                    a.Project(wards, (Named("level", Column("level")),))
                    if draw(st.booleans())
                    else wards
                )
                if draw(
                    st.booleans()
                ):  # a public column under another one's name keeps its own multiplicity
                    wards, on = (
                        a.Project(Scan("wards"), (Named("beds", Column("level")),)),
                        (("score", "beds"),),
                    )
            return a.Join(plan, wards, on, draw(st.sampled_from(["inner", "left"])))
        case 6:
            other = draw(st.sampled_from(["patients", "items", "visits"]))
            on = (("visit", "visit"),) if other != "patients" and draw(st.booleans()) else ()
            return a.Join(plan, Scan(other), on, draw(st.sampled_from(["inner", "left"])))
        case 7:
            return a.UnionAll(
                plan, draw(st.sampled_from([plan, a.Filter(plan, draw(conditions(columns)))]))
            )
        case 8:
            return a.Distinct(plan, draw(st.booleans()))
        case 9:
            return a.PerUnit(plan, key, aggregates)
        case 10:
            return a.Group(plan, key, aggregates)
        case 14:
            total = draw(st.sampled_from([F(1), F(3), F(250)]))
            summed = draw(st.sampled_from(["n", "total"]))
            return a.LimitTotal(a.PerUnit(plan, key, aggregates), key, summed, total)
        case 11:
            return a.SampleUnits(plan, draw(st.sampled_from([F(1, 3), F(9, 10)])))
        case _:
            return a.LimitGroups(plan, key, draw(st.integers(1, 2)))


@st.composite
def plans(draw, facts):
    plan = Scan(draw(st.sampled_from(["visits", "visits", "items", "patients"])))
    for _ in range(draw(st.integers(0, 5))):
        found = analyse_node(plan, FACTS, facts)
        new = grown(draw, plan, found.columns, found.node)
        try:
            if analyse_node(new, FACTS, facts).node.rows <= 500:
                plan = new
        except RefusedError:
            continue
    return plan


@st.composite
def queries(draw, facts):
    plan = draw(plans(facts))
    columns = analyse(plan, FACTS, facts).columns
    small = [
        name
        for name, d in columns.items()
        if d.kind in ("category", "boolean", "number") and d.listed[1] - d.listed[0] < 40
    ]
    keys = (
        draw(st.lists(st.sampled_from(small), max_size=2, unique=True).map(tuple)) if small else ()
    )
    summed = [name for name, d in columns.items() if d.kind in ("number", "boolean")]
    some = draw(st.sampled_from([name for name, d in columns.items() if d.kind != "id"]))
    choices = [a.Count(), a.CountValues(some), a.CountDistinct(some), *map(a.Sum, summed)]
    if isinstance(analyse(plan, FACTS, facts).node, Owned):
        choices.append(a.CountUnits())
    return Cells(
        plan,
        keys,
        tuple(draw(st.lists(st.sampled_from(choices), min_size=1, max_size=2, unique=True))),
    )


# -- the test
# --------------------------------------------------------------------------------------------------


def run(others, mine, instead, asked) -> None:
    with (
        hospital.registered(together(*others)) as without,
        hospital.registered(together(*others[:1], mine, *others[1:])) as within,
        hospital.registered(together(*others, instead)) as replaced,
    ):
        assert without.facts == within.facts == PUBLIC
        for query in asked:
            rows = [both.rows(query.plan) for both in (without, within, replaced)]
            for both, found in zip((without, within, replaced), rows, strict=True):
                assert found == both.expected(query.plan), query.plan
            check_rows(query.plan, rows[0], rows[1], without)
            check_rows(query.plan, rows[0], rows[2], without)
            one, two, three = (measured(both, query) for both in (without, within, replaced))
            check_claim(query, one, two, FACTS, PUBLIC)
            check_claim(query, one, three, FACTS, PUBLIC)
            check_claim(query, two, three, REPLACE, PUBLIC)


given_neighbours = given(
    others=st.tuples(one_person("p1", 2), one_person("p 2", 2), one_person("pé", 1)),
    mine=one_person("victim", 4),
    instead=one_person("victim", 4),
    asked=st.lists(queries(PUBLIC), min_size=8, max_size=14),
)


@set_examples(3)
@given_neighbours
def test_engine_oracle_stability_and_sensitivity_agree(others, mine, instead, asked):
    run(others, mine, instead, asked)


@pytest.mark.all
@set_examples(24)
@given_neighbours
def test_engine_oracle_stability_and_sensitivity_agree_for_a_minute(others, mine, instead, asked):
    run(others, mine, instead, asked)


@pytest.mark.soak
@set_examples(1000)
@given_neighbours
def test_engine_oracle_stability_and_sensitivity_agree_for_hours(others, mine, instead, asked):
    run(others, mine, instead, asked)
