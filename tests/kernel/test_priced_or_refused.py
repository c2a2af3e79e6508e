"""Third round of attacks: what was found, as tests. Each fails on the code as it was found (branch red, 234bf27)."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction as F

import pytest

from dither.catalog import parse
from dither.data.register.generated import write_generated
from dither.errors import DitherError, RefusedError
from dither.plan.algebra import (
    Cells,
    Column,
    Compare,
    Count,
    Distinct,
    Filter,
    Join,
    Keys,
    Named,
    PerUnit,
    Project,
    Quantiles,
    Scan,
)
from dither.plan.facts import Facts
from dither.privacy.kernel.calibrate import calibrate
from dither.privacy.kernel.request import Price, Request, Step
from tests.datasets import hospital

VISITS = Scan("visits")
DELTA = F(1, 10**6)
PLANS = """\
  plans:
    kind: public
    from: plans.csv
    unique: {unique}
    columns:
      level: {{type: integer, bounds: [-5, 5], nulls: drop, provenance: list}}
      {more}
"""


def with_plans(unique: str = "[]", more: str = "gold: {type: boolean, nulls: drop}"):
    return parse(hospital.CATALOG + PLANS.format(unique=unique, more=more))


def request(*steps):
    return Request(tuple(Step(query, family, F(1)) for query, family in steps), Price(F(1)), "total")


def test_the_aggregates_of_a_question_are_bounded():
    """One person's labels times 12,000 aggregates: 120 MB if that person is in, none if not; near a limit of memory
    the answer came without the person and failed with the person. So the work per person is bounded at PRICE."""
    rare = Filter(VISITS, Compare("cost", "=", F(49999, 100)))
    many = Cells(rare, ("diag", "day"), (Count(),) * 12_000)
    with pytest.raises(RefusedError, match="work is bounded|at most"):
        calibrate(request((Keys(rare, ("diag",)), "geometric_keys"), (many, "laplace")), hospital.catalog(), DELTA)
    one = Cells(rare, ("diag", "day"), (Count(),))  # steps over the same rows and keys are measured in one statement
    steps = [(Keys(rare, ("diag",)), "geometric_keys"), *[(one, "laplace")] * 12_000]
    with pytest.raises(RefusedError, match="work is bounded|at most"):
        calibrate(request(*steps), hospital.catalog(), DELTA)


def test_a_public_table_with_undeclared_labels_can_be_joined():
    known = with_plans(more="kind: {type: category, values: undeclared, width: 4, nulls: keep}")
    rows = hospital.raws([hospital.patient("p")], [hospital.visit("v", "p", score="1")])
    with hospital.registered({**rows, "plans": [{"level": "1", "kind": "a"}]}, known) as both:
        query = Cells(Join(VISITS, Scan("plans"), (("score", "level"),), "inner"), (), (Count(),))
        both.measurer.prepare(query)
        assert both.measurer.measure(query).tolist() == [[1]]


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_join_with_an_empty_public_table_is_refused_or_priced(family):
    """No row can come out of it: ZeroDivisionError in PRICE."""
    facts = Facts((("wards", ("level",), 0),), (("counties", "county", ("ash", "elm", "oak")),))
    levels = Project(Scan("wards"), (Named("level", Column("level")),))
    plan = Join(VISITS, levels, (("score", "level"),), "inner")
    cells = (Cells(plan, (), (Count(),)), family)
    selected = (Keys(plan, ("diag",)), "geometric_keys" if family == "laplace" else "gaussian_keys")
    for steps in ([(Quantiles(plan, (), "cost", (F(1, 2),)), "exponential"), cells], [selected], [cells]):
        with suppress(RefusedError):
            calibrate(request(*steps), hospital.catalog(), DELTA, facts)


def test_half_a_character_is_refused():
    """A lone surrogate has no UTF-8: neither the ledger's hash nor the engine takes it."""
    query = Cells(Filter(VISITS, Compare("note", "=", "\ud800")), (), (Count(),))
    with pytest.raises(DitherError):
        calibrate(request((query, "laplace")), hospital.catalog(), DELTA)


def test_rows_without_owner_and_columns_are_refused():
    """SELECT DISTINCT of nothing: analysed, priced, and then not compiled."""
    query = Cells(Distinct(PerUnit(VISITS, (), ()), False), (), (Count(),))
    with pytest.raises(RefusedError):
        calibrate(request((query, "laplace")), hospital.catalog(), DELTA)


@pytest.mark.parametrize("unique", ["[[level]]", "[[gold]]", "[[level, gold]]"])
def test_a_rehearsal_keeps_short_unique_keys_of_public_tables(tmp_path, unique):
    known = with_plans(unique)
    rows = {**hospital.raws(), "plans": [{"level": "1", "gold": "true"}, {"level": "2", "gold": "false"}]}
    with hospital.registered(rows, known) as both:
        write_generated(known, both.facts, tmp_path / "made.duckdb")
        assert (tmp_path / "made.duckdb").exists()
