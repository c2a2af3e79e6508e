"""Exact leakage of a known channel C[s, o] = P(o | s) under a prior.

>>> import numpy as np
>>> from dither.audit.leakage.channel import Channel, response
>>> coin = Channel(response(10, 1.0))
>>> round(coin.bayes_risk, 6), round(coin.distance(), 6)
(0.768031, 1.0)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Channel:
    """A row-stochastic matrix, one row a secret, and a prior (uniform by default)."""

    matrix: Floats
    prior: Floats | None = None

    def __post_init__(self) -> None:
        """Check that matrix and prior are probabilities; a prior of None is uniform."""
        matrix = np.asarray(self.matrix, np.float64)
        if (
            matrix.ndim != 2
            or (matrix < 0).any()
            or not np.allclose(matrix.sum(axis=1), 1, atol=1e-9)
        ):
            raise ParameterError(
                "a channel has one row for each secret, of probabilities that sum to 1"
            )
        prior = (
            np.full(len(matrix), 1 / len(matrix))
            if self.prior is None
            else np.asarray(self.prior, np.float64)
        )
        if (
            prior.shape != (len(matrix),)
            or (prior < 0).any()
            or not math.isclose(prior.sum(), 1, abs_tol=1e-9)
        ):
            raise ParameterError("a prior has one probability for each secret; they sum to 1")
        object.__setattr__(self, "matrix", matrix)
        object.__setattr__(self, "prior", prior)

    @cached_property
    def _joint(self) -> Floats:
        assert self.prior is not None
        return np.asarray(self.matrix * self.prior[:, None])

    @cached_property
    def bayes_risk(self) -> float:
        """R*: the error of the best guess after seeing the output."""
        return max(0.0, float(1 - self._joint.max(axis=0).sum()))

    @cached_property
    def random_guess(self) -> float:
        """R_pi: the error of the best guess before."""
        assert self.prior is not None
        return float(1 - self.prior.max())

    def risk(self, guesses: NDArray[np.int64]) -> float:
        """The error of a classifier: a secret for every output."""
        return float(1 - self._joint[guesses, np.arange(self.matrix.shape[1])].sum())

    @property
    def leakage(self) -> float:
        """Min-entropy leakage ln[(1 - R*) / (1 - R_pi)]; its exponential is the multiplicative
        leakage."""
        return math.log((1 - self.bayes_risk) / (1 - self.random_guess))

    @property
    def additive_leakage(self) -> float:
        return self.random_guess - self.bayes_risk

    @property
    def bayes_security(self) -> float:
        """R* / R_pi: 1 if nothing leaks."""
        return self.bayes_risk / self.random_guess if self.random_guess else 1.0

    @property
    def capacity(self) -> float:
        """The largest leakage over all priors: ln of the sum of column maxima, reached at the
        uniform prior."""
        return math.log(float(self.matrix.max(axis=0).sum()))

    def distance(self, adjacent: Iterable[tuple[int, int]] | None = None) -> float:
        """Find the smallest epsilon with C[s, o] <= e^epsilon C[s', o] for adjacent secrets.

        Without `adjacent` these are all pairs (local DP).
        """
        pairs = combinations(range(len(self.matrix)), 2) if adjacent is None else adjacent
        worst = 0.0
        for s, t in pairs:
            a = self.matrix[s]
            b = self.matrix[t]
            if ((a > 0) != (b > 0)).any():
                return math.inf
            both = a > 0
            worst = max(worst, float(np.abs(np.log(a[both]) - np.log(b[both])).max()))
        return worst

    def after(self, post: Floats) -> Channel:
        """The channel followed by a postprocessor (a row for each output)."""
        return Channel(self.matrix @ np.asarray(post), self.prior)


def response(categories: int, epsilon: float) -> Floats:
    """k-ary randomised response."""
    lie = 1 / (math.exp(epsilon) + categories - 1)
    matrix = np.full((categories, categories), lie)
    np.fill_diagonal(matrix, math.exp(epsilon) * lie)
    return matrix
