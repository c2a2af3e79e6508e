"""Boxes of what one unit moves in one cell: every neighbour of a tiny table, and the exact law."""

from __future__ import annotations

import itertools
from fractions import Fraction as F

import pytest

from dither.catalog import Catalog
from dither.plan import sensitivity
from dither.plan.algebra import Cells, Count, CountUnits, Scan, Sum
from dither.plan.of_catalog import box, unit_box
from dither.plan.sensitivity import Box
from dither.privacy.mechanisms import IntegerBox
from tests.case_lists import mark_between
from tests.datasets.clinic import catalog

NUMBERS = (CountUnits(), Count(), Sum("score"))
SCORES = (-5, -1, 0, 5)
Row = tuple[str, int]
Change = list[tuple[int, ...]]


def facts(neighbours: str, rows: int) -> Catalog:
    """The clinic, where `kind` is a or b and `score` lies in [-5, 5]."""
    return catalog(
        neighbours__add_remove=f"neighbours: {neighbours}",
        rows_per_unit__3=f"rows_per_unit: {rows}",
    )


def query(keys: tuple[str, ...], numbers: tuple[object, ...] = NUMBERS) -> Cells:
    return Cells(Scan("visits"), keys, numbers)


def list_units(rows: int) -> list[tuple[Row, ...]]:
    """Everything that one unit can hold, nothing included."""
    every_row = list(itertools.product("ab", SCORES))
    return [
        unit
        for size in range(rows + 1)
        for unit in itertools.combinations_with_replacement(every_row, size)
    ]


def contribute(unit: tuple[Row, ...], cell: str | None) -> tuple[int, ...]:
    """What one unit adds to (units, rows, sum of scores) of a cell; of all rows without a key."""
    scores = [score for kind, score in unit if cell in (None, kind)]
    return int(bool(scores)), len(scores), sum(scores)


def list_changes(keys: tuple[str, ...], neighbours: str, rows: int) -> set[tuple[Change, ...]]:
    """The changes of all cells between all neighbours. Other people's rows cancel."""
    cells = ["a", "b"] if keys else [None]
    added = [tuple(contribute(unit, cell) for cell in cells) for unit in list_units(rows)]
    if neighbours == "add_remove":
        return set(added)
    return {
        tuple(tuple(a - b for a, b in zip(x, y, strict=True)) for x, y in zip(*pair, strict=True))
        for pair in itertools.product(set(added), repeat=2)
    }


def count_boxes(change: tuple[Change, ...], sides: tuple[int, ...]) -> F:
    return sum(
        (max(F(abs(n), side) for n, side in zip(cell, sides, strict=True)) for cell in change), F(0)
    )


def find_most_boxes(keys: tuple[str, ...], neighbours: str, rows: int, claimed: Box) -> F:
    changes = list_changes(keys, neighbours, rows)
    return max(count_boxes(change, claimed.sides) for change in changes)


CASES = list(itertools.product([(), ("kind",)], ["add_remove", "replace"], [1, 2, 3]))


@pytest.mark.parametrize(("keys", "neighbours", "rows"), mark_between(CASES, step=3))
def test_no_neighbour_moves_more_boxes_than_claimed_and_one_moves_as_many(keys, neighbours, rows):
    claimed = unit_box(query(keys), facts(neighbours, rows))
    assert find_most_boxes(keys, neighbours, rows, claimed) == claimed.rows


def test_sides_are_what_a_unit_moves_in_one_cell():
    assert unit_box(query(()), facts("add_remove", 3)) == Box((1, 3, 15), 1)
    assert unit_box(query(("kind",)), facts("add_remove", 3)) == Box((1, 3, 15), 2)
    # one cell: a replaced unit changes what it adds, by at most U - L
    assert unit_box(query(()), facts("replace", 3)) == Box((1, 3, 30), 1)
    # two cells: it leaves one and joins the other, or stays
    assert unit_box(query(("kind",), NUMBERS[:2]), facts("replace", 1)) == Box((1, 1), 2)
    # a sum on [-5, 5] would be twice as wide in both: two boxes of what it adds instead
    assert unit_box(query(("kind",)), facts("replace", 1)) == Box((1, 1, 5), 2)


def test_a_replaced_unit_of_one_row_and_one_cell_moves_one_box():
    """Rows of what a row adds count two: variance (d+1)(d+2)/3 scale^2 is 16 there, 4 here."""
    numbers = (Count(), Sum("age"))
    by_row = box(query((), numbers), facts("replace", 1))
    by_unit = unit_box(query((), numbers), facts("replace", 1))
    assert (by_row, by_unit) == (Box((1, 110), 2), Box((1, 110), 1))
    variances = [(2 + 1) * (2 + 2) * claimed.rows**2 / 3 for claimed in (by_row, by_unit)]
    assert variances == [16, 4]


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_no_ratio_of_outputs_exceeds_epsilon_and_the_corner_meets_it(neighbours):
    """The exact law: log P(x - f)/P(x - f') = (N(x - f') - N(x - f)) / scale on a lattice."""
    numbers = NUMBERS[:2]
    claimed = unit_box(query((), numbers), facts(neighbours, 2))
    noise = IntegerBox.for_epsilon(F(1, 2), claimed.sides, claimed.rows)
    outputs = list(itertools.product(range(-6, 7), repeat=2))
    worst = F(0)
    for change in {(c[0][0], c[0][1]) for c in list_changes((), neighbours, 2)}:
        for x in outputs:
            moved = tuple(a - b for a, b in zip(x, change, strict=True))
            ratio = count_boxes((moved,), noise.sides) - count_boxes((x,), noise.sides)
            worst = max(worst, ratio / noise.scale)
    assert worst == noise.loss().epsilon == F(1, 2)


def test_a_lost_width_is_caught(monkeypatch):
    """Planted: a replaced unit moves a cell by what it adds, not by the width of that."""
    plain = sensitivity._bound_change

    def forget_replace(aggregate, rows, within, neighbours, keys):
        return plain(aggregate, rows, within, "add_remove", keys)

    monkeypatch.setattr(sensitivity, "_bound_change", forget_replace)
    claimed = unit_box(query(()), facts("replace", 2))
    assert find_most_boxes((), "replace", 2, claimed) > claimed.rows


def test_a_lost_cell_is_caught(monkeypatch):
    """Planted: a replaced unit is taken to stay in its cells."""
    claimed = unit_box(query(("kind",)), facts("replace", 1))
    planted = Box(claimed.sides, claimed.rows // 2)
    assert find_most_boxes(("kind",), "replace", 1, planted) > planted.rows
