"""Integer Gaussian noise on a vector of exact integers.

Guarantee: zCDP with rho = l2_squared / (2 sigma^2), also for vectors; when one unit moves one cell
only, the exact lattice curve of `DiscreteGaussian(sigma, linf)`. The continuous curve at the same
sigma under-reports, and so does its calibration (3.73063 at (1, 1e-5)); neither is used. Proof:
docs/proofs/integer-noise.md, theorem 2.

>>> IntegerGaussian.for_rho(0.5, Sensitivity.of(largest=1)).sigma
Fraction(1, 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt
from typing import Any, ClassVar

from numpy.typing import NDArray

from dither.canonical import Number, number_text, positive
from dither.error_terms import NoiseTerms
from dither.errors import ParameterError
from dither.plan.norms import Sensitivity
from dither.privacy.losses import (
    ADD_REMOVE,
    Adjacency,
    DiscreteGaussian,
    DiscreteGaussianVector,
    Loss,
    Neighbours,
    Pure,
)
from dither.privacy.mechanisms.additive import (
    AdditiveNoise,
    add,
    check_sensitivity,
    exact_integers,
    round_up,
)
from dither.privacy.noise import Words, discrete_gaussian
from dither.privacy.noise.samplers import LARGEST, SMALLEST


@dataclass(frozen=True)
class IntegerGaussian(AdditiveNoise):
    """Adds independent integer Gaussian noise of one sigma to every cell."""

    stored_name: ClassVar[str] = "IntegerGaussian"  # in digests of stored releases: never changes
    noise_name: ClassVar[str] = "integer Gaussian noise"
    parameter_name: ClassVar[str] = "sigma"

    sigma: Fraction
    sensitivity: Sensitivity
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make sigma exact, and check it and the sensitivity."""
        object.__setattr__(self, "sigma", positive(self.sigma, "sigma"))
        if not SMALLEST <= self.sigma <= LARGEST:
            raise ParameterError(
                f"sigma must lie between 1/1000 and 2**60, got {number_text(self.sigma)}"
            )
        check_sensitivity(self.sensitivity)
        self.loss()  # refuses neighbours and units that mean nothing, before anything is drawn

    @classmethod
    def for_rho(
        cls, rho: Number, sensitivity: Sensitivity, adjacency: Adjacency = ADD_REMOVE
    ) -> IntegerGaussian:
        """The least noise that meets rho-zCDP: sigma = sqrt(l2_squared / (2 rho)), rounded up."""
        squared = max(1, check_sensitivity(sensitivity).l2_squared)
        sigma = sqrt_up(squared / (2 * positive(rho, "rho")))
        return cls(max(SMALLEST, sigma), sensitivity, *adjacency)

    def loss(self) -> Loss:
        """State what one release costs, as a loss."""
        if self.sensitivity.l2_squared == 0:
            return Pure(Fraction(0), neighbours=self.neighbours, unit=self.unit)
        if self.sensitivity.l0 == 1:
            return DiscreteGaussian(
                self.sigma, self.sensitivity.linf, neighbours=self.neighbours, unit=self.unit
            )
        return DiscreteGaussianVector(
            self.sigma, self.sensitivity.l2_squared, neighbours=self.neighbours, unit=self.unit
        )

    def error_terms(self, column: int = 0) -> NoiseTerms:
        """The law of the error of each number.

        Noise gets to 40 sigma with a chance below e^-800.
        """
        return NoiseTerms("gaussian_error", {"sigma": self.sigma}, self.sigma, scales_in_reach=40)

    def release(self, values: Any, *, source: Words | None = None) -> NDArray[Any]:
        """`values` plus noise: integers of the same shape."""
        cells = exact_integers(values)
        return add(cells, discrete_gaussian(self.sigma, cells.shape, source=source))


def sqrt_up(square: Fraction) -> Fraction:
    """Compute a number with 20 significant bits that is at least the root, decided in integers."""
    shift = 2 * max(0, 64 - square.numerator.bit_length() + square.denominator.bit_length())
    scaled = (square.numerator << shift) // square.denominator
    root = Fraction(isqrt(scaled), 1 << shift // 2)
    candidate = round_up(root)
    while candidate * candidate < square:
        candidate = round_up(candidate * (1 + Fraction(1, 2**20)))
    return candidate
