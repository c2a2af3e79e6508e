"""Bayes risk from pairs (secret, output): frequentist, nearest-neighbour and k_n-NN classifiers,
and their convergence.

All training points at the smallest distance vote. For k neighbours, if a group of equally distant
points straddles the k-th place, its most frequent secret fills the places that are left (book,
section 15.5). Neighbours are found by a tree over distinct outputs, so 10^5 against 10^5 points
take seconds. The error of any classifier is an estimate from above; only its confidence limit on
held-out pairs is a statement (`limits.certified_epsilon`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree

from dither.audit.leakage.limits import certified_epsilon
from dither.errors import ParameterError
from dither.privacy.noise import SystemSource

Method = Literal["frequentist", "nn", "log10", "ln"]
METHODS: tuple[Method, ...] = ("frequentist", "nn", "log10", "ln")
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_SAME = 1e-9  # distances closer than this, relatively, are equal


def neighbours(method: Method, examples: int) -> int:
    """k for n examples: 1, log10 n or ln n, rounded up (the book does not say how it rounds)."""
    if method in ("frequentist", "nn"):
        return 1
    return max(1, math.ceil(math.log10(examples) if method == "log10" else math.log(examples)))


def most_frequent(
    rows: Integers, secrets: Integers, counts: Integers, size: int, kinds: int, otherwise: int = 0
) -> Integers:
    """For each of `size` rows the secret of the largest count, the least among equals; `otherwise`
    for empty rows.

    >>> most_frequent(np.array([0, 0, 2]), np.array([3, 1, 2]), np.array([5, 5, 1]), 3, kinds=4,
    ...     otherwise=0).tolist()
    [1, 0, 2]
    """
    best = np.full(size, -1, np.int64)
    np.maximum.at(best, rows, counts * kinds + (kinds - 1 - secrets))
    return np.where(best < 0, otherwise, kinds - 1 - best % kinds).astype(np.int64)


def _find_winners(counts: Any) -> Integers:
    """`most_frequent` of the rows of a sparse matrix (its own argmax goes row by row)."""
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    return most_frequent(rows, counts.indices.astype(np.int64), counts.data, *counts.shape)


class Trained:
    """Counts of secrets at each distinct output."""

    def __init__(self, secrets: Integers, outputs: NDArray[Any], kinds: int) -> None:
        """Count the secrets seen with each distinct output, and index the outputs for search.

        `kinds` is the number of different secrets, which are numbered from 0.
        """
        array = np.asarray(outputs, np.float64)
        points = array[:, None] if array.ndim == 1 else array
        self.points, positions = np.unique(points, axis=0, return_inverse=True)
        positions = positions.ravel()
        unit_counts = np.ones(len(secrets), np.int64)
        self.counts = csr_matrix(
            (unit_counts, (positions, secrets)), shape=(len(self.points), kinds)
        )
        self.totals = np.bincount(positions, minlength=len(self.points))
        self.common = int(np.bincount(secrets, minlength=kinds).argmax())
        self._tree = cKDTree(self.points)

    def frequentist(self, outputs: NDArray[Any]) -> Integers:
        """The most frequent secret of an output that was seen; of another, the most frequent of
        all."""
        points = _as_points(outputs)
        distance, positions = self._tree.query(points)
        best = _find_winners(self.counts)
        return np.where(distance == 0, best[positions], self.common).astype(np.int64)

    def nearest(self, outputs: NDArray[Any], k: int) -> Integers:
        """Guess by the vote of the k nearest examples, ties as the book says."""
        points = _as_points(outputs)
        guesses = np.empty(len(points), np.int64)
        rows = np.arange(len(points))
        columns = min(len(self.points), k + 8)
        while len(rows):
            done, guess = self._vote(points[rows], k, columns)
            guesses[rows[done]] = guess[done]
            rows = rows[~done]
            columns = min(len(self.points), 4 * columns)
        return guesses

    def _vote(
        self, points: NDArray[np.float64], k: int, columns: int
    ) -> tuple[NDArray[np.bool_], Integers]:
        """Let the k nearest examples of each point vote for a secret.

        `columns` is how many distinct outputs are looked at. Examples as far away as the
        k-th share the remaining votes as one group, whose majority takes them. Return
        (points that are decided, winners): a point is undecided if `columns` outputs did
        not reach past that distance.
        """
        distance, positions = self._tree.query(points, k=columns)
        distance = distance.reshape(len(points), -1)
        positions = positions.reshape(len(points), -1)
        reached = np.cumsum(self.totals[positions], axis=1)
        enough = reached[:, -1] >= k
        edge_column = np.where(enough, (reached >= k).argmax(axis=1), columns - 1)
        edge = distance[np.arange(len(points)), edge_column][:, None]
        tied = np.abs(distance - edge) <= _SAME * np.maximum(edge, 1e-300)
        inside = (distance < edge) & ~tied
        whole = columns == len(self.points)
        done = (enough & ~tied[:, -1]) | whole
        votes = self._sum_counts(inside, positions)
        group = self._sum_counts(tied, positions)
        missing_votes = np.maximum(k - np.asarray(votes.sum(axis=1)).ravel(), 0)
        winner = _find_winners(group)
        extra = csr_matrix((missing_votes, (np.arange(len(points)), winner)), shape=votes.shape)
        return done, _find_winners(votes + extra)

    def _sum_counts(self, chosen: NDArray[np.bool_], positions: Integers) -> Any:
        """Sum, for each point, the counts of secrets over the neighbours marked in `chosen`."""
        row, column = np.nonzero(chosen)
        marks = csr_matrix(
            (np.ones(len(row), np.int64), (row, positions[row, column])),
            shape=(len(chosen), len(self.points)),
        )
        return marks @ self.counts

    def guess(self, method: Method, outputs: NDArray[Any], examples: int) -> Integers:
        """Guess by one of the four methods, for every output."""
        return (
            self.frequentist(outputs)
            if method == "frequentist"
            else self.nearest(outputs, neighbours(method, examples))
        )


def _as_points(outputs: NDArray[Any]) -> NDArray[np.float64]:
    array = np.asarray(outputs, np.float64)
    return array[:, None] if array.ndim == 1 else array


@dataclass(frozen=True)
class Curve:
    """The estimate as examples grow."""

    method: Method
    examples: tuple[int, ...]
    risks: tuple[float, ...]

    @property
    def least(self) -> float:
        return min(self.risks)

    @property
    def last(self) -> float:
        return self.risks[-1]

    def converged(self, truth: float, within: float, *, absolute: bool = False) -> int | None:
        """Find the number of examples from which on the estimate stays within a share of the truth.

        None if it does not.
        """
        limit = within if absolute else within * truth
        good = [abs(risk - truth) < limit for risk in self.risks]
        if not good[-1]:
            return None
        last_bad = max((i for i, fine in enumerate(good) if not fine), default=-1)
        return self.examples[last_bad + 1]


def list_sizes(first: int, last: int, step: float) -> list[int]:
    """Numbers of examples from `first` on, each a share `step` more than the one before; the last
    is `last`.

    >>> list_sizes(5, 12, 0.5)
    [5, 7, 10, 12]
    """
    sizes = [min(first, last)]
    while sizes[-1] < last:
        sizes.append(min(last, max(sizes[-1] + 1, int(sizes[-1] * (1 + step)))))
    return sizes


def curve(
    method: Method,
    secrets: Integers,
    outputs: NDArray[Any],
    kinds: int,
    risk: Callable[[Callable[[NDArray[Any]], Integers]], float],
    *,
    step: float = 0.03,
    first: int = 5,
) -> Curve:
    """Train on growing prefixes (by a factor 1 + step, up to all) and let `risk` judge each
    classifier."""
    sizes: list[int] = []
    risks: list[float] = []
    for size in list_sizes(first, len(secrets), step):
        trained = Trained(secrets[:size], outputs[:size], kinds)

        def classify(
            points: NDArray[Any], trained: Trained = trained, size: int = size
        ) -> Integers:
            return trained.guess(method, points, size)

        sizes.append(size)
        risks.append(risk(classify))
    return Curve(method, tuple(sizes), tuple(risks))


@dataclass(frozen=True)
class Leakage:
    """What pairs (secret, output) show: estimates, and warnings about how far to trust them."""

    random_guess: float
    curves: tuple[Curve, ...]
    method: Method
    risk: float
    errors: int
    held_out: int
    secrets: int
    secret_counts: tuple[int, ...]
    warnings: tuple[str, ...]

    @property
    def leakage(self) -> float:
        """Estimated multiplicative leakage (1 - R) / (1 - R_pi)."""
        return (1 - self.risk) / (1 - self.random_guess)

    def certify(self, alpha: float) -> float:
        """Compute a lower bound on epsilon (local) with confidence 1 - alpha.

        It holds for the prior from which the secrets came.
        """
        return certified_epsilon(
            self.secrets,
            self.errors,
            self.held_out,
            alpha,
            classifiers=len(self.curves),
            prior_counts=self.secret_counts,
        )


def from_pairs(secrets: Any, outputs: Any, *, held_out: float = 0.25, step: float = 0.5) -> Leakage:
    """All four estimators on a random split of the pairs; the one with the least error on the
    held-out part is kept, so its error counts as the best of four (`certify`).

    >>> import numpy as np
    >>> s = np.arange(4000) % 2
    >>> leakage = from_pairs(s, s * 10)
    >>> leakage.risk, round(leakage.random_guess, 1)
    (0.0, 0.5)
    """
    names, labels = np.unique(np.asarray(secrets), return_inverse=True)
    points = _as_points(np.asarray(outputs))
    if len(labels) != len(points) or len(names) < 2 or len(labels) < 40:
        raise ParameterError(
            "leakage needs as many outputs as secrets, at least 40 pairs and two kinds of secret"
        )
    order = np.argsort(SystemSource().words(len(labels)), kind="stable")  # a file may be sorted
    labels = labels[order]
    points = points[order]
    train = int(len(labels) * (1 - held_out))
    test_points = points[train:]
    test_labels = labels[train:]

    def risk(classify: Callable[[NDArray[Any]], Integers]) -> float:
        return float((classify(test_points) != test_labels).mean())

    curves = tuple(
        curve(
            method,
            labels[:train],
            points[:train],
            len(names),
            risk,
            step=step,
            first=max(5, train // 64),
        )
        for method in METHODS
    )
    best = min(curves, key=lambda method_curve: method_curve.last)
    warnings = []
    distinct_outputs = len(np.unique(points[:train], axis=0))
    if distinct_outputs > train // 2:
        warnings.append(
            "outputs look continuous: the frequentist and NN estimates need not converge; trust "
            "k_n-NN"
        )
    if len(test_labels) < 738:
        warnings.append(
            "fewer than 738 held-out pairs: an estimate may be off by more than 0.05 at 95%"
        )
    warnings.append(
        "estimates are upper bounds of the Bayes risk: less leakage than shown is not ruled out, "
        "more neither"
    )
    counts = np.bincount(labels)
    return Leakage(
        random_guess=1 - float(counts.max()) / len(labels),
        curves=curves,
        method=best.method,
        risk=best.last,
        errors=round(best.last * len(test_labels)),
        held_out=len(test_labels),
        secrets=len(names),
        secret_counts=tuple(counts.tolist()),
        warnings=tuple(warnings),
    )
