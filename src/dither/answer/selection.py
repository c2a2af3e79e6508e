"""What noisy values chose to show, and the level that its intervals need.

A column shows R intervals. Noisy values chose them from M candidates: a row that HAVING or LIMIT
might have kept, times the different noisy values that CASE, IF, COALESCE and NULLIF might have
shown in it. At the level 1 - (1 - level) R / M the expected share of the R that misses is at most 1
- level (false coverage rate; Benjamini and Yekutieli 2005). Proof:
docs/proofs/intervals.md#what-was-chosen-by-its-noise.

>>> IntervalSelection(37, 1480).level(Fraction(95, 100)) == 1 - Fraction(5, 100) / 40
True
>>> IntervalSelection(4, 4).level(Fraction(95, 100))
Fraction(19, 20)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dither.answer.alternatives import group_rows, list_alternatives, list_noisy_values, select_rows
from dither.answer.blocks import Block
from dither.answer.evaluate import FormulaInputs, evaluate, is_null, make_inputs
from dither.question.expressions import Formula
from dither.question.recipe import Recipe
from dither.question.shapes import affine, atoms_of


@dataclass(frozen=True)
class IntervalSelection:
    """How many intervals a column shows, and from how many candidates noisy values chose them."""

    shown_count: int
    candidate_count: int

    @property
    def is_choice(self) -> bool:
        """Whether noisy values left any candidate out."""
        return self.shown_count < self.candidate_count

    def level(self, level: Fraction) -> Fraction:
        """Compute the level of each shown interval, raised where noisy values chose the rows.

        Of the intervals shown, the expected share that misses is then at most 1 - `level` (false
        coverage rate).
        """
        return (
            1 - (1 - level) * Fraction(max(1, self.shown_count), self.candidate_count)
            if self.is_choice
            else level
        )


@dataclass(frozen=True)
class Piece:
    """Rows of a block that show the same alternative of a formula (one branch of a CASE, say).

    `value` is the alternative, `count` the number of rows, and `rows` their positions in the
    block, or None for all of them.
    """

    value: Formula
    count: int
    has_interval: bool = True
    rows: NDArray[np.int64] | None = None

    def block(self, block: Block) -> Block:
        """Take the rows of this piece from a block."""
        return block if self.rows is None else block.take_rows(self.rows)

    def select_inputs(self, inputs: FormulaInputs) -> FormulaInputs:
        """Take the rows of this piece from the inputs of a formula."""
        return inputs if self.rows is None else inputs.take_rows(self.rows)


def split_pieces(formula: Formula, inputs: FormulaInputs, rows: int) -> list[Piece]:
    """Split the rows of a block by the alternative of the formula that they show.

    A constant or key that noisy values chose is no estimate, so it has no interval.
    """
    alternatives = list_alternatives(formula)
    if not alternatives:
        return [Piece(formula, rows, has_interval=False)]
    if not alternatives[0].conditions:
        return [Piece(alternatives[0].value, rows)]
    return [
        Piece(
            alternative.value,
            len(chosen),
            alternative.is_noisy or not alternative.is_chosen_by_noise,
            chosen,
        )
        for alternative, chosen in group_rows(formula, inputs, rows)
        if len(chosen)
    ]


def count_estimates(formula: Formula, inputs: FormulaInputs, rows: int) -> int:
    """Count the rows that show an estimate: a value made of released numbers that is not null."""
    count = 0
    for piece in split_pieces(formula, inputs, rows):
        if not piece.has_interval or not atoms_of(piece.value):
            continue
        if affine(piece.value) is not None:  # never null
            count += piece.count
        else:
            values = np.broadcast_to(
                evaluate(piece.value, piece.select_inputs(inputs)), (piece.count,)
            )
            count += int((~is_null(values)).sum())
    return count


def count_candidates(formula: Formula, recipe: Recipe, block: Block) -> int:
    """Count the estimates that a block might show.

    These are the different noisy values that public conditions allow.
    """
    count = 0
    for same in list_noisy_values(formula).values():
        conditions = [alternative.public_conditions() for alternative in same]
        if not all(conditions):
            count += block.rows
        else:
            inputs = make_inputs(recipe, block)
            count += int(
                np.any(
                    [
                        select_rows(alternative_conditions, inputs, block.rows)
                        for alternative_conditions in conditions
                    ],
                    axis=0,
                ).sum()
            )
    return count
