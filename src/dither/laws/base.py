"""What every error law can say: three kinds of answers, three kinds of laws.

* `AdditiveErrorLaw`: integer noise on one released number, symmetric about 0.
* `RankErrorLaw`: by how many rows the rank of a released quantile may be off.
* `KeyErrorLaw`: how many owners a key needs to be shown.

A law is plain frozen data with a stored kind (`documents.py`), so that a reader who has no
mechanism can use it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, exact
from dither.error_terms import ErrorTerms, NoiseTerms
from dither.errors import ParameterError

Floats = NDArray[np.float64]
GUARD = 1e-12
"""The part of a miss that the rounding of float64 may take."""
_FARTHEST = 1 << 70
"""Further out than any noise that can be drawn."""


class ErrorLaw:
    """The law of the error of one released number, key or quantile."""


class HasErrorTerms(Protocol):
    """Anything that says the law of each number it releases, as every mechanism does."""

    def error_terms(self, column: int = 0) -> ErrorTerms: ...


class HasNoiseTerms(Protocol):
    """The same where noise is added to numbers."""

    def error_terms(self, column: int = 0) -> NoiseTerms: ...


class AdditiveErrorLaw(ErrorLaw, ABC):
    """Symmetric integer noise on one number.

    A law must define `formula`, the abstract members and `above`, from which the rest follows.
    `interval(c)` is the smallest whole number w whose P(|noise| <= w) certainly reaches c: coverage
    is at least the level, also after the rounding of float64, for which the miss 1 - c is made
    smaller by one part in 1e12.
    """

    is_joint: ClassVar[bool] = False
    """Whether the numbers of a cell share their noise; then it has `draw_together`."""
    formula: ClassVar[str]
    """P(z) in one line."""
    column: int
    """The number of the cell that a joint law speaks of; other laws have none."""

    @property
    @abstractmethod
    def noise_scale(self) -> Fraction:
        """The parameter of the noise, in steps of the number's grid."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance of the noise, in squared steps of the number's grid."""

    @property
    @abstractmethod
    def positive_mean(self) -> float:
        """E max(0, noise), as a multiple of `noise_scale`."""

    def above(self, t: Floats) -> Floats:
        """P(noise > t) for whole t, or a little more; a joint law defines `tail` instead."""
        raise TypeError("this law states its tail alone: ask for tail() or interval()")

    def tail(self, t: int) -> float:
        """P(|noise| >= t), or a little above it."""
        return 1.0 if t <= 0 else min(1.0, 2 * float(self.above(np.array([float(t - 1)]))[0]))

    def interval(self, confidence: Number) -> int:
        """The half-width that holds the noise with at least this probability."""
        return find_half_width(self, read_miss(confidence), max(1, int(self.noise_scale)))

    def inverse(self, shares: Floats) -> Floats:
        """Find the smallest z with P(noise <= z) >= share, for every share, by bisection."""
        high = np.full(shares.shape, float(_FARTHEST))
        low = -high
        for _ in range(_FARTHEST.bit_length() + 1):
            middle = np.floor((low + high) / 2)
            is_enough = self.above(middle) <= 1 - shares
            low = np.where(is_enough, low, middle)
            high = np.where(is_enough, middle, high)
        return high + 0.0

    def draw_together(self, columns: tuple[int, ...], shares: Floats) -> Floats:
        """Noise of some numbers of a cell at points of the unit cube.

        One share is for what they have in common, then there is one for each number.
        """
        raise TypeError("the noise of this number is its own: only a joint law draws several")


class RankErrorLaw(ErrorLaw, ABC):
    """How far the rank of a quantile may be off, in rows: a function of public numbers alone."""

    aimed_rows: int
    """Rows between the quantile and where its ends are aimed; 0 where it has no ends."""

    @property
    @abstractmethod
    def row_scale(self) -> Fraction:
        """The scale of the first choice, in rows."""

    @property
    def tied_share(self) -> Fraction:
        """The share of the rows with one value by which the rank may be off beside `rows`, about.

        It is 0 where ties add nothing.
        """
        return Fraction(0)

    @abstractmethod
    def rows(self, cells: int, confidence: Number) -> int:
        """How many rows of the data must move at most for the answer to be a q-quantile of it.

        That holds with at least this confidence, except for what ties add (`tied_share`).
        """


class KeyErrorLaw(ErrorLaw, ABC):
    """The chance of a key to be shown, by its number of owners."""

    @abstractmethod
    def size_shown(self, probability: Number) -> int:
        """The smallest number of owners with at least this chance to be shown."""


def read_miss(confidence: Number) -> float:
    """Compute 1 - confidence, a little less, from the exact number.

    1 - 0.99999999999999999999 is not 0. Raises ParameterError outside (0, 1).
    """
    level = exact(confidence, "confidence")
    if not 0 < level < 1:
        raise ParameterError(f"confidence must lie in (0, 1), got {confidence}: choose e.g. 0.95")
    if level > 1 - Fraction(1, 10**280):
        raise ParameterError("confidence must be at most 1 - 1e-280: choose e.g. 0.95")
    return float(1 - level) * (1 - GUARD)


def find_half_width(law: AdditiveErrorLaw, miss: float, start: int) -> int:
    """Find the smallest w with P(|noise| > w) <= miss, to one or a part in 2**17.

    The search doubles from `start`.
    """
    low = -1
    high = start
    while law.tail(high + 1) > miss:
        low = high
        high = 2 * high
    while high - low > max(1, high >> 17):
        middle = (low + high) // 2
        low, high = (low, middle) if law.tail(middle + 1) <= miss else (middle, high)
    return high


def from_tails(t: Floats, upper: Floats, lower: Floats) -> Floats:
    """P(noise > t), or a little more, from bounds of P(noise >= size).

    Where t >= 0 it is the upper bound, else 1 minus the lower one.
    """
    return np.where(t >= 0, upper, 1 - lower)


def tail_size(t: Floats) -> Floats:
    """Compute the size s for which P(noise > t) follows from P(noise >= s).

    noise > t >= 0 is noise >= t + 1; noise > t for t < 0 is not (noise >= |t|) by symmetry.
    """
    size: Floats = np.abs(t + 0.5) + 0.5
    return size
