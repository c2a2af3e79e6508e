"""A choice among public candidates by integer scores that the kernel computed.

Candidate h wins with probability proportional to exp(score(h) / scale), scale = 2 Delta / epsilon.
One unit moves every score by at most Delta; where it moves none of two in opposite directions (the
kernel says so, never a request) the factor 2 falls away. Guarantee: BoundedRange(epsilon).
`FlippedScoreSelection` draws by permute-and-flip: Pure(epsilon), and a score never worse on
average. Proof: docs/proofs/score-selection.md.

>>> choice = ScoreSelection(Fraction(1), 2)
>>> choice.scale, choice.release([0, 10**6, 3]), choice.loss()
(Fraction(4, 1), 1, BoundedRange(epsilon=1, neighbours='add_remove', unit='unit'))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from dither.canonical import number_text, positive
from dither.error_terms import ErrorTerms
from dither.errors import ParameterError
from dither.privacy.losses import BoundedRange, Loss, Neighbours, Pure
from dither.privacy.noise import Words, argmax_exponential, argmax_gumbel
from dither.privacy.noise.source import check_source


@dataclass(frozen=True)
class ScoreSelection:
    """Chooses one of a public list of candidates by the exponential mechanism."""

    stored_name: ClassVar[str] = "ScoreSelection"  # in digests of stored releases: never changes
    _chosen_by: ClassVar[str] = "exponential mechanism"

    epsilon: Fraction
    sensitivity: int
    is_monotone: bool = False
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make epsilon exact; refuse a sensitivity that is no positive integer."""
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        if type(self.sensitivity) is not int or self.sensitivity < 1:
            raise ParameterError("the sensitivity of scores must be a positive integer")
        if self.is_monotone and self.neighbours == "replace":
            raise ParameterError(
                "scores are monotone under add_remove only: under replace leave is_monotone=False"
            )
        self.loss()

    @property
    def scale(self) -> Fraction:
        """Scores are divided by this before noise is added."""
        return self.sensitivity * (1 if self.is_monotone else 2) / self.epsilon

    def loss(self) -> Loss:
        """What one choice costs."""
        return BoundedRange(self.epsilon, neighbours=self.neighbours, unit=self.unit)

    def error_terms(self, column: int = 0) -> ErrorTerms:
        """How far the winner may fall short of the best."""
        return ErrorTerms("selection_error", {"scale": self.scale})

    def column_sensitivity(self, column: int = 0) -> None:
        """A choice has none: its score moves, not its position."""
        return None

    def release(self, scores: Any, *, source: Words | None = None) -> int:
        """The position of the winner."""
        return self.release_exact(scores, check_source(source))[0]

    def release_exact(self, exact: Any, source: Words) -> list[int]:
        """The position of the winner, as the only number."""
        return [argmax_gumbel(exact, self.scale, source=source)]

    @property
    def parameters(self) -> Mapping[str, Fraction]:
        """The scale of the choice."""
        return {"scale": self.scale}

    def describe(self) -> str:
        """The choice and its scale, in words."""
        return f"{self._chosen_by} of scale {number_text(self.scale)} over scores"

    def describe_sensitivity(self) -> str:
        """How far one unit moves the scores, in words."""
        monotone = ", none up while another goes down" if self.is_monotone else ""
        return f"every score by at most {self.sensitivity:,}{monotone}"

    def sensitivity_document(self) -> Mapping[str, Any]:
        """The same as certificates show it."""
        return {"scores": self.sensitivity, "monotone": self.is_monotone}


@dataclass(frozen=True)
class FlippedScoreSelection(ScoreSelection):
    """Chooses one of a public list of candidates by permute-and-flip, which has no bounded
    range."""

    stored_name: ClassVar[str] = "FlippedScoreSelection"  # in digests of stored releases
    _chosen_by: ClassVar[str] = "permute-and-flip"

    def loss(self) -> Loss:
        """What one choice costs."""
        return Pure(self.epsilon, neighbours=self.neighbours, unit=self.unit)

    def release_exact(self, exact: Any, source: Words) -> list[int]:
        """The position of the winner, as the only number."""
        return [argmax_exponential(exact, self.scale, source=source)]
