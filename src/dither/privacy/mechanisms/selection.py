"""How far the winner of a selection may fall short of the best candidate. Proof: docs/proofs/selection.md."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dither.canonical import Number, exact, quote
from dither.errors import ParameterError


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
