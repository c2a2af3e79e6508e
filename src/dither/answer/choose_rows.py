"""Which released cells are shown as rows, and in which order: HAVING, ORDER BY, OFFSET, LIMIT.

HAVING and LIMIT choose rows by their noisy values, and CASE, IF, COALESCE and NULLIF choose what a
row shows. What is chosen so is what the noise helped. Intervals of a column are therefore taken at
the level 1 - (1 - level) * shown / candidates: of the values shown, the expected share that misses
is then at most 1 - level (`selection.py`). ORDER BY alone chooses nothing. An average is sorted as
it is shown: at its public bound where the noise moved it beyond.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.answer.average_bounds import clamp_value, find_average_bounds, is_average
from dither.answer.blocks import Block, make_blocks
from dither.answer.evaluate import Array, FormulaInputs, evaluate, is_null, make_inputs
from dither.answer.selection import (
    IntervalSelection,
    count_candidates,
    count_estimates,
)
from dither.plan.analysed_query import Analyses
from dither.question.expressions import Apply, Formula
from dither.question.recipe import Output, Recipe
from dither.question.shapes import atoms_of


@dataclass(frozen=True)
class Rows:
    """The rows to show.

    For each grouping set its chosen rows, and their positions in the answer.
    """

    chosen: tuple[tuple[Block, NDArray[np.int64]], ...]
    shown_count: int
    candidate_count: int
    by_noise: bool = False
    inputs: tuple[FormulaInputs, ...] = ()
    """The chosen blocks as formulas read them."""
    candidates: tuple[Block, ...] = ()
    """The rows that noisy values chose from.

    Those that public conditions keep, or the chosen ones themselves.
    """

    @property
    def is_choice(self) -> bool:
        """Whether noisy values decided which rows are shown."""
        return self.by_noise and self.shown_count < self.candidate_count

    def level(self, level: Fraction) -> Fraction:
        """Compute the level at which intervals of the rows shown are taken.

        It holds for a column that has a value in each of them, and is higher than `level` where
        noisy values chose the rows.
        """
        return (
            IntervalSelection(self.shown_count, self.candidate_count).level(level)
            if self.is_choice
            else level
        )


def choose_rows(recipe: Recipe, values: tuple[Any, ...], analyses: Analyses | None = None) -> Rows:
    """Choose the rows to show: HAVING, then ORDER BY, then OFFSET and LIMIT, on noisy values.

    With the analyses of the plans, averages are sorted within their public bounds.
    """
    all_blocks = make_blocks(recipe, values)
    kept = [
        np.flatnonzero(_check_conditions(list_conjuncts(recipe.having), recipe, block))
        for block in all_blocks
    ]
    of_block = np.repeat(np.arange(len(all_blocks)), [len(rows) for rows in kept])
    in_block = np.concatenate([np.zeros(0, np.int64), *kept]).astype(np.int64)
    order = _order_rows(
        recipe,
        [block.take_rows(rows) for block, rows in zip(all_blocks, kept, strict=True)],
        len(in_block),
        analyses,
    )
    last = None if recipe.limit is None else recipe.offset + recipe.limit
    order = order[recipe.offset : last]
    chosen = []
    for i, block in enumerate(all_blocks):
        positions = np.flatnonzero(of_block[order] == i)
        chosen.append((block.take_rows(in_block[order][positions]), positions))
    by_noise = chooses_rows_by_noise(recipe)
    public = [condition for condition in list_conjuncts(recipe.having) if not atoms_of(condition)]
    listed = [_check_conditions(public, recipe, block) for block in all_blocks]
    candidate_rows = sum(int(kept.sum()) for kept in listed)
    candidates = tuple(block for block, _ in chosen)
    if by_noise:
        pairs = zip(all_blocks, listed, strict=True)
        candidates = tuple(
            block if kept.all() else block.take_rows(np.flatnonzero(kept)) for block, kept in pairs
        )
    inputs = tuple(make_inputs(recipe, block) for block, _ in chosen)
    return Rows(tuple(chosen), len(order), candidate_rows, by_noise, inputs, candidates)


def chooses_rows_by_noise(recipe: Recipe) -> bool:
    """Whether noisy values decide which rows are shown.

    They do in HAVING, and in ORDER BY before a LIMIT.
    """
    is_cut = recipe.limit is not None or recipe.offset > 0
    return bool(atoms_of(recipe.having)) or (
        is_cut and any(atoms_of(sort_key.formula) for sort_key in recipe.order)
    )


def count_selection(recipe: Recipe, output: Output, rows: Rows) -> IntervalSelection:
    """Count the intervals that a column shows, and the candidates that noisy values chose from."""
    shown_values = sum(
        count_estimates(output.formula, inputs, block.rows)
        for (block, _), inputs in zip(rows.chosen, rows.inputs, strict=True)
    )
    candidates = sum(count_candidates(output.formula, recipe, block) for block in rows.candidates)
    return IntervalSelection(shown_values, candidates)


def list_conjuncts(formula: Formula | None) -> list[Formula]:
    """List the conditions that must all hold."""
    if formula is None:
        return []
    if isinstance(formula, Apply) and formula.name == "and":
        return [
            condition for argument in formula.arguments for condition in list_conjuncts(argument)
        ]
    return [formula]


def _check_conditions(conditions: list[Formula], recipe: Recipe, block: Block) -> NDArray[np.bool_]:
    """Return a mask of the rows of a block at which all conditions are true."""
    kept = np.ones(block.rows, np.bool_)
    for condition in conditions:
        kept = kept & np.broadcast_to(
            evaluate(condition, make_inputs(recipe, block)) == 1, (block.rows,)
        )
    return kept


def _order_rows(
    recipe: Recipe, kept_blocks: list[Block], rows: int, analyses: Analyses | None
) -> NDArray[np.int64]:
    """Order the rows; ties keep the order of the keys."""
    order = np.arange(rows)
    for sort_key in reversed(recipe.order):
        values = [
            np.broadcast_to(evaluate(sort_key.formula, make_inputs(recipe, block)), (block.rows,))
            for block in kept_blocks
        ]
        sorted_values = np.concatenate(values) if values else np.zeros(0)
        ranks = _rank_values(_clamp_averages(sort_key.formula, sorted_values, recipe, analyses))
        empty = ranks < 0
        ranks = np.where(empty, 0, -ranks if sort_key.descending else ranks)
        first = -1 if sort_key.nulls_first else 1
        order = order[np.lexsort((ranks[order], (first * empty)[order]))]
    return order


def _clamp_averages(
    formula: Formula, values: Array, recipe: Recipe, analyses: Analyses | None
) -> Array:
    """The values of a sort key as they are shown: an average lies within its public bounds."""
    if analyses is None or not is_average(formula):
        return values
    bounds = find_average_bounds(formula, recipe, analyses)
    return np.array([clamp_value(value, bounds) for value in values.tolist()], values.dtype)


def _rank_values(values: Array) -> NDArray[np.int64]:
    """Rank values densely, -1 for null, also where kinds are mixed."""
    empty = is_null(values)
    if values.dtype != object:
        return np.where(empty, -1, np.unique(np.where(empty, 0.0, values), return_inverse=True)[1])
    texts = {value: (type(value).__name__, value) for value in values if value is not None}
    ranks = {
        value: rank for rank, value in enumerate(sorted(texts, key=lambda label: texts[label]))
    }
    return np.array([-1 if value is None else ranks[value] for value in values], np.int64)
