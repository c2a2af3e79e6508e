"""What the kernel asks of a mechanism: its loss, its errors, its release, and words for people.

A mechanism is built for one step of a request and answers one type of query. What it takes and
gives depends on that type alone, so that the kernel needs to know no mechanism by name:

* `Cells` (counts and sums): an array of exact integers, one row for each cell; integers, cell by
  cell.
* `Keys`: the distinct owners of every candidate key; 1 for a key that is shown, else 0.
* `Quantiles`: a `SparseHistogram` of one cell; the chosen cells of the grid.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dither.canonical import quote
from dither.error_terms import ErrorTerms
from dither.errors import ParameterError
from dither.plan.norms import Sensitivity
from dither.privacy.losses import Loss
from dither.privacy.mechanisms.additive import exact_integers
from dither.privacy.noise import Words


class SparseHistogram(NamedTuple):
    """The rows of one group on a public grid: how many lie in which cells of the grid.

    `filled` are the cells that hold rows, in increasing order; `counts` are the rows in each;
    `cells` is the size of the grid.
    """

    filled: Any
    counts: Any
    cells: int


class Mechanism(Protocol):
    """What the kernel can release."""

    @property
    def stored_name(self) -> str:
        """Its name in digests of stored releases and in certificates: never changes."""

    def loss(self) -> Loss:
        """What one release costs."""

    def error_terms(self, column: int = 0) -> ErrorTerms:
        """The law of the error of one released number (of each cell), whatever the others are."""

    def column_sensitivity(self, column: int = 0) -> Sensitivity | None:
        """How far one unit moves this number over all cells; None where it is no count or sum."""

    def release_exact(self, exact: Any, source: Words) -> list[int]:
        """The answer to exact integers, with noise from the source of one release."""

    def describe(self) -> str:
        """What it does to which numbers, and with how much noise: for EXPLAIN."""

    @property
    def parameters(self) -> Mapping[str, Fraction]:
        """The parameter of its noise, by its name in certificates; empty if it has several."""

    def describe_sensitivity(self) -> str:
        """How far one unit moves what it releases, in words: for EXPLAIN."""

    def sensitivity_document(self) -> Mapping[str, Any]:
        """The same as certificates show it; empty where the loss says it already."""


def check_filled_cells(
    filled_cells: Any, counts: Any, cells: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Check increasing cells of a grid and the rows in each; return both as arrays.

    Raises ParameterError where they do not fit.
    """
    rows = _row_counts(counts)
    filled = exact_integers(filled_cells)
    if not 1 <= cells < 1 << 56:
        raise ParameterError(
            f"a quantile needs a grid of at least one cell and fewer than 2**56, got {quote(cells)}"
        )
    inside = not len(filled) or (filled[0] >= 0 and filled[-1] < cells)
    if filled.shape != rows.shape or not inside or (filled[1:] <= filled[:-1]).any():
        raise ParameterError(
            "filled cells must be increasing cells of the grid, one for each count"
        )
    return filled, rows


def _row_counts(counts: Any) -> NDArray[Any]:
    """Read the numbers of rows in each cell.

    Raises ParameterError unless they are non-negative integers.
    """
    rows = exact_integers(counts)
    if rows.ndim != 1 or (len(rows) and rows.min() < 0):
        raise ParameterError(
            "counts must be a list of non-negative integers, the rows in each cell"
        )
    return rows


def sparse_histogram(counts: Any) -> SparseHistogram:
    """The same rows without the cells that hold none; `counts` has all cells of the grid."""
    rows = _row_counts(counts)
    filled = np.flatnonzero(rows)
    return SparseHistogram(filled, rows[filled], len(rows))
