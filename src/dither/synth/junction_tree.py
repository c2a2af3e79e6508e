"""Junction trees: an order in which the tables of a graphical model are added up.

Attributes are numbered from 0; a clique is a sorted tuple of attributes that share a table. The
graph of all cliques is made chordal by min-fill elimination, and its maximal cliques are joined
into a tree with the largest separators (Koller and Friedman 2009, chapters 9 and 10).

>>> tree = build_tree((2, 3, 4), ((0, 1), (1, 2)))
>>> tree.cliques, tree.edges, count_model_cells((2, 3, 4), tree.cliques)
(((0, 1), (1, 2)), ((0, 1),), 18)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TypeAlias

Clique: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class JunctionTree:
    """The maximal cliques, the first of which is the root, and edges (parent, child) that reach
    every clique from it, in an order in which parents come first."""

    cliques: tuple[Clique, ...]
    edges: tuple[tuple[int, int], ...]

    def separator(self, edge: tuple[int, int]) -> Clique:
        """The attributes that both ends of an edge have."""
        parent, child = edge
        return tuple(sorted({*self.cliques[parent]} & {*self.cliques[child]}))


def count_model_cells(sizes: tuple[int, ...], cliques: Iterable[Clique]) -> int:
    """The cells of all maximal cliques together: the memory and work of a model."""
    maximal = _find_maximal(_eliminate(sizes, cliques))
    return sum(prod(sizes[attribute] for attribute in clique) for clique in maximal)


def build_tree(sizes: tuple[int, ...], cliques: Iterable[Clique]) -> JunctionTree:
    """The junction tree of all attributes and these cliques. Unconnected parts are joined by empty
    separators."""
    maximal = _find_maximal(_eliminate(sizes, cliques))
    return JunctionTree(maximal, _span(maximal))


def _eliminate(sizes: tuple[int, ...], cliques: Iterable[Clique]) -> list[Clique]:
    """The cliques of min-fill elimination; ties go to the smaller table, then the lower number."""
    neighbours: dict[int, set[int]] = {attribute: set() for attribute in range(len(sizes))}
    for clique in cliques:
        for first, second in combinations(clique, 2):
            neighbours[first].add(second)
            neighbours[second].add(first)
    ranks = {attribute: _rank(attribute, neighbours, sizes) for attribute in neighbours}
    eliminated = []
    while neighbours:
        chosen = min(ranks, key=ranks.__getitem__)
        fill = ranks.pop(chosen)[0]
        adjacent = neighbours.pop(chosen)
        eliminated.append(tuple(sorted({chosen} | adjacent)))
        for attribute in adjacent:
            neighbours[attribute] |= adjacent
            neighbours[attribute] -= {attribute, chosen}
        # a new edge changes the rank of whoever has both ends as neighbours, and of nobody else
        changed = adjacent.union(*(neighbours[a] for a in adjacent)) if fill else adjacent
        ranks |= {attribute: _rank(attribute, neighbours, sizes) for attribute in changed}
    return eliminated


def _rank(
    attribute: int, neighbours: dict[int, set[int]], sizes: tuple[int, ...]
) -> tuple[int, int, int]:
    """Edges that elimination adds, cells of its table, and the number of the attribute."""
    adjacent = neighbours[attribute]
    fill = sum(second not in neighbours[first] for first, second in combinations(adjacent, 2))
    return fill, sizes[attribute] * prod(sizes[neighbour] for neighbour in adjacent), attribute


def _find_maximal(cliques: list[Clique]) -> tuple[Clique, ...]:
    """The cliques that lie in no other one."""
    by_length = sorted(set(cliques), key=lambda clique: (-len(clique), clique))
    maximal: list[frozenset[int]] = []
    for clique in by_length:
        own = frozenset(clique)
        if not any(own <= larger for larger in maximal):
            maximal.append(own)
    return tuple(sorted(tuple(sorted(clique)) for clique in maximal))


def _span(cliques: tuple[Clique, ...]) -> tuple[tuple[int, int], ...]:
    """A spanning tree of largest separators, grown from the first clique (Prim)."""
    edges = []
    outside = set(range(1, len(cliques)))
    inside = [0]
    while outside:
        parent, child = max(
            ((parent, child) for parent in inside for child in outside),
            key=lambda edge: (
                len({*cliques[edge[0]]} & {*cliques[edge[1]]}),
                -edge[1],
                -edge[0],
            ),
        )
        edges.append((parent, child))
        inside.append(child)
        outside.remove(child)
    return tuple(edges)
