"""One epoch of online answers: comparisons with one noisy threshold up to the first hit, which is
then answered with noise of its own.

A distance d = |q(x) - estimate| is a hit where d plus integer Laplace noise of scale query_scale is
at least the noisy threshold, threshold plus integer Laplace noise of scale threshold_scale, drawn
once. Any number of misses is free; the hit ends the epoch, and q(x) leaves with integer Laplace
noise of scale value_scale. With D the most by which one unit moves every q(x):

    loss = Pure(D / threshold_scale + 2 D / query_scale + D / value_scale)

Proof: docs/proofs/sparse-vector.md#online-answers.

>>> ThresholdEpoch.for_epsilon(Fraction(2), 1).loss().epsilon <= 2
True
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dither.canonical import number_text, positive
from dither.errors import ParameterError
from dither.privacy.losses import ADD_REMOVE, Adjacency, Neighbours, Pure
from dither.privacy.mechanisms.additive import round_up
from dither.privacy.noise import Words, discrete_laplace
from dither.privacy.noise.samplers import LARGEST, SMALLEST

_THRESHOLD_PARTS = Fraction(100, 259)
"""1 / (1 + 2^(2/3)): the best share of the threshold in the price of comparisons."""


@dataclass(frozen=True)
class ThresholdEpoch:
    """The scales of one epoch, and how far one unit moves a query."""

    threshold_scale: Fraction
    query_scale: Fraction
    value_scale: Fraction
    sensitivity: int
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make the scales exact; refuse what has no proof."""
        for name in ("threshold_scale", "query_scale", "value_scale"):
            scale = positive(getattr(self, name), name)
            if not SMALLEST <= scale <= LARGEST:
                raise ParameterError(f"{name} must lie between 1/1000 and 2**60")
            object.__setattr__(self, name, scale)
        if type(self.sensitivity) is not int or self.sensitivity < 1:
            raise ParameterError("the sensitivity of queries must be a positive integer")
        self.loss()

    @classmethod
    def for_epsilon(
        cls, epsilon: Fraction, sensitivity: int, adjacency: Adjacency = ADD_REMOVE
    ) -> ThresholdEpoch:
        """Half of the price for the comparisons, half for the answer of the hit."""
        compared = epsilon / 2
        first = compared * _THRESHOLD_PARTS
        return cls(
            max(SMALLEST, round_up(sensitivity / first)),
            max(SMALLEST, round_up(2 * sensitivity / (compared - first))),
            max(SMALLEST, round_up(sensitivity / (epsilon - compared))),
            sensitivity,
            *adjacency,
        )

    def loss(self) -> Pure:
        """What one epoch costs, however many comparisons it makes."""
        distance = self.sensitivity
        return Pure(
            distance / self.threshold_scale
            + 2 * distance / self.query_scale
            + distance / self.value_scale,
            neighbours=self.neighbours,
            unit=self.unit,
        )

    def draw_threshold(self, threshold: int, source: Words) -> int:
        """The noisy threshold of an epoch. It never leaves."""
        return threshold + int(discrete_laplace(self.threshold_scale, (1,), source=source)[0])

    def is_hit(self, distance: int, noisy_threshold: int, source: Words) -> bool:
        """Whether a distance, with noise of this comparison alone, reaches the noisy threshold."""
        noise = int(discrete_laplace(self.query_scale, (1,), source=source)[0])
        return distance + noise >= noisy_threshold

    def answer_hit(self, value: int, source: Words) -> int:
        """The answer of a hit, with fresh noise: that of the comparison is never shown."""
        return value + int(discrete_laplace(self.value_scale, (1,), source=source)[0])

    def describe(self) -> str:
        """The three noises, in words."""
        return (
            f"integer Laplace noise of scale {number_text(self.threshold_scale)} on the threshold, "
            f"{number_text(self.query_scale)} on every comparison and "
            f"{number_text(self.value_scale)} on the answer of a hit"
        )
