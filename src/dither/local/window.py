"""A window law on a public output grid: `width` cells of weight R among `cells`, the others of
weight 1.

It is the printed law of the piecewise and square-wave mechanisms integrated over the cells, with
windows that begin at a cell's edge: so the two densities stay exactly R : 1, no cell is split, and
no ratio passes R. docs/proofs/local.md, theorem 9.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dither.privacy.noise import Words, bernoulli, uniform_below


def cube_sum(start: int, end: int) -> Fraction:
    """Sum of (y + 1/2)**2 over the cells start..end-1."""
    return Fraction(end**3 - start**3, 3) - Fraction(end - start, 12)


@dataclass(frozen=True)
class Window:
    """Windows of `width` cells that may begin at 0..cells-width."""

    odds: Fraction
    cells: int
    width: int

    @property
    def total(self) -> Fraction:
        return self.width * self.odds + self.cells - self.width

    @property
    def inside(self) -> Fraction:
        """Probability that the output lies in the window."""
        return self.width * self.odds / self.total

    def draw(self, start: NDArray[np.int64], source: Words) -> NDArray[np.int64]:
        """Draw an output cell for each window start."""
        hit = bernoulli(self.inside, len(start), source=source)
        within: NDArray[np.int64] = start + uniform_below(self.width, len(start), source=source)
        if self.width == self.cells:
            return within
        outside: NDArray[np.int64] = uniform_below(
            self.cells - self.width, len(start), source=source
        )
        outside += np.where(outside >= start, self.width, 0)
        cells: NDArray[np.int64] = np.where(hit, within, outside)
        return cells

    def weight(self, start: int, cell: int) -> Fraction:
        return (self.odds if start <= cell < start + self.width else 1) / self.total

    def mean(self, start: int) -> Fraction:
        """E[y + 1/2]."""
        inner = self.width * (start + Fraction(self.width, 2))
        return (Fraction(self.cells**2, 2) + (self.odds - 1) * inner) / self.total

    def square(self, start: int) -> Fraction:
        """E[(y + 1/2)**2]."""
        return (
            cube_sum(0, self.cells) + (self.odds - 1) * cube_sum(start, start + self.width)
        ) / self.total
