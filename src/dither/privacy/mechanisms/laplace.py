"""Integer Laplace noise (two-sided geometric) on a vector of exact integers.

Guarantee: Pure(l1 / scale); when one unit moves one cell only, the whole curve of
`DiscreteLaplace(scale, linf)`. Proof: docs/proofs/integer-noise.md, theorem 1.

>>> count = IntegerLaplace.for_epsilon(0.5, Sensitivity.of(largest=1))
>>> count.scale, count.loss()
(Fraction(2, 1), DiscreteLaplace(scale=2, sensitivity=1, neighbours='add_remove', unit='unit'))
>>> from dither.laws import find_error_law
>>> find_error_law(count).interval(0.95)
6
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
    DiscreteLaplace,
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
from dither.privacy.noise import Words, discrete_laplace
from dither.privacy.noise.samplers import LARGEST, SMALLEST


@dataclass(frozen=True)
class IntegerLaplace(AdditiveNoise):
    """Adds independent integer Laplace noise of one scale to every cell."""

    stored_name: ClassVar[str] = "IntegerLaplace"  # in digests of stored releases: never changes
    noise_name: ClassVar[str] = "integer Laplace noise"

    scale: Fraction
    sensitivity: Sensitivity
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make the scale exact, and check it and the sensitivity."""
        object.__setattr__(self, "scale", positive(self.scale, "scale"))
        if not SMALLEST <= self.scale <= LARGEST:
            raise ParameterError(
                f"scale must lie between 1/1000 and 2**60, got {number_text(self.scale)}"
            )
        check_sensitivity(self.sensitivity)
        self.loss()  # refuses neighbours and units that mean nothing, before anything is drawn

    @classmethod
    def for_epsilon(
        cls, epsilon: Number, sensitivity: Sensitivity, adjacency: Adjacency = ADD_REMOVE
    ) -> IntegerLaplace:
        """Make the least noise that meets epsilon: scale = l1 / epsilon.

        It is rounded up to 20 significant bits.
        """
        price = positive(
            epsilon, "epsilon", "choose e.g. epsilon=0.5, or run preview() to see what it buys"
        )
        moved = max(1, check_sensitivity(sensitivity).l1)
        return cls(max(SMALLEST, round_up(moved / price)), sensitivity, *adjacency)

    def loss(self) -> Loss:
        """State what one release costs, as a loss."""
        if self.sensitivity.l1 == 0:
            return Pure(Fraction(0), neighbours=self.neighbours, unit=self.unit)
        if self.sensitivity.l0 == 1:
            return DiscreteLaplace(
                self.scale, self.sensitivity.linf, neighbours=self.neighbours, unit=self.unit
            )
        return Pure(self.sensitivity.l1 / self.scale, neighbours=self.neighbours, unit=self.unit)

    def error_terms(self, column: int = 0) -> NoiseTerms:
        """The law of the error of each number."""
        return NoiseTerms("laplace_error", {"scale": self.scale}, self.scale)

    def release(self, values: Any, *, source: Words | None = None) -> NDArray[Any]:
        """`values` plus noise: integers of the same shape."""
        cells = exact_integers(values)
        return add(cells, discrete_laplace(self.scale, cells.shape, source=source))
