"""Strategies for Gaussian noise from the spectrum of the Gram matrix of a workload.

The least total squared error of a strategy A with column norms of at most 1 is the least
tr(G X^-1) over X = A^T A with diag X <= 1. Three strategies come close to it:

* `make_spectral_operator`: A = G^(1/4) with its columns brought to one norm. Gram matrices of
  ranges and prefixes are diagonal in a sine basis, so that A is a Toeplitz-Hankel matrix with
  weighted columns, written with 4 n integers. Nothing but cosine sums is computed.
* `make_refined_operator`: the same with Toeplitz and Hankel entries moved along the gradient of the
  error, which closes most of the gap that prefixes leave.
* `make_dense_operator`: fixed-point steps v <- diag((V^1/2 G V^1/2)^1/2) to the optimum, for small
  sizes, rounded to an integer matrix.

Rounded integers are the strategy: the kernel takes norms and products of exactly these, and so
does the certificate (`certificates.py`). Proof: docs/proofs/workloads.md#gaussian-strategies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.fft import dct
from scipy.optimize import minimize

from dither.plan.operators import Dense, ToeplitzHankel
from dither.workloads.language import LineKind
from dither.workloads.lines import Floats, Mixture, mix_grams

FIXED_POINT_STEPS = 7
REFINING_STEPS = 5
DENSE_UP_TO = 256
"""Columns of an explicit strategy: 256 x 256 entries are the most that one operator lists."""
_COEFFICIENT = 1 << 18
_WEIGHT = 1 << 13
_ENTRY = 1 << 15


@dataclass(frozen=True)
class SineBasis:
    """Eigenvectors sin(angle_k x_i) of ranges (x_i = i + 1) or of prefixes (x_i = n - i)."""

    kind: LineKind
    size: int

    @property
    def angles(self) -> Floats:
        """One angle for each eigenvector."""
        k = np.arange(1, self.size + 1)
        if self.kind == "ranges":
            return k * np.pi / (self.size + 1)
        return (2 * k - 1) * np.pi / (2 * self.size + 1)

    def find_eigenvalues(self, mixture: Mixture) -> Floats:
        """The diagonal of the Gram matrix in this basis: its spectrum, where it is diagonal."""
        inverse = 1 / (4 * np.sin(self.angles / 2) ** 2)
        spectrum = np.full(self.size, float(mixture.get("identity", 0)))
        # both kinds of sums have about the same spectrum, up to their numbers of queries
        spectrum += mixture.get("ranges", 0) * (self.size + 1) * inverse
        spectrum += mixture.get("prefixes", 0) * inverse
        return np.asarray(spectrum + mixture.get("total", 0) * self._find_sums() ** 2)

    def _find_sums(self) -> Floats:
        """The sum of every normalised eigenvector."""
        length = (self.size + 1) / 2 if self.kind == "ranges" else (2 * self.size + 1) / 4
        half = self.angles / 2
        sums = np.sin(self.size * half) * np.sin((self.size + 1) * half) / np.sin(half)
        return np.asarray(sums / np.sqrt(length))

    def write_kernel(self, values: Floats) -> tuple[Floats, Floats]:
        """Toeplitz and Hankel parts of the matrix with these eigenvalues.

        2 sin a sin b = cos(a - b) - cos(a + b), so that entry (i, j) is t(|i - j|) - t(x_i + x_j)
        for the cosine sums t.
        """
        sums = self._sum_cosines(values)
        index = np.arange(2 * self.size - 1)
        positions = index + 2 if self.kind == "ranges" else 2 * self.size - index
        return sums[: self.size], -sums[positions]

    def _sum_cosines(self, values: Floats) -> Floats:
        """t(m) = c sum_k f_k cos(angle_k m) for m = 0 to 2 n, by one cosine transform."""
        if self.kind == "ranges":
            padded = np.zeros(self.size + 2)
            padded[1:-1] = values
            half = dct(padded, type=1) / (2 * (self.size + 1))
            return np.concatenate([half, half[-2:0:-1]])[: 2 * self.size + 1]
        # angles (2k - 1) pi / (2n + 1): odd places of a type-1 transform of length 2n + 2
        padded = np.zeros(2 * self.size + 2)
        padded[1 : 2 * self.size : 2] = values
        whole = dct(padded, type=1) / (2 * self.size + 1)
        return np.asarray(whole[: 2 * self.size + 1])


def make_spectral_operator(mixture: Mixture, size: int, kind: LineKind) -> ToeplitzHankel:
    """The closed form: eigenvalues to the power 1/4, columns of one norm, rounded to integers."""
    basis = SineBasis(kind, size)
    spectrum = np.maximum(basis.find_eigenvalues(mixture), 0)
    toeplitz, hankel = basis.write_kernel(spectrum**0.25)
    return round_operator(toeplitz, hankel)


def make_refined_operator(mixture: Mixture, size: int, kind: LineKind) -> ToeplitzHankel:
    """The closed form after a few steps down the gradient of its error, rounded to integers."""
    basis = SineBasis(kind, size)
    spectrum = np.maximum(basis.find_eigenvalues(mixture), 0)
    start = np.concatenate(basis.write_kernel(spectrum**0.25))
    gram = mix_grams(mixture, size)
    cells = np.arange(size)
    apart = np.abs(np.subtract.outer(cells, cells)).ravel()
    together = np.add.outer(cells, cells).ravel()
    steps = 1 / np.sqrt(np.concatenate([np.bincount(apart), np.bincount(together)]))

    def find_error(entries: Floats) -> tuple[float, Floats]:
        """log tr(G X^-1) for columns of norm 1, and its gradient."""
        both = entries * steps
        matrix = both[apart].reshape(size, size) + both[size:][together].reshape(size, size)
        norms = np.sqrt((matrix**2).sum(axis=0))
        inverse = np.linalg.inv(matrix)
        covariance = inverse @ inverse.T
        scaled = gram * np.outer(norms, norms)
        error = float((scaled * covariance).sum())
        pull = matrix * (((gram * covariance) @ norms) / norms)
        by_entry = (2 * (pull - inverse.T @ (scaled @ covariance))).ravel()
        gradient = np.concatenate([np.bincount(apart, by_entry), np.bincount(together, by_entry)])
        return float(np.log(error)), gradient * steps / error

    best = minimize(
        find_error,
        start / np.abs(start).max() / steps,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": REFINING_STEPS},
    )
    entries = best.x * steps
    return round_operator(entries[:size], entries[size:])


def round_operator(
    toeplitz: Floats,
    hankel: Floats,
    largest_coefficient: int = _COEFFICIENT,
    least_weight: int = _WEIGHT,
) -> ToeplitzHankel:
    """Integers in proportion to the entries, and weights that bring columns to one norm."""
    largest = max(np.abs(toeplitz).max(), np.abs(hankel).max())
    whole_toeplitz = np.rint(toeplitz / largest * largest_coefficient).astype(np.int64)
    whole_hankel = np.rint(hankel / largest * largest_coefficient).astype(np.int64)
    norms = np.sqrt(_square_columns(whole_toeplitz.astype(float), whole_hankel.astype(float)))
    weights = np.floor(least_weight * norms.max() / norms).astype(np.int64)
    return ToeplitzHankel(
        tuple(whole_toeplitz.tolist()), tuple(whole_hankel.tolist()), tuple(weights.tolist())
    )


def _square_columns(toeplitz: Floats, hankel: Floats) -> Floats:
    """The squared norm of every column without its weight."""
    size = len(toeplitz)
    both = np.concatenate([toeplitz[:0:-1], toeplitz])
    return np.array(
        [
            np.sum((both[size - 1 - j : 2 * size - 1 - j] + hankel[j : j + size]) ** 2)
            for j in range(size)
        ]
    )


@dataclass(frozen=True)
class FixedPoint:
    """The optimum for a Gram matrix, to the steps taken: X^1/2, and the dual weights v."""

    root: Floats
    dual: Floats


def find_optimum(gram: Floats, steps: int = FIXED_POINT_STEPS) -> FixedPoint:
    """Fixed-point steps for least tr(G X^-1) with diag X <= 1."""
    dual = np.ones(len(gram))
    for _ in range(steps):
        root = np.sqrt(dual)
        values, vectors = np.linalg.eigh(gram * np.outer(root, root))
        halves = np.sqrt(np.maximum(values, 1e-14 * values[-1]))
        used = dual
        dual = np.einsum("ij,j,ij->i", vectors, halves, vectors)
    factor = (vectors * np.sqrt(halves)).T / root
    norms = np.sqrt(np.einsum("ij,ij->j", factor, factor))
    return FixedPoint(vectors @ (factor / norms), used)


def make_dense_operator(optimum: FixedPoint) -> Dense:
    """The optimum as an integer matrix."""
    scale = _ENTRY / np.abs(optimum.root).max()
    entries = np.rint(optimum.root * scale).astype(np.int64)
    return Dense(tuple(map(tuple, entries.tolist())))
