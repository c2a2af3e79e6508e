"""Owners of unlisted keys, cells by them and histograms: measured exactly, moved by a person no
further than said."""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest

from dither.audit import naive
from dither.data import measure
from dither.data.lower import cells as lowered
from dither.mechanisms import QuantileGrid
from dither.plan.algebra import (
    Cells,
    Compare,
    Count,
    Filter,
    Group,
    Join,
    Keys,
    LimitGroups,
    Named,
    Quantiles,
    Scan,
    Sum,
)
from dither.plan.grids import points_between
from dither.plan.of_catalog import points_of, touched
from tests.case_lists import mark_rest
from tests.datasets import hospital

VISITS = Scan("visits")
ONE_EACH = LimitGroups(VISITS, ("diag",), 1)
KEY_LISTS = [[], ["diag", "urgent"], ["score"], ["score", "urgent"], ["diag"]]


class TestMeasured:
    """The engine agrees with the oracle, which walks the rows."""

    @pytest.mark.parametrize(
        "plan", mark_rest([VISITS, ONE_EACH, Filter(VISITS, Compare("score", ">=", F(0)))], quick=1)
    )
    def test_owners_of_keys(self, plan):
        with hospital.registered(hospital.random_people(40)) as both:
            found = both.measurer.measure(Keys(plan, ("diag",)))
            owners = defaultdict(set)
            for owner, row in naive.naive_rows(plan, both.oracle):
                owners[row["diag"],].add(owner)
            assert found == {key: len(mine) for key, mine in owners.items()}
            assert (None,) in found

    def test_cells_by_unlisted_and_listed_keys(self):
        query = Cells(VISITS, ("urgent", "diag", "score"), (Count(), Sum("cost")))
        with hospital.registered(hospital.random_people(40)) as both:
            found = both.measurer.measure(query)
            expected = naive.grouped(query, both.oracle)
            total = Counter()
            for (diag,), cells in found.items():
                assert set(cells) <= set(range(3 * 12))  # urgent with null, score -5..5 with null
                for code, (count, cost) in (
                    (code, cells.get(code, (0, 0))) for code in range(3 * 12)
                ):
                    urgent = [False, True, None][code // 12]
                    score = None if code % 12 == 11 else F(code % 12 - 5)
                    assert [F(count), F(cost, 100)] == expected.get((urgent, diag, score), [0, 0])
                    total[diag] += count
            assert sum(total.values()) == sum(cells[0] for cells in expected.values())

    @pytest.mark.parametrize(
        ("spots", "counters_per_row"),
        [(0, 0), (lowered.MOST_SPOTS, 0), (lowered.MOST_SPOTS, 10**9)],
        ids=["grouped by the engine", "sorted", "counted in an array"],
    )
    @pytest.mark.parametrize("keys", mark_rest(KEY_LISTS, quick=2))
    def test_histograms(self, keys, spots, counters_per_row, monkeypatch):
        monkeypatch.setattr(lowered, "MOST_SPOTS", spots)
        monkeypatch.setattr(measure, "_COUNTERS_PER_ROW", counters_per_row)
        query = Quantiles(VISITS, tuple(keys), "cost", (F(1, 2),))
        with hospital.registered(hospital.random_people(40)) as both:
            points = points_of(query, both.catalog, both.facts)
            found = both.measurer.measure(query)
            expected = Counter()
            for _, row in naive.naive_rows(VISITS, both.oracle):
                if row["cost"] is not None:
                    expected[tuple(row[key] for key in keys), row["cost"]] += 1
            seen = Counter()
            for unlisted, codes in found.items():
                for code, (places, counts) in codes.items():
                    assert (np.diff(places) > 0).all()
                    lists = {"score": [*map(F, range(-5, 6)), None], "urgent": [False, True, None]}
                    key = (
                        *unlisted,
                        *list(product(*(lists[name] for name in keys if name != "diag")))[code],
                    )
                    for place, count in zip(places.tolist(), counts.tolist(), strict=True):
                        seen[key, F(points.value(place), 100)] += count
            assert seen == expected

    def test_the_grid_is_the_mechanisms_grid(self):
        for low, high in [
            (0, 0),
            (0, 110),
            (-5, 10**7),
            (0, 10**9),
            (-(10**15), 3 * 10**15),
            (7, 7 + 2**20),
        ]:
            ours, theirs = points_between(low, high), QuantileGrid.between(low, high)
            assert (ours.low, ours.step, ours.count) == (theirs.low, theirs.step, theirs.cells)
            for value in (low, low + 1, (low + high) // 2, high):
                if low <= value <= high:
                    assert (value - low) // ours.step == theirs.cell(value)


class TestNeighbours:
    """One person more: no more keys and cells move than `touched` says, and each by no more
    rows."""

    PLANS = (
        VISITS,
        ONE_EACH,
        LimitGroups(VISITS, ("diag",), 2),
        Filter(VISITS, Compare("score", ">=", F(0))),
        Join(VISITS, Scan("counties"), (("county", "county"),), "inner"),
    )

    def test_a_person_reaches_no_further(self):
        others = hospital.random_people(12)
        mine = [
            [
                hospital.visit(f"w{j}", "victim", diag=diag, cost=cost)
                for j, (diag, cost) in enumerate(rows)
            ]
            for rows in (
                [("flu", "1"), ("cold", "2"), ("gout", "3")],
                [("flu", "1"), ("flu", "1"), ("flu", "400")],
                [("new", "5"), ("newer", "6"), (None, "7")],
            )
        ]
        for visits in mine:
            with_victim = {**others, "visits": others["visits"] + visits, "patients": [
                *others["patients"], hospital.patient("victim")]}  # fmt: skip
            with hospital.registered(others) as one, hospital.registered(with_victim) as two:
                for plan in self.PLANS:
                    self._check(plan, one, two)

    def _check(self, plan, one, two):
        keys = Keys(plan, ("diag",))
        before, after = one.measurer.measure(keys), two.measurer.measure(keys)
        moved = {key: after.get(key, 0) - before.get(key, 0) for key in {*before, *after}}
        assert set(moved.values()) <= {0, 1}
        assert sum(moved.values()) <= touched(keys, one.catalog, one.facts).cells
        by = Quantiles(plan, ("diag",), "cost", (F(1, 2),))
        reach = touched(by, one.catalog, one.facts)
        changes = _moved(one.measurer.measure(by), two.measurer.measure(by))
        assert len(changes) <= reach.cells
        assert all(rows <= reach.rows_per_cell for rows in changes.values())

    def test_a_limit_that_is_not_in_the_selections_plan_is_seen(self):
        """Planted: counting owners over all rows while claiming one key per person."""
        rows = [
            hospital.visit(f"w{j}", "victim", diag=diag)
            for j, diag in enumerate(["flu", "cold", "gout"])
        ]
        with hospital.registered(hospital.raws([hospital.patient("victim")], rows)) as both:
            claimed = touched(Keys(ONE_EACH, ("diag",)), both.catalog, both.facts).cells
            assert (
                claimed == 1 and sum(both.measurer.measure(Keys(ONE_EACH, ("diag",))).values()) == 1
            )
            assert sum(both.measurer.measure(Keys(VISITS, ("diag",))).values()) == 3 > claimed

    def test_replace_moves_twice_as_many(self):
        facts = hospital.catalog(neighbours__add_remove="neighbours: replace")
        query = Quantiles(VISITS, ("score",), "qty", (F(1, 2),))
        plain = touched(Quantiles(VISITS, ("score",), "cost", (F(1, 2),)), hospital.catalog())
        both = touched(Quantiles(VISITS, ("score",), "cost", (F(1, 2),)), facts)
        assert (plain.cells, plain.rows_per_cell) == (3, 3) and (
            both.cells,
            both.rows_per_cell,
        ) == (6, 3)
        loose = Group(VISITS, ("diag",), (Named("n", Count()),))
        assert (
            touched(Quantiles(loose, (), "n", (F(1, 2),)), facts).rows_per_cell
            == 2 * touched(Quantiles(loose, (), "n", (F(1, 2),)), hospital.catalog()).rows_per_cell
        )
        assert query.column == "qty"


def _moved(one, two):
    moved = Counter()
    for unlisted in {*one, *two}:
        for code in {*one.get(unlisted, {}), *two.get(unlisted, {})}:
            sides = (one.get(unlisted, {}).get(code), two.get(unlisted, {}).get(code))
            before, after = (
                Counter(dict(zip(*map(np.ndarray.tolist, each), strict=True)) if each else {})
                for each in sides
            )
            rows = sum(((after - before) + (before - after)).values())
            if rows:
                moved[unlisted, code] = rows
    return moved
