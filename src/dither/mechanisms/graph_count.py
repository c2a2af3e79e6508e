"""Counts of edges, wedges and triangles of a graph, private for whole nodes.

One unit is a node with all its edges: it may be in every pattern, so the plain count has no bound.
In its place stands the largest total weight of patterns, each between 0 and 1, with at most `cap`
at every node (Kasiviswanathan, Nissim, Raskhodnikova, Smith 2013). That is the count itself where
no node is in more than `cap` patterns, and a node moves it by at most `cap` on *every* graph.
Edges are solved by a flow in integers. For triangles and wedges (two edges at a node) HiGHS solves
the linear program in floats, and exact sums of its rounded solution and dual bound the true value
from both sides; their gap is part of the sensitivity. Proof: docs/proofs/graph-counts.md#extension.

>>> ring = [(0, 1), (1, 2), (2, 0)]
>>> count = GraphCount.for_epsilon(10**4, "edges", cap=2)
>>> count.release(ring)
3.0
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import maximum_flow

from dither.canonical import Number, positive, quote
from dither.errors import DitherError, ParameterError
from dither.laws import LaplaceErrorLaw
from dither.privacy.losses import Pure
from dither.privacy.mechanisms.additive import round_up
from dither.privacy.noise import Words, discrete_laplace
from dither.privacy.noise.samplers import LARGEST, SMALLEST
from dither.privacy.noise.source import check_source

PATTERNS = ("edges", "wedges", "triangles")
MOST_GAP = 1
"""Between the two exact bounds of a linear program's value."""
MOST_PATTERNS = 1_000_000
MOST_CAP = 1 << 30
_GRID = 1 << 40
Edge = tuple[Any, Any]


@dataclass(frozen=True)
class GraphCount:
    """A noisy count of one pattern; `cap` is how many of them one node may hold together."""

    scale: Fraction
    pattern: str
    cap: int

    def __post_init__(self) -> None:
        """Make the scale exact; refuse an unknown pattern and a cap that is no positive integer."""
        object.__setattr__(self, "scale", positive(self.scale, "scale"))
        if not SMALLEST <= self.scale <= LARGEST:
            raise ParameterError("scale must lie between 1/1000 and 2**60")
        if self.pattern not in PATTERNS:
            raise ParameterError(f"a pattern is one of {', '.join(PATTERNS)}")
        if type(self.cap) is not int or not 1 <= self.cap <= MOST_CAP:
            raise ParameterError(f"cap must be a positive integer, got {quote(self.cap)}")
        self.loss()

    @classmethod
    def for_epsilon(cls, epsilon: Number, pattern: str, cap: int) -> GraphCount:
        """The least noise that meets epsilon for one node."""
        price = positive(epsilon, "epsilon", "choose e.g. epsilon=0.5")
        probe = cls(Fraction(1), pattern, cap)
        return cls(max(SMALLEST, round_up(probe.sensitivity / price)), pattern, cap)

    @property
    def sensitivity(self) -> int:
        """How far one node moves the released integer: twice the count of edges, or a rounded
        value between the bounds of a linear program."""
        return 2 * self.cap if self.pattern == "edges" else self.cap + MOST_GAP + 1

    def loss(self) -> Pure:
        """What one release costs one node."""
        return Pure(self.sensitivity / self.scale, neighbours="add_remove", unit="node")

    def error(self) -> LaplaceErrorLaw:
        """The law of the noise on the released integer; for edges it counts halves."""
        return LaplaceErrorLaw(self.scale)

    def release(self, edges: Iterable[Edge], *, source: Words | None = None) -> float:
        """The noisy count of a graph. Loops and repeated edges are left out.

        The graph is the caller's: a linear program of too many patterns, or one whose bounds are
        too far apart, is an error that depends on it, and is no protected answer.
        """
        words = check_source(source)
        value = find_integer(list_edges(edges), self.pattern, self.cap)
        noisy = value + int(discrete_laplace(self.scale, (1,), source=words)[0])
        return noisy / 2 if self.pattern == "edges" else float(noisy)


def find_integer(edges: list[tuple[int, int]], pattern: str, cap: int) -> int:
    """The exact integer that gets noise: twice the value for edges, else a rounded one."""
    if pattern == "edges":
        return find_flow(edges, cap)
    patterns = list_wedges(edges) if pattern == "wedges" else list_triangles(edges)
    low, high = bound_value(patterns, cap)
    if high - low > MOST_GAP:
        raise DitherError("the linear program of this graph could not be solved to within 1")
    return round((low + high) / 2)


