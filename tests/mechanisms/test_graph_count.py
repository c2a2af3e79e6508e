"""Counts of graphs: the extension moves by at most its cap for every node of every small graph, its
bounds hold, and planted bugs (docs/proofs/graph-counts.md)."""

from __future__ import annotations

import random
from fractions import Fraction as F
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from dither.errors import ParameterError
from dither.mechanisms import GraphCount, graph_count
from dither.mechanisms.graph_count import (
    bound_value,
    find_flow,
    find_integer,
    list_edges,
    list_triangles,
    list_wedges,
)
from tests.mechanisms.planted import Bug

PAIRS = list(combinations(range(5), 2))
Graph = tuple[tuple[int, int], ...]


def list_graphs(nodes: int) -> list[Graph]:
    """Every graph on so many nodes."""
    pairs = list(combinations(range(nodes), 2))
    return [
        tuple(pair for place, pair in enumerate(pairs) if mask >> place & 1)
        for mask in range(1 << len(pairs))
    ]


def without(graph: Graph, node: int) -> list[tuple[int, int]]:
    return [edge for edge in graph if node not in edge]


def find_largest_move(pattern: str, cap: int, graphs: list[Graph]) -> int:
    """By how much the released integer moves when one node leaves, at most."""
    values = {
        graph: find_integer(list(graph), pattern, cap)
        for graph in {
            *graphs,
            *(tuple(without(graph, node)) for graph in graphs for node in range(5)),
        }
    }
    return max(
        abs(values[graph] - values[tuple(without(graph, node))])
        for graph in graphs
        for node in range(5)
    )


def test_one_node_moves_a_count_by_at_most_its_sensitivity() -> None:
    """All graphs on five nodes for edges, on four for the others; and a star of ten."""
    star: Graph = tuple((0, leaf) for leaf in range(1, 11))
    for cap in (1, 2, 3):
        count = GraphCount(F(1), "edges", cap)
        assert find_largest_move("edges", cap, [*list_graphs(5), star]) <= count.sensitivity
    for pattern in ("wedges", "triangles"):
        count = GraphCount(F(1), pattern, 2)
        assert find_largest_move(pattern, 2, [*list_graphs(4), star]) <= count.sensitivity


def test_counts_below_the_cap_are_exact() -> None:
    ring = [(node, (node + 1) % 7) for node in range(7)]
    assert find_integer(list_edges(ring), "edges", 2) == 14
    assert find_integer(list_edges(ring), "wedges", 3) == 7
    full = list(combinations(range(6), 2))
    assert find_integer(full, "triangles", 10) == 20
    assert find_integer([], "triangles", 3) == 0 == find_integer([], "edges", 3)


@pytest.mark.parametrize("seed", range(4))
def test_the_flow_is_twice_the_linear_program(seed: int) -> None:
    """An independent solver: HiGHS on the program itself."""
    draws = random.Random(seed)
    edges = [pair for pair in combinations(range(14), 2) if draws.random() < 0.4]
    cap = draws.randint(1, 6)
    holds = np.zeros((14, len(edges)))
    for place, edge in enumerate(edges):
        holds[list(edge), place] = 1
    solved = linprog([-1] * len(edges), A_ub=holds, b_ub=[cap] * 14, bounds=(0, 1))
    assert find_flow(edges, cap) == pytest.approx(-2 * solved.fun)
    low, high = bound_value(edges, cap)
    assert low <= F(find_flow(edges, cap), 2) <= high and high - low < F(1, 1000)


def test_bounds_hold_whatever_the_solver_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong weights and prices give wide bounds, never wrong ones: the true value is 2."""

    class Wrong:
        success = True
        x = np.array([1.0, 1.0, np.nan, 5.0])
        ineqlin = type("Duals", (), {"marginals": np.array([-0.1, 7.0, np.inf, 0, 0])})

    monkeypatch.setattr(graph_count, "linprog", lambda *_, **__: Wrong)
    star = [(0, leaf) for leaf in range(1, 5)]
    low, high = bound_value(star, 2)
    assert low <= 2 <= high


def test_patterns_are_listed_once() -> None:
    full = list(combinations(range(5), 2))
    assert len(list_triangles(full)) == 10 == len(set(list_triangles(full)))
    assert len(list_wedges(full)) == 5 * 6
    assert list_edges([("b", "a"), ("a", "b"), ("a", "a")]) == [(0, 1)]


@pytest.mark.parametrize("pattern", graph_count.PATTERNS)
def test_noise_follows_the_cap_and_the_price_is_met(pattern: str) -> None:
    count = GraphCount.for_epsilon(F(1, 2), pattern, cap=5)
    assert count.loss().epsilon <= F(1, 2)
    assert count.scale == pytest.approx({"edges": 20}.get(pattern, 14))
    assert abs(GraphCount.for_epsilon(10**4, pattern, 50).release(PAIRS) - 10) <= 21


@pytest.mark.parametrize("change", [{"cap": 0}, {"cap": 2.5}, {"pattern": "cliques"}])
def test_what_has_no_proof_is_refused(change: dict[str, object]) -> None:
    terms: dict[str, object] = {"epsilon": 1, "pattern": "edges", "cap": 2}
    with pytest.raises(ParameterError):
        GraphCount.for_epsilon(**(terms | change))  # type: ignore[arg-type]


def cut_edges(edges: list[tuple[int, int]], cap: int) -> int:
    """Nodes of too many edges are left out with all of them."""
    crowded = {node for node in range(11) if sum(node in edge for edge in edges) > cap}
    return 2 * sum(not crowded & set(edge) for edge in edges)


MOVES = test_one_node_moves_a_count_by_at_most_its_sensitivity
BUGS = {
    "graph-count-cut-edges": Bug(
        "edges of crowded nodes are cut off: one node makes all its neighbours crowded",
        MOVES,
        ((graph_count, "find_flow", cut_edges),),
    ),
    "graph-count-without-cap": Bug(
        "edges are counted as they are",
        MOVES,
        ((graph_count, "find_flow", lambda e, _: 2 * len(e)),),
    ),
}
