"""Queries with what follows from their plans and the catalog: analysed once, carried to everything
that reads it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from dither.catalog import Catalog, Neighbours
from dither.plan.algebra import (
    BlockCounts,
    Cells,
    JointScores,
    Linear,
    OverCells,
    Plan,
    Quantiles,
    Query,
    Scores,
    UnitVectors,
)
from dither.plan.analyse import NEWEST_RULES, Analysed, AnalysedNodes, analyse, check_size
from dither.plan.blocks import block_move_in, check_blocks
from dither.plan.facts import NO_FACTS, Facts
from dither.plan.grids import Points, points_of_rows
from dither.plan.keys import KeyDomain, key_domains_in, open_keys_in
from dither.plan.linear import (
    bound_cells,
    bound_products,
    check_linear,
    linear_sensitivity_in,
)
from dither.plan.measured import measured_query
from dither.plan.norms import Sensitivity
from dither.plan.operators import count_rows
from dither.plan.scores import ScoreMove, check_joint, check_scores, score_move_in
from dither.plan.sensitivity import (
    Box,
    Reach,
    Touched,
    box_in,
    find_touched,
    largest_value_in,
    sensitivity_in,
    touched_in,
    unit_box_in,
)
from dither.plan.vectors import (
    bound_vector_sums,
    check_vectors,
    count_vector_numbers,
    vector_sensitivity_in,
)

MOST_PLANS = 64


@dataclass(frozen=True)
class AnalysedQuery:
    """A query over analysed rows. Everything else follows; what has no rule is refused when it is
    read."""

    query: Query
    rows: Analysed
    neighbours: Neighbours

    @cached_property
    def unlisted(self) -> tuple[str, ...]:
        """The keys without a list of values: private key selection decides which of them are
        shown."""
        return open_keys_in(self.query.keys, self.rows.columns)

    @cached_property
    def domains(self) -> tuple[KeyDomain, ...]:
        """The domains of all listed keys; refused when their product is too large to return
        whole."""
        return key_domains_in(self.query.keys, self.rows.columns)

    @cached_property
    def cells(self) -> int:
        """How many cells the listed keys have."""
        return prod(domain.codes for domain in self.domains)

    @cached_property
    def width(self) -> int:
        """How many numbers are measured in each cell."""
        query = measured_query(self.query)
        if isinstance(query, Cells):
            return len(query.columns)
        return query.width if isinstance(query, Quantiles) else 1

    @cached_property
    def members(self) -> tuple[AnalysedQuery, ...]:
        """The choices of which one over several keys is made."""
        assert isinstance(self.query, JointScores)
        return tuple(replace(self, query=member) for member in self.query.members)

    @cached_property
    def released_rows(self) -> int:
        """How many rows of numbers are released: one for each cell, or for each row of a public
        operator, or one choice. Operators and utilities are checked here."""
        if isinstance(self.query, JointScores):
            check_joint(self.query, [member.cells for member in self.members])
            return max(member.released_rows for member in self.members)
        if isinstance(self.query, Scores):
            check_scores(self.query, self.rows, self.cells, self.neighbours)
            return 1
        if isinstance(self.query, BlockCounts):
            check_blocks(self.query, self.rows)
            return self.cells
        if isinstance(self.query, UnitVectors):
            check_vectors(self.query, self.rows, self.neighbours)
            return count_vector_numbers(self.query, self.rows)
        if isinstance(self.query, Linear):
            check_linear(self.query, self.rows, self.cells)
            return count_rows(self.query.operator)
        return self.cells

    @cached_property
    def touched(self) -> Touched:
        """The cells of the query, and how far the rows of one unit reach in them."""
        return find_touched(self.query, self.rows)

    @cached_property
    def reach(self) -> Reach:
        """How far the rows of one unit reach, where the query is answered cell by cell."""
        return touched_in(self.query, self.rows, self.neighbours, self.touched)

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """What one unit can change in all cells of a query of counts and sums, in every norm."""
        if isinstance(self.query, Linear):
            return linear_sensitivity_in(self.query, self.rows, self.neighbours)
        if isinstance(self.query, UnitVectors):
            return vector_sensitivity_in(self.query, self.rows, self.neighbours)
        assert isinstance(self.query, Cells)
        return sensitivity_in(self.query, self.rows, self.neighbours, self.touched)

    @cached_property
    def largest_cells(self) -> int:
        """The public bound of all cells together of which an operator or a utility is made."""
        if isinstance(self.query, JointScores):
            return max(member.largest_cells for member in self.members)
        if not isinstance(self.query, OverCells) or isinstance(self.query.cells, UnitVectors):
            return 0
        return bound_cells(self.query.cells, self.rows)

    @cached_property
    def score_move(self) -> ScoreMove:
        """How far one unit moves the scores of a choice: of several members, the farthest."""
        if isinstance(self.query, JointScores):
            return ScoreMove(max(member.score_move.largest for member in self.members), False)
        assert isinstance(self.query, Scores)
        return score_move_in(self.query, self.rows, self.neighbours)

    @cached_property
    def block_move(self) -> int:
        """How far one unit moves all cells of block counts together."""
        assert isinstance(self.query, BlockCounts)
        return block_move_in(self.query, self.rows, self.neighbours)

    @cached_property
    def box(self) -> Box:
        """How far one unit moves the numbers of all cells together, in boxes of what one row
        adds."""
        assert isinstance(self.query, Cells)
        return box_in(self.query, self.rows, self.neighbours, self.touched)

    @cached_property
    def unit_box(self) -> Box:
        """The same in boxes of what one unit moves in one cell."""
        assert isinstance(self.query, Cells)
        return unit_box_in(self.query, self.rows, self.neighbours, self.touched)

    @cached_property
    def largest_values(self) -> tuple[int, ...]:
        """The public bound of each number of a cell."""
        if isinstance(self.query, Linear):
            return (bound_products(self.query, self.rows),)
        if isinstance(self.query, UnitVectors):
            return (bound_vector_sums(self.query, self.rows),)
        assert isinstance(self.query, Cells)
        return tuple(largest_value_in(aggregate, self.rows) for aggregate in self.query.columns)

    @cached_property
    def points(self) -> Points:
        """The grid on which a quantile is answered."""
        assert isinstance(self.query, Quantiles)
        return points_of_rows(self.query, self.rows)


@dataclass(frozen=True)
class Analyses:
    """The analyses of plans under one catalog and its public facts: each plan once, by the hash of
    the plan.

    `==` confuses 1 and True, the hash does not. The size of a plan is checked before it is hashed.
    """

    catalog: Catalog
    facts: Facts = NO_FACTS
    rules: int = NEWEST_RULES
    _rows: dict[str, Analysed] = field(default_factory=dict, repr=False, compare=False)

    def analyse_rows(self, plan: Plan, analysed_nodes: AnalysedNodes | None = None) -> Analysed:
        """Analyse stability and domains of a plan; the result is kept under the plan's hash.

        Raises RefusedError unless its rows depend on a private table. `analysed_nodes` holds what
        the caller analysed before, under the same catalog and facts.
        """
        check_size(plan)
        rows = self._rows.get(plan.hash)
        if rows is None:
            rows = analyse(plan, self.catalog, self.facts, analysed_nodes, self.rules)
            if len(self._rows) >= MOST_PLANS:
                self._rows.clear()
            self._rows[plan.hash] = rows
        return rows

    def analyse_query(self, query: Query) -> AnalysedQuery:
        """The query over its analysed rows."""
        return AnalysedQuery(query, self.analyse_rows(query.plan), self.catalog.neighbours)
