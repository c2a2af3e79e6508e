"""GROUP BY of public tables: the engine against the naive evaluator, and claims against rows."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction

import pytest

from dither.audit.naive_plans import rows as naive_rows
from dither.errors import RefusedError
from dither.plan import algebra as a
from dither.plan import analyse as rules
from dither.plan.algebra import Column, Named, Scan
from dither.plan.analyse import analyse, analyse_node
from dither.plan.stability import Owned, Public
from tests.datasets import clinic_sql, hospital

COUNTIES = Scan("counties")
STATIONS = Scan("stations")
VISITS = Scan("visits")


def list_aggregates(column: str) -> tuple[Named, ...]:
    return (
        Named("n", a.Count()),
        Named("s", a.Sum(column)),
        Named("v", a.CountValues(column)),
        Named("d", a.CountDistinct(column)),
        Named("least", a.Minimum(column)),
        Named("largest", a.Maximum(column)),
    )


NOBODY = a.Filter(STATIONS, a.Compare("level", ">", Fraction(4)))
TOTALS: dict[str, a.Plan] = {
    "total": a.Group(STATIONS, (), list_aggregates("level")),
    "total with nulls": a.Group(COUNTIES, (), list_aggregates("beds")),
    "total of nothing": a.Group(NOBODY, (), list_aggregates("level")),
}
LOOKUPS: dict[str, tuple[a.Plan, tuple[tuple[str, str], ...]]] = {
    "by text": (a.Group(STATIONS, ("county",), list_aggregates("level")), (("county", "county"),)),
    "by listed text": (
        a.Group(COUNTIES, ("county",), list_aggregates("beds")),
        (("county", "county"),),
    ),
    "by number": (
        a.Group(STATIONS, ("level",), (Named("n", a.Count()),)),
        (("score", "level"),),
    ),
}


@pytest.fixture(scope="module")
def clinic():
    with clinic_sql.registered(12) as (registered, _):
        yield registered


@pytest.mark.parametrize("name", TOTALS)
@pytest.mark.parametrize("kind", ["inner", "left"])
def test_a_total_meets_every_row_once(clinic, name, kind):
    plan = a.Join(VISITS, TOTALS[name], (), kind)
    assert clinic.rows(plan) == clinic.expected(plan)
    assert len(naive_rows(plan, clinic.oracle)) == len(clinic.oracle.tables["visits"])
    node = analyse(plan, clinic.catalog, clinic.facts).node
    assert isinstance(node, Owned) and node.rows == 20


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_a_group_is_met_by_its_keys(clinic, kind):
    by_level, on_level = LOOKUPS["by number"]
    plan = a.Join(VISITS, by_level, on_level, kind)
    assert clinic.rows(plan) == clinic.expected(plan)
    listed, on_county = LOOKUPS["by listed text"]
    plan = a.Join(VISITS, listed, on_county, kind)
    assert clinic.rows(plan) == clinic.expected(plan)


def test_public_rows_meet_a_public_total_and_stay_public(clinic):
    total = a.Group(COUNTIES, (), (Named("most", a.Maximum("beds")),))
    joined = a.Join(COUNTIES, total, (), "inner")
    assert isinstance(analyse_node(joined, clinic.catalog, clinic.facts).node, Public)
    plan = a.Join(VISITS, joined, (("county", "county"),), "left")
    assert clinic.rows(plan) == clinic.expected(plan)


@pytest.mark.parametrize("seed", range(4))
def test_claims_hold_for_random_public_rows(seed):
    """Rows of each owner after the join, and values of each aggregate, lie within what is
    claimed."""
    draws = random.Random(seed)
    raws = clinic_sql.raws(6, seed)
    raws["stations"] = [
        {
            "county": draws.choice(["ash", "elm", "oak", None]),
            "level": draws.choice(["0", "5", "3", None]),
        }
        for _ in range(draws.choice([0, 1, 9]))
    ]
    with hospital.registered(raws, clinic_sql.catalog()) as registered:
        check_claims(registered)


def check_claims(registered) -> None:
    plans = [a.Join(VISITS, total, (), "inner") for total in TOTALS.values()]
    plans += [a.Join(VISITS, group, on, "inner") for group, on in list(LOOKUPS.values())[1:]]
    for plan in plans:
        claimed = analyse(plan, registered.catalog, registered.facts)
        rows = naive_rows(plan, registered.oracle)
        assert max(Counter(owner for owner, _ in rows).values(), default=0) <= claimed.node.rows
        before = analyse_node(plan.right, registered.catalog, registered.facts)
        for name in ("n", "s", "v", "d", "least", "largest"):
            domain = before.columns.get(name)
            values = {row.get(name) for _, row in rows}
            if domain is None:
                continue
            assert domain.nullable or None not in values or not rows
            assert all(
                domain.low * domain.step <= value <= domain.high * domain.step
                for value in values
                if value is not None
            )
        assert registered.rows(plan) == registered.expected(plan)


def test_a_group_that_claims_to_be_one_row_is_seen(clinic, monkeypatch):
    """Planted: the rows of a group by region are taken to be one row for all."""
    by_region = a.Group(COUNTIES, ("region",), (Named("n", a.Count()),))
    plan = a.Join(VISITS, by_region, (), "inner")
    with pytest.raises(RefusedError):
        analyse(plan, clinic.catalog, clinic.facts)
    monkeypatch.setattr(
        rules, "group_public", lambda source, keys: Public(source.table, (), frozenset())
    )
    claimed = analyse(plan, clinic.catalog, clinic.facts)
    owners = Counter(owner for owner, _ in naive_rows(plan, clinic.oracle))
    assert max(owners.values()) > claimed.node.rows


def test_a_bound_of_rows_that_is_too_small_is_seen(clinic, monkeypatch):
    """Planted: sums are moved into bounds that are too narrow, and differ from the naive ones."""
    plan = a.Join(VISITS, TOTALS["total with nulls"], (), "inner")
    monkeypatch.setattr(rules, "bound_public_rows", lambda source, columns, facts: 1)
    assert clinic.rows(plan) != clinic.expected(plan)


@pytest.mark.parametrize(
    "plan",
    [
        a.Join(VISITS, COUNTIES, (), "inner"),
        a.Join(VISITS, a.Group(COUNTIES, ("nothing",), (Named("n", a.Count()),)), (), "inner"),
        a.Join(COUNTIES, STATIONS, (("county", "county"),), "inner"),
        a.Join(COUNTIES, a.Group(STATIONS, ("county",), ()), (("county", "county"),), "inner"),
        a.Group(VISITS, (), (Named("n", a.Count()),)),
        a.Group(COUNTIES, (), (Named("n", a.Count()),)),
        a.Join(
            VISITS,
            a.Filter(TOTALS["total"], a.Compare("n", ">", Fraction(1))),
            (("score", "n"),),
            "left",
        ),
        a.Join(VISITS, a.Group(VISITS, ("ward",), (Named("n", a.Count()),)), (), "inner"),
    ],
    ids=str,
)
def test_what_is_not_public_or_not_one_row_stays_refused(clinic, plan):
    with pytest.raises(RefusedError):
        analyse(plan, clinic.catalog, clinic.facts)


def test_a_column_of_a_public_group_is_no_column_of_the_table(clinic):
    """Facts of the table's own column of that name say nothing about a computed one."""
    group = a.Group(STATIONS, (), (Named("county", a.Count()),))
    renamed = a.Project(group, (Named("n", Column("county")),))
    node = analyse_node(renamed, clinic.catalog, clinic.facts).node
    assert isinstance(node, Public) and node.original("n") is None
