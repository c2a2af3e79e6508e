"""Counts and sums over the same rows and keys asked for together, so that one noise can serve them all (box noise)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from dither.plan.algebra import Cells, Query
from dither.question.recipe import Recipe

MOST_TOGETHER = 4
"""Numbers of one query, where the noise that they share has no limit of its own."""


class Together(NamedTuple):
    """A recipe whose queries ask for several numbers, and where each query of the one before has gone."""

    recipe: Recipe
    places: tuple[tuple[int, int], ...]


def together(recipe: Recipe, most: int = MOST_TOGETHER) -> Together | None:
    """None where no two queries have rows and keys in common."""
    groups: dict[Any, list[int]] = {}
    for place, query in enumerate(recipe.queries):
        is_one = isinstance(query, Cells) and len(query.columns) == 1
        groups.setdefault((query.plan, query.keys) if is_one else place, []).append(place)
    if all(len(group) == 1 for group in groups.values()):
        return None
    queries: list[Query] = []
    gone: dict[int, tuple[int, int]] = {}
    for group in groups.values():
        for part in _parts(group, most):
            gone |= {place: (len(queries), column) for column, place in enumerate(part)}
            queries.append(_joined([recipe.queries[place] for place in part]))
    sets = tuple(
        replace(
            of,
            selection=None if of.selection is None else gone[of.selection][0],
            places=tuple((gone[query][0], gone[query][1] + column) for query, column in of.places),
        )
        for of in recipe.sets
    )
    places = tuple(gone[place] for place in range(len(recipe.queries)))
    return Together(replace(recipe, queries=tuple(queries), sets=sets), places)


def _parts(group: list[int], most: int = MOST_TOGETHER) -> list[list[int]]:
    """As few parts as there can be, as equal as they can be.

    >>> _parts([0, 1, 2, 3, 4]), _parts([7])
    ([[0, 1, 2], [3, 4]], [[7]])
    """
    parts = -(-len(group) // most)
    ends = [-(-len(group) * part // parts) for part in range(parts + 1)]
    return [group[start:end] for start, end in pairwise(ends)]


def _joined(queries: list[Query]) -> Query:
    if len(queries) == 1:
        return queries[0]
    cells = [query for query in queries if isinstance(query, Cells)]
    return Cells(cells[0].plan, cells[0].keys, tuple(column for query in cells for column in query.columns))
