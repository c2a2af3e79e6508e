"""Sensitivities of queries on neighbours: brute force finds no larger change, and finds planted
bugs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest

from dither.catalog import parse
from dither.plan import analyse as analysis
from dither.plan import carry_sums, narrow
from dither.plan.algebra import (
    Call,
    Cells,
    Column,
    Compare,
    Count,
    Filter,
    Group,
    Named,
    PerUnit,
    Project,
    Scan,
    Sum,
    Value,
)
from dither.plan.analyse import FIRST_RULES, analyse
from dither.plan.conditions import columns_of
from dither.plan.of_catalog import sensitivity
from dither.plan.sensitivity import sensitivity_in
from tests.case_lists import mark_between, mark_rest
from tests.plan.small_databases import HEAD, SmallTable
from tests.plan.small_neighbours import search_excess

VISITS = SmallTable("visits", ("day", "ward"), frozenset(), (), 20)
CATALOG = parse(HEAD.replace("NEIGHBOURS", "add_remove") + VISITS.write())
DAYS = Group(Scan("visits"), ("day",), (Named("n", Count()), Named("s", Sum("ward"))))
WARDS = PerUnit(Scan("visits"), ("ward",), (Named("n", Count()),))


@pytest.mark.parametrize("seed", mark_rest(range(3), quick=1))
def test_no_query_moves_further_than_claimed(seed):
    assert search_excess(seed, 4) is None


@pytest.mark.all
@pytest.mark.parametrize("seed", range(100, 150))
def test_no_query_of_many_moves_further_than_claimed(seed):
    assert search_excess(seed, 10) is None


def test_counts_of_everybodys_groups_add_up_to_the_rows_of_a_person():
    """COUNT(*) per day, summed: a person with 20 rows moves it by 20, however large the counts."""
    assert sensitivity(Cells(DAYS, (), (Sum("n"),)), CATALOG).l1 == 20
    assert sensitivity(Cells(DAYS, ("day",), (Sum("n"),)), CATALOG).l1 == 20
    cut = Project(DAYS, (Named("c", Call("least", (Column("n"), Value("number", F(5))))),))
    assert sensitivity(Cells(cut, (), (Sum("c"),)), CATALOG).l1 == 20


@pytest.mark.parametrize(
    ("cut", "steps"), [(F(5), 1), (F(11, 2), 2), (F(10, 3), 3), (F(5_000_001, 10**6), 10**6)]
)
def test_a_finer_cut_counts_in_finer_steps(cut, steps):
    """LEAST(n, 5.5) of 20 days with a row each is 20, which are 40 halves."""
    least = Call("least", (Column("n"), Value("number", cut)))
    halves = Project(DAYS, (Named("c", least),))
    per_unit = Project(WARDS, (Named("c", least),))
    assert sensitivity(Cells(halves, (), (Sum("c"),)), CATALOG).l1 == 20 * steps
    assert analyse(per_unit, CATALOG).node.sums["c"] == 20 * steps


def test_a_cut_of_a_coarse_column_counts_in_steps_of_the_cut():
    """Sums of a column of resolution 5 are counted in fives, LEAST(s, 10) of them in ones."""
    text = VISITS.write().replace(
        "ward: {type: integer, bounds: [0, 2]",
        "ward: {type: decimal, resolution: 5, bounds: [0, 10]",
    )
    catalog = parse(HEAD.replace("NEIGHBOURS", "add_remove") + text)
    least = Call("least", (Column("s"), Value("number", F(10))))
    query = Cells(Project(DAYS, (Named("c", least),)), (), (Sum("c"),))
    assert analyse(DAYS, catalog).node.sums["s"] == 20 * 2
    assert sensitivity(query, catalog).l1 == 20 * 10


def test_a_person_changes_whether_a_group_is_there_once_for_each_group():
    """20 rows touch at most 20 days: that many days come or go, where 40 rows are replaced."""
    assert sensitivity(Cells(DAYS, (), (Count(),)), CATALOG).l1 == 20


def test_a_filter_by_a_count_ends_what_is_known_of_its_sum():
    """HAVING n > 5: one row more, and the whole group counts. 2 * 20 rows of at most 1,000."""
    chosen = Filter(DAYS, Compare("n", ">", F(5)))
    assert sensitivity(Cells(chosen, (), (Sum("n"),)), CATALOG).l1 == 40 * 1000


def test_a_filter_by_a_key_keeps_what_is_known_of_a_sum():
    chosen = Filter(DAYS, Compare("day", ">", F(0)))
    assert sensitivity(Cells(chosen, (), (Sum("n"),)), CATALOG).l1 == 20


def test_keys_that_are_counts_end_what_is_known_of_a_sum():
    """GROUP BY n: a group with one row more is in another cell, with all that it counts."""
    query = Cells(DAYS, ("n",), (Sum("n"),))
    assert sensitivity(query, CATALOG).l1 == 40 * 1000


def test_counts_of_a_persons_groups_add_up_to_its_rows():
    """COUNT(*) per person and ward, summed: 20, where the first rules claim 3 wards times 20."""
    query = Cells(WARDS, (), (Sum("n"),))
    first = analyse(WARDS, CATALOG, rules=FIRST_RULES)
    assert sensitivity(query, CATALOG).l1 == 20
    assert sensitivity_in(query, first, "add_remove").l1 == 60


def test_an_average_lies_between_the_bounds_of_what_is_averaged():
    """AVG(ward) of wards from 0 to 2, in millionths; the first rules say 20 times that."""
    mean = Project(
        PerUnit(Scan("visits"), (), (Named("n", Count()), Named("s", Sum("ward")))),
        (Named("m", Call("divide", (Column("s"), Column("n")))),),
    )
    assert analyse(mean, CATALOG).columns["m"].high == 2_000_000
    assert analyse(mean, CATALOG, rules=FIRST_RULES).columns["m"].high == 40_000_000


# -- planted bugs


def keep_every_sum(plan, node, source, before):
    """A filter by any column keeps what is known of sums."""
    carried = carry_sums.carry_sums(plan, node, source, before)
    if isinstance(plan, Filter):
        return source
    return carried


def halve_sums(plan, node, source, before):
    """Half of a unit's rows are forgotten."""
    carried = carry_sums.carry_sums(plan, node, source, before)
    if not isinstance(plan, (Group, PerUnit)):
        return carried
    return replace(carried, sums={name: most // 2 for name, most in carried.sums.items()})


def forget_finer_steps(expression, before):
    """LEAST(n, 5.5) is taken to have the steps of n."""
    return before[min(columns_of(expression))]


def narrow_by_the_first_choice(choices):
    """OR narrows like its first condition alone."""
    return choices[0]


def halve_means(plan, below):
    """An average is taken to lie in half of its bounds."""
    means = TRUE_MEANS(plan, below)
    return {pair: (low / 2, high / 2) for pair, (low, high) in means.items()}


TRUE_MEANS = analysis.find_means


@pytest.mark.parametrize(
    ("module", "name", "planted"),
    mark_between(
        [
            (analysis, "carry_sums", keep_every_sum),
            (analysis, "carry_sums", halve_sums),
            (analysis, "find_means", halve_means),
            (carry_sums, "domain_of", forget_finer_steps),
            (narrow, "_widen", narrow_by_the_first_choice),
            (narrow, "OPPOSITE", {**narrow.OPPOSITE, "<": ">", ">": "<"}),
        ],
        step=3,
    ),
    ids=["kept by filters", "half", "half averages", "finer steps", "OR", "NOT"],
)
def test_brute_force_catches_a_planted_bug(module, name, planted, monkeypatch):
    monkeypatch.setattr(module, name, planted)
    assert any(search_excess(seed, 10) for seed in range(8))
