"""Degrees of a graph: one node moves the counts by at most the stated distance on every small
graph, and planted bugs (docs/proofs/graph-counts.md#degrees)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction as F
from itertools import combinations

import pytest

from dither.errors import ParameterError
from dither.mechanisms import DegreeHistogram, degree_histogram
from dither.mechanisms.degree_histogram import count_degrees, order_edges
from tests.mechanisms.planted import Bug
from tests.mechanisms.test_graph_count import Graph, list_graphs, without


def draw_graphs(number: int) -> list[Graph]:
    """Random graphs of nine nodes, most of them denser than the caps."""
    draws = random.Random(5)
    pairs = list(combinations(range(9), 2))
    return [tuple(pair for pair in pairs if draws.random() < 0.6) for _ in range(number)]


def find_largest_move(cap: int, graphs: Iterable[Graph]) -> int:
    """By how much all counts move together when one node leaves, at most."""
    largest = 0
    for graph in graphs:
        counts = degree_histogram.count_degrees(graph, cap)
        for node in range(9):
            others = degree_histogram.count_degrees(without(graph, node), cap)
            move = sum(abs(a - b) for a, b in zip(counts, others, strict=True))
            largest = max(largest, move)
    return largest


def test_one_node_moves_degrees_by_at_most_the_sensitivity() -> None:
    """All graphs on five nodes, random ones on nine, and a star."""
    star: Graph = tuple((0, leaf) for leaf in range(1, 9))
    graphs = [*list_graphs(5), *draw_graphs(60), star]
    for cap in (1, 2, 3):
        assert find_largest_move(cap, graphs) <= DegreeHistogram(F(1), cap).sensitivity
    assert find_largest_move(2, graphs) == 5  # the bound is reached


def test_degrees_below_the_cap_are_exact() -> None:
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), ("a", "b"), (1, 0), (3, 3)]
    assert count_degrees(edges, 3) == [3, 2, 1]
    full = list(combinations(range(6), 2))
    degrees = Counter(node for edge in full for node in edge)
    assert count_degrees(full, 7) == [list(degrees.values()).count(d) for d in range(1, 8)]
    assert count_degrees([], 2) == [0, 0]


def test_no_node_has_more_edges_than_the_cap() -> None:
    for cap in (1, 2, 3):
        for graph in draw_graphs(20):
            assert sum(count_degrees(graph, cap)) <= 9


def test_the_order_of_two_edges_depends_on_them_alone() -> None:
    draws = random.Random(3)
    full = list(combinations(range(12), 2))
    ordered = order_edges(full)
    for _ in range(20):
        some = draws.sample(full, 20)
        chosen = set(order_edges(some))
        assert order_edges((b, a) for a, b in some) == [edge for edge in ordered if edge in chosen]


def test_names_of_nodes_are_told_apart() -> None:
    assert count_degrees([(1, 2), ("1", 2), ("1 2", "3"), ("1", "2 3")], 2) == [4, 2]
    assert count_degrees([("\ud800", 1)], 1) == [2]


def test_the_price_is_met() -> None:
    counts = DegreeHistogram.for_epsilon(F(1, 2), cap=5)
    assert counts.loss().epsilon <= F(1, 2) and counts.loss().unit == "node"
    assert counts.scale == pytest.approx(22)
    assert len(counts.release([(0, 1)])) == 5


@pytest.mark.parametrize("change", [{"cap": 0}, {"cap": 2.5}, {"cap": True}, {"epsilon": 0}])
def test_what_has_no_proof_is_refused(change: dict[str, object]) -> None:
    terms: dict[str, object] = {"epsilon": 1, "cap": 2}
    with pytest.raises(ParameterError):
        DegreeHistogram.for_epsilon(**(terms | change))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="integers or texts"):
        DegreeHistogram.for_epsilon(1, 2).release([(0, True)])


def cut_nodes(edges: Iterable[tuple[int, int]], cap: int) -> list[int]:
    """Nodes of too many edges are left out with all of them."""
    degrees = Counter(node for edge in edges for node in edge)
    left = [edge for edge in edges if max(degrees[node] for node in edge) <= cap]
    kept = Counter(node for edge in left for node in edge)
    return [list(kept.values()).count(degree) for degree in range(1, cap + 1)]


def order_by_crowd(edges: Iterable[tuple[int, int]]) -> list[tuple[str, str]]:
    """Edges of crowded nodes come first: the order of two edges depends on all others."""
    listed = list(edges)
    degrees = Counter(str(node) for edge in listed for node in edge)
    pairs = [(str(first), str(second)) for first, second in listed]
    return sorted(pairs, key=lambda edge: (-degrees[edge[0]] - degrees[edge[1]], edge))


MOVES = test_one_node_moves_degrees_by_at_most_the_sensitivity
BUGS = {
    "degrees-without-crowded-nodes": Bug(
        "crowded nodes are cut off: one node makes all its neighbours crowded",
        MOVES,
        ((degree_histogram, "count_degrees", cut_nodes),),
    ),
    "degrees-by-an-order-of-the-graph": Bug(
        "edges are taken up in an order that a node changes for all others",
        MOVES,
        ((degree_histogram, "order_edges", order_by_crowd),),
    ),
}
