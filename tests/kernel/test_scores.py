"""Choices by scores through the kernel: price, loss, choice, repeats and refusals."""

from __future__ import annotations

from fractions import Fraction as F
from typing import Any

import pytest

from dither.answer.explain import describe_query
from dither.errors import RefusedError
from dither.plan.algebra import Cells, Count, Scan, Scores, Sum
from dither.plan.operators import Marginal, Total
from dither.plan.utilities import (
    CellCounts,
    DistanceCandidate,
    Distances,
    RankDistance,
    Utility,
)
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.losses import BoundedRange, Pure
from tests.datasets.regional_clinic import GAUSSIAN, Clinic

CELLS = Cells(Scan("visits"), ("ward",), (Count(),))
FAR = Distances(
    3,
    (
        DistanceCandidate(2, Marginal((2, 4), (0,)), (1800, 1800)),
        DistanceCandidate(5, Total(8), (0,)),
    ),
)
"""Wards a to d hold 600 of 1,200 visits: the first candidate fits, the second is 3,600 off."""


def ask(utility: Utility, family: str = "scores_exponential", **price: Any) -> Request:
    prices = {name: F(str(value)) for name, value in price.items()}
    return Request((Step(Scores(CELLS, utility), family, F(1)),), Price(**prices), "total")


@pytest.fixture
def kernel(visits: Clinic) -> Kernel:
    visits.open(epsilon=1000, ceiling=1000)
    return visits.kernel()


def test_the_scale_holds_rows_weight_scale_and_the_factor_two(kernel: Kernel) -> None:
    """Eight visits of a person: 2 * 8 * 3 * 5 for distances, 8 for counts, 2 * 8 * 7 for ranks."""
    for utility, scale in (
        (FAR, 2 * 8 * 3 * 5),
        (CellCounts((0, 1)), 8),
        (RankDistance(F(7, 10)), 2 * 8 * 7),
    ):
        (step,) = kernel.price(ask(utility, epsilon=1)).steps
        assert step.mechanism.parameters == {"scale": scale}
        assert step.loss() == BoundedRange(1, unit="person")


def test_rho_buys_a_bounded_range(visits: Clinic) -> None:
    visits.open(**GAUSSIAN)
    loss = visits.kernel().price(ask(FAR, rho="0.02")).loss
    assert isinstance(loss, BoundedRange)
    assert F("0.3999") < loss.epsilon <= F(2, 5)  # epsilon^2 / 8 = 0.02


@pytest.mark.parametrize("family", ["scores_exponential", "scores_permute_and_flip"])
def test_the_far_candidate_wins_and_a_repeat_is_free(kernel: Kernel, family: str) -> None:
    """At epsilon 100 the second candidate is 18,000 better on a scale of 2.4."""
    request = ask(FAR, family, epsilon=100)
    released = kernel.answer(request)
    assert released.values == ((1,),)
    assert isinstance(released.priced.loss, BoundedRange if "exp" in family else Pure)
    again = kernel.answer(request)
    assert again.repeated and again.values == ((1,),) and again.charged == 0


@pytest.mark.parametrize(
    "request_",
    [
        ask(FAR, "exponential", epsilon=1),
        ask(FAR, "linear_laplace", epsilon=1),
        ask(FAR, "scores_permute_and_flip", rho=1),
        ask(CellCounts((8,)), epsilon=1),
        ask("best", epsilon=1),  # type: ignore[arg-type]
        Request(
            (
                Step(
                    Scores(Cells(Scan("visits"), ("ward",), (Count(), Sum("q0"))), FAR),
                    "scores_exponential",
                    F(1),
                ),
            ),
            Price(F(1)),
            "total",
        ),
    ],
    ids=["quantiles", "noise", "rho for a flip", "no such cell", "no utility", "two columns"],
)
def test_what_has_no_rule_is_refused_before_any_charge(
    visits: Clinic, kernel: Kernel, request_: Request
) -> None:
    with pytest.raises(RefusedError):
        kernel.answer(request_)
    assert visits.spent() == {"total": 0}


def test_explain_names_the_utility() -> None:
    assert describe_query(Scores(CELLS, FAR)) == "the best Distances over Count by ward"
