"""One choice among marginals over different keys: price, draw, refusals, and cells kept by a lease
(docs/proofs/score-selection.md#several-keys)."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product
from typing import Any

import numpy as np
import pytest

from dither.answer.explain import describe_query
from dither.data.measure import Measurer
from dither.errors import RefusedError
from dither.plan.algebra import (
    Cells,
    Count,
    CountUnits,
    Filter,
    IsNull,
    JointScores,
    Linear,
    SampleUnits,
    Scan,
    Scores,
)
from dither.plan.operators import Identity, Marginal, Total
from dither.plan.scores import MOST_MEMBERS, evaluate_scores
from dither.plan.utilities import CellCounts, DistanceCandidate, Distances
from dither.privacy.kernel.budget_lease import BudgetLease
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.losses import BoundedRange, Pure
from tests.datasets.regional_clinic import GAUSSIAN, Clinic

WARDS = Cells(Scan("visits"), ("ward",), (Count(),))
ALL = Cells(Scan("visits"), (), (Count(),))
FITTED = Scores(WARDS, Distances(3, (DistanceCandidate(2, Marginal((2, 4), (0,)), (1800, 1800)),)))
"""Wards a to d hold 600 of 1,200 visits: it fits, and its score is 0."""
FAR = Scores(ALL, Distances(1, (DistanceCandidate(5, Total(1), (0,)),)))
"""It is 1,200 off."""
JOINT = JointScores((FITTED, FAR))


def ask(query: Any, family: str = "joint_scores_exponential", **price: Any) -> Request:
    prices = {name: F(str(value)) for name, value in price.items()}
    return Request((Step(query, family, F(1)),), Price(**prices), "total")


@pytest.fixture
def kernel(visits: Clinic) -> Kernel:
    visits.open(epsilon=1000, ceiling=1000)
    return visits.kernel()


def test_the_scale_is_that_of_the_farthest_member_with_the_factor_two(kernel: Kernel) -> None:
    """Eight visits of a person: 8 * 3 * 2 for the first member, 8 * 1 * 5 for the second."""
    (step,) = kernel.price(ask(JOINT, epsilon=1)).steps
    assert step.mechanism.parameters == {"scale": 2 * 48}
    assert step.mechanism.sensitivity_document() == {"scores": 48, "monotone": False}
    assert step.loss() == BoundedRange(1, unit="person")


@pytest.mark.parametrize("family", ["joint_scores_exponential", "joint_scores_permute_and_flip"])
def test_the_far_member_wins_and_a_repeat_is_free(kernel: Kernel, family: str) -> None:
    """At epsilon 100 the second candidate is 6,000 better on a scale of 0.96."""
    released = kernel.answer(ask(JOINT, family, epsilon=100))
    assert released.values == ((1,),)
    assert isinstance(released.priced.loss, BoundedRange if "exp" in family else Pure)
    again = kernel.answer(ask(JOINT, family, epsilon=100))
    assert again.repeated and again.values == ((1,),) and again.charged == 0


NOT_ROWS = Cells(Filter(Scan("visits"), IsNull("ward")), ("ward",), (Count(),))
UNITS = Cells(Scan("visits"), ("ward",), (CountUnits(),))
REFUSED = {
    "no members": JointScores(()),
    "a list": JointScores([FITTED, FAR]),  # type: ignore[arg-type]
    "another query": JointScores((FITTED, Linear(ALL, Total(1)))),  # type: ignore[arg-type]
    "a joint one inside": JointScores((FITTED, JOINT)),  # type: ignore[arg-type]
    "other rows": JointScores((FITTED, Scores(NOT_ROWS, FITTED.utility))),
    "another table": JointScores(
        (FITTED, Scores(Cells(Scan("patients"), (), (Count(),)), FAR.utility))
    ),
    "units": JointScores((FITTED, Scores(UNITS, FITTED.utility))),
    "counts of cells": JointScores((FITTED, Scores(WARDS, CellCounts((0,))))),
    "other cells": JointScores((FITTED, Scores(WARDS, FAR.utility))),
    "too many": JointScores((FAR,) * (MOST_MEMBERS + 1)),
}


@pytest.mark.parametrize("query", REFUSED.values(), ids=REFUSED)
def test_what_has_no_rule_is_refused_before_any_charge(
    visits: Clinic, kernel: Kernel, query: Any
) -> None:
    with pytest.raises(RefusedError):
        kernel.answer(ask(query, epsilon=1))
    assert visits.spent() == {"total": 0}


def test_no_unit_moves_any_score_farther_than_priced() -> None:
    """All tables of up to three rows over 2 x 2 x 2 values, and every row that may join: exhaustive
    over add/remove with one row a unit. Without weight or scale the bound is broken."""
    pairs = ((0, 1), (0, 2), (1, 2))
    weights = (1, 4, 2)
    members = [
        Scores(
            Cells(Scan("t"), ("a", "b"), (Count(),)),
            Distances(3, (DistanceCandidate(weight, Identity(4), (5, 0, 2, 1)),)),
        )
        for weight in weights
    ]
    rows = list(product(range(2), repeat=3))

    def score(table: tuple[tuple[int, ...], ...]) -> np.ndarray:
        counted = []
        for pair, member in zip(pairs, members, strict=True):
            cells = np.zeros((4, 1), object)
            for row in table:
                cells[2 * row[pair[0]] + row[pair[1]], 0] += 1
            counted.append(evaluate_scores(member, cells, 100))
        return np.concatenate(counted)

    farthest = 0
    opposite = False
    for size in range(3):
        for table in product(rows, repeat=size):
            before = score(table)
            for row in rows:
                moves = score((*table, row)) - before
                farthest = max(farthest, int(np.abs(moves).max()))
                opposite |= bool((moves > 0).any() and (moves < 0).any())
    assert farthest == 3 * max(weights)  # the bound is reached: neither factor may be left out
    assert opposite  # so that no price as monotone scores holds


def test_a_lease_measures_each_table_once_and_a_sample_anew(
    visits: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits.open(**GAUSSIAN)
    measured: list[str] = []
    count = Measurer._measure_counted

    def note(self: Measurer, query: Cells, key: bytes | None) -> Any:
        measured.append(query.hash)
        return count(self, query, key)

    monkeypatch.setattr(Measurer, "_measure_counted", note)
    sample = Linear(Cells(SampleUnits(Scan("visits"), F(1, 2)), (), (Count(),)), Total(1))
    kernel = visits.kernel()
    with BudgetLease(kernel, Price(rho=F(1, 2)), "total") as lease:
        for _ in range(3):
            lease.release(ask(JOINT, rho="0.01"))
            lease.release(ask(Linear(WARDS, Identity(8)), "linear_gaussian", rho="0.01"))
        for _ in range(2):
            lease.release(ask(sample, "linear_gaussian", rho="0.01"))
    assert sorted(measured) == sorted([WARDS.hash, ALL.hash, sample.cells.hash, sample.cells.hash])
    measured.clear()
    for price in ("0.01", "0.02"):
        kernel.answer(ask(Linear(WARDS, Identity(8)), "linear_gaussian", rho=price))
    assert measured == [WARDS.hash] * 2  # nothing is kept outside a lease


def test_explain_names_the_keys() -> None:
    assert describe_query(JOINT) == "the best of the Distances by ward; "
