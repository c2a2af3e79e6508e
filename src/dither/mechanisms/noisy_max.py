"""Report noisy max: add exponential noise to every score, name the largest, release nothing else.

Guarantee: Pure(epsilon). The law is that of permute-and-flip (Ding et al. 2021), drawn here as a
race of real-valued noise that is decided exactly, so there are no ties. The noisy score itself is
not covered and is never returned. Proof: docs/proofs/selection.md#report-noisy-max.

>>> choice = ReportNoisyMax(epsilon=1, sensitivity=1, monotone=True)
>>> choice.release([0, 10**6, 3]), choice.loss()
(1, Pure(epsilon=1, neighbours='add_remove', unit='unit'))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from dither.mechanisms.selection import SelectionMechanism
from dither.privacy.losses import Pure
from dither.privacy.noise import Words, argmax_exponential


@dataclass(frozen=True)
class ReportNoisyMax(SelectionMechanism):
    """Chooses one of a public list of candidates by integer scores."""

    def loss(self) -> Pure:
        """What one choice costs."""
        return Pure(self.epsilon, neighbours=self.neighbours, unit=self.unit)

    def release(self, scores: Sequence[int] | NDArray[Any], *, source: Words | None = None) -> int:
        """Draw the index of the winning candidate."""
        return argmax_exponential(scores, self.scale, source=source)
