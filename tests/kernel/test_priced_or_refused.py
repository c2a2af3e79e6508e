"""Every request is priced, or refused before any charge; found by attacks on PRICE."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction as F

import pytest

from dither.errors import DitherError, ParameterError, RefusedError
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
from dither.privacy.kernel.request import Price, Request, Step
from tests.datasets import hospital
from tests.kernel.calibrating import calibrate

VISITS = Scan("visits")
DELTA = F(1, 10**6)


def request(*steps):
    return Request(
        tuple(Step(query, family, F(1)) for query, family in steps), Price(F(1)), "total"
    )


def test_the_aggregates_of_a_question_are_bounded():
    """One person's labels times 12,000 aggregates: 120 MB if that person is in, none if not; near a
    limit of memory the answer came without the person and failed with the person. So the work per
    person is bounded at PRICE."""
    rare = Filter(VISITS, Compare("cost", "=", F(49999, 100)))
    many = Cells(rare, ("diag", "day"), (Count(),) * 12_000)
    with pytest.raises(RefusedError, match="work is bounded|at most"):
        calibrate(
            request((Keys(rare, ("diag",)), "geometric_keys"), (many, "laplace")),
            hospital.catalog(),
            DELTA,
        )
    one = Cells(
        rare, ("diag", "day"), (Count(),)
    )  # steps over the same rows and keys are measured in one statement
    steps = [(Keys(rare, ("diag",)), "geometric_keys"), *[(one, "laplace")] * 12_000]
    with pytest.raises(RefusedError, match="work is bounded|at most"):
        calibrate(request(*steps), hospital.catalog(), DELTA)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_join_with_an_empty_public_table_is_refused_or_priced(family):
    """No row can come out of it: ZeroDivisionError in PRICE."""
    facts = Facts((("wards", ("level",), 0),), (("counties", "county", ("ash", "elm", "oak")),))
    levels = Project(Scan("wards"), (Named("level", Column("level")),))
    plan = Join(VISITS, levels, (("score", "level"),), "inner")
    cells = (Cells(plan, (), (Count(),)), family)
    selected = (Keys(plan, ("diag",)), "geometric_keys" if family == "laplace" else "gaussian_keys")
    for steps in (
        [(Quantiles(plan, (), "cost", (F(1, 2),)), "exponential"), cells],
        [selected],
        [cells],
    ):
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


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_quantile_by_an_empty_list_of_keys_has_a_price(neighbours: str) -> None:
    """A public list may be empty. Under replace the price was divided by its no cells."""
    kept = "county: {type: category, values: {from: counties.county}, other: keep, nulls: keep}"
    assert kept in hospital.CATALOG
    text = hospital.CATALOG.replace(kept, kept.replace("keep", "drop"))
    catalog = hospital.catalog(text.replace("neighbours: add_remove", f"neighbours: {neighbours}"))
    query = Quantiles(Scan("visits"), ("county",), "cost", (F(1, 2),))
    facts = Facts((), (("counties", "county", ()),))
    (step,) = calibrate(request((query, "exponential")), catalog, facts=facts)
    assert step.cells == 0 and step.copies == 1


def test_a_level_that_no_float_tells_from_one_is_refused_before_any_charge() -> None:
    """How far away the ends are aimed was first computed after the charge, where 1 - level was 0:
    an incident."""
    query = Quantiles(Scan("visits"), (), "cost", (F(1, 2),), (1 - F(1, 10**330), F(1, 8)))
    with pytest.raises(ParameterError, match="level"):
        calibrate(request((query, "exponential")), hospital.catalog())
