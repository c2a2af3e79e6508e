"""Averages with limits: each person counts with a limited number of rows of a group, at the average
of all that the person has there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import pytest

from dither import ParameterError, connect
from dither.answer.average_bounds import find_average_bounds
from dither.answer.choose_limits import BoughtHistogram, choose_limits
from dither.answer.limit_wishes import read_limit_wish
from dither.audit.naive_plans import grouped
from dither.plan.analysed_query import Analyses
from dither.plan.of_catalog import sensitivity
from dither.question.unit_limits import (
    UnitClamp,
    UnitLimits,
    can_be_limited,
    find_counters,
    limit_recipe,
)
from dither.sql.bind import bind
from tests.datasets import clinic, clinic_sql

AVERAGES = "SELECT ward, AVG(cost) AS a FROM visits GROUP BY ward"


@pytest.fixture(scope="module")
def place():
    with clinic_sql.registered(30) as registered:
        yield registered[0]


def bind_averages(place, sql: str = AVERAGES):
    return bind(sql, place.catalog, place.facts)


def limit_averages(place, rows: int, max_groups: int | None = None):
    recipe = bind_averages(place)
    counted, summed = (atom.aggregate for atom in recipe.atoms)
    clamps = (
        UnitClamp(counted, Fraction(0), Fraction(rows)),
        UnitClamp(summed, Fraction(0), Fraction(0)),
    )
    analyses = Analyses(place.catalog, place.facts)
    return limit_recipe(recipe, UnitLimits(clamps, max_groups), "person", analyses)


def average_by_person(place, rows: int) -> dict[object, tuple[Fraction, Fraction]]:
    """The oracle: limited counts, and sums of distances to the middle, 2,500."""
    table = place.catalog.table("visits")
    ward = table.column("ward")
    own: dict[tuple[str, object], list[Fraction]] = defaultdict(list)
    for row in place.oracle.tables["visits"]:
        if row["cost"] is not None:
            label = None if row["ward"] is None else [*ward.values, "other"][row["ward"]]
            own[row["owner"], label].append(Fraction(row["cost"], 100) - 2500)
    numbers: dict[object, tuple[Fraction, Fraction]] = {}
    for (_, label), values in own.items():
        kept = min(len(values), rows)
        share = sum(values) / len(values)
        count, total = numbers.get(label, (Fraction(0), Fraction(0)))
        numbers[label] = count + kept, total + kept * share
    return numbers


@pytest.mark.parametrize("rows", [1, 2, 20])
def test_a_person_with_more_rows_counts_with_the_own_average(place, rows):
    limited = limit_averages(place, rows)
    expected = average_by_person(place, rows)
    cells = grouped(limited.queries[0], place.oracle)
    assert {key[0] for key in cells} >= set(expected)
    for (label,), (count, total) in cells.items():
        wanted = expected.get(label, (0, 0))
        assert count == wanted[0]
        assert abs(total - wanted[1]) < Fraction(1, 1000)  # shares are rounded to 6 digits


def test_no_person_moves_a_limited_average_by_more_than_claimed(place):
    """Brute force: every person taken away; 2 rows in each of 3 groups, 2,500.00 each."""
    limited = limit_averages(place, 2, 3)
    query = limited.queries[0]
    claim = sensitivity(query, place.catalog, place.facts)
    before = grouped(query, place.oracle)
    largest = Fraction(0)
    for person in {row["owner"] for row in place.oracle.tables["visits"]}:
        tables = {
            name: [row for row in rows if row.get("owner") != person]
            for name, rows in place.oracle.tables.items()
        }
        after = grouped(query, replace(place.oracle, tables=tables))
        moved = [
            [abs(x - y) for x, y in zip(before[key], after.get(key, [0, 0]), strict=True)]
            for key in before
        ]
        counts, sums = (sum(column) for column in zip(*moved, strict=True))
        assert counts <= 6
        assert sums <= 6 * 2500
        largest = max(largest, counts)
    assert largest > 2  # a claim that nobody comes near would test nothing
    assert claim.linf == 2 * 2500 * 10**6


@pytest.mark.parametrize("rows", [3, 20, 40, 1000])
def test_a_limited_average_keeps_its_public_bounds_and_unit(place, rows):
    """Also where more rows are allowed than the 20 that a person can have."""
    limited = limit_averages(place, rows, 2)
    assert limited.atoms[1].unit == Fraction(1, 10**6)
    analyses = Analyses(place.catalog, place.facts)
    bounds = find_average_bounds(limited.outputs[1].formula, limited, analyses)
    assert bounds == find_average_bounds(limited.outputs[1].formula, bind_averages(place), analyses)
    assert bounds == (0, 5000)


def test_an_average_around_zero_is_limited_by_rows_as_any_other(place):
    """Its bounds are -5 and 5: no middle is taken off, and the column is a sum over a count."""
    recipe = bind_averages(place, "SELECT ward, AVG(score) AS a FROM visits GROUP BY ward")
    assert find_counters(recipe) == {(0, 1): 0}
    clamps = tuple(UnitClamp(atom.aggregate, Fraction(0), Fraction(2)) for atom in recipe.atoms)
    limited = limit_recipe(
        recipe, UnitLimits(clamps), "person", Analyses(place.catalog, place.facts)
    )
    own = defaultdict(list)
    for row in place.oracle.tables["visits"]:
        if row["score"] is not None and row["ward"] == 0:
            own[row["owner"]].append(row["score"])
    expected = sum(
        Fraction(min(len(values), 2) * sum(values), len(values)) for values in own.values()
    )
    count, total = grouped(limited.queries[0], place.oracle)["north",]
    assert count == sum(min(len(values), 2) for values in own.values())
    assert abs(total - expected) < Fraction(1, 1000)


@pytest.mark.parametrize("over", ["COUNT(score)", "SUM(score)"])
def test_a_ratio_of_other_numbers_is_no_average(place, over):
    recipe = bind_averages(place, f"SELECT 5 + SUM(cost) / {over} AS a FROM visits")
    assert find_counters(recipe) == {} and not can_be_limited(recipe)


def test_a_total_of_all_groups_is_no_limit_of_an_average(place):
    recipe = bind_averages(place)
    clamps = tuple(UnitClamp(atom.aggregate, Fraction(0), Fraction(1)) for atom in recipe.atoms)
    limits = UnitLimits(clamps, None, True)
    with pytest.raises(ParameterError, match="is_total"):
        limit_recipe(recipe, limits, "person", Analyses(place.catalog, place.facts))


def test_rows_and_groups_are_bought_for_an_average_and_nothing_for_its_sum(place):
    wish = read_limit_wish(AVERAGES, bind_averages(place), Analyses(place.catalog, place.facts))
    assert wish.bought == (0,)
    assert wish.counted_by == (None, 0)
    assert len(wish.plans) == 2 and wish.group_edges


@pytest.mark.parametrize(
    ("ones", "twos", "expected"), [(500, 0, 1), (500, 100, 1), (0, 500, 2), (10**6, 10**5, 2)]
)
def test_rows_are_left_out_where_noise_is_larger_than_chance(ones, twos, expected):
    """100 second rows beside 500 first ones are not worth twice the noise; of a million they are,
    since noise is small there."""
    people = ones + twos
    rows = BoughtHistogram((0, 1, 2, 4), (0, ones, twos, 0, 0), 1.0)
    groups = BoughtHistogram((0, 1, 2, 3), (0, people, 0, 0, 0), 1.0)
    (chosen,), max_groups = choose_limits([rows], groups, 0.5, 4, (), [True])
    assert (chosen.clamp, max_groups) == (expected, 1)


def test_an_average_is_asked_with_bought_limits_and_errs_less(tmp_path):
    """Each of 300 people has two rows of three that the catalog allows, in one ward of four."""
    rows = [
        clinic.row(f"{person}-{visit}", str(person), cost=str(person % 100), ward="north")
        for person in range(300)
        for visit in range(2)
    ]
    file, state = clinic.register(tmp_path, rows)
    clinic.open_total(state, epsilon="1000", ceiling="1000")
    con = connect(file)
    sql = "SELECT ward, AVG(cost) AS a FROM visits GROUP BY ward"
    limits = con.suggest("limits", sql, epsilon="250")  # without noise, so that they are the best
    with_limits = con.preview(sql, epsilon="0.75", limits=limits, group_size=600)
    without = con.preview(sql, epsilon="0.75", group_size=600)
    assert with_limits.columns[0].half_width < 0.7 * without.columns[0].half_width
    spent = con.budget().pots[0].spent
    assert 0 < spent <= 250
    result = con.sql(sql, epsilon="0.75", limits=limits)
    assert con.budget().pots[0].spent - spent == Fraction(result.info["charged"])
    assert "times its clamped count" in "; ".join(result.columns[1].limits)
