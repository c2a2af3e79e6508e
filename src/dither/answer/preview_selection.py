"""How few intervals a column may show, before anything is released.

The fewer are shown, the wider they are: a preview states the widest that a result can have.

From the question and the catalog alone. How many values noise will choose is not known beforehand,
so a preview takes the fewest, unless LIMIT fixes their number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from dither.answer.alternatives import is_chosen_by_noise, list_alternatives, list_noisy_values
from dither.answer.blocks import count_cells, count_numbers
from dither.answer.choose_rows import choose_rows, chooses_rows_by_noise, list_conjuncts
from dither.answer.column_info import OF_WHAT_IS_SHOWN, TOO_MANY
from dither.answer.selection import IntervalSelection, count_candidates
from dither.answer.shown_keys import count_shown_keys
from dither.question.expressions import Formula
from dither.question.recipe import Recipe
from dither.question.shapes import atoms_of


@dataclass(frozen=True)
class Foreseen:
    """The widest level of a column's intervals, None where it is not known beforehand; and what to
    say about it."""

    level: Fraction | None
    notes: tuple[str, ...] = ()


def foresee(recipe: Recipe, formula: Formula, level: Fraction) -> Foreseen:
    """Find the highest level that a column's intervals may need, and what to say about it."""
    by_formula = is_chosen_by_noise(formula)
    if not list_alternatives(formula):
        return Foreseen(None, (TOO_MANY,))
    if not by_formula and not chooses_rows_by_noise(recipe):
        return Foreseen(level)
    notes = (OF_WHAT_IS_SHOWN,) if by_formula else ()
    if any(grouping_set.selection is not None for grouping_set in recipe.sets):
        words = (
            "noisy values choose what is shown, of keys whose number is not known: "
            "how wide intervals are is not"
        )
        return Foreseen(None, (f"{words} known either", *notes))
    selection = count_fewest_shown(recipe, formula)
    if selection.is_choice:
        words = (
            f"noisy values choose what is shown: ± is that of {selection.shown_count:,} of "
            f"{selection.candidate_count:,} values"
        )
        fixed = "" if selection.shown_count > 1 else ", and less where more are shown"
        notes = (f"{words}{fixed}", *notes)
    return Foreseen(selection.level(level), notes)


def count_fewest_shown(recipe: Recipe, formula: Formula) -> IntervalSelection:
    """Count the fewest intervals that a column over declared keys may show, and the candidates."""
    candidates = _count_candidates(recipe, formula)
    is_fixed = not atoms_of(recipe.having) and all(
        alternative.is_noisy for alternative in list_alternatives(formula)
    )
    rows = limit_rows(recipe, count_listed_rows(recipe)) if is_fixed else 1
    return IntervalSelection(min(max(1, rows), candidates), candidates)


def _count_candidates(recipe: Recipe, formula: Formula) -> int:
    """Count the values of a formula among which noise may choose what is shown."""
    values = list_noisy_values(formula)
    is_public = any(
        alternative.public_conditions() for same in values.values() for alternative in same
    )
    if not is_public and _keeps_all(recipe):
        return len(values) * sum(
            count_cells(recipe, grouping_set) or 0 for grouping_set in recipe.sets
        )
    rows = choose_rows(recipe, _make_empty_cells(recipe))
    return sum(count_candidates(formula, recipe, block) for block in rows.candidates)


def _keeps_all(recipe: Recipe) -> bool:
    """Whether no public condition or limit leaves a row out."""
    is_cut = recipe.limit is not None or recipe.offset > 0
    by_keys = any(not atoms_of(condition) for condition in list_conjuncts(recipe.having))
    return not by_keys and (chooses_rows_by_noise(recipe) or not is_cut)


def count_listed_rows(recipe: Recipe) -> int:
    """Count the rows listed: all declared keys, less those that a public condition leaves out."""
    if not any(not atoms_of(condition) for condition in list_conjuncts(recipe.having)):
        return sum(count_cells(recipe, grouping_set) or 0 for grouping_set in recipe.sets)
    return choose_rows(recipe, _make_empty_cells(recipe)).candidate_count


def limit_rows(recipe: Recipe, rows: int) -> int:
    """Count the rows that OFFSET and LIMIT leave."""
    rows = max(0, rows - recipe.offset)
    return rows if recipe.limit is None else min(rows, recipe.limit)


def _make_empty_cells(recipe: Recipe) -> tuple[tuple[int, ...], ...]:
    """Make the release of an empty table without noise. Only its keys are read."""
    return tuple(_make_zeros(recipe, query) for query in range(len(recipe.queries)))


def _make_zeros(recipe: Recipe, query: int) -> tuple[int, ...]:
    """Make the released integers of a query as if all were 0."""
    keys = next(
        grouping_set.keys
        for grouping_set in recipe.sets
        if any(position[0] == query for position in grouping_set.positions)
    )
    return (0,) * (
        math.prod(count_shown_keys(recipe.keys[key].domain) for key in keys)
        * count_numbers(recipe, query)
    )
