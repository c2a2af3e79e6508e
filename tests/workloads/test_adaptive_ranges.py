"""Ranges by what is best for the data: a paid look, then blocks or a fixed strategy."""

from __future__ import annotations

import numpy as np
import pytest

from dither.errors import DitherError
from dither.plan.apply_operator import multiply
from dither.plan.blocks import CellBlock
from dither.workloads import adaptive_ranges
from dither.workloads.adaptive_ranges import write_over_blocks
from dither.workloads.line_strategies import list_block_strategies
from tests.workloads.conftest import Survey


def test_a_preview_is_free_and_both_steps_are_paid_once(survey: Survey) -> None:
    asked = survey.connect("pure").adaptive_ranges(["age"], table="survey", epsilon=1)
    preview = asked.preview()
    assert survey.read_spent() == 0 and preview.charge.amount == pytest.approx(1)
    assert preview.rough_error == pytest.approx(preview.fixed_error / (1 - 0.225))
    first = asked.answer()
    assert survey.read_spent() == pytest.approx(1, rel=1e-6) and survey.read_spent() <= 1
    assert asked.answer().counts == first.counts
    assert survey.read_spent() <= 1


def test_flat_data_stays_one_block_and_rough_data_is_measured_by_a_tree(survey: Survey) -> None:
    con = survey.connect("pure")
    flat = con.adaptive_ranges(["age"], table="survey", epsilon=1000).answer()
    assert len(flat.blocks) == 1 and "1 blocks of 16" in flat.choice
    assert flat.counts[0] == pytest.approx(1200, abs=1)
    where = "age < 5 OR cost = 9"
    rough = con.adaptive_ranges(["age"], table="survey", where=where, epsilon=1000).answer()
    true = np.bincount(survey.age[(survey.age < 5) | (survey.cost == 9)], minlength=16)
    assert np.abs(rough.expand() - true).max() <= 2
    table = rough.to_dict()
    assert all(
        low <= count <= high
        for low, count, high in zip(
            table["count_low"], table["count"], table["count_high"], strict=True
        )
    )


@pytest.mark.parametrize(("grid_error", "words"), [(0.0, "adaptive grid"), (1e9, "many rows")])
def test_planes_go_by_the_number_of_rows(
    survey: Survey, monkeypatch: pytest.MonkeyPatch, grid_error: float, words: str
) -> None:
    monkeypatch.setattr(adaptive_ranges, "GRID_ERROR", grid_error)
    con = survey.connect("pure")
    asked = con.adaptive_ranges(["age", "cost"], table="survey", epsilon=50)
    plane = asked.answer()
    assert words in plane.choice
    assert plane.expand().shape == (16, 10)
    assert plane.biased == (words != "many rows")
    assert survey.read_spent() <= 50
    assert asked.answer().counts == plane.counts and survey.read_spent() <= 50


def test_operators_over_blocks_are_those_over_their_sums() -> None:
    blocks = [CellBlock((0,), (2,), 2, 1), CellBlock((2,), (3,), 1, 2), CellBlock((3,), (7,), 4, 1)]
    cells = np.array([3, 1, 4, 1, 5, 9, 2])
    sums = np.array([4, 4, 17])
    for strategy in list_block_strategies({"ranges": 1.0}, 3):
        over_cells = write_over_blocks(strategy.operator, blocks, 7)
        assert multiply(over_cells, cells).tolist() == multiply(strategy.operator, sums).tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"by": []},
        {"by": ["age", "sex", "cost"]},
        {"by": ["area"]},
        {"by": ["code"]},
        {"epsilon": 0},
        {"confidence": 2},
    ],
    ids=str,
)
def test_bad_questions_are_refused_before_anything_is_spent(
    survey: Survey, change: dict[str, object]
) -> None:
    con = survey.connect("pure")
    terms: dict[str, object] = {"by": ["age"], "table": "survey", "epsilon": 1}
    with pytest.raises(DitherError):
        con.adaptive_ranges(**{**terms, **change}).answer()  # type: ignore[arg-type]
    assert survey.read_spent() == 0
