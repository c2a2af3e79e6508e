"""The steps of one budget lease: noisy marginals of a table, and choices among marginals.

Everything that is read goes through here, and everything that comes back is noisy. What it cost and
how noisy it is are kept for the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import prod, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number
from dither.laws.ranks import find_tied_share, write_ties
from dither.plan.algebra import Cells, Count, JointScores, Linear, Plan, Query, Scores
from dither.plan.analysed_query import Analyses
from dither.plan.operators import Dense, Kronecker, LinearOperator, Stack, Total
from dither.plan.scores import MOST_JOINT_CELLS, MOST_MEMBERS
from dither.plan.utilities import MOST_TARGETS, DistanceCandidate, Distances
from dither.synth.contraction import Table
from dither.synth.estimate import Measurement
from dither.synth.groupings import ValueGrouping
from dither.synth.junction_tree import Clique

SCALE = 8
"""Scores are distances in eighths of a row: a model's counts are rounded to them."""
_TURN = 61
"""By so many candidates every turn starts later."""


class StepLease(Protocol):
    """What releases steps out of one charge: `dither.answer.leased.OpenLease`."""

    @property
    def left(self) -> Fraction: ...

    def release(
        self, query: Query, *, epsilon: Number | None = None, rho: Number | None = None
    ) -> tuple[int, ...]: ...


@dataclass(frozen=True)
class ReleasedStep:
    """One step: what was asked, what it cost in the lease's measure, and the standard error of each
    number that it released.

    A choice has an error of 0. For edges, `cells` says how many quantiles were bought, and `error`
    by how many rows their ranks are off at most, with 95% confidence.
    """

    kind: str
    columns: tuple[str, ...]
    cells: int
    price: float
    error: float

    def write_words(self) -> str:
        """The step in words, for certificates."""
        names = ", ".join(self.columns)
        if self.kind == "choice":
            return f"{names} chosen out of {self.cells} for {self.price:.6g}"
        if self.kind == "edges":
            return (
                f"{self.cells} quantiles of {names} for {self.price:.6g}, as edges of bins, with "
                f"95% confidence each off by at most {self.write_rank_error()}"
            )
        return (
            f"counts of {names} in {self.cells} cells for {self.price:.6g}, standard error "
            f"{self.error:.4g} rows"
        )

    def write_rank_error(self) -> str:
        """Write by how many rows the rank of an edge is off at most."""
        choices = self.cells.bit_length()  # rounds in which so many quantiles are chosen together
        return f"{self.error:,.0f} rows in rank{write_ties(find_tied_share(choices))}"


@dataclass(frozen=True)
class MarginalCandidate:
    """A marginal that may be chosen: the worse the target fits its counts, the likelier.

    `offset` is a public number that is added to its distance, in rows.
    """

    clique: Clique
    target: Table
    offset: float = 0.0
    weight: int = 1


@dataclass(frozen=True)
class MadeChoice:
    """A choice that was made: its candidates, the position of the chosen one, and the scale of its
    noise in rows."""

    candidates: list[MarginalCandidate]
    position: int
    scale: float

    @property
    def chosen(self) -> MarginalCandidate:
        """The candidate that was taken."""
        return self.candidates[self.position]


