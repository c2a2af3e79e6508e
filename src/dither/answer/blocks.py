"""Released numbers as rows: one block of rows for every grouping set, keys beside atoms.

A set's rows come in the order of the release: open (undeclared) keys as they were selected, sorted;
within each the declared keys in domain order, the last fastest. Nothing is computed here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.answer.shown_keys import Key, count_shown_keys, list_shown_keys
from dither.plan.algebra import Cells, Keys, Quantiles
from dither.question.recipe import GroupingSet, KeyColumn, Recipe


@dataclass(frozen=True)
class Block:
    """The rows of one grouping set: values of its keys, and the released integers of every atom."""

    grouping_set: GroupingSet
    rows: int
    keys: dict[int, list[Key]]
    atoms: tuple[NDArray[Any], ...]

    def take_rows(self, rows: NDArray[Any]) -> Block:
        """Return a block with some of the rows, in the given order."""
        keys = {key: [values[row] for row in rows] for key, values in self.keys.items()}
        return Block(self.grouping_set, len(rows), keys, tuple(atom[rows] for atom in self.atoms))


def make_blocks(recipe: Recipe, values: tuple[Any, ...]) -> tuple[Block, ...]:
    """Make the block of rows of every grouping set of a release."""
    return tuple(_make_block(recipe, grouping_set, values) for grouping_set in recipe.sets)


def _make_block(recipe: Recipe, grouping_set: GroupingSet, values: tuple[Any, ...]) -> Block:
    """Make the rows of one grouping set: listed keys in full, others as released."""
    listed = [key for key in grouping_set.keys if not recipe.keys[key].domain.undeclared]
    selected = [key for key in grouping_set.keys if recipe.keys[key].domain.undeclared]
    selected_labels = (
        [()]
        if grouping_set.selection is None
        else [tuple(labels)[: len(selected)] for labels in values[grouping_set.selection]]
    )
    grid = list(product(*(list_keys(recipe.keys[key]) for key in listed)))
    rows = [(*labels, *cell) for labels in selected_labels for cell in grid]
    names = [*selected, *listed]
    keys = {key: [row[position] for row in rows] for position, key in enumerate(names)}
    atoms = tuple(
        _read_column(recipe, values, query, column, len(rows))
        for query, column in grouping_set.positions
    )
    return Block(grouping_set, len(rows), keys, atoms)


def list_keys(key: KeyColumn) -> list[Key]:
    """List what a person sees for each code of a declared key, in order."""
    labels = list_shown_keys(key.domain)
    if not key.dated:
        return labels
    read = datetime.fromisoformat if key.has_times else date.fromisoformat
    return [read(label) if isinstance(label, str) else label for label in labels]


def count_cells(recipe: Recipe, grouping_set: GroupingSet) -> int | None:
    """Count the rows of a grouping set; None if its keys are selected from the data."""
    if grouping_set.selection is not None:
        return None
    return math.prod(count_shown_keys(recipe.keys[key].domain) for key in grouping_set.keys)


def count_numbers(recipe: Recipe, query: int) -> int:
    """Count the numbers that a query releases for each cell."""
    released_query = recipe.queries[query]
    if isinstance(released_query, Quantiles):
        return released_query.width
    assert isinstance(released_query, Cells)
    return len(released_query.columns)


def _read_column(
    recipe: Recipe, values: tuple[Any, ...], query: int, column: int, rows: int
) -> NDArray[Any]:
    """Read one number per row, as int64, or as Python integers where they do not fit."""
    flat: Sequence[Any]
    if isinstance(recipe.queries[query], Keys):  # a selection that counts: after the labels
        flat = [int(labels[-1]) for labels in values[query]]
    else:
        flat = values[query][column :: count_numbers(recipe, query)]
    if len(flat) != rows:
        raise AssertionError(f"query {query} released {len(flat)} cells for {rows} rows")
    try:
        return np.array(flat, np.int64)
    except OverflowError:
        return np.array(flat, object)
