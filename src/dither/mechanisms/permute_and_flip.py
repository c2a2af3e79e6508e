"""Permute-and-flip.

In random order, it stops at candidate h with probability exp((score(h) - best) / scale).

Guarantee: Pure(epsilon), nothing tighter: its range exceeds epsilon (1.490 at epsilon 1 with two
candidates), so it must not be priced as BoundedRange. Its expected score is never below the
exponential mechanism's (McKenna, Sheldon 2020). Proof: docs/proofs/selection.md#permute-and-flip.

>>> choice = PermuteAndFlip(epsilon=1, sensitivity=1)
>>> choice.release([0, 10**6, 3]), choice.loss()
(1, Pure(epsilon=1, neighbours='add_remove', unit='unit'))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import number_text
from dither.errors import ParameterError
from dither.mechanisms.selection import SelectionMechanism
from dither.privacy.losses import Pure
from dither.privacy.mechanisms.additive import exact_integers
from dither.privacy.noise import Words, geometric, uniform_below
from dither.privacy.noise.samplers import LARGEST, SMALLEST
from dither.privacy.noise.source import check_source


@dataclass(frozen=True)
class PermuteAndFlip(SelectionMechanism):
    """Chooses one of a public list of candidates by integer scores."""

    def __post_init__(self) -> None:
        """Check that noise of this scale can be drawn."""
        super().__post_init__()
        if not SMALLEST <= self.scale <= LARGEST:
            raise ParameterError(
                f"the scale must lie between 1/1000 and 2**60, got {number_text(self.scale)}"
            )

    def loss(self) -> Pure:
        """What one choice costs."""
        return Pure(self.epsilon, neighbours=self.neighbours, unit=self.unit)

    def release(self, scores: Sequence[int] | NDArray[Any], *, source: Words | None = None) -> int:
        """Choose a candidate and return its index.

        Coins do not depend on the order, so the first head in random order is a uniform choice
        among all heads; the coin of a gap g falls heads when a geometric with P(G >= g) = exp(-g /
        scale) reaches g; the best always does.
        """
        exact_scores = exact_integers(scores)
        if exact_scores.ndim != 1 or not len(exact_scores):
            raise ParameterError("scores must be a non-empty list of integers")
        supply = check_source(source)
        wide = (
            exact_scores.astype(object)
            if exact_scores.dtype != object and _spread(exact_scores) >= 1 << 63
            else exact_scores
        )
        gaps = wide.max() - wide
        heads = np.flatnonzero(geometric(self.scale, len(gaps), source=supply) >= gaps)
        return int(heads[uniform_below(len(heads), source=supply)])


def _spread(scores: NDArray[Any]) -> int:
    return int(scores.max()) - int(scores.min())
