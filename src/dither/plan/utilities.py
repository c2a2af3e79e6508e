"""Utilities: integer scores of public candidates, made from the cells of one count or sum.

A closed set. A utility is public data: candidates, weights, scales and target vectors are written
before anything is read. How far one unit moves any score is in `plan/scores.py`. Proof:
docs/proofs/score-selection.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

from dither.errors import RefusedError
from dither.plan.operators import LinearOperator, check_operator, count_columns, count_rows
from dither.rules import PrivacyRule
from dither.stored import stored

MOST_CANDIDATES = 100_000
MOST_TARGETS = 1 << 20
"""Integers of all target vectors together."""
MOST_FACTOR = 1 << 20
MOST_TARGET = 1 << 60


@stored("cellcounts", candidates="candidates")
@dataclass(frozen=True)
class CellCounts:
    """The score of a candidate is the number of one cell; candidates are positions of cells."""

    candidates: tuple[int, ...]


@stored("distancecandidate", weight="weight", operator="operator", target="target")
@dataclass(frozen=True)
class DistanceCandidate:
    """One candidate of `Distances`: its weight, a public operator, and a public target vector."""

    weight: int
    operator: LinearOperator
    target: tuple[int, ...]


@stored("distances", scale="scale", candidates="candidates")
@dataclass(frozen=True)
class Distances:
    """The score of a candidate is weight times the L1 distance of scale * operator * cells from
    its target: the worst fitted candidate is the best one."""

    scale: int
    candidates: tuple[DistanceCandidate, ...]


@stored("rankdistance", share="share")
@dataclass(frozen=True)
class RankDistance:
    """Every cell is a candidate. With share = a/b, L below, R above and n in all, its score is
    -max(0, b L - a n, b R - (b - a) n)."""

    share: Fraction


@stored("coordinates", candidates="candidates")
@dataclass(frozen=True)
class Coordinates:
    """The score of a candidate is one number of a sum of vectors: of number i for the candidate
    i + 1, and its negative for -(i + 1)."""

    candidates: tuple[int, ...]


Utility: TypeAlias = CellCounts | Distances | RankDistance | Coordinates


def check_utility(utility: Any) -> None:
    """Refuse what is no utility, or has too many or too large parts, before it is walked."""
    if type(utility) is RankDistance:
        is_sound = type(utility.share) is Fraction and 0 <= utility.share <= 1
        is_sound = is_sound and utility.share.denominator <= MOST_FACTOR
    elif type(utility) in (CellCounts, Distances, Coordinates) and (
        type(utility.candidates) is tuple
    ):
        is_sound = 1 <= len(utility.candidates) <= MOST_CANDIDATES and _has_sound_parts(utility)
    else:
        raise RefusedError(
            f"no rule for the utility {type(utility).__name__}", rule=PrivacyRule.NO_RULE
        )
    if not is_sound:
        raise RefusedError(
            f"the numbers of {type(utility).__name__} are outside their range: 1 to "
            f"{MOST_CANDIDATES:,} candidates, weights and scale from 1 to {MOST_FACTOR:,}",
            rule=PrivacyRule.BOUNDED_WORK,
        )


def _has_sound_parts(utility: CellCounts | Distances | Coordinates) -> bool:
    if isinstance(utility, CellCounts):
        return all(type(cell) is int and cell >= 0 for cell in utility.candidates)
    if isinstance(utility, Coordinates):
        return all(type(number) is int and number != 0 for number in utility.candidates)
    if not _is_factor(utility.scale) or not all(map(_is_candidate, utility.candidates)):
        return False
    if sum(len(candidate.target) for candidate in utility.candidates) > MOST_TARGETS:
        return False
    for candidate in utility.candidates:
        check_operator(candidate.operator)
    return all(
        {*map(type, candidate.target)} == {int} and max(map(abs, candidate.target)) <= MOST_TARGET
        for candidate in utility.candidates
    )


def _is_candidate(candidate: Any) -> bool:
    return (
        type(candidate) is DistanceCandidate
        and _is_factor(candidate.weight)
        and type(candidate.target) is tuple
    )


def _is_factor(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST_FACTOR


def fits_cells(utility: Utility, cells: int) -> bool:
    """Whether a checked utility speaks of exactly these cells, or numbers of a sum of vectors."""
    if isinstance(utility, Coordinates):
        return max(map(abs, utility.candidates)) <= cells
    if isinstance(utility, CellCounts):
        return max(utility.candidates) < cells
    if isinstance(utility, RankDistance):
        return 1 <= cells <= MOST_CANDIDATES
    return all(
        count_columns(candidate.operator) == cells
        and count_rows(candidate.operator) == len(candidate.target)
        for candidate in utility.candidates
    )
