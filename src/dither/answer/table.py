"""From released cells to the rows and columns that were asked for: HAVING, ORDER BY, LIMIT and
intervals.

HAVING and LIMIT choose rows by their noisy values, and CASE, IF, COALESCE and NULLIF choose what a
row shows. What is chosen so is what the noise helped. Intervals of a column are therefore taken at
the level 1 - (1 - level) * shown / candidates: of the values shown, the expected share that misses
is then at most 1 - level (`selection.py`). ORDER BY alone chooses nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dither.answer.alternatives import list_alternatives
from dither.answer.blocks import Block, make_blocks
from dither.answer.evaluate import Array, FormulaInputs, evaluate, is_null, make_inputs
from dither.answer.intervals import Noises, compute_interval, find_affine_half
from dither.answer.selection import (
    IntervalSelection,
    Piece,
    count_candidates,
    count_shown,
    split_pieces,
)
from dither.question.expressions import Apply, Formula, Noisy
from dither.question.kinds import infer_kind
from dither.question.recipe import Atom, DisplayKind, Output, Recipe
from dither.question.shapes import Affine, affine, atoms_of

_TYPES = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("s"),
    "boolean": pa.bool_(),
    "text": pa.string(),
}
_WIDE = pa.decimal128(38, 0)
_INT64 = 2**63 - 1
_LARGEST = 10**38 - 1
_FLOAT = 1e-9


@dataclass(frozen=True)
class Rows:
    """The rows to show: for each grouping set its chosen rows, and their positions in the
    answer."""

    chosen: tuple[tuple[Block, NDArray[np.int64]], ...]
    shown_count: int
    candidate_count: int
    by_noise: bool = False
    inputs: tuple[FormulaInputs, ...] = ()
    """The chosen blocks as formulas read them."""
    candidates: tuple[Block, ...] = ()
    """The rows that noisy values chose from: those that public conditions keep, or the chosen ones
    themselves."""

    @property
    def is_choice(self) -> bool:
        """Whether noisy values decided which rows are shown."""
        return self.by_noise and self.shown_count < self.candidate_count

    def level(self, level: Fraction) -> Fraction:
        """The level at which intervals of the rows shown are taken, in a column that has a value in
        each of them."""
        return (
            IntervalSelection(self.shown_count, self.candidate_count).level(level)
            if self.is_choice
            else level
        )


def choose_rows(recipe: Recipe, values: tuple[Any, ...]) -> Rows:
    """Choose the rows to show: HAVING, then ORDER BY, then OFFSET and LIMIT, on noisy values."""
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
    """Whether noisy values decide which rows are shown: in HAVING, or in ORDER BY before a
    LIMIT."""
    is_cut = recipe.limit is not None or recipe.offset > 0
    return bool(atoms_of(recipe.having)) or (
        is_cut and any(atoms_of(sort_key.formula) for sort_key in recipe.order)
    )


def count_selection(recipe: Recipe, output: Output, rows: Rows) -> IntervalSelection:
    """Count the intervals that a column shows, and the candidates that noisy values chose from."""
    shown_values = sum(
        count_shown(output.formula, inputs, block.rows)
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
    kept = np.ones(block.rows, np.bool_)
    for condition in conditions:
        kept = kept & np.broadcast_to(
            evaluate(condition, make_inputs(recipe, block)) == 1, (block.rows,)
        )
    return kept


def _order_rows(recipe: Recipe, kept_blocks: list[Block], rows: int) -> NDArray[np.int64]:
    """Order the rows; ties keep the order of the keys."""
    order = np.arange(rows)
    for sort_key in reversed(recipe.order):
        values = [
            np.broadcast_to(evaluate(sort_key.formula, make_inputs(recipe, block)), (block.rows,))
            for block in kept_blocks
        ]
        ranks = _rank_values(np.concatenate(values) if values else np.zeros(0))
        empty = ranks < 0
        ranks = np.where(empty, 0, -ranks if sort_key.descending else ranks)
        first = -1 if sort_key.nulls_first else 1
        order = order[np.lexsort((ranks[order], (first * empty)[order]))]
    return order


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


# -- columns
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Triple:
    """A column of the answer with its ends; keys have none."""

    kind: DisplayKind
    wide: bool
    value: list[Any]
    low: list[Any] | None = None
    high: list[Any] | None = None

    def arrays(self) -> tuple[pa.Array, ...]:
        type_ = _WIDE if self.wide else _TYPES[self.kind]
        lists = [values for values in (self.value, self.low, self.high) if values is not None]
        if self.wide:
            lists = [
                [None if value is None else Decimal(value) for value in values] for values in lists
            ]
        return tuple(pa.array(values, type_) for values in lists)


def make_column(
    recipe: Recipe,
    output: Output,
    rows: Rows,
    noises: Sequence[Noises],
    widths: Sequence[int],
    level: Fraction,
    ends: bool = True,
) -> Triple:
    """Make one output column for all rows shown, with the ends of its interval if it is a value and
    `ends`."""
    kind = find_kind(output.formula, recipe)
    count = 3 if output.role == "value" and ends else 1
    located_lists: list[tuple[NDArray[np.int64], list[list[Any]]]] = []
    wide = (
        kind == "integer" and output.role == "value" and _has_wide(output.formula, recipe, widths)
    )
    for (block, positions), noise, inputs in zip(rows.chosen, noises, rows.inputs, strict=True):
        for piece in split_pieces(output.formula, inputs, block.rows):
            whole = affine(piece.value) if kind == "integer" and output.role == "value" else None
            if whole is not None and _is_whole(whole, recipe):
                lists = _compute_whole(recipe, piece.block(block), whole, noise, level)
                width = max(widths[atom] for atom, _ in whole.weights)
                if isinstance(
                    piece.value, Noisy
                ):  # ends saturate at the public width, like the number itself
                    lists = [[_within(value, width) for value in values] for values in lists]
                wide = wide or any(abs(value or 0) > _INT64 for values in lists for value in values)
            else:
                lists = _compute_floats(
                    piece, piece.select_inputs(inputs), noise, level, kind, count
                )
                is_integer = kind == "integer" and output.role == "value"
                wide = wide or (is_integer and any(abs(value or 0) > _INT64 for value in lists[0]))
            located_lists.append(
                (positions if piece.rows is None else positions[piece.rows], lists[:count])
            )
    joined = _join_lists(located_lists, rows.shown_count, count)
    return Triple(kind, wide, *joined)


def _has_wide(formula: Formula, recipe: Recipe, widths: Sequence[int]) -> bool:
    """Whether a whole number beyond 64 bits is among the alternatives: a public fact, whatever
    noise chose."""
    sums = [affine(alternative.value) for alternative in list_alternatives(formula)]
    read = [
        atom
        for linear_form in sums
        if linear_form is not None and _is_whole(linear_form, recipe)
        for atom, _ in linear_form.weights
    ]
    return any(widths[atom] > _INT64 for atom in read)


def _compute_floats(
    piece: Piece,
    inputs: FormulaInputs,
    noise: Noises,
    level: Fraction,
    kind: DisplayKind,
    count: int,
) -> list[list[Any]]:
    """A piece of a column that is no sum of released integers; ends are null where the value is."""
    values = np.broadcast_to(evaluate(piece.value, inputs), (piece.count,))
    lists = [show_values(values, kind)]
    if count == 1:
        return lists
    if not piece.has_ends or values.dtype == object:
        return [*lists, [None] * piece.count, [None] * piece.count]
    low, high = compute_interval(piece.value, inputs, noise, level)
    low, high = (
        np.where(is_null(values), np.nan, np.broadcast_to(end, (piece.count,)))
        for end in (low, high)
    )
    return [
        *lists,
        _cap_integers(show_values(low, kind, math.floor)),
        _cap_integers(show_values(high, kind, math.ceil)),
    ]


def _join_lists(
    located_lists: list[tuple[NDArray[np.int64], list[list[Any]]]], rows: int, lists: int
) -> list[list[Any]]:
    if len(located_lists) == 1 and np.array_equal(located_lists[0][0], np.arange(rows)):
        return located_lists[0][1]
    joined: list[list[Any]] = [[None] * rows for _ in range(lists)]
    for positions, value_lists in located_lists:
        for into, values in zip(joined, value_lists, strict=True):
            for position, value in zip(positions, values, strict=True):
                into[position] = value
    return joined


def _compute_whole(
    recipe: Recipe, block: Block, linear_form: Affine, noises: Noises, level: Fraction
) -> list[list[Any]]:
    """A sum of released integers and its ends, exactly: never through a float, which would move an
    end inward."""
    if len(linear_form.weights) == 1:
        ((atom, weight),) = linear_form.weights
        times, plus = (
            int(factor) if factor == int(factor) else factor
            for factor in (weight, linear_form.constant)
        )
        value, *ends = (
            [
                None if released is None else _within(int(times * released + plus), _LARGEST)
                for released in exact_values
            ]
            for exact_values in _compute_exact(recipe, block, atom, noises, level)
        )
        return [value, *ends] if weight >= 0 else [value, *reversed(ends)]
    total = [linear_form.constant] * block.rows
    for atom, weight in linear_form.weights:
        numbers = _read_integers(block, atom, recipe.atoms[atom])
        total = [
            subtotal + weight * number for subtotal, number in zip(total, numbers, strict=True)
        ]
    if any(noises.laws[atom] is None for atom, _ in linear_form.weights):
        return [
            [_within(int(value), _LARGEST) for value in total],
            *([None] * block.rows for _ in range(2)),
        ]
    half = math.floor(
        find_affine_half(linear_form, noises, level) * (1 + _FLOAT) + _FLOAT
    )  # the error is a whole number too
    return [
        [_within(int(value) + shift, _LARGEST) for value in total] for shift in (0, -half, half)
    ]


def _within(value: int | None, width: int) -> int | None:
    return value if value is None or -width <= value <= width else max(-width, min(width, value))


def _cap_integers(values: list[Any]) -> list[Any]:
    """Whole numbers saturate at 64 bits."""
    return [_within(value, _INT64) if type(value) is int else value for value in values]


def _compute_exact(
    recipe: Recipe, block: Block, atom: int, noises: Noises, level: Fraction
) -> list[list[Any]]:
    """A single released integer and its ends, exactly."""
    released = recipe.atoms[atom]
    law = noises.laws[atom]
    values = _read_integers(block, atom, released)
    if law is None:
        band = noises.bands.get(atom)
        if band is None or level > band.level:
            return [values, [None] * len(values), [None] * len(values)]
        coarse = math.ceil(dict(noises.bands.coarse).get(atom, 0))
        low = [
            min(pair)
            for pair in zip(values, _read_integers(block, band.low, released), strict=True)
        ]
        high = [
            max(pair) + coarse
            for pair in zip(values, _read_integers(block, band.high, released), strict=True)
        ]
        return [values, low, high]
    half = int(law.half_width(level) * released.unit)
    return [[value + shift for value in values] for shift in (0, -half, half)]


def _read_integers(block: Block, atom: int, released: Atom) -> list[int]:
    """A released column in its own units, never through a float."""
    values = [int(value) for value in block.atoms[atom].tolist()]
    return (
        [int(value * released.unit + released.offset) for value in values]
        if released.unit != 1 or released.offset
        else values
    )


def show_values(values: Array, kind: DisplayKind, rounding: Any = round) -> list[Any]:
    """Show a column as a person sees it: None for null; whole ends of intervals are rounded
    outward."""
    listed: list[Any] = values.tolist()
    if values.dtype == object:
        return listed
    if kind != "number":
        return [
            None if math.isnan(value) else _show_value(value, kind, rounding) for value in listed
        ]
    return (
        [None if math.isnan(value) else value for value in listed]
        if np.isnan(values).any()
        else listed
    )


def _show_value(value: float, kind: DisplayKind, rounding: Any) -> Any:
    match kind:
        case "integer":
            return int(rounding(value))
        case "boolean":
            return bool(value)
        case "date":
            days = max(-719162, min(2932896, int(rounding(value))))
            return date(1970, 1, 1) + timedelta(days=days)
        case "timestamp":
            seconds = max(-62135596800, min(253402300799, int(rounding(value))))
            return datetime(1970, 1, 1) + timedelta(seconds=seconds)
    return value


def find_kind(formula: Formula, recipe: Recipe) -> DisplayKind:
    """Find the kind of a column from the recipe alone."""
    kind = infer_kind(formula, recipe)
    whole = affine(formula)
    if kind == "number" and whole is not None and _is_whole(whole, recipe):
        return "integer"
    return "number" if kind is None else kind


def _is_whole(linear_form: Affine, recipe: Recipe) -> bool:
    """Whether a sum of released numbers is a whole number whatever is released."""
    atoms = [(recipe.atoms[atom], weight) for atom, weight in linear_form.weights]
    terms = [
        weight * term
        for atom_facts, weight in atoms
        for term in (atom_facts.unit, atom_facts.offset)
    ]
    return (
        bool(atoms)
        and all(term.denominator == 1 for term in (linear_form.constant, *terms))
        and all(atom_facts.display == "integer" for atom_facts, _ in atoms)
    )
