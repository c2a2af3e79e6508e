"""Which solver trains a linear classifier, and why: by rule from public facts.

Gradient descent on noisy sums was best or tied in all trials, and its proof needs neither convexity
nor a minimum, so `auto` takes it. Solvers that need exact iterates are for arrays alone: on a table
nothing but noisy sums leaves the kernel.
"""

from __future__ import annotations

from typing import NamedTuple

from dither.errors import ParameterError
from dither.learn.residuals import Loss

SOLVERS = ("auto", "descent", "newton", "objective", "output")
PERTURBED = ("objective", "output")
"""Solvers that release one noisy minimum."""


class SolverChoice(NamedTuple):
    """A solver, and why it is the one."""

    name: str
    reason: str


def choose_solver(solver: str, loss: Loss, *, is_table: bool, neighbours: str) -> SolverChoice:
    """The solver by rule, or the stated one; refused where its proof does not hold."""
    if solver not in SOLVERS:
        raise ParameterError(f"solver is one of {', '.join(SOLVERS)}")
    if solver == "auto":
        return SolverChoice(
            "descent",
            "noisy sums alone: no minimum to verify, any loss with clipped gradients"
            + (", and a table gives nothing else" if is_table else ""),
        )
    if solver == "newton" and loss != "logistic":
        raise ParameterError("solver='newton' is for two classes by the logistic loss: use descent")
    if solver in PERTURBED and is_table:
        raise ParameterError(
            f"solver={solver!r} needs exact iterates, which no table gives: use descent"
        )
    if solver in PERTURBED and loss == "multinomial":
        raise ParameterError(f"solver={solver!r} is proved for two classes: use descent")
    if solver == "objective" and loss != "logistic":
        raise ParameterError(
            "solver='objective' needs a loss with a continuous second derivative, which a rounded "
            "hinge has not: the minimum itself could be released. Use descent or output"
        )
    if solver == "objective" and neighbours != "add_remove":
        raise ParameterError("solver='objective' is proved for add_remove neighbours: use descent")
    return SolverChoice(solver, "stated")
