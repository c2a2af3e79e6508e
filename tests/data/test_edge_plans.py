"""Random plans at the edges of engine types, on neighbours: persons, windows and rows; engine,
oracle and claim agree.

Rows, cells, histograms (counted in an array and by the engine's groups), owners of unlisted keys
and cells of them; a unit added, and one replaced by another, under a new key of the sample for each
plan.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction as F
from random import Random
from typing import get_args

import pytest

from dither.audit import naive
from dither.audit.sensitivity_check import list_broken_claims
from dither.plan import algebra as a
from dither.plan.algebra import Keys, Quantiles
from dither.plan.analyse import analyse
from dither.plan.facts import NO_FACTS
from dither.plan.of_catalog import open_keys
from dither.plan.stability import Owned
from tests.case_lists import mark_rest
from tests.data.edge_checks import both_ways, open_cells, owners_of_keys, vectors_of
from tests.data.edge_plans import Plans, draw_vectors
from tests.datasets import hospital
from tests.datasets.edge_catalogs import catalog_of, person_rows, row_of, together
from tests.neighbours import check_claim, check_rows, measured

WEEK = "2024-01-03"


def neighbours(random: Random, unit: str, catalog):
    """Raw rows without the unit, with it, and with another in its place; the owners of the last
    two."""
    public = [row_of(random, catalog.table("pub"), None) for _ in range(6)]
    others = [person_rows(random, catalog, name) for name in ("p1", "p 2", "pé")]
    names = ["victim", random.choice(["victim", "another"])]
    mine, instead = (person_rows(random, catalog, name, 6) for name in names)
    for rows in (mine, instead):
        if unit == "row":
            kept = random.choice(["one", "two"])
            rows.update({table: rows[table][:1] if table == kept else [] for table in rows})
        if unit == "window":
            rows.update({table: [{**row, "dy": WEEK} for row in rows[table]] for table in rows})
    raws = (
        together(public, *others),
        together(public, *others, mine),
        together(public, instead, *others),
    )
    return raws, names


def check(plan, databases, owners: list[str], unit: str, maker: Plans) -> None:
    catalog, facts = maker.catalog, maker.facts
    node = analyse(plan, catalog, facts).node
    rows = [both.rows(plan) for both in databases]
    for both, found in zip(databases, rows, strict=True):
        wanted = both.expected(plan)
        if not isinstance(
            node, Owned
        ):  # the oracle keeps owners where the side without any is empty
            wanted = Counter({(None, values): 0 for _, values in wanted})
            for (_, values), count in both.expected(plan).items():
                wanted[None, values] += count
        assert found == wanted, plan
    for within, name in zip(rows[1:], owners, strict=True):
        owner = databases[0].name_owner(name)
        moved = (within - rows[0]) + (rows[0] - within)
        if unit == "row" and isinstance(node, Owned):  # rows are named by their content
            named = {name for name, _ in moved}
            assert len(named) <= 1
            owner = next(iter(named), owner)
        check_rows(plan, rows[0], within, databases[0], owner)
    if query := maker.query(plan):
        prepared(query, databases)
    if query and not open_keys(query, catalog, facts):
        one, two, three = (measured(both, query) for both in databases)
        check_claim(query, one, two, catalog, facts)
        check_claim(query, one, three, catalog, facts)
        check_claim(query, two, three, replace(catalog, neighbours="replace"), facts)
    elif query:
        for both in databases:
            assert both.measurer.measure(query, both.sample_key) == open_cells(both, query), query
        check_moves(query, databases, maker)
    if query := maker.quantiles(plan):
        prepared(query, databases)
        for both in databases:
            both_ways(both, query)
        check_moves(query, databases, maker)
    if query := draw_vectors(maker, plan):
        prepared(query, databases)
        sums = [both.measurer.measure(query, both.sample_key)[:, 0].tolist() for both in databases]
        assert sums == [vectors_of(both, query) for both in databases], query
        steps = query.clip / query.resolution
        for first, second, times in ((0, 1, 1), (0, 2, 1), (1, 2, 2)):
            moves = [x - y for x, y in zip(sums[first], sums[second], strict=True)]
            assert sum(move * move for move in moves) <= (times * steps) ** 2, query
    unlisted = tuple(
        name for name, domain in analyse(plan, catalog, facts).columns.items() if domain.undeclared
    )
    if unlisted and isinstance(node, Owned):
        keys = Keys(plan, unlisted)
        prepared(keys, databases)
        for both in databases:
            assert both.measurer.measure(keys, both.sample_key) == owners_of_keys(both, keys), keys
        check_moves(keys, databases, maker)


def prepared(query, databases) -> None:
    """As the kernel asks: compiled first, on every database."""
    assert len({both.measurer.prepare(query) for both in databases}) == 1


def check_moves(query, databases, maker: Plans) -> None:
    sides = [both.measurer.measure(query, both.sample_key) for both in databases]
    for place in (1, 2):
        assert not list_broken_claims(
            query, [sides[0], sides[place]], maker.catalog, maker.facts
        ), query
    found = list_broken_claims(
        query, sides[1:], replace(maker.catalog, neighbours="replace"), maker.facts
    )
    if isinstance(
        query, Quantiles
    ):  # rows that leave a cell and rows that join it move its ranks no further than each
        found = [words for words in found if "of a cell" not in words]
    assert not found, query


def run(seed: int, unit: str, plans: int, always: tuple[str, ...] = ()) -> None:
    random = Random(seed)
    catalog = catalog_of(random, unit)
    raws, names = neighbours(random, unit, catalog)
    if unit == "window":
        week = naive._window(
            naive.repair(WEEK, catalog.table("one").column("dy")), catalog.table("one"), catalog
        )
        names = [f"{week}:{name}" for name in names]
    with ExitStack() as stack:
        databases = [stack.enter_context(hospital.registered(each, catalog)) for each in raws]
        maker = Plans(random, catalog, databases[0].facts, always)
        for _ in range(plans):
            key = random.randbytes(32)
            for both in databases:
                both.sample_key, both.oracle = key, naive.with_sample(both.oracle, key)
            plan = maker.plan()
            if always:
                limited = a.LimitGroups(a.SampleUnits(plan, F(2, 3)), always, random.choice([1, 2]))
                plan = limited if maker.tried(limited) else plan
            check(plan, databases, names, unit, maker)


RUNS = [
    (1, "person", (), 3),
    (1, "person", (), 6),
    (2, "window", ("lab",), 6),
    (3, "row", (), 6),
    (4, "person", ("lab",), 6),
]


@pytest.mark.parametrize(("seed", "unit", "always", "plans"), mark_rest(RUNS, quick=1))
def test_plans_at_the_edges_of_types(seed, unit, always, plans):
    run(seed, unit, plans, always)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 160))
def test_plans_at_the_edges_of_types_for_hours(seed):
    random = Random(seed)
    run(
        seed,
        random.choice(["person", "person", "window", "row"]),
        120,
        random.choice([(), ("lab",)]),
    )


def test_every_operator_is_drawn():
    """LimitGroups was once drawn by no number any more: nothing tried it."""
    random = Random(0)
    maker = Plans(random, catalog_of(random), NO_FACTS)
    plans = [maker.grown(maker.start("one")) for _ in range(120)]
    drawn = {type(plan) for plan in plans}
    assert drawn - {type(None)} == set(get_args(a.Plan)) - {a.Scan}
