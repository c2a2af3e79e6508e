"""The registry of families: what answers which type of query, in which measure, built how.

The kernel calibrates and releases by this table, and the split of a price reads from it how errors
scale. A new family is one line in `FAMILIES`; docs/how-to/add-a-mechanism.md adds one.

Every family builds a mechanism whose loss is at most the step's share, rounded against us:

    laplace            scale = D1 / epsilon_i
    gaussian           sigma = sqrt(D2 / (2 rho_i))
    box                scale = rows / epsilon_i, for boxes of what one row adds
    unit_box           scale = cells / epsilon_i, for boxes of what one unit moves in one cell
    geometric_keys     the optimal rule at epsilon_i and delta_i, for at most m keys of one unit
    gaussian_keys      sigma = sqrt(m / (2 rho_i)), then the lowest threshold for delta_i
    threshold_keys     the same with less delta under replace; also for the rho of an epsilon_i
    counted_keys       the same, with the noisy counts of the keys shown
    permute_and_flip   scale = 2 k max(a, b - a) / epsilon_i, for k rows of one unit
    exponential        the same, or at rho_i for epsilon = sqrt(8 rho_i); see quantile_families.py
    ..._by_rows        both, with rows that leave and rows that come counted one by one
    rounded_gaussian   sigma = sqrt(D2 / (2 rho_i)), normal numbers rounded
    gaussian_by_curve  the same; alone in a question, rho is what epsilon buys by the exact curve
    scores_...         scale = 2 Delta / epsilon_i, or Delta / epsilon_i where scores are monotone
    linear_...         the same three on the product of a public operator with cells
    adaptive_blocks    splits and counts of blocks at epsilon_i, by their shares of it
    vectors_...        rounded Gaussian noise on a sum of clipped vectors, perhaps over a sample

Proof: docs/proofs/kernel.md#calibration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from dither.errors import RefusedError
from dither.plan.algebra import (
    BlockCounts,
    Cells,
    JointScores,
    Keys,
    Linear,
    Quantiles,
    Query,
    Scores,
    UnitVectors,
)
from dither.privacy.mechanisms.adaptive_blocks import build_adaptive_blocks
from dither.privacy.mechanisms.box import MOST_SIDES, IntegerBox, UnitBox
from dither.privacy.mechanisms.gaussian import IntegerGaussian
from dither.privacy.mechanisms.key_families import (
    build_counted_keys,
    build_gaussian_keys,
    build_geometric_keys,
    build_threshold_keys,
)
from dither.privacy.mechanisms.laplace import IntegerLaplace
from dither.privacy.mechanisms.quantile_families import (
    build_by_exponential,
    build_by_exponential_rows,
    build_by_permute_and_flip,
    build_by_permute_and_flip_rows,
    epsilon_of_ranges,
)
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian, build_for_sample
from dither.privacy.mechanisms.score_selection import FlippedScoreSelection, ScoreSelection
from dither.privacy.mechanisms.step_terms import Built, Measure, StepTerms
from dither.rules import PrivacyRule

__all__ = [
    "BY_CURVE",
    "FAMILIES",
    "FIRST_LAWS",
    "NEWEST_LAWS",
    "Measure",
    "MechanismFamily",
    "count_numbers",
]


BY_CURVE = "gaussian_by_curve"
"""Rounded Gaussian noise, charged by its exact curve where a question has no other noise."""
FIRST_LAWS = 1
"""The families of release 0.1, under which its answers are found again."""
NEWEST_LAWS = 2
"""The families of this release. All are sound; the newer ones have less noise."""


@dataclass(frozen=True)
class MechanismFamily:
    """One way to answer one type of query.

    `measures` are those in which its price can be stated; `numbers` is how many numbers of a cell
    one mechanism serves, from the fewest to the most (None: any number). `needs_epsilon_pots`: only
    its epsilon is known (a pot that adds up rhos would take more for it than for Laplace noise), so
    it is offered only where all pots add up epsilons.

    For the split of a price: the variance of its noise falls as share^-variance_power, and is in
    proportion to the square of the `norm` of the sensitivity. `joint_demand(demand, d)` is the
    error of one noise for d numbers, where `demand` is that of Laplace noise for each of them at
    the same epsilon. `laws` is the collection of laws that it came with: questions asked under an
    earlier one find their answers by the families that were there.
    """

    name: str
    answers: type[Query]
    measures: tuple[Measure, ...]
    build: Callable[[StepTerms], Built]
    numbers: tuple[int, int | None] = (1, None)
    needs_epsilon_pots: bool = False
    variance_power: int = 2
    norm: Literal["l1", "l2"] = "l1"
    joint_demand: Callable[[float, int], float] | None = None
    laws: int = FIRST_LAWS
    is_offered: bool = True
    """Whether questions choose it by themselves; else only who names it gets it."""

    def serves(self, query: Query) -> bool:
        """Whether it answers this type of query, with so many numbers in a cell."""
        smallest, largest = self.numbers
        return (
            type(query) is self.answers
            and smallest <= count_numbers(query)
            and (largest is None or count_numbers(query) <= largest)
        )


def count_numbers(query: Query) -> int:
    """Count the numbers that a query asks for in each cell."""
    if isinstance(query, Cells):
        return len(query.columns)
    return len(query.shares) if isinstance(query, Quantiles) else 1


def build_laplace(terms: StepTerms) -> Built:
    """Build Laplace noise of scale D1 / epsilon_i.

    D1 is the L1 sensitivity of the query, epsilon_i the share of this step.
    """
    return Built(
        IntegerLaplace.for_epsilon(terms.share, terms.analysed.sensitivity, terms.adjacency)
    )


def build_gaussian(terms: StepTerms) -> Built:
    """Gaussian noise of sigma^2 = D2 / (2 rho_i)."""
    return Built(IntegerGaussian.for_rho(terms.share, terms.analysed.sensitivity, terms.adjacency))


def build_rounded_gaussian(terms: StepTerms) -> Built:
    """Rounded Gaussian noise of sigma^2 = D2 / (2 rho_i)."""
    return Built(
        IntegerRoundedGaussian.for_rho(terms.share, terms.analysed.sensitivity, terms.adjacency)
    )


def build_vector_noise(terms: StepTerms) -> Built:
    """Rounded Gaussian noise of sigma^2 = D2 / (2 rho_i); over a sample it costs less."""
    assert isinstance(terms.query, UnitVectors)
    rate = terms.query.rate
    _ = terms.analysed.released_rows  # refused before a mechanism is built
    if rate is None:
        return build_rounded_gaussian(terms)
    return Built(build_for_sample(terms.share, terms.analysed.sensitivity, rate, terms.unit))


def build_box(terms: StepTerms) -> Built:
    """Build box noise of scale rows / epsilon_i, one noise for all numbers of a cell.

    Raises RefusedError for fewer numbers than 2 or more than MOST_SIDES.
    """
    _check_sides(terms)
    moved = terms.analysed.box
    return Built(IntegerBox.for_epsilon(terms.share, moved.sides, moved.rows, terms.adjacency))


def build_unit_box(terms: StepTerms) -> Built:
    """Box noise of scale cells / epsilon_i, whose sides are what one unit moves in a cell."""
    _check_sides(terms)
    moved = terms.analysed.unit_box
    return Built(UnitBox.for_epsilon(terms.share, moved.sides, moved.rows, terms.adjacency))


def _check_sides(terms: StepTerms) -> None:
    numbers = count_numbers(terms.query)
    if not 2 <= numbers <= MOST_SIDES:
        raise RefusedError(
            f"box noise is for 2 to {MOST_SIDES} numbers, got {numbers}", rule=PrivacyRule.NO_RULE
        )


def build_scores_by_exponential(terms: StepTerms) -> Built:
    """A choice by the exponential mechanism, at epsilon_i or at sqrt(8 rho_i)."""
    epsilon = epsilon_of_ranges(terms.share, 1, terms.measure)
    return Built(ScoreSelection(epsilon, *terms.analysed.score_move, *terms.adjacency))


def build_scores_by_permute_and_flip(terms: StepTerms) -> Built:
    """A choice by permute-and-flip at epsilon_i."""
    return Built(FlippedScoreSelection(terms.share, *terms.analysed.score_move, *terms.adjacency))


def _box_demand(demand: float, numbers: int) -> float:
    """(d+1)(d+2)/6: the variance of a box against that of Laplace noise at one epsilon."""
    return demand * (numbers + 1) * (numbers + 2) / 6


FAMILIES: dict[str, MechanismFamily] = {
    family.name: family
    for family in (
        MechanismFamily("laplace", Cells, ("epsilon",), build_laplace),
        MechanismFamily("gaussian", Cells, ("rho",), build_gaussian, variance_power=1, norm="l2"),
        MechanismFamily(
            "box",
            Cells,
            ("epsilon",),
            build_box,
            numbers=(2, MOST_SIDES),
            needs_epsilon_pots=True,
            joint_demand=_box_demand,
        ),
        MechanismFamily("geometric_keys", Keys, ("epsilon",), build_geometric_keys),
        MechanismFamily("gaussian_keys", Keys, ("rho",), build_gaussian_keys),
        MechanismFamily(
            "permute_and_flip",
            Quantiles,
            ("epsilon",),
            build_by_permute_and_flip,
            numbers=(1, 1),
            needs_epsilon_pots=True,
        ),
        MechanismFamily("exponential", Quantiles, ("epsilon", "rho"), build_by_exponential),
        MechanismFamily(
            "unit_box",
            Cells,
            ("epsilon",),
            build_unit_box,
            numbers=(2, MOST_SIDES),
            needs_epsilon_pots=True,
            joint_demand=_box_demand,
            laws=2,
        ),
        MechanismFamily("threshold_keys", Keys, ("rho",), build_threshold_keys, laws=2),
        MechanismFamily(
            "permute_and_flip_by_rows",
            Quantiles,
            ("epsilon",),
            build_by_permute_and_flip_rows,
            numbers=(1, 1),
            needs_epsilon_pots=True,
            laws=2,
        ),
        MechanismFamily(
            "exponential_by_rows",
            Quantiles,
            ("epsilon", "rho"),
            build_by_exponential_rows,
            laws=2,
        ),
        MechanismFamily("linear_laplace", Linear, ("epsilon",), build_laplace),
        MechanismFamily(
            "linear_gaussian", Linear, ("rho",), build_gaussian, variance_power=1, norm="l2"
        ),
        MechanismFamily(
            "rounded_gaussian",
            Cells,
            ("rho",),
            build_rounded_gaussian,
            variance_power=1,
            norm="l2",
            is_offered=False,
        ),
        MechanismFamily(
            "linear_rounded_gaussian",
            Linear,
            ("rho",),
            build_rounded_gaussian,
            variance_power=1,
            norm="l2",
        ),
        MechanismFamily(
            "scores_permute_and_flip",
            Scores,
            ("epsilon",),
            build_scores_by_permute_and_flip,
            needs_epsilon_pots=True,
        ),
        MechanismFamily(
            "scores_exponential", Scores, ("epsilon", "rho"), build_scores_by_exponential
        ),
        MechanismFamily(
            "vectors_rounded_gaussian",
            UnitVectors,
            ("rho",),
            build_vector_noise,
            variance_power=1,
            norm="l2",
        ),
        MechanismFamily(
            "joint_scores_permute_and_flip",
            JointScores,
            ("epsilon",),
            build_scores_by_permute_and_flip,
            needs_epsilon_pots=True,
        ),
        MechanismFamily(
            "joint_scores_exponential",
            JointScores,
            ("epsilon", "rho"),
            build_scores_by_exponential,
        ),
        MechanismFamily("adaptive_blocks", BlockCounts, ("epsilon",), build_adaptive_blocks),
        MechanismFamily(
            BY_CURVE,
            Cells,
            ("rho",),
            build_rounded_gaussian,
            variance_power=1,
            norm="l2",
            laws=2,
            is_offered=False,
        ),
        MechanismFamily("counted_keys", Keys, ("rho",), build_counted_keys, laws=2),
    )
}
"""By the name that requests, ledgers and certificates hold, which never changes. Where several
could answer, the first one does: put a new one last, unless it is to replace another."""
