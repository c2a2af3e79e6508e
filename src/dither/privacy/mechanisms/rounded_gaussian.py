"""Rounded Gaussian noise on a vector of exact integers: S + round(N(0, sigma^2)).

Guarantee: for integers S, S + round(N) = round(S + N) is post-processing of continuous Gaussian
noise, vectors included. So its loss is *at most* that of `Gaussian` at the same sigma; it emits
`RoundedGaussian(sigma, l2_squared)`, whose lower end is its own. Independent noise on every number,
added once. Proof: docs/proofs/rounded-gaussian.md.

>>> IntegerRoundedGaussian.for_rho(0.5, Sensitivity.of(largest=1)).sigma
Fraction(1, 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from numpy.typing import NDArray

from dither.canonical import Number, number_text, positive
from dither.error_terms import NoiseTerms
from dither.errors import ParameterError
from dither.plan.norms import Sensitivity
from dither.privacy.losses import (
    ADD_REMOVE,
    Adjacency,
    Loss,
    Neighbours,
    PoissonSampled,
    Pure,
    RoundedGaussian,
)
from dither.privacy.mechanisms.additive import (
    AdditiveNoise,
    add,
    check_sensitivity,
    exact_integers,
)
from dither.privacy.mechanisms.gaussian import sqrt_up
from dither.privacy.noise import Words
from dither.privacy.noise.rounded import LARGEST_ROUNDED, rounded_gaussian
from dither.privacy.noise.samplers import SMALLEST


@dataclass(frozen=True)
class IntegerRoundedGaussian(AdditiveNoise):
    """Adds independent rounded Gaussian noise of one sigma to every cell."""

    stored_name: ClassVar[str] = "IntegerRoundedGaussian"  # in digests of stored releases
    noise_name: ClassVar[str] = "rounded Gaussian noise"
    parameter_name: ClassVar[str] = "sigma"

    sigma: Fraction
    sensitivity: Sensitivity
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make sigma exact, and check it and the sensitivity."""
        object.__setattr__(self, "sigma", positive(self.sigma, "sigma"))
        if not SMALLEST <= self.sigma <= LARGEST_ROUNDED:
            raise ParameterError(
                "sigma of rounded noise must lie between 1/1000 and 2**38, got "
                f"{number_text(self.sigma)}: use integer Gaussian noise"
            )
        check_sensitivity(self.sensitivity)
        self.loss()  # refuses neighbours and units that mean nothing, before anything is drawn

    @classmethod
    def for_rho(
        cls, rho: Number, sensitivity: Sensitivity, adjacency: Adjacency = ADD_REMOVE
    ) -> IntegerRoundedGaussian:
        """The least noise that meets rho-zCDP: sigma = sqrt(l2_squared / (2 rho)), rounded up."""
        squared = max(1, check_sensitivity(sensitivity).l2_squared)
        sigma = sqrt_up(squared / (2 * positive(rho, "rho")))
        return cls(max(SMALLEST, sigma), sensitivity, *adjacency)

    def loss(self) -> Loss:
        """What one release costs."""
        if self.sensitivity.l2_squared == 0:
            return Pure(Fraction(0), neighbours=self.neighbours, unit=self.unit)
        return RoundedGaussian(
            self.sigma, self.sensitivity.l2_squared, neighbours=self.neighbours, unit=self.unit
        )

    def error_terms(self, column: int = 0) -> NoiseTerms:
        """The law of the error of each number: beyond 41 sigma with a chance below e^-800."""
        return NoiseTerms(
            "rounded_gaussian_error", {"sigma": self.sigma}, self.sigma, scales_in_reach=41
        )

    def release(self, values: Any, *, source: Words | None = None) -> NDArray[Any]:
        """`values` plus noise: integers of the same shape."""
        cells = exact_integers(values)
        return add(cells, rounded_gaussian(self.sigma, cells.shape, source=source))


@dataclass(frozen=True)
class SampledRoundedGaussian(IntegerRoundedGaussian):
    """Adds rounded Gaussian noise to a sum over a secret sample; sums of all data are not for it.

    Guarantee: every unit is in the sample with probability `rate`, independently and by a key that
    nobody knows, so what leaves has the loss `PoissonSampled(rate, RoundedGaussian(...))` under
    add/remove. The sample is drawn where the sum is measured; here only the noise is added. The
    kernel alone builds it. Proof: docs/proofs/unit-vectors.md#sampling.
    """

    stored_name: ClassVar[str] = "SampledRoundedGaussian"  # in digests of stored releases

    rate: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        """Refuse neighbours for which no amplification is proved."""
        if self.neighbours != "add_remove":
            raise ParameterError("samples of units are proved for add_remove neighbours")
        super().__post_init__()

    def loss(self) -> Loss:
        """What one release costs."""
        unsampled = super().loss()
        return PoissonSampled(self.rate, unsampled, neighbours=self.neighbours, unit=self.unit)

    def describe(self) -> str:
        """The noise and the sample, in words."""
        return f"{super().describe()} over a secret sample at rate {number_text(self.rate)}"


def build_for_sample(
    rho: Fraction, sensitivity: Sensitivity, rate: Fraction, unit: str
) -> SampledRoundedGaussian:
    """The least noise whose *unsampled* loss meets rho-zCDP: what is sampled costs less."""
    unsampled = IntegerRoundedGaussian.for_rho(rho, sensitivity)
    return SampledRoundedGaussian(unsampled.sigma, sensitivity, "add_remove", unit, rate)
