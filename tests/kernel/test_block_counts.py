"""Counts of adaptive blocks through the kernel: price, release, repeats, refusals, EXPLAIN
(docs/proofs/adaptive-blocks.md)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import pytest

from dither.answer.explain import describe_query
from dither.errors import RefusedError
from dither.plan.algebra import (
    BlockCounts,
    Cells,
    Count,
    CountUnits,
    Linear,
    Scan,
    Sum,
    UnitVectors,
)
from dither.plan.operators import Identity
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.losses import Pure
from tests.datasets.regional_clinic import Clinic

WARDS = Cells(Scan("visits"), ("ward",), (Count(),))
BLOCKS = BlockCounts(WARDS, "count", 0, F(1, 2))


def ask(query: Any, epsilon: Any = 1) -> Request:
    return Request((Step(query, "adaptive_blocks", F(1)),), Price(epsilon=F(epsilon)), "total")


@pytest.fixture
def kernel(visits: Clinic) -> Kernel:
    visits.open(epsilon=10**6, ceiling=10**6)
    return visits.kernel()


def test_scales_are_those_of_all_visits_of_a_person(kernel: Kernel) -> None:
    """Eight visits of a person: 8 * 3 / 0.5 for the splits, 8 / 0.5 for the counts."""
    (step,) = kernel.price(ask(BLOCKS)).steps
    assert step.mechanism.parameters == {"scale": 16, "tree_scale": 48}
    assert step.loss() == Pure(1, unit="person")


def test_blocks_and_their_counts_leave_and_a_repeat_is_free(kernel: Kernel) -> None:
    """1,200 visits in eight keys; at epsilon 10^5 every block with rows is split to single wards,
    and what is left adds up to all visits."""
    released = kernel.answer(ask(BLOCKS, 10**5))
    (values,) = released.values
    assert values[0] == 1
    leaves = sum(value for value in values if value > 1)
    assert leaves == 1200
    again = kernel.answer(ask(BLOCKS, 10**5))
    assert again.repeated and again.values == released.values and again.charged == 0


UNITS = Cells(Scan("visits"), ("ward",), (CountUnits(),))


def test_people_are_counted_too(kernel: Kernel) -> None:
    (step,) = kernel.price(ask(BlockCounts(UNITS, "deviation", 5, F(1, 4)))).steps
    assert step.mechanism.describe().startswith("blocks split by deviation")


REFUSED = {
    "a sum": replace(BLOCKS, cells=Cells(Scan("visits"), ("ward",), (Sum("cost"),))),
    "no key": replace(BLOCKS, cells=Cells(Scan("visits"), (), (Count(),))),
    "two counts": replace(BLOCKS, cells=Cells(Scan("visits"), ("ward",), (Count(), Count()))),
    "another score": replace(BLOCKS, score="entropy"),
    "a share of 1": replace(BLOCKS, tree_share=F(1)),
    "a share of 0": replace(BLOCKS, tree_share=F(0)),
    "a share in floats": replace(BLOCKS, tree_share=0.5),
    "a negative threshold": replace(BLOCKS, threshold=-1),
    "a true threshold": replace(BLOCKS, threshold=True),
    "four keys": replace(BLOCKS, cells=Cells(Scan("visits"), ("ward",) * 4, (Count(),))),
    "vectors": replace(BLOCKS, cells=UnitVectors(Scan("visits"), (), None, F(1), F(1))),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("query", REFUSED.values(), ids=REFUSED)
def test_what_has_no_rule_is_refused_before_any_charge(
    visits: Clinic, kernel: Kernel, query: Any
) -> None:
    with pytest.raises(RefusedError):
        kernel.answer(ask(query))
    assert visits.spent() == {"total": 0}


def test_blocks_are_no_cells_of_another_query(visits: Clinic, kernel: Kernel) -> None:
    """A linear query over blocks has no rule, and is no error of another type."""
    step = Step(Linear(BLOCKS, Identity(8)), "linear_laplace", F(1))  # type: ignore[arg-type]
    with pytest.raises(RefusedError):
        kernel.answer(Request((step,), Price(epsilon=F(1)), "total"))
    assert visits.spent() == {"total": 0}


def test_explain_names_the_score_and_the_count() -> None:
    assert describe_query(BLOCKS) == "blocks split by count of Count by ward"
