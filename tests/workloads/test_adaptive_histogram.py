"""Histograms with blocks that follow the data, asked of a connection."""

from __future__ import annotations

import numpy as np
import pytest

from dither.errors import DitherError, ParameterError
from dither.plan.blocks import find_whole_block
from dither.workloads.adaptive_histogram import read_blocks
from tests.workloads.conftest import Survey


def test_a_preview_spends_nothing_and_an_answer_is_paid_once(survey: Survey) -> None:
    """Two rows of a person: counts of blocks have scale 2 / (0.75 * 0.4)."""
    asked = survey.connect("pure").adaptive_histogram(["age"], table="survey", epsilon="0.4")
    preview = asked.preview()
    assert not preview.stored and survey.read_spent() == 0
    assert "6.67" in preview.noise or preview.block_half_width == 20
    first = asked.answer()
    assert asked.preview().stored
    assert asked.answer().counts == first.counts
    assert survey.read_spent() == pytest.approx(0.4)


def test_with_much_budget_blocks_hold_the_true_counts(survey: Survey) -> None:
    """75 rows of every age: the flat column stays one block, which holds them all."""
    con = survey.connect("pure")
    flat = con.adaptive_histogram(["age"], table="survey", epsilon=1000).answer()
    assert flat.counts == (1200,) and flat.blocks == (find_whole_block((16,)),)
    assert flat.expand().tolist() == [75.0] * 16
    assert flat.count_between(age=(0, 3)) == 300
    where = "age < 5 OR cost = 9"
    cut = con.adaptive_histogram(["age"], table="survey", where=where, epsilon=1000).answer()
    true = np.bincount(survey.age[(survey.age < 5) | (survey.cost == 9)], minlength=16)
    assert np.abs(cut.expand() - true).max() <= 2
    assert cut.biased and cut.notes


def test_planes_come_back_as_tables(survey: Survey) -> None:
    con = survey.connect("pure")
    asked = con.adaptive_histogram(["age", "sex"], table="survey", epsilon=1000, score="count")
    plane = asked.answer()
    assert plane.expand().shape == (16, 2)
    table = plane.to_dict()
    assert set(table) >= {"age_from", "age_to", "sex_from", "sex_to"}
    assert sum(plane.counts) == pytest.approx(1200, abs=5)
    assert plane.count_between(sex=("f", "f")) == pytest.approx(survey.count("sex")[0], abs=5)


@pytest.mark.parametrize(
    "change",
    [
        {"by": []},
        {"by": ["nobody"]},
        {"by": ["person"]},
        {"by": ["age", "sex", "area", "cost"]},
        {"score": "entropy"},
        {"tree_share": 1},
        {"tree_share": 0},
        {"epsilon": 0},
        {"confidence": 2},
        {"confidence": "much"},
        {"table": "nowhere"},
    ],
    ids=str,
)
def test_bad_questions_are_refused_before_anything_is_spent(
    survey: Survey, change: dict[str, object]
) -> None:
    con = survey.connect("pure")
    terms: dict[str, object] = {"by": ["age"], "table": "survey", "epsilon": 1}
    with pytest.raises(DitherError):
        con.adaptive_histogram(**{**terms, **change}).answer()  # type: ignore[arg-type]
    assert survey.read_spent() == 0


def test_ranges_of_unknown_values_or_columns_are_refused(survey: Survey) -> None:
    flat = survey.connect("pure").adaptive_histogram(["age"], table="survey", epsilon=1).answer()
    with pytest.raises(ParameterError, match="age goes from 0 to 15"):
        flat.count_between(age=(0, 99))
    with pytest.raises(ParameterError, match="no column ward"):
        flat.count_between(ward=(0, 1))


def test_a_rehearsal_is_free(survey: Survey) -> None:
    asked = survey.connect("pure").adaptive_histogram(["age"], table="survey", epsilon=1)
    assert asked.rehearse().expand().shape == (16,)
    assert survey.read_spent() == 0


def test_released_splits_are_read_in_the_order_of_the_mechanism() -> None:
    """Root split, left half whole, right half split into two cells."""
    blocks, counts = read_blocks((1, 0, 1, 14, 900, 0), (4,))
    assert [(block.starts[0], block.stops[0]) for block in blocks] == [(0, 2), (2, 3), (3, 4)]
    assert counts == (14, 900, 0)
