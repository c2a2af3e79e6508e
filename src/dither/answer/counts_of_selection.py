"""Counts that a selection of keys has already: the noisy owners of the keys that it shows.

Where undeclared keys are selected by Gaussian noise, the number that reached the threshold may be
released with its key, at no further loss. COUNT(DISTINCT unit) by these keys is that number, and so
is COUNT(*) where no unit has two rows in a group. Its interval is not symmetric, so only a column
that is the count itself is answered by it, and only where no noisy value chooses the rows.
Proof: docs/proofs/key-selection.md#noisy-counts-of-shown-keys.
"""

from __future__ import annotations

from dataclasses import replace

from dither.plan.algebra import Aggregate, Cells, Count, CountUnits, Keys
from dither.plan.analysed_query import Analyses
from dither.plan.stability.owned import Owned
from dither.question.expressions import Noisy
from dither.question.recipe import GroupingSet, Output, Recipe
from dither.question.shapes import atoms_of

COUNT_COLUMN = 1
"""What a selection releases of a key: 0 is whether it is shown, 1 its noisy count."""
NOTE = (
    "the noisy count that selected the key, at no price of its own: near the threshold it is too "
    "high, so its interval reaches further down, to 1 at the threshold"
)


def count_by_selection(recipe: Recipe, analyses: Analyses) -> Recipe | None:
    """The same question with the counts that its selections of keys can give; None without any."""
    counted = frozenset(
        atom for atom in _list_plain_atoms(recipe) if _is_counted(recipe, atom, analyses)
    )
    if not counted:
        return None
    sets = tuple(_point_at_selection(grouping_set, counted) for grouping_set in recipe.sets)
    return _leave_out_columns(replace(recipe, sets=sets, outputs=_add_notes(recipe, counted)))


def _list_plain_atoms(recipe: Recipe) -> set[int]:
    """The atoms that are read as columns of their own alone, where all keys are shown."""
    if recipe.having is not None or recipe.limit is not None or recipe.offset:
        return set()
    values = [output.formula for output in recipe.outputs if output.role == "value"]
    read = {atom for value in values if not isinstance(value, Noisy) for atom in atoms_of(value)}
    return {value.atom for value in values if isinstance(value, Noisy)} - read


def _is_counted(recipe: Recipe, atom: int, analyses: Analyses) -> bool:
    """Whether an atom is the number of owners of a selected key, in every grouping set."""
    number = recipe.atoms[atom]
    if number.unit != 1 or number.offset:
        return False
    return all(_counts_owners(recipe, of, atom, analyses) for of in recipe.sets)


def _counts_owners(recipe: Recipe, of: GroupingSet, atom: int, analyses: Analyses) -> bool:
    """Whether an atom counts the owners of the very rows and keys that are selected."""
    position, column = of.positions[atom]
    query = recipe.queries[position]
    selection = None if of.selection is None else recipe.queries[of.selection]
    if not isinstance(query, Cells) or not isinstance(selection, Keys):
        return False
    if (query.plan.hash, query.keys) != (selection.plan.hash, selection.keys):
        return False
    return _is_number_of_owners(query.columns[column], query, analyses)


def _is_number_of_owners(aggregate: Aggregate, query: Cells, analyses: Analyses) -> bool:
    """Whether an aggregate counts each owner once, whatever the rows are."""
    if isinstance(aggregate, CountUnits):
        return True
    node = analyses.analyse_query(query).rows.node
    is_once = isinstance(node, Owned) and node.rows_per_group(query.keys) == 1
    return isinstance(aggregate, Count) and is_once


def _point_at_selection(of: GroupingSet, counted: frozenset[int]) -> GroupingSet:
    assert of.selection is not None
    positions = tuple(
        (of.selection, COUNT_COLUMN) if atom in counted else position
        for atom, position in enumerate(of.positions)
    )
    return replace(of, positions=positions)


def _add_notes(recipe: Recipe, counted: frozenset[int]) -> tuple[Output, ...]:
    """Say of the columns of these atoms where they come from."""
    return tuple(
        replace(output, note="; ".join(filter(None, (output.note, NOTE))))
        if isinstance(output.formula, Noisy) and output.formula.atom in counted
        else output
        for output in recipe.outputs
    )


def _leave_out_columns(recipe: Recipe) -> Recipe:
    """The recipe without the columns of counts and sums that no atom reads any more."""
    read = sorted({position for of in recipe.sets for position in of.positions})
    queries = list(recipe.queries)
    moved = dict[tuple[int, int], tuple[int, int]]()
    for index, query in enumerate(queries):
        columns = [column for number, column in read if number == index]
        if isinstance(query, Cells) and columns:
            chosen = tuple(query.columns[column] for column in columns)
            queries[index] = Cells(query.plan, query.keys, chosen)
            moved |= {(index, column): (index, new) for new, column in enumerate(columns)}
    sets = tuple(
        replace(of, positions=tuple(moved.get(position, position) for position in of.positions))
        for of in recipe.sets
    )
    return replace(recipe, queries=tuple(queries), sets=sets)
