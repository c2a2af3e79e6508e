"""Error laws of choices.

How far the winner's score may fall short, and by how many rows the rank of a quantile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dither.canonical import Number, exact, quote
from dither.errors import ParameterError
from dither.given_numbers import whole_number
from dither.laws.base import ErrorLaw, RankErrorLaw
from dither.stored import stored

SPREAD = 64
"""Places that several quantiles chosen together spread the rows of a cell over."""


@stored("selection_error", scale="scale")
@dataclass(frozen=True)
class SelectionErrorLaw(ErrorLaw):
    """P(best score - score of the winner >= t) <= candidates * exp(-t / scale).

    It holds for all three selections.

    >>> SelectionErrorLaw(Fraction(2)).shortfall(candidates=100, confidence=0.95)
    15
    """

    scale: Fraction

    def shortfall(self, candidates: int, confidence: Number, *, tied: int = 1) -> int:
        """Bound how far the winner falls short of the best score: the least whole number.

        It holds with at least this confidence. `tied` candidates may be known to share the best
        score: candidates / tied takes the place of candidates.
        """
        if not 1 <= tied <= candidates:
            raise ParameterError(
                f"tied must lie between 1 and the number of candidates, got {quote(tied)}"
            )
        level = exact(confidence, "confidence")
        if not 0 < level < 1:
            raise ParameterError(
                f"confidence must lie in (0, 1), got {confidence}: choose e.g. 0.95"
            )
        beyond = float(self.scale) * math.log(candidates / tied / float(1 - level))
        return max(0, math.floor(beyond * (1 + 1e-12)))

    def expected(self, candidates: int) -> float:
        """A bound on best score - expected score of the winner: scale * ln(candidates)."""
        return float(self.scale) * math.log(candidates)


@stored("quantile_error", scale="scale", denominator="denominator", aimed_rows="aimed_rows")
@dataclass(frozen=True)
class QuantileErrorLaw(RankErrorLaw):
    """How far the rank of one quantile may be off, in rows.

    Its share is a / `denominator`; scores are `denominator` times the rows missed.

    >>> QuantileErrorLaw(Fraction(2), 2).rows(cells=1000, confidence=0.95)
    10
    """

    scale: Fraction
    denominator: int
    aimed_rows: int = 0

    def __post_init__(self) -> None:
        whole_number(self.denominator, "denominator")

    @property
    def row_scale(self) -> Fraction:
        """The scale in rows."""
        return self.scale / self.denominator

    def rows(self, cells: int, confidence: Number) -> int:
        """How many rows of the data must move at most for the answer to be a q-quantile of it.

        That holds with at least this confidence.
        """
        return -(-SelectionErrorLaw(self.scale).shortfall(cells, confidence) // self.denominator)


@stored("joint_quantile_error", row_scales="row_scales", levels="levels", aimed_rows="aimed_rows")
@dataclass(frozen=True)
class JointQuantileErrorLaw(RankErrorLaw):
    """One of several quantiles chosen together: the choices that lead to it, from the middle one
    on, all may miss.

    `row_scales` are their scales in rows, `levels` the rounds that the whole mechanism takes.
    """

    row_scales: tuple[Fraction, ...]
    levels: int
    aimed_rows: int = 0

    def __post_init__(self) -> None:
        whole_number(self.levels, "levels")

    @property
    def row_scale(self) -> Fraction:
        """The scale of the first (middle) choice."""
        return self.row_scales[0]

    @property
    def tied_share(self) -> Fraction:
        """Ties at the place of each earlier choice are in neither of the parts that follow it."""
        return find_tied_share(len(self.row_scales))

    def rows(self, cells: int, confidence: Number) -> int:
        """Bound by how many rows the rank is off, with all choices that lead to it counted.

        That holds with at least this confidence, except for what ties add (`tied_share`).
        """
        level = exact(confidence, "confidence")
        misses = math.log(float(cells * SPREAD * 2 * self.levels / (1 - level)))
        total = 0.0
        for row_scale in reversed(self.row_scales):
            total = float(row_scale) + total
        return math.ceil(total * misses)


def find_tied_share(choices: int) -> Fraction:
    """Return the share of the rows with one value by which so many choices move the rank, about.

    Every choice but the last leaves out the rows on its place, one of SPREAD for each value.
    Proof: docs/proofs/quantiles.md#many-quantiles-together.

    >>> find_tied_share(4)
    Fraction(3, 64)
    """
    return Fraction(choices - 1, SPREAD)


def write_ties(tied_share: Fraction) -> str:
    """Write what ties add to a number of rows by which ranks are off; empty where they add nothing.

    >>> write_ties(Fraction(3, 64))
    ' (more where many rows share one value: by about 3/64 of these)'
    """
    if not tied_share:
        return ""
    return f" (more where many rows share one value: by about {tied_share} of these)"
