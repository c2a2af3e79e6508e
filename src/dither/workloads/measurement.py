"""What a workload measures: steps of a request, and what every plan of steps can say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dither.plan.operator_norms import largest_norms
from dither.plan.operators import Dense, Kronecker, LinearOperator, count_rows
from dither.workloads.language import Product
from dither.workloads.lines import Floats, Noise


@dataclass(frozen=True)
class MeasuredStep:
    """One linear query over the cells of some columns, and its share of the price."""

    columns: tuple[str, ...]
    operator: LinearOperator
    share: float

    @property
    def rows(self) -> int:
        """How many noisy numbers it releases."""
        return count_rows(self.operator)

    def find_squared_norm(self, noise: Noise) -> int:
        """The squared sensitivity per unit that a cell moves."""
        norms = largest_norms(self.operator)
        return norms.l1**2 if noise == "laplace" else norms.l2_squared


class MeasurementPlan(Protocol):
    """Steps that are measured, and the least-squares answers to a workload from them.

    Variances are those of the noise of each step, in the order of `steps`.
    """

    @property
    def name(self) -> str:
        """What is measured, in a few words."""

    @property
    def steps(self) -> tuple[MeasuredStep, ...]:
        """What is measured."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """What was compared, and what came of it."""

    def predict(self, product: Product, variances: Floats) -> Floats:
        """The variance of every query of a product."""

    def find_total(self, product: Product, variances: Floats) -> float:
        """The sum of those variances, without a list of them."""

    def fit(self, values: list[Floats], variances: Floats) -> FittedCells:
        """The least-squares estimate from the released numbers."""


class FittedCells(Protocol):
    """A consistent estimate, from which every query is answered."""

    def answer(self, product: Product) -> Floats:
        """The answers of a product, in the order of its queries."""


def split_variance(steps: tuple[MeasuredStep, ...], noise: Noise) -> Floats:
    """The variance of each step at one unit of noise for the whole plan.

    Gaussian noise: a share r of the price has norm^2 / r. Laplace noise: norm^2 / r^2.
    """
    power = 2 if noise == "laplace" else 1
    return np.array([step.find_squared_norm(noise) / step.share**power for step in steps])


def scale_operator(operator: LinearOperator, times: int) -> LinearOperator:
    """An operator times an integer, which makes the grid of its noise finer."""
    return operator if times == 1 else Kronecker((Dense(((times,),)), operator))
