"""Public integer operators: matrices by which a query multiplies the cells of one count or sum.

An operator is plain public data from a closed set. What it means is fixed by two independent
readers: `plan/apply_operator.py` (structured, fast) and `audit/naive_linear.py` (entry by entry).
How far one unit moves the product follows from the operator's column norms
(`plan/operator_norms.py`). Proof: docs/proofs/linear-queries.md.

>>> count_rows(Tree(4, 2)), count_columns(Kronecker((HaarWavelet(4), Total(3))))
(7, 12)
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from math import prod
from typing import Any, TypeAlias, cast

from dither.errors import RefusedError
from dither.rules import PrivacyRule
from dither.stored import stored

MOST_COLUMNS = 1_000_000
MOST_ROWS = 4_000_000
MOST_NODES = 256
MOST_DEPTH = 8
MOST_ENTRIES = 1 << 16
"""Of all explicit matrices and lists of ranges of one operator together."""
MOST_ENTRY = 1 << 40
MOST_COEFFICIENT = 1 << 23
"""Of a Toeplitz-Hankel matrix before its columns are weighted: norms of 16,384 rows fit int64."""
MOST_BOX_AXES = 3
MOST_PRODUCTS = 1 << 28
"""The size of a Toeplitz-Hankel matrix times all cells of its operator."""


@stored("identity", size="size")
@dataclass(frozen=True)
class Identity:
    """Every cell."""

    size: int


@stored("total", size="size")
@dataclass(frozen=True)
class Total:
    """One number: the sum of all cells."""

    size: int


@stored("prefix", size="size")
@dataclass(frozen=True)
class Prefix:
    """Number i is the sum of the cells 0 to i."""

    size: int


@stored("ranges", size="size", ranges="ranges")
@dataclass(frozen=True)
class Ranges:
    """One number for each (first, last): the sum of the cells first to last, both included."""

    size: int
    ranges: tuple[tuple[int, int], ...]


@stored("tree", size="size", branching="branching")
@dataclass(frozen=True)
class Tree:
    """The sums of blocks of branching^h cells, from one block of all cells down to single cells.

    The last block of a level may be shorter. Levels come from the root down.
    """

    size: int
    branching: int


@stored("haar", size="size")
@dataclass(frozen=True)
class HaarWavelet:
    """The total, then the left half less the right half of every block, from the whole down to
    pairs; the size is a power of two."""

    size: int


@stored("dense", entries="entries")
@dataclass(frozen=True)
class Dense:
    """A matrix of integers, row by row: also a real strategy that was scaled and rounded."""

    entries: tuple[tuple[int, ...], ...]


@stored("toeplitz_hankel", toeplitz="toeplitz", hankel="hankel", weights="weights")
@dataclass(frozen=True)
class ToeplitzHankel:
    """A square matrix by 4 n integers: row i, column j is weights[j] times the sum of
    toeplitz[|i - j|] and hankel[i + j].

    Functions of the Gram matrices of ranges and prefixes have this form, and so have diagonal
    matrices and the residuals n I - 1.
    """

    toeplitz: tuple[int, ...]
    hankel: tuple[int, ...]
    weights: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many rows and columns it has."""
        return len(self.toeplitz)


@stored("kronecker", factors="factors")
@dataclass(frozen=True)
class Kronecker:
    """The Kronecker product of the factors; the last one belongs to the key that runs fastest."""

    factors: tuple[LinearOperator, ...]


@stored("stack", operators="operators")
@dataclass(frozen=True)
class Stack:
    """All rows of several operators over the same cells, one operator after the other."""

    operators: tuple[LinearOperator, ...]


@stored("marginal", sizes="sizes", kept="kept")
@dataclass(frozen=True)
class Marginal:
    """The sums over all keys but those kept: `sizes` of the keys in order, and positions of those
    kept, increasing."""

    sizes: tuple[int, ...]
    kept: tuple[int, ...]


@stored("boxes", sizes="sizes", ends="ends")
@dataclass(frozen=True)
class Boxes:
    """One number for each box: the sum of the cells from first to last along every key, both
    included. Boxes may overlap.

    `sizes` are those of the keys in order; `ends` lists box after box, and for each key of a box
    its first and its last code.
    """

    sizes: tuple[int, ...]
    ends: tuple[int, ...]