def list_edges(edges: Iterable[Edge]) -> list[tuple[int, int]]:
    """Every edge once, as two numbers of nodes, the smaller first."""
    numbers: dict[Any, int] = {}
    pairs = set()
    for first, second in edges:
        ends = [numbers.setdefault(node, len(numbers)) for node in (first, second)]
        if ends[0] != ends[1]:
            pairs.add((min(ends), max(ends)))
    return sorted(pairs)


def find_flow(edges: list[tuple[int, int]], cap: int) -> int:
    """Twice the largest weight of edges with at most `cap` at a node: a flow of integers.

    Every node stands on both sides; an edge is one arc each way.
    """
    if not edges:
        return 0
    nodes = 1 + max(max(edge) for edge in edges)
    start = 2 * nodes
    end = start + 1
    first, second = np.array(edges).T
    sides = np.arange(nodes)
    tails = np.concatenate([first, second, np.full(nodes, start), nodes + sides])
    heads = np.concatenate([nodes + second, nodes + first, sides, np.full(nodes, end)])
    capacities = np.concatenate([np.ones(2 * len(edges)), np.full(2 * nodes, cap)])
    arcs = csr_matrix((capacities.astype(np.int32), (tails, heads)), shape=(end + 1, end + 1))
    return int(maximum_flow(arcs, start, end).flow_value)


def list_neighbours(edges: list[tuple[int, int]]) -> dict[int, set[int]]:
    """The nodes beside every node."""
    neighbours: dict[int, set[int]] = {}
    for first, second in edges:
        neighbours.setdefault(first, set()).add(second)
        neighbours.setdefault(second, set()).add(first)
    return neighbours


def list_triangles(edges: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Every triangle once."""
    neighbours = list_neighbours(edges)
    triangles: list[tuple[int, ...]] = []
    for first, second in edges:
        third = [node for node in neighbours[first] & neighbours[second] if node > second]
        triangles += [(first, second, node) for node in third]
        _check_number(len(triangles))
    return triangles


def list_wedges(edges: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Every pair of edges that meet at a node."""
    wedges: list[tuple[int, ...]] = []
    for middle, beside in list_neighbours(edges).items():
        _check_number(len(wedges) + len(beside) * (len(beside) - 1) // 2)
        wedges += [(middle, *ends) for ends in combinations(sorted(beside), 2)]
    return wedges


def _check_number(patterns: int) -> None:
    if patterns > MOST_PATTERNS:
        raise DitherError(f"a graph of more than {MOST_PATTERNS:,} patterns")


def bound_value(patterns: list[tuple[int, ...]], cap: int) -> tuple[Fraction, Fraction]:
    """Exact bounds of the largest weight of patterns with at most `cap` at a node.

    Below: the solver's weights, rounded down to a grid and scaled until every node holds. Above:
    its dual prices of nodes, rounded to the grid, and what they leave of 1 for every pattern.
    """
    if not patterns:
        return Fraction(0), Fraction(0)
    members = np.array(patterns)
    nodes = int(members.max()) + 1
    columns = np.repeat(np.arange(len(patterns)), members.shape[1])
    holds = csr_matrix(
        (np.ones(members.size), (members.ravel(), columns)), shape=(nodes, len(patterns))
    )
    solved = linprog(
        np.full(len(patterns), -1.0), A_ub=holds, b_ub=np.full(nodes, float(cap)), bounds=(0, 1)
    )
    if not solved.success:
        raise DitherError("the linear program of this graph has no solution")
    weights = _to_grid(solved.x, 1)
    prices = _to_grid(-solved.ineqlin.marginals, 1)
    return _bound_below(weights, members, nodes, cap), _bound_above(prices, members, cap)


def _to_grid(numbers: Any, largest: int) -> Any:
    """Floats as integers of the grid, cut off at 0 and at the largest; what is no number is 0."""
    finite = np.nan_to_num(np.asarray(numbers, float), nan=0.0, posinf=largest, neginf=0.0)
    return np.floor(np.clip(finite, 0, largest) * _GRID).astype(np.int64)


def _bound_below(weights: Any, members: Any, nodes: int, cap: int) -> Fraction:
    """The value of the weights, divided by what the fullest node has too much."""
    loads = [0] * nodes
    for weight, pattern in zip(weights.tolist(), members.tolist(), strict=True):
        for node in pattern:
            loads[node] += weight
    excess = max(Fraction(1), Fraction(max(loads), cap * _GRID))
    return Fraction(sum(weights.tolist()), _GRID) / excess


def _bound_above(prices: Any, members: Any, cap: int) -> Fraction:
    """The cap times all prices, and for every pattern what the prices of its nodes leave of 1."""
    listed = prices.tolist()
    left = sum(max(0, _GRID - sum(listed[node] for node in row)) for row in members.tolist())
    return Fraction(cap * sum(listed) + left, _GRID)
