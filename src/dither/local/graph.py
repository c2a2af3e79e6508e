"""Statistics of a graph whose users each know their own links: edge-local privacy.

The unit is *one entry of one user's list*. An undirected link stands in two lists: where both ends report on it, it is
protected at 2 epsilon; `EdgeResponse` lets only the user with the larger number answer for a pair, which keeps it at
epsilon. Nothing here protects a user's whole list (node privacy). docs/proofs/local.md, theorem 15.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, positive
from dither.errors import ParameterError
from dither.local.odds import odds, read_epsilon
from dither.privacy.losses import Loss, Pure
from dither.privacy.noise import Words, bernoulli, discrete_laplace

EDGE_UNIT = "entry of one user's link list"


def noisy_degrees(
    degrees: NDArray[np.int64], epsilon: Number, *, source: Words | None = None
) -> tuple[NDArray[np.int64], Loss]:
    """Each user's degree plus integer Laplace noise of scale 1/epsilon: variance 2a/(1-a)**2, a = e**-epsilon."""
    price = positive(epsilon, "epsilon")
    noise = discrete_laplace(1 / price, len(degrees), source=source)
    return degrees + noise, Pure(price, neighbours="replace", unit=EDGE_UNIT)


@dataclass(frozen=True)
class EdgeResponse:
    """Randomised response on the lower triangle of the adjacency matrix: edges and triangles, unbiased.

    >>> EdgeResponse(1, users=4).loss().unit
    "entry of one user's link list"
    """

    epsilon: Fraction
    users: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", read_epsilon(self.epsilon))
        if not 2 <= self.users <= 1 << 14:
            raise ParameterError("users must lie between 2 and 16384: the reports are a matrix")

    @property
    def p(self) -> Fraction:
        """Probability that an entry is told truthfully."""
        ratio = odds(self.epsilon)
        return ratio / (ratio + 1)

    def loss(self) -> Loss:
        return Pure(self.epsilon, neighbours="replace", unit=EDGE_UNIT)

    def report(self, user: int, links: NDArray[np.bool_], *, source: Words | None = None) -> NDArray[np.bool_]:
        """User number u answers for its links to users 0..u-1."""
        if links.shape != (user,):
            raise ParameterError("user number u reports its links to the users 0..u-1")
        told: NDArray[np.bool_] = links ^ ~bernoulli(self.p, user, source=source)
        return told

    def _unbiased(self, reports: list[NDArray[np.bool_]]) -> NDArray[np.float64]:
        p, matrix = float(self.p), np.zeros((self.users, self.users))
        for user, row in enumerate(reports):
            matrix[user, : len(row)] = (row - (1 - p)) / (2 * p - 1)
        return matrix

    def edges(self, reports: list[NDArray[np.bool_]]) -> tuple[float, float]:
        """(number of edges, its variance): pairs * p (1 - p) / (2p - 1)**2."""
        pairs = self.users * (self.users - 1) // 2
        p = float(self.p)
        return float(self._unbiased(reports).sum()), pairs * p * (1 - p) / (2 * p - 1) ** 2

    def triangles(self, reports: list[NDArray[np.bool_]]) -> float:
        """Number of triangles: the sum of products of three independent unbiased entries."""
        lower = self._unbiased(reports)
        return float((lower * (lower @ lower)).sum())