class TableSteps:
    """Marginals and choices over the coded columns of one plan, out of one lease.

    `zeros` are cells of codes that no row can have, by public rules.
    """

    def __init__(
        self,
        lease: StepLease,
        plan: Plan,
        names: tuple[str, ...],
        analyses: Analyses,
        measure: str,
    ) -> None:
        """`measure` is "rho" or "epsilon", that of the lease."""
        self._lease = lease
        self._plan = plan
        self._names = names
        self._analyses = analyses
        self._measure = measure
        self._errors: dict[tuple[Clique, Fraction], float] = {}
        self.released: list[ReleasedStep] = []
        self.choices: list[MadeChoice] = []
        self.zeros: Mapping[Clique, NDArray[np.bool_]] = {}

    @property
    def left(self) -> Fraction:
        """What further steps may cost together."""
        return self._lease.left

    @property
    def is_gaussian(self) -> bool:
        """Whether counts have Gaussian noise; else they have Laplace noise."""
        return self._measure == "rho"

    def _write_cells(self, clique: Clique) -> Cells:
        keys = tuple(self._names[attribute] for attribute in clique)
        return Cells(self._plan, keys, (Count(),))

    def measure(
        self, clique: Clique, groupings: list[ValueGrouping], price: Fraction
    ) -> Measurement:
        """The noisy counts of some columns by groups of their values; one grouping for each."""
        query = Linear(self._write_cells(clique), _write_product(groupings))
        noisy = self._lease.release(query, **{self._measure: price})
        variance = self.find_variance(query, price)
        shape = [grouping.size for grouping in groupings]
        self._note("counts", clique, prod(shape), price, sqrt(variance))
        return Measurement(clique, np.array(noisy, float).reshape(shape), np.full(shape, variance))

    def find_variance(self, query: Linear, price: Fraction) -> float:
        """The variance of the noise of each number, from the sensitivity that the catalog gives:
        D2 / (2 rho) of Gaussian noise, 2 (D1 / epsilon)^2 of Laplace noise."""
        sensitivity = self._analyses.analyse_query(query).sensitivity
        if self.is_gaussian:
            return float(sensitivity.l2_squared / (2 * price))
        return float(2 * (sensitivity.l1 / price) ** 2)

    def find_error(self, clique: Clique, price: Fraction) -> float:
        """The mean absolute error of each number of a marginal at a price; reads no data.

        Groupings change nothing: every row is in one group, as it is in one cell.
        """
        if (clique, price) not in self._errors:
            total = Total(self._analyses.analyse_query(self._write_cells(clique)).cells)
            variance = self.find_variance(Linear(self._write_cells(clique), total), price)
            error = sqrt(2 * variance / np.pi) if self.is_gaussian else sqrt(variance / 2)
            self._errors[clique, price] = error
        return self._errors[clique, price]

    def choose(
        self, candidates: list[MarginalCandidate], groupings: list[ValueGrouping], price: Fraction
    ) -> int:
        """The position of one candidate, by noisy scores; `groupings` has one for each column.

        Candidates beyond what the kernel takes in one choice are left out.
        """
        positions = list_choosable(candidates, groupings, len(self.released))
        choosable = [candidates[position] for position in positions]
        lowest = min(candidate.offset for candidate in choosable)
        members = tuple(self._write_member(candidate, groupings, lowest) for candidate in choosable)
        query = JointScores(members)
        (chosen,) = self._lease.release(query, **{self._measure: price})
        scale = self.find_choice_scale(query, price)
        self.choices.append(MadeChoice(choosable, chosen, scale))
        self._note("choice", choosable[chosen].clique, len(choosable), price, 0.0)
        return positions[chosen]

    def find_choice_scale(self, query: JointScores, price: Fraction) -> float:
        """Find the scale of the exponential mechanism of a choice, in rows.

        It is twice the sensitivity of the scores over epsilon. Permute-and-flip errs by no more at
        the same epsilon.
        """
        move = self._analyses.analyse_query(query).score_move.largest
        epsilon = sqrt(8 * price) if self.is_gaussian else float(price)
        return 2 * move / (SCALE * epsilon)

    def _write_member(
        self, candidate: MarginalCandidate, groupings: list[ValueGrouping], lowest: float
    ) -> Scores:
        """A distance and its offset: a row of zeros whose target is the offset adds it."""
        own = [groupings[attribute] for attribute in candidate.clique]
        product = _write_product(own)
        zeros = Kronecker(
            (Dense(((0,) * own[0].values,)), *(Total(grouping.values) for grouping in own[1:]))
        )
        target = [round(SCALE * float(count)) for count in candidate.target.ravel()]
        target.append(round(SCALE * (candidate.offset - lowest)))
        utility = Distances(
            SCALE,
            (DistanceCandidate(candidate.weight, Stack((product, zeros)), tuple(target)),),
        )
        return Scores(self._write_cells(candidate.clique), utility)

    def _note(self, kind: str, clique: Clique, cells: int, price: Fraction, error: float) -> None:
        names = tuple(self._names[attribute] for attribute in clique)
        self.released.append(ReleasedStep(kind, names, cells, float(price), error))


def list_choosable(
    candidates: list[MarginalCandidate], groupings: list[ValueGrouping], turn: int
) -> list[int]:
    """The positions of as many candidates as the kernel takes in one choice, the smallest first.

    A choice that it refuses would come after the charge, and end the lease. Of candidates of equal
    size others come first at every `turn`. Sizes and turns are public.
    """
    sizes = [
        prod(groupings[attribute].values for attribute in candidate.clique)
        for candidate in candidates
    ]
    start = turn * _TURN % len(candidates)
    by_turn = [*range(start, len(candidates)), *range(start)]
    positions: list[int] = []
    cells = 0
    targets = 0
    for position in sorted(by_turn, key=sizes.__getitem__):
        cells += sizes[position]
        targets += candidates[position].target.size + 1
        if cells > MOST_JOINT_CELLS or targets > MOST_TARGETS or len(positions) == MOST_MEMBERS:
            break
        positions.append(position)
    return sorted(positions)


def _write_product(groupings: list[ValueGrouping]) -> LinearOperator:
    """The sums over the products of groups."""
    return Kronecker(tuple(grouping.write_operator() for grouping in groupings))
