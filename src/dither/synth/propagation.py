"""Belief propagation: the marginals of a product of tables (Shafer and Shenoy 1990).

Tables are in probability space, float64, each at most 1; messages are divided by their largest
number. Nothing here knows data: a model is made of released numbers alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

import numpy as np

from dither.synth.contraction import Contraction, Table, add_up, plan_contraction
from dither.synth.junction_tree import Clique, JunctionTree, build_tree

_Sources = tuple[tuple[Clique, ...], tuple[tuple[int, int], ...]]


class Propagation:
    """The order of products for one set of cliques, made once; the numbers come later."""

    def __init__(self, sizes: tuple[int, ...], cliques: Iterable[Clique]) -> None:
        self.sizes = sizes
        self.cliques = tuple(dict.fromkeys(cliques))
        self.tree: JunctionTree = build_tree(sizes, self.cliques)
        self._hosts = {clique: self._find_host(clique) for clique in self.cliques}
        self._within = self._nest()
        self._neighbours: dict[int, list[int]] = {i: [] for i in range(len(self.tree.cliques))}
        for parent, child in self.tree.edges:
            self._neighbours[parent].append(child)
            self._neighbours[child].append(parent)
        self._messages = [self._plan_message(*edge) for edge in self._order_edges()]
        self._plans: dict[tuple[int, Clique], tuple[_Sources, Contraction]] = {}

    def _find_host(self, clique: Clique) -> int:
        """The first maximal clique that holds a clique."""
        return next(
            index for index, larger in enumerate(self.tree.cliques) if {*clique} <= {*larger}
        )

    def _nest(self) -> dict[Clique, Clique | None]:
        """Each clique with a larger one whose table it can be added up from, larger ones first."""
        by_length = sorted(self.cliques, key=len, reverse=True)
        return {
            clique: next((c for c in by_length if len(c) > len(clique) and {*clique} <= {*c}), None)
            for clique in by_length
        }

    def _order_edges(self) -> Iterable[tuple[int, int]]:
        """All messages (from, to): first towards the root, then away from it."""
        towards = [(child, parent) for parent, child in reversed(self.tree.edges)]
        return chain(towards, self.tree.edges)

    def _list_sources(self, index: int, without: int | None) -> _Sources:
        """The tables and messages that meet in a maximal clique, less the message of one."""
        factors = tuple(clique for clique in self.cliques if self._hosts[clique] == index)
        messages = tuple((n, index) for n in self._neighbours[index] if n != without)
        return factors, messages

    def _plan(self, sources: _Sources, kept: Clique) -> Contraction:
        factors, messages = sources
        separators = tuple(self.tree.separator(edge) for edge in messages)
        return plan_contraction(factors + separators, kept, self.sizes)

    def _plan_message(
        self, source: int, target: int
    ) -> tuple[tuple[int, int], _Sources, Contraction]:
        sources = self._list_sources(source, target)
        kept = self.tree.separator((source, target))
        return (source, target), sources, self._plan(sources, kept)

    def send_messages(self, factors: Mapping[Clique, Table]) -> dict[tuple[int, int], Table]:
        """All messages of the tree, each divided by its largest number."""
        messages: dict[tuple[int, int], Table] = {}
        for edge, (own, inner), contraction in self._messages:
            message = contraction(
                [*(factors[clique] for clique in own), *(messages[pair] for pair in inner)]
            )
            messages[edge] = message / max(float(message.max()), np.finfo(float).tiny)
        return messages

    def find_marginal(
        self,
        kept: Clique,
        index: int,
        factors: Mapping[Clique, Table],
        messages: Mapping[tuple[int, int], Table],
    ) -> Table:
        """The marginal of attributes that one maximal clique has; it sums to 1."""
        if (index, kept) not in self._plans:
            sources = self._list_sources(index, None)
            self._plans[index, kept] = (sources, self._plan(sources, kept))
        (own, inner), contraction = self._plans[index, kept]
        table = contraction(
            [*(factors[clique] for clique in own), *(messages[pair] for pair in inner)]
        )
        return table / max(float(table.sum()), np.finfo(float).tiny)

    def find_marginals(self, factors: Mapping[Clique, Table]) -> dict[Clique, Table]:
        """The marginal of every clique; each sums to 1."""
        messages = self.send_messages(factors)
        marginals: dict[Clique, Table] = {}
        for clique, larger in self._within.items():
            marginals[clique] = (
                self.find_marginal(clique, self._hosts[clique], factors, messages)
                if larger is None
                else add_up(marginals[larger], larger, clique)
            )
        return marginals

    def find_beliefs(self, factors: Mapping[Clique, Table]) -> list[Table]:
        """The whole table of every maximal clique; each sums to 1."""
        messages = self.send_messages(factors)
        return [
            self.find_marginal(clique, index, factors, messages)
            for index, clique in enumerate(self.tree.cliques)
        ]
