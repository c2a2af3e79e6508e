"""Integer factors of correlated noise: which exact sums are measured at every step, and how
estimates of the steps follow from noisy ones.

A factor is a square, lower triangular matrix C of *integers*, one row a step. The trusted part
measures row t, C x up to t, in exact integers and adds independent integer noise to it; estimates
C^-1 (C x + z) are post-processing. A real C would show fractions of its sums in clear (rule P4 of
the review), so there is none. Proof: docs/proofs/correlated-noise.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.signal import lfilter

from dither.errors import ParameterError

COEFFICIENT_BITS = 8
"""The first coefficient of a banded factor is 2**8."""
Floats = NDArray[np.float64]


class StepFactor(ABC):
    """A matrix, row by row. It keeps exact sums, so it is secret, used for one run, and dropped
    with it. Values are integers of NumPy or PyTorch, and estimates floats of the same kind."""

    @abstractmethod
    def add(self, values: Any) -> Any:
        """The exact row of the next step, as new numbers."""

    @abstractmethod
    def undo(self, noisy: Any) -> Any:
        """The estimate of the step's values from its noisy row and earlier ones: float64."""


class TreeFactor(StepFactor):
    """Binary tree: row t is the sum of the last 2**v steps, 2**v the largest power of two that
    divides t. A prefix is the sum of the rows of t's binary digits."""

    def __init__(self) -> None:
        self._step = 0
        self._exact: dict[int, Any] = {}
        self._noisy: dict[int, Any] = {}
        self._prefix: Any = 0

    def add(self, values: Any) -> Any:
        self._step += 1
        level = find_level(self._step)
        row = values + 0
        for below in range(level):
            row = row + self._exact[below]
        self._exact[level] = row
        return row + 0

    def undo(self, noisy: Any) -> Any:
        level = find_level(self._step)
        self._noisy[level] = noisy
        digits = [place for place in self._noisy if self._step >> place & 1]
        prefix = sum(self._noisy[place] for place in digits)
        estimate = prefix - self._prefix
        self._prefix = prefix
        return estimate * 1.0


class BandedFactor(StepFactor):
    """Row t is the sum of c_j times the step before by j, for the bands j."""

    def __init__(self, coefficients: tuple[int, ...]) -> None:
        self._coefficients = check_coefficients(coefficients)
        self._exact: deque[Any] = deque(maxlen=len(coefficients))
        self._estimates: deque[Any] = deque(maxlen=max(1, len(coefficients) - 1))

    def add(self, values: Any) -> Any:
        self._exact.appendleft(values + 0)
        row = values * self._coefficients[0]
        for coefficient, earlier in list(zip(self._coefficients, self._exact, strict=False))[1:]:
            row = row + earlier * coefficient
        return row

    def undo(self, noisy: Any) -> Any:
        estimate = noisy * 1.0
        for coefficient, earlier in zip(self._coefficients[1:], self._estimates, strict=False):
            estimate = estimate - earlier * float(coefficient)
        estimate = estimate / float(self._coefficients[0])
        self._estimates.appendleft(estimate)
        return estimate


def check_coefficients(coefficients: tuple[Any, ...]) -> tuple[int, ...]:
    """Integers, the first positive: with a fraction, integer noise would hide nothing of it."""
    are_integers = all(type(number) is int for number in coefficients)
    if not coefficients or not are_integers or coefficients[0] <= 0:
        raise ParameterError(
            "the factor of correlated noise is a matrix of integers with a positive diagonal: a "
            "real factor shows fractions of its sums through integer noise"
        )
    return coefficients


def find_level(step: int) -> int:
    """The exponent of the largest power of two that divides a step.

    >>> [find_level(step) for step in (1, 2, 3, 4, 12)]
    [0, 1, 0, 2, 2]
    """
    return (step & -step).bit_length() - 1


def square_tree(steps: int, separation: int) -> int:
    """The largest squared norm of the rows that a unit moves, in its steps' squared sensitivity: it
    takes part in every `separation`-th step from any of the first ones.

    >>> square_tree(1, 1), square_tree(4, 4), square_tree(2, 1)
    (1, 3, 5)
    """
    return max(_count_tree(steps, separation, start) for start in range(1, separation + 1))


def _count_tree(steps: int, separation: int, start: int) -> int:
    """Squares of how often a unit is in each row, added up."""
    total = 0
    size = 1
    taken = np.arange(start, steps + 1, separation)
    while size <= steps:
        blocks = (taken - 1) // size
        is_row = (blocks % 2 == 0) & ((blocks + 1) * size <= steps)
        counts = np.unique(blocks[is_row], return_counts=True)[1]
        total += int(np.sum(counts.astype(np.int64) ** 2))
        size *= 2
    return total


def square_banded(coefficients: tuple[int, ...], steps: int, separation: int) -> int:
    """The same for a banded factor with at most `separation` bands: a unit's steps move different
    rows, so that squares add up.

    >>> square_banded((2, 1), steps=4, separation=2)
    10
    """
    if len(coefficients) > separation:
        raise ParameterError(
            f"{len(coefficients)} bands reach further than the {separation} steps between two of a "
            f"unit: choose at most {separation} bands"
        )
    return -(-steps // separation) * sum(number**2 for number in coefficients)


@lru_cache(maxsize=32)
def choose_bands(steps: int, bands: int) -> tuple[int, ...]:
    """Integer coefficients with a small mean squared error of all prefixes, for the same privacy.

    Starts from the series of (1 - x)**(-1/2), which is the best of all bands for long runs, and
    minimises the error for as many as there are. What it finds decides the error, not privacy.
    """
    length = min(steps, 4096)
    start = np.cumprod(np.r_[1.0, (np.arange(1, bands) - 0.5) / np.arange(1, bands)])
    chosen = start
    if bands > 1:
        solved = minimize(
            lambda rest: _measure_bands(np.r_[1.0, rest], length),
            start[1:],
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 200},
        )
        chosen = np.r_[1.0, solved.x]
    return tuple(int(number) for number in np.round(chosen * (1 << COEFFICIENT_BITS)))


def _measure_bands(coefficients: Floats, steps: int) -> tuple[float, Floats]:
    """The logarithm of error times squared column norm, and its gradient without the first."""
    errors = lfilter([1.0], coefficients, np.ones(steps))
    weights = np.arange(steps, 0, -1.0)
    inverse = lfilter([1.0], coefficients, errors)
    squared = float(np.sum(weights * errors**2))
    norm = float(coefficients @ coefficients)
    products = weights * errors
    slopes = np.array(
        [-2 * products[band:] @ inverse[: steps - band] for band in range(1, len(coefficients))]
    )
    return float(np.log(squared) + np.log(norm)), slopes / squared + 2 * coefficients[1:] / norm


def measure_prefix_error(coefficients: tuple[int, ...], steps: int) -> float:
    """The mean variance of all prefixes for noise of one column norm: what `choose_bands` makes
    small."""
    numbers = np.array(coefficients, np.float64)
    return float(np.exp(_measure_bands(numbers, steps)[0])) / steps
