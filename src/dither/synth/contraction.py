"""Contractions: products of tables over shared attributes, added up over those not kept.

The order of pairwise products is chosen once for a structure and kept, so that a maximal clique is
not built where its tables are small.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dither.synth.junction_tree import Clique

Table: TypeAlias = NDArray[np.float64]
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True)
class Contraction:
    """A plan of products: each takes two tables of a list by position, or one, and appends their
    product. Attributes that no table has are filled with ones."""

    steps: tuple[tuple[str, tuple[int, ...]], ...]
    filled: tuple[int, ...]

    def __call__(self, tables: list[Table]) -> Table:
        """The product of the tables, added up over all attributes that are not kept."""
        waiting: list[Any] = [*tables, *(np.ones(size) for size in self.filled)]
        for subscripts, positions in self.steps:
            waiting.append(np.einsum(subscripts, *(waiting[position] for position in positions)))
        result: Table = waiting[-1]
        return result


@lru_cache(maxsize=4096)
def plan_contraction(
    cliques: tuple[Clique, ...], kept: Clique, sizes: tuple[int, ...]
) -> Contraction:
    """The plan for tables over these cliques; greedy: the smallest product first."""
    missing = [attribute for attribute in kept if not any(attribute in c for c in cliques)]
    waiting = dict(enumerate([*cliques, *((attribute,) for attribute in missing)]))
    if not waiting:
        return Contraction((("a->", (0,)),), (1,))
    steps: list[tuple[str, tuple[int, ...]]] = []
    position = len(waiting)
    while len(waiting) > 1:
        first, second, result = _choose_pair(waiting, kept, sizes)
        steps.append((_write_product((waiting[first], waiting[second]), result), (first, second)))
        del waiting[first], waiting[second]
        waiting[position] = result
        position += 1
    ((position, clique),) = waiting.items()
    if clique != kept or not steps:
        steps.append((_write_product((clique,), kept), (position,)))
    return Contraction(tuple(steps), tuple(sizes[attribute] for attribute in missing))


def _choose_pair(
    waiting: dict[int, Clique], kept: Clique, sizes: tuple[int, ...]
) -> tuple[int, int, Clique]:
    """The pair whose product, added up over what nobody needs any more, has the fewest cells."""
    choices = []
    for first, second in combinations(waiting, 2):
        needed = {*kept}.union(
            *(clique for position, clique in waiting.items() if position not in (first, second))
        )
        joined = {*waiting[first]} | {*waiting[second]}
        result = tuple(sorted(joined & needed))
        cells = prod(sizes[attribute] for attribute in result)
        work = prod(sizes[attribute] for attribute in joined)
        choices.append((cells, work, first, second, result))
    _, _, first, second, result = min(choices)
    return first, second, result


def _write_product(cliques: tuple[Clique, ...], kept: Clique) -> str:
    """A product in the notation of `numpy.einsum`."""
    attributes = sorted({*kept}.union(*cliques))
    letter = dict(zip(attributes, _LETTERS, strict=False))
    inputs = ",".join("".join(letter[attribute] for attribute in clique) for clique in cliques)
    return f"{inputs}->{''.join(letter[attribute] for attribute in kept)}"


def add_up(table: Table, clique: Clique, kept: Clique) -> Table:
    """The table of some attributes of a clique, which are in order."""
    dropped = tuple(axis for axis, attribute in enumerate(clique) if attribute not in kept)
    marginal: Table = table.sum(axis=dropped)
    return marginal


def spread(table: Table, clique: Clique, into: Clique) -> Table:
    """The table with an axis of length 1 for each attribute of `into` that it lacks."""
    lengths = iter(table.shape)
    return table.reshape([next(lengths) if attribute in clique else 1 for attribute in into])
