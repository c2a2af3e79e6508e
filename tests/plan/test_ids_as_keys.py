"""Ids as keys inside a unit: claims against brute force over random orders and their lines."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from dither.audit.naive_plans import NaiveDatabase, rows
from dither.catalog import parse
from dither.errors import RefusedError
from dither.plan import analyse as rules
from dither.plan.algebra import (
    Call,
    Column,
    Count,
    Filter,
    Group,
    Holds,
    Join,
    LimitGroups,
    Maximum,
    Minimum,
    Named,
    PerUnit,
    Plan,
    Scan,
    Sum,
)
from dither.plan.analyse import analyse
from tests.plan.small_databases import HEAD

CATALOG = parse(
    HEAD.replace("NEIGHBOURS", "add_remove").replace(
        "people:\n", "people:\n  oid: {protected: false, because: it names an order}\n"
    )
    + """\
  lines:
    kind: private
    from: lines.csv
    owner: {column: pid}
    unique: []
    rows_per_unit: 6
    max_rows: 100
    columns:
      pid: {type: id}
      oid: {type: id}
      x: {type: integer, bounds: [0, 3], nulls: keep, provenance: the test}
"""
)
LINES = Scan("lines")
BY_ID = PerUnit(LINES, ("oid",), (Named("n", Count()), Named("s", Sum("x"))))
ENDS = PerUnit(LINES, ("oid",), (Named("least", Minimum("x")), Named("largest", Maximum("x"))))
RENAMED = replace(ENDS, columns=(*ENDS.columns, Named("k", Count())))
PLANS: list[Plan] = [
    BY_ID,
    Filter(BY_ID, Holds(Call("gt", (Column("n"), Column("s"))))),
    Join(LINES, ENDS, (("oid", "oid"),), "inner"),
    Join(LINES, RENAMED, (("oid", "oid"),), "left"),
    PerUnit(BY_ID, ("n",), (Named("k", Count()),)),
]


def draw_unit(draws: random.Random) -> NaiveDatabase:
    """One unit with up to six lines of up to four orders; an order or a value may be null."""
    lines = [
        {
            "owner": "u",
            "oid": draws.choice([None, "o1", "o2", "o3", "o4"]),
            "x": draws.choice([None, 0, 1, 2, 3]),
        }
        for _ in range(draws.choice([0, 1, 3, 6]))
    ]
    return NaiveDatabase(CATALOG, {"lines": lines}, {}, b"")


def find_violation(plan: Plan) -> str:
    """What brute force finds above the claims of a plan, in 300 units; nothing if none is."""
    draws = random.Random(1)
    node = analyse(plan, CATALOG).node
    for _ in range(300):
        unit_rows = rows(plan, draw_unit(draws))
        if len(unit_rows) > node.rows:
            return f"{len(unit_rows)} rows of {node.rows} claimed"
        if "oid" in (unit_rows[0][1] if unit_rows else ()):
            ids = [row["oid"] for _, row in unit_rows]
            most = max(map(ids.count, ids))
            if most > node.rows_per_group(("oid",)):
                return f"{most} rows of one id"
    return ""


@pytest.mark.parametrize("plan", PLANS, ids=range(len(PLANS)))
def test_no_unit_has_more_rows_than_claimed(plan):
    assert find_violation(plan) == ""


def test_claims_are_as_small_as_they_can_be():
    """Six lines may be of six orders; a join with the ends of each order adds no line."""
    assert [analyse(plan, CATALOG).node.rows for plan in PLANS[:4]] == [6, 6, 6, 6]
    assert analyse(BY_ID, CATALOG).node.rows_per_group(("oid",)) == 1


def test_a_planted_claim_of_one_row_for_all_ids_is_found(monkeypatch):
    def claim_one(source, keys, columns):
        return replace(original(source, keys, columns), rows=1)

    original = rules.per_unit_rows
    monkeypatch.setattr(rules, "per_unit_rows", claim_one)
    assert "of 1 claimed" in find_violation(BY_ID)


@pytest.mark.parametrize(
    "plan",
    [Group(LINES, ("oid",), (Named("n", Count()),)), LimitGroups(LINES, ("oid",), 2)],
    ids=["group", "limit_groups"],
)
def test_ids_are_keys_inside_a_unit_only(plan):
    """Over all units an id could join the rows of two of them; a limit needs the key's index."""
    with pytest.raises(RefusedError, match="oid cannot be a key: it is a id"):
        analyse(plan, CATALOG)
