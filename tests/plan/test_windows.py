"""Units of one window: what their rows share, against brute force, with planted bugs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from dither.catalog import parse
from dither.plan import carry_degrees
from dither.plan.analyse import FIRST_RULES, NEWEST_RULES
from dither.plan.analysed_query import Analyses
from dither.plan.stability import degrees, windows
from dither.sql.bind import bind
from tests.plan.small_windows import search_window_violation

CATALOG = parse(
    """\
dither: 1
dataset: w
lineage: w
population: w
neighbours: add_remove
unit: {kind: person_window, column: day, every: month, zone: UTC}
people: {pid: {protected: true}}
source: {engine: csv, location: .}
tables:
  visits:
    kind: private
    from: visits.csv
    owner: {column: pid}
    unique: []
    rows_per_unit: 40
    max_rows: 100000
    columns:
      pid: {type: id}
      day: {type: date, bounds: [2024-01-01, 2024-12-31], nulls: drop, provenance: x}
      ward: {type: category, values: [a, b], other: drop, nulls: drop}
"""
)
BOUNDS = [
    # key of COUNT(DISTINCT pid), L1 by the newest rules, by the rules of release 0.1
    ("date_trunc('month', day)", 1, 12),
    ("month(day)", 1, 12),
    ("quarter(day)", 1, 4),
    ("year(day) * 100 + month(day)", 1, 12),
    # a month has 31 days, a day of the week has 7
    ("day", 31, 40),
    ("dayofweek(day)", 7, 7),
]


@pytest.mark.parametrize(("key", "newest", "first"), BOUNDS, ids=[row[0] for row in BOUNDS])
def test_a_unit_has_one_value_of_its_own_window(key, newest, first):
    question = f"SELECT {key} AS k, COUNT(DISTINCT pid) AS n FROM visits GROUP BY k"
    for rules, claimed in ((NEWEST_RULES, newest), (FIRST_RULES, first)):
        recipe = bind(question, CATALOG, rules=rules)
        query = Analyses(CATALOG, rules=rules).analyse_query(recipe.queries[0])
        assert query.sensitivity.l1 == claimed


@pytest.mark.parametrize("seed", range(4))
def test_no_unit_of_a_window_has_more_than_claimed(seed):
    assert search_window_violation(seed, 6)[0] is None


@pytest.mark.all
@pytest.mark.parametrize("seed", range(100, 140))
def test_no_unit_of_many_windows_has_more_than_claimed(seed):
    assert search_window_violation(seed, 25)[0] is None


@contextmanager
def ignore_zones() -> Iterator[None]:
    """Take days at any zone for days of the windows."""
    add_window = windows.add_window

    def add(rows, unit, columns):
        return add_window(rows, replace(unit, offset_seconds=columns[unit.column].offset), columns)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(carry_degrees, "add_window", add)
        yield


@contextmanager
def keep_moments_of_the_null_side() -> Iterator[None]:
    """Forget that a left join makes the day of the right side null."""
    join_degrees = degrees.join_degrees

    def join(left, right, on, kind, matches):
        joined = join_degrees(left, right, on, kind, matches)
        return replace(joined, moments=left.moments | (right.moments << left.size))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(carry_degrees, "join_degrees", join)
        yield


@contextmanager
def take_days_for_months() -> Iterator[None]:
    """Say that a day of the week is the same all month."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(windows.CONSTANT, "month", windows.CONSTANT["month"] | {"day_of_week"})
        yield


@contextmanager
def shorten_months() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(windows.DAYS, "week", 6)
        patched.setitem(windows.DAYS, "month", 5)
        yield


@contextmanager
def take_years_of_weeks() -> Iterator[None]:
    """Say that a week lies in one year."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(windows.CONSTANT, "week", windows.CONSTANT["week"] | {"year", "month"})
        yield


@pytest.mark.parametrize(
    "plant",
    [
        ignore_zones,
        keep_moments_of_the_null_side,
        take_days_for_months,
        shorten_months,
        take_years_of_weeks,
    ],
)
def test_brute_force_catches_a_planted_bug(plant):
    with plant():
        violations = (search_window_violation(seed, 12)[0] for seed in range(11, 31))
        assert any(violation is not None for violation in violations)
