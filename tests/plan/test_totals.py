"""Totals of a unit: nothing adds up to more than the limit, and planted bugs are found."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction as F

import pytest

from dither.audit.naive_plans import rows
from dither.catalog import parse
from dither.errors import RefusedError
from dither.plan import analyse as analysis
from dither.plan import carry_sums as sums_module
from dither.plan.algebra import (
    Cells,
    Column,
    Compare,
    Count,
    Filter,
    LimitTotal,
    Named,
    PerUnit,
    Project,
    Scan,
    Sum,
)
from dither.plan.analyse import FIRST_RULES, analyse
from dither.plan.of_catalog import sensitivity
from dither.plan.sensitivity import sensitivity_in
from dither.plan.stability import limit_total, owned
from tests.plan.small_databases import HEAD, SmallTable, draw_database
from tests.plan.small_neighbours import (
    draw_neighbours,
    draw_total,
    find_excess,
    measure_change,
)

VISITS = SmallTable("visits", ("day", "ward"), frozenset(), (), 20)
CATALOG = parse(HEAD.replace("NEIGHBOURS", "add_remove") + VISITS.write())
DAYS = PerUnit(Scan("visits"), ("day",), (Named("n", Count()), Named("s", Sum("ward"))))
LIMITED = LimitTotal(DAYS, ("day",), "s", F(5))


def test_a_total_bounds_the_sum_by_any_keys():
    """20 rows of at most 2 are 40; the limit is 5, by the key, by the number itself, and in all."""
    assert sensitivity(Cells(DAYS, ("day",), (Sum("s"),)), CATALOG).l1 == 40
    for keys in ((), ("day",), ("n",), ("s",)):
        assert sensitivity(Cells(LIMITED, keys, (Sum("s"),)), CATALOG).l1 == 5


def test_the_other_columns_and_rows_are_as_they_were():
    assert sensitivity(Cells(LIMITED, ("day",), (Sum("n"),)), CATALOG).l1 == 20
    assert sensitivity(Cells(LIMITED, ("day",), (Count(),)), CATALOG).l1 == 3


def test_a_total_lives_through_filters_and_names_and_ends_with_other_values():
    """Some of the rows add up to no more; the first rules know nothing of totals."""
    renamed = Project(Filter(LIMITED, Compare("n", ">", F(2))), (Named("t", Column("s")),))
    assert sensitivity(Cells(renamed, (), (Sum("t"),)), CATALOG).l1 == 5
    first = analyse(LIMITED, CATALOG, rules=FIRST_RULES)
    assert sensitivity_in(Cells(LIMITED, (), (Sum("s"),)), first, "add_remove").l1 == 15


def search_excess(seed: int, schemas: int, plans: int = 30) -> str | None:
    """The first limited total that moves further than claimed, or whose rows break their claims."""
    draws = random.Random(seed)
    for _ in range(schemas):
        neighbours = draws.choice(["add_remove", "replace"])
        small = draw_database(draws, 1, neighbours=neighbours)
        (table,) = small.tables
        pairs = [draw_neighbours(draws, small, neighbours) for _ in range(4)]
        for _ in range(plans):
            keys = tuple(draws.sample(table.columns, draws.choice([1, 2])))
            named = [Named("n", Count()), Named("s", Sum(draws.choice(table.columns)))]
            source = PerUnit(Scan(table.name), keys, (*named, Named("v", Count())))
            column = draws.choice("ns")
            plan = draw_total(draws, source, draws.choice([keys, keys[:1]]), column)
            asked = draws.choice([(), keys, (column,), (keys[0], column)])
            query = Cells(plan, asked, draws.choice([(Sum(column),), (Sum(column), Count())]))
            try:
                claimed = analyse(plan, small.catalog, small.facts)
            except RefusedError:
                continue
            domain = claimed.columns[column]
            for first, second in pairs:
                values = [row[column] for _, row in rows(plan, first)]
                if not all(domain.low <= value <= domain.high for value in values):
                    return f"{column} outside [{domain.low}, {domain.high}]: {plan}"
                change = measure_change(query, claimed, first, second)
                if excess := find_excess(query, claimed, neighbours, change):
                    return f"{neighbours}: {excess}: {query}"
    return None


@pytest.mark.parametrize("seed", range(3))
def test_no_limited_total_moves_further_than_claimed(seed):
    assert search_excess(seed, 6) is None


@pytest.mark.all
@pytest.mark.parametrize("seed", range(100, 140))
def test_no_limited_total_of_many_moves_further_than_claimed(seed):
    assert search_excess(seed, 20) is None


# -- planted bugs

TRUE_CARRY = sums_module.carry_sums
TRUE_COLUMNS = limit_total.limit_total_columns
TRUE_ROWS = limit_total.limit_total_rows


def halve_totals(plan, node, source, before):
    """Half of a total is claimed."""
    carried = TRUE_CARRY(plan, node, source, before)
    if not isinstance(plan, LimitTotal):
        return carried
    return replace(carried, sums={**carried.sums, plan.column: carried.sums[plan.column] // 2})


def keep_least_value(source, rows_per_unit, column, total):
    """A column of at least 1 is taken to stay above 0."""
    columns = TRUE_COLUMNS(source, rows_per_unit, column, total)
    return {**columns, column: replace(columns[column], low=max(columns[column].low, 1))}


def allow_repeated_keys(source, keys, column):
    """Keys that several rows share are taken: the order of those rows is nobody's."""
    kept = tuple(bound for bound in source.grouped if column not in bound.keys)
    return replace(source, distinct=source.rows, grouped=kept, degrees=None)


def keep_groups_of_values(source, keys, column):
    """What was known of groups by the column's values is kept."""
    bound = owned.Grouped(frozenset((column,)), 1, source.rows)
    return replace(TRUE_ROWS(source, keys, column), grouped=(*source.grouped, bound))


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("carry_sums", halve_totals),
        ("limit_total_columns", keep_least_value),
        ("limit_total_rows", keep_groups_of_values),
    ],
)
def test_brute_force_catches_a_planted_bug(name, planted, monkeypatch):
    monkeypatch.setattr(analysis, name, planted)
    assert any(search_excess(seed, 6) for seed in range(4))


def test_keys_that_repeat_are_refused_and_a_planted_rule_that_takes_them_is_not(monkeypatch):
    plan = LimitTotal(Scan("visits"), ("day",), "ward", F(3))
    with pytest.raises(RefusedError, match="keys that no two rows of a unit share"):
        analyse(plan, CATALOG)
    monkeypatch.setattr(analysis, "limit_total_rows", allow_repeated_keys)
    assert analyse(plan, CATALOG).node.sums["ward"] == 3
