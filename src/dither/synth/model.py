"""A graphical model of a table: the distribution of most entropy with conditional_table marginals.

Its probability of a row is a product of one table for each clique. It answers every marginal and
every count of rows by exact sums, without building the whole table. Everything here is
post-processing of released numbers: a mistake costs accuracy, never privacy.

>>> model = GraphicalModel((2, 2), 8.0, {(0, 1): np.log([[1.0, 1.0], [2.0, 4.0]])})
>>> model.find_marginal((0,)).round(6).tolist(), model.count_rows({1: [1]})
([2.0, 6.0], 5.0)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dither.synth.contraction import Table, add_up, plan_contraction, spread
from dither.synth.deadline import check_deadline
from dither.synth.junction_tree import Clique, JunctionTree
from dither.synth.propagation import Propagation

_TINY = float(np.finfo(float).tiny)


def to_factors(potentials: Mapping[Clique, Table]) -> dict[Clique, Table]:
    """The tables of the product, from their logarithms; the largest number of each is 1."""
    return {clique: np.exp(table - table.max()) for clique, table in potentials.items()}


@dataclass(frozen=True)
class GraphicalModel:
    """Sizes of the attributes, the number of rows, and the logarithm of one table per clique."""

    sizes: tuple[int, ...]
    total: float
    potentials: Mapping[Clique, Table]

    @cached_property
    def propagation(self) -> Propagation:
        """The order of products of this model's cliques."""
        return Propagation(self.sizes, self.potentials)

    @property
    def tree(self) -> JunctionTree:
        return self.propagation.tree

    @cached_property
    def beliefs(self) -> list[Table]:
        """The probabilities of every maximal clique."""
        return self.propagation.find_beliefs(to_factors(self.potentials))

    @cached_property
    def _links(self) -> dict[int, list[tuple[int, Clique]]]:
        """The neighbours of every maximal clique, with the separators between."""
        links: dict[int, list[tuple[int, Clique]]] = {i: [] for i in range(len(self.tree.cliques))}
        for parent, child in self.tree.edges:
            separator = self.tree.separator((parent, child))
            links[parent].append((child, separator))
            links[child].append((parent, separator))
        return links

    @cached_property
    def _reduced(self) -> dict[tuple[int, Clique], Table]:
        return {}

    def _reduce(self, index: int, kept: Clique) -> Table:
        """The marginal of some attributes of one maximal clique; computed once."""
        if (index, kept) not in self._reduced:
            self._reduced[index, kept] = add_up(self.beliefs[index], self.tree.cliques[index], kept)
        return self._reduced[index, kept]

    def find_marginal(self, kept: Clique) -> Table:
        """The expected counts of any attributes, conditional_table in order."""
        if len(set(kept)) != len(kept) or tuple(sorted(kept)) != kept:
            raise ValueError("attributes of a marginal are different and in order")
        return self.total * self._contract(kept, self.beliefs)

    def count_rows(self, allowed: Mapping[int, Collection[int]]) -> float:
        """The expected number of rows whose attributes all have one of the values allowed."""
        kept = tuple(sorted(allowed))
        table = self.find_marginal(kept)
        chosen = np.ix_(*(sorted(allowed[attribute]) for attribute in kept))
        return float(table[chosen].sum())

    def _contract(self, kept: Clique, beliefs: list[Table]) -> Table:
        """P(kept): the product of the conditional tables of the part of the tree that it needs."""
        for index, clique in enumerate(self.tree.cliques):
            if {*kept} <= {*clique}:
                return self._reduce(index, kept)
        edges = self._trim(kept)
        root = edges[0][0] if edges else 0
        cliques = [self.tree.cliques[root]]
        tables = [beliefs[root]]
        for parent, child in edges:
            separator = self.tree.separator((parent, child))
            clique = self.tree.cliques[child]
            base = np.maximum(self._reduce(child, separator), _TINY)
            cliques.append(clique)
            tables.append(beliefs[child] / spread(base, separator, clique))
        return plan_contraction(tuple(cliques), kept, self.sizes)(tables)

    def _trim(self, kept: Clique) -> list[tuple[int, int]]:
        """The edges that remain after leaves that add nothing to `kept` were cut off."""
        edges = list(self.tree.edges)
        needed = {*kept}
        while True:
            ends = [end for edge in edges for end in edge]
            for edge in edges:
                leaf = next((end for end in (edge[1], edge[0]) if ends.count(end) == 1), None)
                own = {*self.tree.separator(edge)}
                if leaf is not None and {*self.tree.cliques[leaf]} & needed <= own:
                    edges.remove(edge)
                    break
            else:
                return edges

    def find_pairs(self) -> dict[tuple[int, int], Table]:
        """The expected counts of all pairs of attributes: P(a | separator) is carried along the
        tree, so that no table of a path is built."""
        pairs: dict[tuple[int, int], Table] = {}
        for attribute in range(len(self.sizes)):
            for second, table in self._carry(attribute).items():
                if attribute < second:
                    pairs[attribute, second] = self.total * table
        return pairs

    def _carry(self, attribute: int) -> dict[int, Table]:
        """P(attribute, second) of every second attribute, as tables in that order of axes."""
        start = next(index for index, clique in enumerate(self.tree.cliques) if attribute in clique)
        tables = {}
        seconds = {second: start for second in self.tree.cliques[start] if second != attribute}
        for second in seconds:
            tables[second] = self._order(attribute, second, start)
        waiting: list[tuple[int, Clique, int, Clique | None]] = [
            (start, separator, child, None) for child, separator in self._links[start]
        ]
        carried: dict[int, Table] = {}
        while waiting:
            check_deadline()
            source, separator, index, before = waiting.pop()
            conditional_table = self._carry_into(
                attribute, separator, source, carried.get(source), before
            )
            for second in self.tree.cliques[index]:
                if second != attribute and second not in tables:
                    tables[second] = self._join(
                        attribute, second, separator, index, conditional_table
                    )
            if conditional_table is not None:
                carried[index] = conditional_table
            waiting += [
                (index, next_separator, child, separator)
                for child, next_separator in self._links[index]
                if child != source
            ]
        return tables

    def _order(self, attribute: int, second: int, index: int) -> Table:
        table = self._reduce(index, (min(attribute, second), max(attribute, second)))
        return table if attribute < second else table.T

    def _carry_into(
        self,
        attribute: int,
        separator: Clique,
        source: int,
        conditional_table: Table | None,
        before: Clique | None,
    ) -> Table | None:
        """P(attribute | separator) with the attribute's axis first; None where the separator has
        it."""
        if attribute in separator:
            return None
        if conditional_table is None:  # the source clique has the attribute
            kept = tuple(sorted((attribute, *separator)))
            joint = np.moveaxis(self._reduce(source, kept), kept.index(attribute), 0)
        else:
            assert before is not None
            joint = self._push(attribute, conditional_table, before, source, separator)
        base = np.maximum(self._reduce(source, separator), _TINY)
        conditional: Table = joint / base
        return conditional

    def _push(
        self, attribute: int, conditional_table: Table, before: Clique, index: int, kept: Clique
    ) -> Table:
        """Sum over `before` of P(attribute | before) P(before, kept): the attribute comes first."""
        union = tuple(sorted({*before} | {*kept}))
        new = len(self.sizes)
        operands = ((new, *before), union)
        sizes = (*self.sizes, self.sizes[attribute])
        table = plan_contraction(operands, (new, *kept), sizes)(
            [conditional_table, self._reduce(index, union)]
        )
        return table

    def _join(
        self,
        attribute: int,
        second: int,
        separator: Clique,
        index: int,
        conditional_table: Table | None,
    ) -> Table:
        if conditional_table is None:
            return self._order(attribute, second, index)
        return self._push(attribute, conditional_table, separator, index, (second,))
