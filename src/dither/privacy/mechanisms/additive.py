"""What every mechanism that adds integer noise shares.

Exact input, an exact sum, and scales that are rounded against us.

A mechanism with one noise for every number inherits `AdditiveNoise` and defines `loss`,
`error_terms` and `release`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.canonical import number_text
from dither.error_terms import NoiseTerms
from dither.errors import ParameterError
from dither.plan.norms import Sensitivity
from dither.privacy.noise import Words

_DIGITS = 20


class AdditiveNoise(ABC):
    """A mechanism with independent noise on every number.

    It follows from `sensitivity`, `error_terms` and `release`, which a subclass defines.
    """

    noise_name: ClassVar[str]
    """Its noise in words, such as "integer Laplace noise"."""
    parameter_name: ClassVar[str] = "scale"
    """What certificates call the parameter of the noise."""
    sensitivity: Sensitivity

    @abstractmethod
    def error_terms(self, column: int = 0) -> NoiseTerms:
        """The law of the error of each number."""

    @abstractmethod
    def release(self, values: Any, *, source: Words | None = None) -> NDArray[Any]:
        """`values` plus noise: integers of the same shape."""

    def release_exact(self, exact: Any, source: Words) -> list[int]:
        """The numbers of all cells plus noise, cell by cell."""
        return list(self.release(exact, source=source).ravel().tolist())

    def column_sensitivity(self, column: int = 0) -> Sensitivity:
        """How far one unit moves the numbers: one bound for all of them together."""
        return self.sensitivity

    @property
    def parameters(self) -> Mapping[str, Fraction]:
        """The parameter of the noise, by the name that certificates show."""
        return {self.parameter_name: self.error_terms().scale}

    def describe(self) -> str:
        """The noise and its parameter, in words."""
        scale = number_text(self.error_terms().scale)
        return f"{self.noise_name} of {self.parameter_name} {scale} on every count or sum"

    def describe_sensitivity(self) -> str:
        """How far one unit moves the numbers, in words."""
        moved = self.sensitivity
        return f"L1 {moved.l1:,}, L2 {moved.l2_squared**0.5:,.4g}, cells {moved.l0:,}"

    def sensitivity_document(self) -> Mapping[str, Any]:
        """Write how far one unit moves the numbers, by the name of each norm."""
        return {
            norm: Fraction(getattr(self.sensitivity, norm))
            for norm in ("l0", "l1", "l2_squared", "linf")
        }


def exact_integers(values: Any) -> NDArray[Any]:
    """Read `values` as an array of int64 or of Python integers.

    Floats are refused with a ParameterError, since their rounding depends on data.
    """
    if isinstance(values, (int, np.integer)) and not isinstance(values, bool):
        values = [values]
    # a list goes through Python integers: NumPy would make floats of [-1, 2**63], an error that
    # depends on data
    numbers = values if isinstance(values, np.ndarray) else np.array(values, object)
    if not numbers.size:
        # an empty list has no type to refuse, and emptiness must never be an error
        return np.zeros(numbers.shape, np.int64)
    if numbers.dtype.kind == "i":
        return numbers.astype(np.int64)
    if numbers.dtype.kind in "uO":
        flat = numbers.ravel().tolist()
        kinds = set(map(type, flat))
        if all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
            return _narrowest(flat if kinds == {int} else [int(value) for value in flat]).reshape(
                numbers.shape
            )
    raise ParameterError(
        f"a mechanism takes exact integers, got {numbers.dtype}: "
        "round to the grid in the data layer"
    )


def check_sensitivity(sensitivity: Any) -> Sensitivity:
    """`sensitivity` itself; anything but a `Sensitivity` (a bare number, say) is refused."""
    if not isinstance(sensitivity, Sensitivity):
        raise ParameterError("sensitivity must be a Sensitivity, such as Sensitivity.of(largest=1)")
    return sensitivity


def add(values: NDArray[Any], noise: NDArray[Any]) -> NDArray[Any]:
    """Add values and noise exactly: int64 if every *sum* fits, else Python integers.

    The type depends on the sums alone.
    """
    if values.dtype == object or noise.dtype == object:
        total = np.asarray(values.astype(object) + noise.astype(object), object)
        return _narrowest([int(value) for value in total.ravel()]).reshape(total.shape)
    total = np.asarray(values + noise)
    if (((values ^ total) & (noise ^ total)) < 0).any():
        total = np.asarray(values.astype(object) + noise.astype(object), object)
    return total


def _narrowest(integers: list[int]) -> NDArray[Any]:
    """Make an array of int64 if every integer fits, else of Python integers."""
    try:
        return np.array(integers, np.int64)
    except OverflowError:
        wide = np.empty(len(integers), object)
        wide[:] = integers
        return wide


def round_up(number: Fraction) -> Fraction:
    """The smallest number with 20 significant bits that is at least `number`: more noise, and
    tables can be re-used.

    >>> round_up(Fraction(1, 3)) >= Fraction(1, 3), round_up(Fraction(10))
    (True, Fraction(10, 1))
    """
    return round_bits(number, up=True)


def round_bits(number: Fraction, *, up: bool) -> Fraction:
    """Round a number to 20 significant bits, up or down."""
    step = Fraction(2) ** (
        number.numerator.bit_length() - number.denominator.bit_length() - _DIGITS
    )
    if number >= step * 2**_DIGITS:  # the two lengths leave one bit open
        step *= 2
    steps = number / step
    whole = -(-steps.numerator // steps.denominator) if up else steps.numerator // steps.denominator
    return whole * step
