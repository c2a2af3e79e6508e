"""Strategies for Laplace noise: every cell, and p weighted sums, in columns of L1 norm 1.

A = [I; T] diag(1 / (1 + column sums of T)) with T >= 0 (McKenna et al. 2018). The search starts at
the blocks of a tree and follows the gradient of tr(G (A^T A)^-1), which costs p n^2 by Woodbury's
identity. Proof: docs/proofs/workloads.md#p-identity.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from dither.plan.operators import MOST_ENTRIES, Dense, LinearOperator, Stack, ToeplitzHankel
from dither.workloads.lines import Floats

UP_TO = 1024
MOST_STEPS = 400
_ENTRY = 1 << 18


def find_theta(gram: Floats, start: Floats, steps: int = MOST_STEPS) -> Floats:
    """The local optimum T of tr(G (A^T A)^-1) that is reached from a start."""
    optimum = minimize(
        _find_error,
        start.ravel(),
        args=(gram, start.shape[0]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(0, None)] * start.size,
        options={"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-8},
    )
    return np.asarray(optimum.x.reshape(-1, len(gram)))


def _find_error(flat: Floats, gram: Floats, rows: int) -> tuple[float, Floats]:
    """tr(G (A^T A)^-1) and its gradient in T."""
    theta = flat.reshape(rows, -1)
    sums = 1 + theta.sum(axis=0)
    small = np.eye(rows) + theta @ theta.T
    solved = np.linalg.solve(small, theta)
    scaled = solved * sums
    product = scaled @ gram
    inner = product * sums
    weighted = np.diagonal(gram) * sums - np.einsum("ai,ai->i", theta, product)
    error = float(sums @ weighted)
    by_theta = -2 * (inner - (inner @ theta.T) @ solved)
    return error, (by_theta + 2 * weighted).ravel()


def count_sums(size: int) -> int:
    """How many weighted sums an operator can list for so many cells."""
    return max(1, min(size // 12 + 2, (MOST_ENTRIES - 4 * size) // size))


def make_start(size: int, rows: int) -> Floats:
    """The widest blocks of a tree with equal weights, as many as there are rows."""
    branching = 4 if size <= 512 else 2  # the better start at either size
    blocks: list[tuple[int, int]] = []
    width = size
    while width > 1 and len(blocks) < rows:
        blocks += [(start, min(start + width, size)) for start in range(0, size, width)]
        width = -(-width // branching)
    theta = np.full((rows, size), 1e-3)
    for row, (start, end) in enumerate(blocks[:rows]):
        theta[row, start:end] = 1.0
    return theta


def make_p_identity(theta: Floats) -> LinearOperator:
    """The strategy in integers: a diagonal matrix above the weighted sums."""
    size = theta.shape[1]
    scale = _ENTRY / (1 + theta.sum(axis=0))
    diagonal = np.maximum(1, np.rint(scale)).astype(np.int64)
    entries = np.rint(theta * scale).astype(np.int64)
    entries = entries[entries.any(axis=1)]
    unweighted = (1,) + (0,) * (size - 1)
    cells = ToeplitzHankel(unweighted, (0,) * (2 * size - 1), tuple(diagonal.tolist()))
    if not len(entries):
        return cells
    return Stack((cells, Dense(tuple(map(tuple, entries.tolist())))))
