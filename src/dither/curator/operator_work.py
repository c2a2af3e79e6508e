"""Bound how long operators and choices over cells may take, by public sizes alone.

A request for one number may add up a million cells many times, so this work is bounded by what is
added up and not by what is released. It takes the same time whatever the rows are. It still has to
end within the slots of its question.
"""

from __future__ import annotations

from dither.plan.algebra import Cells, JointScores, Linear, Query, Scores
from dither.plan.analysed_query import Analyses
from dither.plan.linear import bound_cells
from dither.plan.operator_norms import largest_factor
from dither.plan.operators import (
    Boxes,
    Dense,
    Identity,
    Kronecker,
    LinearOperator,
    Marginal,
    Stack,
    ToeplitzHankel,
    count_columns,
    count_rows,
    write_marginal,
)
from dither.plan.utilities import DistanceCandidate, Distances

CELL_S = 150e-9
"""Seconds for one cell of a step: it is read and made an integer."""
OPERATION_S = 5e-9
"""Seconds for one operation of an operator with integers of 64 bits."""
LONG_OPERATION_S = 150e-9
"""Seconds for one operation of an operator: with 64 bits, and with longer integers."""
_SHORT = 1 << 63


def bound_operators(query: Query, analyses: Analyses) -> float:
    """Bound the seconds that a step may take for its cells and its operator; 0 without an operator.

    Reading rows and drawing noise are not in it (`work_bounds`).
    """
    if isinstance(query, JointScores):
        return sum(bound_operators(member, analyses) for member in query.members)
    if not isinstance(query, (Linear, Scores)) or not isinstance(query.cells, Cells):
        return 0.0
    cells = analyses.analyse_query(query.cells).cells
    largest = bound_cells(query.cells, analyses.analyse_rows(query.cells.plan))
    seconds = CELL_S * cells
    if isinstance(query, Linear):
        return seconds + _bound_product(query.operator, largest)
    if not isinstance(query.utility, Distances):
        return 2 * seconds
    return seconds + _bound_distances(query.utility, largest)


def _bound_product(operator: LinearOperator, largest: int) -> float:
    """Seconds for a product with cells whose absolute values sum to at most `largest`."""
    is_short = largest * largest_factor(operator) < _SHORT
    return count_operations(operator) * (OPERATION_S if is_short else LONG_OPERATION_S)


def _bound_distances(utility: Distances, largest: int) -> float:
    """Seconds for the scores of all candidates; their targets are read too.

    All are computed with integers of one kind: one candidate whose score does not fit into 64 bits
    makes all of them long.
    """
    candidates = utility.candidates
    is_short = all(
        _bound_score(candidate, largest * utility.scale) < _SHORT for candidate in candidates
    )
    operation_s = OPERATION_S if is_short else LONG_OPERATION_S
    return sum(
        CELL_S * len(candidate.target) + operation_s * count_operations(candidate.operator)
        for candidate in candidates
    )


def _bound_score(candidate: DistanceCandidate, largest: int) -> int:
    """A bound of the score, and of every number on the way to it."""
    operator = candidate.operator
    products = largest * largest_factor(operator) * count_rows(operator)
    return candidate.weight * (products + sum(map(abs, candidate.target)))


def count_operations(operator: LinearOperator) -> int:
    """Count the numbers that are added or multiplied for the product with one vector of cells.

    >>> count_operations(Dense(((1, 2, 3), (4, 5, 6))))
    6
    """
    match operator:
        case Identity():
            return 0
        case Dense() | ToeplitzHankel():
            return count_rows(operator) * count_columns(operator)
        case Stack(operators):
            return count_rows(operator) + sum(map(count_operations, operators))
        case Marginal():
            return count_operations(write_marginal(operator))
        case Kronecker(factors):
            return _count_kronecker_operations(factors)
        case Boxes():
            return 8 * (2 * count_columns(operator) + count_rows(operator))
    return count_columns(operator) + count_rows(operator)


def _count_kronecker_operations(factors: tuple[LinearOperator, ...]) -> int:
    """Count the operations of all factors, which are applied in turn, each along its own axis."""
    total = 0
    size = count_columns(Kronecker(factors))
    for factor in factors:
        vectors = size // count_columns(factor)
        total += vectors * count_operations(factor)
        size = vectors * count_rows(factor)
    return total
