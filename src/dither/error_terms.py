"""Which law the error of a released number follows, as plain data: what a mechanism says, and what
`dither.laws` computes tails and intervals from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


@dataclass(frozen=True)
class ErrorTerms:
    """The stored name of a law (`dither.laws.documents.LAWS`), and its numbers by field."""

    law: str
    numbers: Mapping[str, Any]


@dataclass(frozen=True)
class NoiseTerms(ErrorTerms):
    """The same for integer noise that is added to a number. `scale` is the parameter of the noise,
    in steps of the number's grid."""

    scale: Fraction
    scales_in_reach: int = 100

    @property
    def reach(self) -> Fraction:
        """So far out noise may be cut off: it gets there with a chance below e^-99."""
        return self.scales_in_reach * self.scale
