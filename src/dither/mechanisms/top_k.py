"""The k best by peeling: choose, take the winner out, choose again.

Guarantee: the selection's loss, k times: Repeated(BoundedRange(epsilon / k), k) with the
exponential mechanism, whose composition is much cheaper than epsilon. Proof:
docs/proofs/selection.md#top-k-by-peeling.

>>> best = TopK.for_epsilon(1, k=2, sensitivity=1, monotone=True)
>>> best.release([0, 10**6, 3, 10**5])
[1, 3]
>>> best.loss()
Repeated(loss=BoundedRange(epsilon=1/2), count=2, neighbours='add_remove', unit='unit')
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, positive, quote
from dither.errors import ParameterError
from dither.laws import SelectionErrorLaw
from dither.mechanisms.exponential import ExponentialMechanism
from dither.mechanisms.noisy_max import ReportNoisyMax
from dither.mechanisms.permute_and_flip import PermuteAndFlip
from dither.privacy.losses import ADD_REMOVE, Adjacency, Loss
from dither.privacy.mechanisms.additive import exact_integers
from dither.privacy.noise import Words
from dither.privacy.noise.source import check_source

PeeledSelection = ExponentialMechanism | PermuteAndFlip | ReportNoisyMax


@dataclass(frozen=True)
class TopK:
    """k choices without replacement by one selection."""

    k: int
    selection: PeeledSelection

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise ParameterError(f"k must be a positive integer, got {quote(self.k)}")

    @classmethod
    def for_epsilon(
        cls,
        epsilon: Number,
        *,
        k: int,
        sensitivity: Any,
        kind: Any = None,
        monotone: bool = False,
        adjacency: Adjacency = ADD_REMOVE,
    ) -> TopK:
        """Make k choices that together meet epsilon: epsilon / k for each."""
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise ParameterError(f"k must be a positive integer, got {quote(k)}")
        return cls(
            k,
            (kind or ExponentialMechanism)(
                positive(epsilon, "epsilon") / k, sensitivity, monotone, *adjacency
            ),
        )

    def loss(self) -> Loss:
        """What all k choices cost."""
        return self.selection.loss() if self.k == 1 else self.selection.loss() * self.k

    def error(self) -> SelectionErrorLaw:
        """How far each choice may fall short of the best that was left."""
        return self.selection.error()

    def release(
        self, scores: Sequence[int] | NDArray[Any], *, source: Words | None = None
    ) -> list[int]:
        """Choose k candidates one after the other, and return their indices in that order."""
        remaining_scores = exact_integers(scores)
        if remaining_scores.ndim != 1 or len(remaining_scores) < self.k:
            raise ParameterError(
                f"choosing {self.k} needs at least {self.k} candidates, got {remaining_scores.size}"
            )
        supply = check_source(source)
        candidates = np.arange(len(remaining_scores))
        chosen = []
        for _ in range(self.k):
            winner = self.selection.release(remaining_scores, source=supply)
            chosen.append(int(candidates[winner]))
            remaining_scores = np.delete(remaining_scores, winner)
            candidates = np.delete(candidates, winner)
        return chosen
