"""The exponential mechanism.

Candidate h has a probability proportional to weight(h) exp(score(h) / scale).

Guarantee: its log-ratios span a range of at most epsilon, BoundedRange(epsilon), which is
epsilon-DP and epsilon^2 / 8-zCDP; it is the only selection with that loss. Drawn as a race of
Gumbel noise that is decided exactly. Proof: docs/proofs/selection.md#exponential-mechanism.

>>> # revenue in cents at 1.00, 1.01, 3.01, 3.02
>>> prices = ExponentialMechanism(epsilon=1, sensitivity=302)
>>> [f"{p:.5f}" for p in prices.law([300, 202, 301, 0])]
['0.28898', '0.24570', '0.28946', '0.17586']
>>> prices.release([300, 202, 301, 0]) in range(4), prices.loss()
(True, BoundedRange(epsilon=1, neighbours='add_remove', unit='unit'))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from dither.mechanisms.selection import SelectionMechanism
from dither.privacy.losses import BoundedRange
from dither.privacy.noise import Words, argmax_gumbel


@dataclass(frozen=True)
class ExponentialMechanism(SelectionMechanism):
    """Chooses one of a public list of candidates by integer scores."""

    def loss(self) -> BoundedRange:
        """What one choice costs."""
        return BoundedRange(self.epsilon, neighbours=self.neighbours, unit=self.unit)

    def release(
        self,
        scores: Sequence[int] | NDArray[Any],
        *,
        weights: Sequence[int] | NDArray[Any] | None = None,
        source: Words | None = None,
    ) -> int:
        """Draw the index of the winning candidate.

        `weights` are public: a candidate of weight w stands for w with equal scores.
        """
        return argmax_gumbel(scores, self.scale, weights=weights, source=source)

    def law(self, scores: Sequence[int]) -> list[float]:
        """The probability of every candidate if these were the scores.

        For planning, on public or made-up scores.
        """
        top = max(scores)
        shares = [math.exp(float((score - top) / self.scale)) for score in scores]
        return [share / sum(shares) for share in shares]