LinearOperator: TypeAlias = (
    Identity
    | Total
    | Prefix
    | Ranges
    | Tree
    | HaarWavelet
    | Dense
    | ToeplitzHankel
    | Kronecker
    | Stack
    | Marginal
    | Boxes
)
_SIMPLE = (Identity, Total, Prefix, Ranges, Tree, HaarWavelet)


def write_marginal(operator: Marginal) -> Kronecker:
    """A marginal as the product of an identity for each key kept and a total for each other."""
    return Kronecker(
        tuple(
            Identity(size) if position in operator.kept else Total(size)
            for position, size in enumerate(operator.sizes)
        )
    )


def list_levels(operator: Tree) -> list[int]:
    """How many blocks each level of a tree has, from the root down."""
    levels = [operator.size]
    while levels[-1] > 1:
        levels.append(-(-levels[-1] // operator.branching))
    return levels[::-1]


def count_columns(operator: LinearOperator) -> int:
    """How many cells the operator is for."""
    match operator:
        case Dense(entries):
            return len(entries[0])
        case Kronecker(factors):
            return prod(map(count_columns, factors))
        case Stack(operators):
            return count_columns(operators[0])
        case Marginal(sizes) | Boxes(sizes):
            return prod(sizes)
    return operator.size


def count_rows(operator: LinearOperator) -> int:
    """How many numbers the operator makes of them."""
    match operator:
        case Total():
            return 1
        case Ranges(_, ranges):
            return len(ranges)
        case Boxes(sizes, ends):
            return len(ends) // (2 * len(sizes))
        case Tree():
            return sum(list_levels(operator))
        case Dense(entries):
            return len(entries)
        case Kronecker(factors):
            return prod(map(count_rows, factors))
        case Stack(operators):
            return sum(map(count_rows, operators))
        case Marginal():
            return count_rows(write_marginal(operator))
    return operator.size


def check_operator(operator: Any) -> LinearOperator:
    """The operator itself; refused unless every part of it is what its class says, and small.

    Sizes are checked before anything is computed from them.
    """
    _check_nodes(operator)
    return cast(LinearOperator, operator)


def _check_nodes(operator: Any) -> None:
    """Walk all nodes with a limit on their number, and check each after those below it."""
    nodes: list[Any] = []
    entries = 0
    waiting = [(operator, 0)]
    while waiting:
        node, depth = waiting.pop()
        nodes.append(node)
        entries += _count_entries(node)
        if len(nodes) > MOST_NODES or depth > MOST_DEPTH or entries > MOST_ENTRIES:
            raise RefusedError(
                f"an operator of more than {MOST_NODES} parts, {MOST_DEPTH} levels or "
                f"{MOST_ENTRIES:,} entries: use structured operators",
                rule=PrivacyRule.BOUNDED_WORK,
            )
        waiting += [(inner, depth + 1) for inner in _list_inner(node)]
    for node in reversed(nodes):
        _check_node(node)
        if count_columns(node) > MOST_COLUMNS or count_rows(node) > MOST_ROWS:
            raise RefusedError(
                f"an operator of more than {MOST_COLUMNS:,} cells or {MOST_ROWS:,} numbers: "
                f"ask for fewer",
                rule=PrivacyRule.BOUNDED_WORK,
            )
    widest = max((node.size for node in nodes if type(node) is ToeplitzHankel), default=0)
    if widest * count_columns(operator) > MOST_PRODUCTS:
        raise RefusedError(
            f"a Toeplitz-Hankel matrix of {widest:,} columns over {count_columns(operator):,} "
            f"cells: at most {MOST_PRODUCTS:,} products of both. Ask for fewer cells",
            rule=PrivacyRule.BOUNDED_WORK,
        )


def _list_inner(node: Any) -> tuple[Any, ...]:
    """The operators that a node is made of."""
    inner: Any = ()
    if type(node) is Kronecker:
        inner = node.factors
    elif type(node) is Stack:
        inner = node.operators
    if type(inner) is not tuple:
        raise _refuse("a list of operators that is no tuple")
    return inner


def _count_entries(node: Any) -> int:
    """How many integers a node lists."""
    if type(node) is Dense and type(node.entries) is tuple:
        return sum(len(row) if type(row) is tuple else 1 for row in node.entries)
    if type(node) is ToeplitzHankel and type(node.hankel) is tuple:
        return 2 * len(node.hankel)
    if type(node) is Boxes and type(node.ends) is tuple:
        return len(node.ends) // 2
    listed = getattr(node, "ranges", ()) if type(node) is Ranges else ()
    return len(listed) if type(listed) is tuple else 1


def _check_node(node: Any) -> None:
    """Refuse a node whose numbers do not fit each other."""
    if type(node) in _SIMPLE:
        is_sound = _is_whole(node.size, 1, MOST_COLUMNS) and _fits_size(node)
    elif type(node) is Dense:
        is_sound = _is_matrix(node.entries)
    elif type(node) is ToeplitzHankel:
        is_sound = _is_toeplitz_hankel(node)
    elif type(node) is Kronecker:
        is_sound = bool(node.factors)
    elif type(node) is Stack:
        is_sound = len({count_columns(inner) for inner in node.operators}) == 1
    elif type(node) is Marginal:
        is_sound = _is_marginal(node)
    elif type(node) is Boxes:
        is_sound = _is_boxes(node)
    else:
        raise _refuse(f"no rule for the operator {type(node).__name__}")
    if not is_sound:
        raise _refuse(f"the numbers of {type(node).__name__} do not fit each other")


def _fits_size(node: Any) -> bool:
    if type(node) is Tree:
        return _is_whole(node.branching, 2, MOST_COLUMNS)
    if type(node) is HaarWavelet:
        return node.size & (node.size - 1) == 0
    if type(node) is Ranges:
        return _is_tuple(node.ranges) and all(_is_span(ends, node.size) for ends in node.ranges)
    return True


def _is_matrix(entries: Any) -> bool:
    if not _is_tuple(entries) or not all(map(_is_tuple, entries)):
        return False
    numbers = [entry for row in entries for entry in row]
    return len(set(map(len, entries))) == 1 and all(
        _is_whole(entry, -MOST_ENTRY, MOST_ENTRY) for entry in numbers
    )


def _is_toeplitz_hankel(node: ToeplitzHankel) -> bool:
    lists = (node.toeplitz, node.hankel, node.weights)
    if not all(map(_is_tuple, lists)) or 2 * node.size - 1 != len(node.hankel):
        return False
    return len(node.weights) == node.size and all(
        _is_whole(number, -limit, limit)
        for numbers, limit in zip(lists, (*[MOST_COEFFICIENT] * 2, MOST_ENTRY), strict=True)
        for number in numbers
    )


def _is_marginal(node: Marginal) -> bool:
    return (
        _is_tuple(node.sizes)
        and len(node.sizes) <= MOST_NODES
        and all(_is_whole(size, 1, MOST_COLUMNS) for size in node.sizes)
        and type(node.kept) is tuple
        and all(_is_whole(position, 0, len(node.sizes) - 1) for position in node.kept)
        and list(node.kept) == sorted(set(node.kept))
    )


def _is_boxes(node: Boxes) -> bool:
    return (
        _is_tuple(node.sizes)
        and len(node.sizes) <= MOST_BOX_AXES
        and all(_is_whole(size, 1, MOST_COLUMNS) for size in node.sizes)
        and _is_tuple(node.ends)
        and len(node.ends) % (2 * len(node.sizes)) == 0
        and all(map(_is_span, zip(node.ends[::2], node.ends[1::2], strict=True), cycle(node.sizes)))
    )


def _is_span(ends: Any, size: int) -> bool:
    """Whether it is (first, last) of neighbouring cells along so many."""
    return (
        _is_tuple(ends)
        and len(ends) == 2
        and all(_is_whole(end, 0, size - 1) for end in ends)
        and ends[0] <= ends[1]
    )


def _is_tuple(value: Any) -> bool:
    return type(value) is tuple and bool(value)


def _is_whole(value: Any, low: int, high: int) -> bool:
    """Whether it is an integer between both ends; True is none."""
    return type(value) is int and low <= value <= high


def _refuse(why: str) -> RefusedError:
    return RefusedError(why, rule=PrivacyRule.NO_RULE)
