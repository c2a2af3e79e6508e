"""What the selections share: a score for every public candidate, an exact scale, and how far the winner may fall short.

Candidates are public: a fixed list, never read off the data (a candidate that exists because someone has that value
gives them away). One unit moves every score by at most `sensitivity`. Scores are *monotone* if a unit that joins moves
no two of them in opposite directions; then the factor 2 in the scale falls away. That is a statement about joining, so
it is refused under `replace`, where a unit leaves one candidate and joins another. Proof: docs/proofs/selection.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dither.canonical import Number, exact, positive, quote
from dither.errors import ParameterError
from dither.privacy.losses import Loss, Neighbours


@dataclass(frozen=True)
class SelectionError:
    """P(best score - score of the winner >= t) <= candidates * exp(-t / scale); holds for all three selections.

    >>> SelectionError(Fraction(2)).shortfall(candidates=100, confidence=0.95)
    15
    """

    scale: Fraction

    def shortfall(self, candidates: int, confidence: Number, *, tied: int = 1) -> int:
        """The least whole t such that the winner is within t of the best with at least this confidence.

        `tied` candidates may be known to share the best score: candidates / tied takes the place of candidates.
        """
        if not 1 <= tied <= candidates:
            raise ParameterError(f"tied must lie between 1 and the number of candidates, got {quote(tied)}")
        level = exact(confidence, "confidence")
        if not 0 < level < 1:
            raise ParameterError(f"confidence must lie in (0, 1), got {confidence}: choose e.g. 0.95")
        beyond = float(self.scale) * math.log(candidates / tied / float(1 - level))
        return max(0, math.floor(beyond * (1 + 1e-12)))

    def expected(self, candidates: int) -> float:
        """A bound on best score - expected score of the winner: scale * ln(candidates)."""
        return float(self.scale) * math.log(candidates)


@dataclass(frozen=True)
class Selection:
    """The parameters of a selection; its scale is 2 sensitivity / epsilon, or sensitivity / epsilon if monotone."""

    epsilon: Fraction
    sensitivity: Fraction
    monotone: bool = False
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "epsilon", positive(self.epsilon, "epsilon", "choose e.g. epsilon=0.5, or run preview()")
        )
        if isinstance(self.sensitivity, float):
            raise ParameterError("sensitivity must be an exact integer or Fraction, got a float")
        object.__setattr__(self, "sensitivity", positive(self.sensitivity, "sensitivity"))
        if self.monotone and self.neighbours == "replace":
            raise ParameterError("scores are monotone under add_remove only: under replace leave monotone=False")
        self.loss()

    @property
    def scale(self) -> Fraction:
        """Scores are divided by this before noise is added."""
        return self.sensitivity * (1 if self.monotone else 2) / self.epsilon

    def loss(self) -> Loss:
        """What one choice costs."""
        raise AssertionError("each selection states its own loss")

    def error(self) -> SelectionError:
        """How far the winner may fall short of the best."""
        return SelectionError(self.scale)
