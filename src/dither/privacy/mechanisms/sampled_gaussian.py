"""Rounded Gaussian noise on a sum over a secret sample of units.

Guarantee: every unit is in the sample with probability `rate`, independently and by a key that
nobody knows, so what leaves has the loss `PoissonSampled(rate, RoundedGaussian(...))` under
add/remove. The sample is drawn where the sum is measured; here only the noise is added.
Proof: docs/proofs/unit-vectors.md#sampling.

>>> SampledRoundedGaussian(Fraction(1), Sensitivity.of(largest=1), rate=Fraction(1, 4)).loss().q
Fraction(1, 4)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dither.canonical import number_text
from dither.errors import ParameterError
from dither.plan.norms import Sensitivity
from dither.privacy.losses import Loss, PoissonSampled
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian


@dataclass(frozen=True)
class SampledRoundedGaussian(IntegerRoundedGaussian):
    """Adds rounded Gaussian noise to a sum over a sample; sums of all data are not for it."""

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


def build_for_rho(
    rho: Fraction, sensitivity: Sensitivity, rate: Fraction, unit: str
) -> SampledRoundedGaussian:
    """The least noise whose *unsampled* loss meets rho-zCDP: what is sampled costs less."""
    unsampled = IntegerRoundedGaussian.for_rho(rho, sensitivity)
    return SampledRoundedGaussian(unsampled.sigma, sensitivity, "add_remove", unit, rate)
