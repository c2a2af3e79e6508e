"""Random plans at the edges of types: rows and exact integers of every engine are the oracle's."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from dither.errors import RefusedError
from dither.plan.algebra import Keys
from dither.plan.analyse import analyse
from dither.plan.of_catalog import open_keys
from dither.plan.stability import Owned
from tests.case_lists import mark_rest
from tests.data.edge_checks import engine_histogram, histogram, open_cells, owners_of_keys
from tests.data.edge_plans import Plans
from tests.data.engines.twins import on_engine
from tests.datasets import hospital
from tests.datasets.edge_catalogs import catalog_of, person_rows, row_of, together

PLANS = 15


def raw_rows(random: Random, catalog):
    """Rows of three people, with every edge of every type."""
    public = [row_of(random, catalog.table("pub"), None) for _ in range(6)]
    return together(public, *(person_rows(random, catalog, name) for name in ("p1", "p 2", "pé")))


def check_plan(plan, first: hospital.Registered, other: hospital.Registered, maker: Plans) -> int:
    """Compare rows, cells, histograms and keys of a plan; returns how many queries were tried."""
    wanted = other.expected(plan)
    if not isinstance(analyse(plan, other.catalog, other.facts).node, Owned):
        totals: Counter = Counter()
        for (_, values), count in wanted.items():
            totals[None, values] += count
        wanted = totals
    assert other.rows(plan) == wanted, plan
    tried = 0
    if query := maker.query(plan):
        other.measurer.prepare(query)
        measured = other.measurer.measure(query, other.sample_key)
        if open_keys(query, other.catalog, other.facts):
            assert measured == open_cells(other, query), query
        else:
            expected = first.measurer.measure(query, first.sample_key)
            assert measured.tolist() == expected.tolist(), query
        tried += 1
    if query := maker.quantiles(plan):
        other.measurer.prepare(query)
        assert engine_histogram(other, query) == histogram(other, query), query
        tried += 1
    columns = analyse(plan, other.catalog, other.facts).columns
    unlisted = tuple(name for name, domain in columns.items() if domain.undeclared)
    if unlisted and isinstance(analyse(plan, other.catalog, other.facts).node, Owned):
        keys = Keys(plan, unlisted)
        other.measurer.prepare(keys)
        assert other.measurer.measure(keys, other.sample_key) == owners_of_keys(other, keys)
        tried += 1
    return tried


def check_random_plans(
    seed: int, engine: str, location: str, plans: int = PLANS, settings: tuple[str, ...] = ()
) -> None:
    random = Random(seed)
    unit = ["person", "row", "window"][seed % 3]
    catalog = catalog_of(random, unit)
    with (
        hospital.registered(raw_rows(random, catalog), catalog) as first,
        on_engine(first, engine, location) as other,
    ):
        for setting in settings:
            other.measurer.engine.connection.execute(f"SET {setting} = off")
        maker = Plans(random, first.catalog, first.facts)
        tried = 0
        for _ in range(plans):
            plan = maker.plan()
            try:
                tried += check_plan(plan, first, other, maker)
            except RefusedError:
                assert engine == "spark", plan  # widths that only Spark lacks
        assert tried


@pytest.mark.parametrize("seed", mark_rest(range(30), quick=1))
def test_postgres(seed, postgres):
    check_random_plans(seed, "postgres", postgres)


@pytest.mark.parametrize("seed", mark_rest(range(0, 30, 3), quick=1))
def test_postgres_by_indexes(seed, postgres):
    """Rows of these tables are few, so the server is kept from reading them all."""
    check_random_plans(seed, "postgres", postgres, settings=("enable_hashjoin", "enable_seqscan"))


@pytest.mark.all
@pytest.mark.parametrize("seed", range(6))
def test_spark(seed):
    check_random_plans(seed, "spark", "", plans=8)
