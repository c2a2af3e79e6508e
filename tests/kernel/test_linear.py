"""Linear queries through the kernel: price, statement, exact product, noise, store and refusals."""

from __future__ import annotations

import math
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from dither.answer.explain import describe_query
from dither.audit.exact import judge
from dither.audit.naive_linear import multiply, write_matrix
from dither.catalog import parse
from dither.data.measure import Measurer
from dither.errors import RefusedError
from dither.plan.algebra import Cells, Count, Linear, Query, Scan, Sum
from dither.plan.analysed_query import Analyses
from dither.plan.operators import (
    HaarWavelet,
    Identity,
    Kronecker,
    LinearOperator,
    Stack,
    Total,
    Tree,
)
from dither.privacy.charges.measures import zcdp
from dither.privacy.charges.rules import charge_pure
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.losses import DiscreteGaussianVector
from dither.privacy.mechanisms import IntegerLaplace
from tests.datasets.regional_clinic import GAUSSIAN, Clinic
from tests.plan.test_linear import write_catalog

CELLS = Cells(Scan("visits"), ("ward",), (Count(),))
OPERATOR = Stack((HaarWavelet(8), Tree(8, 2), Kronecker((Identity(2), Total(4)))))
LINEAR = Linear(CELLS, OPERATOR)


def ask(
    query: Query, *, rho: Any = None, epsilon: Any = None, family: str | None = None
) -> Request:
    name = family or ("linear_gaussian" if epsilon is None else "linear_laplace")
    price = Price(
        None if epsilon is None else F(str(epsilon)), None if rho is None else F(str(rho))
    )
    return Request((Step(query, name, F(1)),), price, "total")


@pytest.fixture
def kernel(visits: Clinic) -> Kernel:
    visits.open(**(GAUSSIAN | {"rho": 10**9, "ceiling": 10**9}))
    return visits.kernel()


def test_the_loss_is_that_of_noise_on_the_products_and_nearly_all_of_the_price(
    kernel: Kernel,
) -> None:
    """Eight rows of a person in one ward: 8^2 times the squared column norm, 4 + 4 + 1."""
    loss = kernel.price(ask(LINEAR, rho="0.5")).loss
    assert isinstance(loss, DiscreteGaussianVector) and loss.l2_squared == 64 * 9
    assert F("0.499") < zcdp(loss)[0] <= F(1, 2)
    (step,) = kernel.price(ask(LINEAR, epsilon=1)).steps
    assert step.mechanism.sensitivity.l1 == 8 * 9
    assert F("0.999") < charge_pure(step.loss()) <= 1


def test_noise_lies_on_the_exact_product(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    """At rho 1e7 noise of 1/8 is seldom drawn: nearly all numbers are the oracle's product."""
    cells: list[int] = []
    measure = Measurer.measure

    def note(self: Measurer, query: Any, key: bytes | None = None) -> Any:
        numbers = measure(self, query, key)
        cells.extend(int(number) for number in numbers[:, 0])
        return numbers

    monkeypatch.setattr(Measurer, "measure", note)
    (values,) = kernel.answer(ask(LINEAR, rho=10**7)).values
    products = multiply(write_matrix(OPERATOR), cells)
    assert len(cells) == 8 and sum(cells) == 1200
    assert sum(value == product for value, product in zip(values, products, strict=True)) >= 20
    assert max(map(abs, np.subtract(values, products))) <= 10


def test_queries_over_the_same_cells_are_measured_once_and_repeats_are_free(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries: list[str] = []
    measure = Measurer.measure

    def note(self: Measurer, query: Any, key: bytes | None = None) -> Any:
        queries.append(query.hash)
        return measure(self, query, key)

    monkeypatch.setattr(Measurer, "measure", note)
    steps = (
        Step(LINEAR, "linear_gaussian", F(1)),
        Step(Linear(CELLS, Total(8)), "linear_gaussian", F(1)),
        Step(CELLS, "gaussian", F(1)),
    )
    request = Request(steps, Price(rho=F(1, 10)), "total")
    released = kernel.answer(request)
    assert queries == [CELLS.hash]
    assert [len(values) for values in released.values] == [25, 1, 8]
    again = kernel.answer(request)
    assert again.repeated and again.values == released.values and queries == [CELLS.hash]


def test_another_operator_is_another_question(kernel: Kernel) -> None:
    keys = {
        kernel.price(ask(Linear(CELLS, operator), rho=1)).key
        for operator in (
            HaarWavelet(8),
            Tree(8, 2),
            Tree(8, 3),
            Identity(8),
            Kronecker((Identity(8),)),
        )
    }
    assert len(keys) == 5


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_the_total_keeps_its_claim_by_the_exact_law(neighbours: str) -> None:
    """Laplace noise for epsilon 1 on a total, at the farthest neighbours: probability by
    probability. A tenth less than its price is refuted, so the pair is the worst one."""
    analyses = Analyses(parse(write_catalog(neighbours, 8, 0, 1)))
    query = Linear(Cells(Scan("t"), ("a", "b"), (Count(),)), Total(4))
    moved = analyses.analyse_query(query).sensitivity
    noise = IntegerLaplace.for_epsilon(1, moved)
    assert moved.linf == (8 if neighbours == "add_remove" else 16)
    base = float(noise.scale)
    laws = [
        {z: math.exp(-abs(z - centre) / base) * math.tanh(0.5 / base) for z in range(-600, 600)}
        for centre in (0, moved.linf)
    ]
    assert judge(*laws, epsilon=1, delta=1e-9).outcome == "holds on this pair"
    assert judge(*laws, epsilon=F(9, 10), delta=1e-9).outcome == "violated"


REFUSED: dict[str, Request] = {
    "a family of cells": ask(LINEAR, rho=1, family="gaussian"),
    "a family of quantiles": ask(LINEAR, rho=1, family="exponential"),
    "cells by a family of operators": ask(CELLS, rho=1, family="linear_gaussian"),
    "Laplace noise for rho": ask(LINEAR, rho=1, family="linear_laplace"),
    "an operator of other cells": ask(Linear(CELLS, Total(7)), rho=1),
    "two columns": ask(
        Linear(Cells(Scan("visits"), ("ward",), (Count(), Sum("q0"))), Total(8)), rho=1
    ),
    "an operator of another class": ask(Linear(CELLS, "total"), rho=1),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_is_refused_before_any_charge(
    visits: Clinic, kernel: Kernel, name: str
) -> None:
    with pytest.raises(RefusedError):
        kernel.answer(REFUSED[name])
    assert visits.spent() == {"total": 0}


class Sly(Total):
    """An operator that says another thing each time it is read."""


def test_an_operator_of_a_subclass_is_refused(kernel: Kernel) -> None:
    with pytest.raises(RefusedError):
        kernel.price(ask(Linear(CELLS, Sly(8)), rho=1))


def test_an_operator_that_would_take_for_ever_to_write_is_refused_at_once(kernel: Kernel) -> None:
    operator: LinearOperator = Identity(8)
    for _ in range(60):
        operator = Stack((operator, operator))
    with pytest.raises(RefusedError, match="parts"):
        kernel.price(ask(Linear(CELLS, operator), rho=1))


def test_explain_names_the_operator_and_its_cells() -> None:
    words = describe_query(LINEAR)
    assert words == "Stack(HaarWavelet, Tree, Kronecker) of 25 x 8 integers times Count by ward"
