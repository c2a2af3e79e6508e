"""Which numbers of a question share a noise.

Each has its own, or several of the same rows and keys have one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from dither.plan.algebra import Cells, Query
from dither.question.recipe import Recipe

MOST_TOGETHER = 4
"""Numbers of one noise, where the family that they share has no limit of its own."""


@dataclass(frozen=True)
class Share:
    """Numbers that share one noise.

    They are columns of a query, or all that a query of quantiles or keys asks for.
    """

    query: int
    columns: tuple[int, ...] | None


@dataclass(frozen=True)
class Arranged:
    """A recipe with one query per noise, and what each noise is for.

    The queries are in the order of the request's steps.

    `positions` of its grouping sets say in which step an atom is released, and as which number of a
    cell there.
    """

    recipe: Recipe
    shares: tuple[Share, ...]


def arrange_alone(recipe: Recipe) -> Arranged:
    """Arrange every number with a noise of its own, in the order in which the question names
    them."""
    return _arrange(recipe, _list_numbers(recipe))


def arrange_together(recipe: Recipe, most_numbers: int = MOST_TOGETHER) -> Arranged | None:
    """Give numbers of the same rows and keys one noise, at most `most_numbers` each; None where no
    two numbers have the same rows and keys."""
    groups: dict[int, list[int | None]] = {}
    for query, column in _list_numbers(recipe):
        groups.setdefault(query, []).append(column)
    if all(len(columns) == 1 for columns in groups.values()):
        return None
    shares = [
        (query, run) for query, columns in groups.items() for run in _divide(columns, most_numbers)
    ]
    return _arrange_shares(recipe, tuple(_share(recipe, query, run) for query, run in shares))


def find_positions(alone: Arranged, together: Arranged) -> list[tuple[int, int]]:
    """Find the numbers that have a noise of their own among the steps that share one.

    For each it is the step, and the position there.
    """
    steps = _list_steps(together.shares)
    return [
        steps[share.query, None if share.columns is None else share.columns[0]]
        for share in alone.shares
    ]


def _list_numbers(recipe: Recipe) -> list[tuple[int, int | None]]:
    """List each number that the question needs once, as (query, column), in the question's order.

    The column is None for quantiles and keys, which are asked for as a whole.
    """
    numbers: dict[tuple[int, int | None], None] = {}
    for grouping in recipe.sets:
        if grouping.selection is not None:
            numbers[grouping.selection, None] = None
        for query, column in grouping.positions:
            numbers[query, column if isinstance(recipe.queries[query], Cells) else None] = None
    return list(numbers)


def _arrange(recipe: Recipe, numbers: list[tuple[int, int | None]]) -> Arranged:
    return _arrange_shares(
        recipe, tuple(_share(recipe, query, [column]) for query, column in numbers)
    )


def _share(recipe: Recipe, query: int, columns: list[int | None]) -> Share:
    if not isinstance(recipe.queries[query], Cells):
        return Share(query, None)
    return Share(query, tuple(column for column in columns if column is not None))


def _arrange_shares(recipe: Recipe, shares: tuple[Share, ...]) -> Arranged:
    """Make one query of each share, and point all atoms at their new positions."""
    steps = _list_steps(shares)

    def locate(query: int, column: int) -> tuple[int, int]:
        if isinstance(recipe.queries[query], Cells):
            return steps[query, column]
        return steps[query, None][0], column

    sets = tuple(
        replace(
            grouping,
            selection=None if grouping.selection is None else steps[grouping.selection, None][0],
            positions=tuple(locate(query, column) for query, column in grouping.positions),
        )
        for grouping in recipe.sets
    )
    queries = tuple(_narrow(recipe.queries[share.query], share.columns) for share in shares)
    return Arranged(replace(recipe, queries=queries, sets=sets), shares)


def _list_steps(shares: tuple[Share, ...]) -> dict[tuple[int, int | None], tuple[int, int]]:
    """List where each number is released: (step, position in a cell of that step)."""
    return {
        (share.query, column): (step, position)
        for step, share in enumerate(shares)
        for position, column in enumerate(share.columns if share.columns is not None else (None,))
    }


def _narrow(query: Query, columns: tuple[int, ...] | None) -> Query:
    if columns is None or not isinstance(query, Cells):
        return query
    return Cells(query.plan, query.keys, tuple(query.columns[column] for column in columns))


def _divide(columns: list[int | None], most_numbers: int = MOST_TOGETHER) -> list[list[int | None]]:
    """Divide a sequence into as few runs as possible, of sizes as equal as possible.

    >>> _divide([0, 1, 2, 3, 4]), _divide([7])
    ([[0, 1, 2], [3, 4]], [[7]])
    """
    runs = -(-len(columns) // most_numbers)
    ends = [-(-len(columns) * run // runs) for run in range(runs + 1)]
    return [columns[start:end] for start, end in pairwise(ends)]
