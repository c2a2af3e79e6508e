"""Attacks on nulls that are integers: a code that is also a value, and arithmetic of codes that
leaves its type."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from dither.catalog import parse
from dither.plan import algebra as a
from dither.plan.algebra import Call, Cells, Column, Compare, Count, Holds, Named, Not, Scan, Value
from tests.case_lists import mark_between, mark_rest
from tests.datasets import hospital
from tests.neighbours import measured

VISITS = [
    hospital.visit("a", "p1", urgent="true", score=None),
    hospital.visit("b", "p1", urgent="false"),
    hospital.visit("c", "p2", urgent=None),
]
RAWS = hospital.raws([hospital.patient("p1"), hospital.patient("p2")], VISITS)
FALSE_OR_NULL = a.Project(
    Scan("visits"),
    (
        Named(
            "x",
            Call(
                "case",
                (Call("lt", (Column("score"), Value("number", F(3)))), Value("boolean", F(0))),
            ),
        ),
    ),
)
CALM = a.Project(
    a.Filter(Scan("visits"), Compare("urgent", "=", F(0))),
    (Named("s", Column("score")), Named("x", Column("urgent"))),
)
LEFT = a.Join(Scan("visits"), CALM, (("score", "s"),), "left")


@pytest.mark.parametrize("source", mark_rest([FALSE_OR_NULL, LEFT], quick=1))
@pytest.mark.parametrize("condition", [Holds(Column("x")), Not(Holds(Column("x")))])
def test_null_is_not_true_where_only_false_is_a_value(source, condition):
    """The integer after the last value of {false} is 1."""
    plan = a.Filter(source, condition)
    with hospital.registered(RAWS) as both:
        assert both.rows(plan) == both.expected(plan)


@pytest.mark.parametrize(
    ("low", "high"),
    mark_between(
        [
            (-2_000_000_000, 2_000_000_000),
            (-4, 2**31 - 2),
            (-4, 2**63 - 2),
            (1 - 2**62, 2**62 - 1),
            (1 - 2**63, 2**63 - 1),
            (-128, 126),
            (-(10**18), 10**18),
        ],
        step=3,
    ),
)
def test_the_largest_of_a_unit_fits_whatever_the_bounds(low, high):
    """An overflow is an error only where a row is: whether anybody earns this much would be told
    without noise."""
    text = hospital.CATALOG.replace(
        "bounds: [0, 300000], nulls: drop", f"bounds: [{low}, {high}], nulls: keep"
    )
    people = [
        hospital.patient(f"p{place}", salary=each)
        for place, each in enumerate([None, str(low), str(high)])
    ]
    with hospital.registered(hospital.raws(people), parse(text)) as both:
        for aggregate in (a.Maximum, a.Minimum):
            plan = a.PerUnit(Scan("patients"), (), (Named("x", aggregate("salary")),))
            assert both.rows(plan) == both.expected(plan)
            measured(both, Cells(plan, (), (Count(), a.CountValues("x"))))
