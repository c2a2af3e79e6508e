"""Which solver trains a linear classifier, and why: by rule from public facts.

Gradient descent on noisy sums was best or tied in all trials, and its proof needs neither convexity
nor a minimum, so `auto` takes it. Pure epsilon, delta=0, is for a choice on a grid. Solvers that
need exact iterates are for arrays alone: on a table nothing but noisy sums leaves the kernel.
"""

from __future__ import annotations

from typing import NamedTuple

from dither.errors import ParameterError
from dither.learn.residuals import Loss

SOLVERS = ("auto", "descent", "sampled", "newton", "objective", "output", "grid")
ONE_RELEASE = ("objective", "output", "grid")
"""Solvers that need exact iterates or losses, and release one noisy minimum."""


class SolverChoice(NamedTuple):
    """A solver, and why it is the one."""

    name: str
    reason: str

    def _check(self, loss: Loss, is_table: bool, neighbours: str, is_pure: bool) -> SolverChoice:
        """Refuse what breaks the proof of this solver."""
        if is_pure and self.name != "grid":
            raise ParameterError(
                "delta=0 is for solver='grid': noisy sums are Gaussian, and need a delta above 0"
            )
        if self.name in ONE_RELEASE and is_table:
            raise ParameterError(
                f"solver={self.name!r} needs exact iterates, which no table gives: use descent"
            )
        _check_loss(self.name, loss)
        if self.name in ("objective", "sampled") and neighbours != "add_remove":
            raise ParameterError(
                f"solver={self.name!r} is proved for add_remove neighbours: use descent"
            )
        return self


def choose_solver(
    solver: str, loss: Loss, *, is_table: bool, neighbours: str, is_pure: bool = False
) -> SolverChoice:
    """The solver by rule, or the stated one; refused where its proof does not hold."""
    if solver not in SOLVERS:
        raise ParameterError(f"solver is one of {', '.join(SOLVERS)}")
    if solver == "auto":
        return _choose_by_rule(is_table, is_pure)._check(loss, is_table, neighbours, is_pure)
    return SolverChoice(solver, "stated")._check(loss, is_table, neighbours, is_pure)


def _choose_by_rule(is_table: bool, is_pure: bool) -> SolverChoice:
    if is_pure:
        return SolverChoice("grid", "delta=0: a choice on a grid of weights is pure epsilon")
    return SolverChoice(
        "descent",
        "noisy sums alone: no minimum to verify, any loss with clipped gradients"
        + (", and a table gives nothing else" if is_table else ""),
    )


def _check_loss(solver: str, loss: Loss) -> None:
    """Refuse a solver whose proof does not hold for a loss."""
    if solver in ("newton", "grid") and loss != "logistic":
        raise ParameterError(
            f"solver={solver!r} is for two classes by the logistic loss: use descent"
        )
    if solver in ONE_RELEASE and loss == "multinomial":
        raise ParameterError(f"solver={solver!r} is proved for two classes: use descent")
    if solver == "objective" and loss != "logistic":
        raise ParameterError(
            "solver='objective' needs a loss with a continuous second derivative, which a rounded "
            "hinge has not: the minimum itself could be released. Use descent or output"
        )
