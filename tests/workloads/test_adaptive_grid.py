"""Adaptive grids: what is cut, what is paid, least squares of both counts, and planted bugs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest

from dither.audit.black_box import test as audit_mechanism
from dither.audit.verdict import Budget
from dither.errors import DitherError
from dither.plan import operator_norms
from dither.plan.operator_norms import largest_norms
from dither.plan.operators import Boxes
from dither.privacy import noise
from dither.workloads import adaptive_grid
from dither.workloads.adaptive_grid import (
    AskedGrid,
    cut_boxes,
    find_coarse_side,
    join_counts,
    list_coarse_boxes,
    list_spans,
)
from tests.mechanisms.planted import Bug
from tests.workloads.conftest import Survey


def list_fine(axes: tuple[int, int], counts: list[int], scale: F) -> list[list[adaptive_grid.Box]]:
    return cut_boxes(list_coarse_boxes(axes, 3), counts, scale)


def join(cuts: list[list[adaptive_grid.Box]]) -> list[adaptive_grid.Box]:
    return [box for cut in cuts for box in cut]


def test_grids_cut_every_cell_once() -> None:
    """Whatever the coarse counts say: one unit of one row moves one fine count by one."""
    draws = np.random.default_rng(1)
    for axes in ((16, 10), (7, 3), (1, 5), (256, 256)):
        coarse = list_coarse_boxes(axes, 3)
        counts = draws.integers(-50, 5000, len(coarse)).tolist()
        for boxes in (coarse, join(cut_boxes(coarse, counts, F(1, 10)))):
            ends = tuple(end for box in boxes for span in box for end in span)
            covers = operator_norms.column_norms(Boxes(axes, ends)).l1
            assert covers.tolist() == [1] * (axes[0] * axes[1])
            assert largest_norms(Boxes(axes, ends)).l1 == 1


def test_spans_are_of_nearly_equal_length() -> None:
    for width, parts in product(range(1, 20), range(1, 12)):
        lengths = [last - first + 1 for first, last in list_spans(5, 5 + width, parts)]
        assert sum(lengths) == width and max(lengths) - min(lengths) <= 1
        assert len(lengths) == min(width, parts)


def test_sides_are_those_of_the_paper_with_other_constants() -> None:
    """Qardaji, Yang, Li 2013: max(10, sqrt(N epsilon / 10) / 4) parts, then one block for 5 rows
    times epsilon; here 5 and 3."""
    assert find_coarse_side(-5, F(1)) == 10 == find_coarse_side(5_000, F(1))
    assert find_coarse_side(1_000_000, F(1, 10)) == 36  # sqrt(100,000 / 5) / 4 = 35.4
    (cut,) = cut_boxes([((0, 99), (0, 99))], [1000], F(1, 10))
    assert len(cut) == 6**2  # sqrt(1000 / 30) = 5.8


def test_blocks_of_fewer_than_two_cells_are_single_cells() -> None:
    """A spike of 20,000 rows at epsilon 0.05: 19 pieces of 26 values would hold 1.4 each."""
    (cut,) = cut_boxes([((0, 25), (0, 25))], [20_000], F(1, 20))
    assert len(cut) == 26**2
    (cut,) = cut_boxes([((0, 25), (0, 25))], [5_000], F(1, 20))
    assert len(cut) == 10**2


def test_more_blocks_than_an_operator_takes_are_made_larger() -> None:
    (cut,) = cut_boxes([((0, 999), (0, 999))], [10**9], F(1))
    assert len(cut) <= adaptive_grid._MOST_BOXES


def test_both_counts_are_joined_by_least_squares() -> None:
    """Against a solver of the full system, with the covariance of its normal equations."""
    cuts = list_fine((6, 6), [40, 0, 0, 0, 90, 0, 0, 0, 0], F(1, 5))
    sizes = [len(cut) for cut in cuts]
    assert max(sizes) > 1
    draws = np.random.default_rng(2)
    coarse = draws.integers(0, 90, len(cuts)).tolist()
    fine = draws.integers(0, 40, sum(sizes)).tolist()
    variances = np.array([3.0, 7.0])
    rows = np.repeat(np.eye(len(cuts)), sizes, axis=1)
    weighted = np.concatenate([rows / 3**0.5, np.eye(sum(sizes)) / 7**0.5])
    target = np.concatenate([np.array(coarse) / 3**0.5, np.array(fine) / 7**0.5])
    fitted, deviations = join_counts(coarse, fine, cuts, variances)
    assert fitted == pytest.approx(np.linalg.lstsq(weighted, target, rcond=None)[0])
    covariance = np.linalg.inv(weighted.T @ weighted)
    assert deviations == pytest.approx(np.sqrt(np.diag(covariance)))


def test_a_preview_is_free_and_all_steps_are_paid_once(survey: Survey) -> None:
    asked = survey.connect("pure").adaptive_grid(["age", "cost"], table="survey", epsilon=1)
    preview = asked.preview()
    assert survey.read_spent() == 0 and preview.charge.amount == pytest.approx(1)
    first = asked.answer()
    assert survey.read_spent() == pytest.approx(1, rel=1e-6) and survey.read_spent() <= 1
    again = asked.answer()
    assert again.counts == first.counts and survey.read_spent() <= 1
    assert first.biased and "adaptive grid" in first.choice
    assert max(first.half_widths) <= preview.block_half_width * 2


def test_counts_are_right_without_much_noise(survey: Survey) -> None:
    con = survey.connect("pure")
    grid = con.adaptive_grid(["age", "cost"], table="survey", epsilon=2000).answer()
    true = np.zeros((16, 10))
    np.add.at(true, (survey.age, survey.cost), 1)
    assert len(grid.blocks) == 160 and np.abs(grid.expand() - true).max() <= 1
    assert grid.count_between(age=(0, 7)) == pytest.approx(true[:8].sum(), abs=1)


def test_noise_is_that_of_a_unit_with_two_rows(survey: Survey) -> None:
    """rows_per_unit 2, half of 0.98 epsilon: scale 2 / 0.49."""
    asked = survey.connect("pure").adaptive_grid(["age", "cost"], table="survey", epsilon=1)
    assert asked.moved == 2
    assert "4.08" in asked.preview().noise


@pytest.mark.parametrize(
    "change",
    [
        {"by": ["age"]},
        {"by": ["age", "sex", "cost"]},
        {"by": ["age", "nothing"]},
        {"by": ["code", "cost"]},
        {"epsilon": 0},
        {"epsilon": None},
        {"confidence": 2},
        {"where": "nothing = 1"},
    ],
    ids=str,
)
def test_bad_questions_are_refused_before_anything_is_spent(
    survey: Survey, change: dict[str, object]
) -> None:
    con = survey.connect("pure")
    terms: dict[str, object] = {"by": ["age", "cost"], "table": "survey", "epsilon": 1}
    with pytest.raises(DitherError):
        con.adaptive_grid(**{**terms, **change}).answer()  # type: ignore[arg-type]
    assert survey.read_spent() == 0


def find_exact_loss(axes: tuple[int, int], coarse_scale: float, fine_scale: float) -> float:
    """The largest log ratio of any outcome of both grids, one cell moving by one.

    Integer Laplace noise: the log ratio of a number is at most |difference| / scale, and reached
    for all numbers that differ at once by outcomes beyond both. The fine blocks are those of the
    coarse outcome, the same in both databases.
    """
    largest = 0.0
    coarse = list_coarse_boxes(axes, 2)
    for counts in product((0, 3, 50), repeat=len(coarse)):
        fine = join(cut_boxes(coarse, list(counts), F(1)))
        for cell in product(*map(range, axes)):
            moved = [sum(holds(box, cell) for box in boxes) for boxes in (coarse, fine)]
            largest = max(largest, moved[0] / coarse_scale + moved[1] / fine_scale)
    return largest


def holds(box: adaptive_grid.Box, cell: tuple[int, ...]) -> bool:
    return all(first <= code <= last for (first, last), code in zip(box, cell, strict=True))


def test_the_loss_of_both_grids_is_the_sum_of_their_prices() -> None:
    assert find_exact_loss((4, 3), 2, 2) == 1


def overlap(first: int, stop: int, parts: int) -> list[tuple[int, int]]:
    """Spans that share their ends."""
    return [(start, min(stop - 1, last + 1)) for start, last in list_spans(first, stop, parts)]


BUGS = {
    "grid-of-overlapping-blocks": Bug(
        "neighbouring blocks share a line of cells: a row is counted in several of them",
        test_grids_cut_every_cell_once,
        ((adaptive_grid, "list_spans", overlap),),
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_caught(name: str) -> None:
    assert BUGS[name].is_caught()


def test_a_fine_grid_at_the_whole_price_is_caught(
    survey: Survey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AskedGrid, "_fine_epsilon", property(lambda grid: grid.grid_epsilon))
    with pytest.raises(AssertionError):
        test_a_preview_is_free_and_all_steps_are_paid_once(survey)


def run_grids(coarse_scale: F, fine_scale: F) -> Callable[[list[int]], list[int]]:
    """Both grids over a plane of 4 x 4 cells as one mechanism: their noisy counts, and the number
    of fine blocks."""

    def run(values: list[int]) -> list[int]:
        cells = np.array(values).reshape(4, 4)

        def count(boxes: list[adaptive_grid.Box], scale: F) -> list[int]:
            exact = [
                int(cells[top : bottom + 1, left : right + 1].sum())
                for (top, bottom), (left, right) in boxes
            ]
            noisy = noise.discrete_laplace(scale, (len(boxes),)) + exact
            return [int(number) for number in noisy]

        coarse = list_coarse_boxes((4, 4), 2)
        first = count(coarse, coarse_scale)
        fine = join(cut_boxes(coarse, first, F(3)))
        return [len(fine), *first, *count(fine, fine_scale)]

    return run


EMPTY = [0] * 16
BESIDE = [1, *EMPTY[1:]]


@pytest.mark.all
def test_an_audit_of_both_grids_finds_nothing() -> None:
    verdict = audit_mechanism(
        run_grids(F(2), F(2)),
        EMPTY,
        BESIDE,
        1,
        budget=Budget(20_000, 1e-9),
        vectorised=False,
    )
    assert verdict.outcome != "violated"


@pytest.mark.all
def test_an_audit_finds_a_coarse_grid_that_nobody_pays_for() -> None:
    """Both grids at scale 2/5 cost 5, not 1."""
    verdict = audit_mechanism(
        run_grids(F(2, 5), F(2, 5)),
        EMPTY,
        BESIDE,
        1,
        budget=Budget(20_000, 1e-9),
        vectorised=False,
    )
    assert verdict.outcome == "violated"
