"""The columns of an answer, for the rows that `choose_rows.py` chose: values and the ends of their
intervals, as Arrow arrays.

Whole numbers are computed exactly, never through a float. What is shown depends on released numbers
and public facts alone.
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
from dither.answer.blocks import Block
from dither.answer.choose_rows import Rows
from dither.answer.evaluate import Array, FormulaInputs, evaluate, is_null
from dither.answer.intervals import compute_interval, find_affine_half
from dither.answer.noises import Noises
from dither.answer.selection import (
    Piece,
    split_pieces,
)
from dither.laws import ShownCountLaw
from dither.question.expressions import Formula, Noisy
from dither.question.kinds import infer_kind
from dither.question.recipe import Atom, DisplayKind, Output, Recipe
from dither.question.shapes import Affine, affine

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
class Triple:
    """A column of the answer with its ends; keys have none."""

    kind: DisplayKind
    wide: bool
    value: list[Any]
    low: list[Any] | None = None
    high: list[Any] | None = None

    def arrays(self) -> tuple[pa.Array, ...]:
        """Convert the values, and the ends where there are any, to Arrow arrays."""
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
    """Make one output column for all rows shown.

    A value column gets the ends of its interval if `ends`.
    """
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
                # Ends saturate at the public width, like the number itself.
                if isinstance(piece.value, Noisy):
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
    """Whether a whole number beyond 64 bits is among the alternatives.

    That is a public fact, whatever noise chose.
    """
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
    """Compute a piece of a column that is no sum of released integers.

    Returns the list of values and, unless `count` is 1, those of the two ends, which are null where
    the value is.
    """
    values = np.broadcast_to(evaluate(piece.value, inputs), (piece.count,))
    lists = [show_values(values, kind)]
    if count == 1:
        return lists
    if not piece.has_interval or values.dtype == object:
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
    """Put the pieces of a column back in the order of rows.

    `located_lists` has, for each piece, its row positions and `lists` lists of values.
    """
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
    """Compute a sum of released integers and its ends, exactly.

    A float on the way would move an end inward.
    """
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
    # The error is a whole number too.
    half = math.floor(find_affine_half(linear_form, noises, level) * (1 + _FLOAT) + _FLOAT)
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
    """Compute a single released integer and its two ends, without floats.

    Returns the lists of values, low ends and high ends.
    """
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
    if isinstance(law.error, ShownCountLaw):
        low = law.error.find_lower_ends(values, level)
        return [values, low, [value + half for value in values]]
    return [[value + shift for value in values] for shift in (0, -half, half)]


def _read_integers(block: Block, atom: int, released: Atom) -> list[int]:
    """Read a released column in its own units, never through a float."""
    values = [int(value) for value in block.atoms[atom].tolist()]
    return (
        [int(value * released.unit + released.offset) for value in values]
        if released.unit != 1 or released.offset
        else values
    )


def show_values(values: Array, kind: DisplayKind, rounding: Any = round) -> list[Any]:
    """Show a column as a person sees it, with None for null.

    Whole ends of intervals are rounded outward.
    """
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
    """Turn a number into a value of the kind that is shown; `rounding` makes it an integer.

    Dates and times are cut to the years 1 to 9999.
    """
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
