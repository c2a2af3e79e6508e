"""What the selections share: a score for every public candidate, and an exact scale.

Candidates are public: a fixed list, never read off the data (a candidate that exists because
someone has that value gives them away). One unit moves every score by at most `sensitivity`. Scores
are *monotone* if a unit that joins moves no two of them in opposite directions; then the factor 2
in the scale falls away. That is a statement about joining, so it is refused under `replace`, where
a unit leaves one candidate and joins another. Proof: docs/proofs/selection.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dither.canonical import positive
from dither.errors import ParameterError
from dither.laws import SelectionErrorLaw
from dither.privacy.losses import Loss, Neighbours


@dataclass(frozen=True)
class SelectionMechanism:
    """The parameters of a selection.

    Its scale is 2 sensitivity / epsilon, or sensitivity / epsilon if monotone.
    """

    epsilon: Fraction
    sensitivity: Fraction
    monotone: bool = False
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make epsilon and sensitivity exact; refuse monotone scores under replace."""
        object.__setattr__(
            self,
            "epsilon",
            positive(self.epsilon, "epsilon", "choose e.g. epsilon=0.5, or run preview()"),
        )
        if isinstance(self.sensitivity, float):
            raise ParameterError("sensitivity must be an exact integer or Fraction, got a float")
        object.__setattr__(self, "sensitivity", positive(self.sensitivity, "sensitivity"))
        if self.monotone and self.neighbours == "replace":
            raise ParameterError(
                "scores are monotone under add_remove only: under replace leave monotone=False"
            )
        self.loss()

    @property
    def scale(self) -> Fraction:
        """Scores are divided by this before noise is added."""
        return self.sensitivity * (1 if self.monotone else 2) / self.epsilon

    def loss(self) -> Loss:
        """What one choice costs."""
        raise AssertionError("each selection states its own loss")

    def error(self) -> SelectionErrorLaw:
        """How far the winner may fall short of the best."""
        return SelectionErrorLaw(self.scale)
