"""Joins inside joins: each table of a plan is written once, so that no statement outgrows its plan.

What was written twice in each join was written 512 times in nine of them, and planned for seconds
before anything was charged.
"""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from dither.data.lower import plan as lowered
from dither.plan.algebra import (
    Cells,
    Column,
    Compare,
    Count,
    Distinct,
    Filter,
    IsNull,
    Join,
    Named,
    PerUnit,
    Plan,
    Project,
    Scan,
    nodes_of,
)
from tests.datasets import hospital

DEPTH = 8
LEFT = Filter(Scan("visits"), Compare("score", ">", F(-4)))


def nest_unmatched(inside: Plan, level: int) -> Plan:
    """NOT EXISTS."""
    return Filter(_join_groups(inside, level, "left"), IsNull(f"rows_{level}"))


def nest_groups(inside: Plan, level: int) -> Plan:
    """A join with groups of the owner, of which only those that a left row meets are made."""
    return _join_groups(inside, level, "inner")


def nest_kept(inside: Plan, level: int) -> Plan:
    """A left join with groups of the owner."""
    return _join_groups(inside, level, "left")


def nest_matched(inside: Plan, level: int) -> Plan:
    """EXISTS."""
    rows = Project(inside, (Named(f"in_{level}", Column("urgent")),))
    return Join(LEFT, Distinct(rows, per_unit=True), (("urgent", f"in_{level}"),), "inner")


def _join_groups(inside: Plan, level: int, kind: str) -> Plan:
    rows = Project(inside, (Named(f"in_{level}", Column("score")),))
    groups = PerUnit(rows, (f"in_{level}",), (Named(f"rows_{level}", Count()),))
    return Join(LEFT, groups, (("score", f"in_{level}"),), kind)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def database():
    with hospital.registered(hospital.random_people(4, 3)) as registered:
        yield registered


@pytest.mark.parametrize("nest", [nest_unmatched, nest_groups, nest_kept, nest_matched])
def test_each_table_is_written_once(database, nest, monkeypatch):
    written = []
    write = lowered.scan_sql
    monkeypatch.setattr(lowered, "scan_sql", lambda *a: written.append(a[0]) or write(*a))
    plan: Plan = LEFT
    for level in range(DEPTH):
        plan = nest(plan, level)
    sql = database.measurer.prepare(Cells(plan, (), (Count(),)))
    scans = [node for node in nodes_of(plan) if isinstance(node, Scan)]
    assert len(written) == len(scans) == 1 + DEPTH
    assert sql.count('FROM "visits"') == len(scans)
