"""A text made of a public list's texts is no longer that list: it has no codes to be joined by."""

from __future__ import annotations

import pytest

from dither.errors import RefusedError
from dither.plan import algebra as a
from dither.plan.algebra import Call, Column, Named, Scan, Value
from dither.plan.analyse import analyse
from tests.case_lists import mark_between
from tests.datasets import hospital

COUNTY, UNKNOWN = Column("county"), Call("is_null", (Column("beds"),))
MADE = [
    Call("coalesce", (COUNTY, COUNTY)),
    Call("if", (UNKNOWN, COUNTY, COUNTY)),
    Call("case", (UNKNOWN, COUNTY)),
    Call("if", (UNKNOWN, COUNTY, Value("text", "none"))),
    Call("nullif", (COUNTY, Value("text", "elm"))),
    Call("eq", (COUNTY, Value("text", "elm"))),
    Call("in", (COUNTY, Value("text", "elm"), Value("text", "ash"))),
]
RAWS = hospital.raws(
    [hospital.patient("p1")], [hospital.visit(c, "p1", county=c) for c in ("ash", "elm", "nowhere")]
)


@pytest.mark.parametrize("made", mark_between(MADE, step=3), ids=str)
def test_a_choice_among_public_labels_is_lowered_like_any_text(made):
    """Lowering once asked for the codes of a text that has none, and failed with no reason
    given."""
    counties = a.Project(Scan("counties"), (Named("county", COUNTY), Named("made", made)))
    plan = a.Join(Scan("visits"), counties, (("county", "county"),), "left")
    with hospital.registered(RAWS) as both:
        assert both.rows(plan) == both.expected(plan)


@pytest.mark.parametrize("made", mark_between(MADE[:5], step=2), ids=str)
def test_a_made_text_is_not_met_by_the_codes_of_a_category(made):
    counties = a.Project(Scan("counties"), (Named("county", COUNTY), Named("made", made)))
    plan = a.Join(Scan("visits"), counties, (("county", "county"), ("county", "made")), "left")
    with hospital.registered(RAWS) as both, pytest.raises(RefusedError, match="different kinds"):
        analyse(plan, both.catalog, both.facts)
