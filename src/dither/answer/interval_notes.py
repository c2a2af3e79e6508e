"""Which quantile ends a question can use, and what is said about columns that have no interval.

A function of the question, the catalog and the level: no value enters.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dither.answer.alternatives import list_noisy_values
from dither.answer.interval_shapes import (
    BaseFacts,
    find_base_level,
    has_interval,
    list_quantiles_used,
)
from dither.answer.quantile_intervals import Bands, list_rank_laws
from dither.laws import RankErrorLaw
from dither.question.expressions import Formula
from dither.question.recipe import Recipe
from dither.question.shapes import affine, atoms_of

NO_INTERVAL = "it has no interval: nothing bounds this function of noisy values at this level"
SOME_WITHOUT = "some of its values have no interval: nothing bounds them at this level"


def find_usable_quantiles(
    recipe: Recipe, quantiles: frozenset[int], level: Fraction, bought_level: Fraction
) -> frozenset[int]:
    """Find the quantiles whose ends, bought at a level, bound a column at the level asked for."""
    usable: frozenset[int] = frozenset()
    for output in recipe.outputs:
        if output.role == "value":
            usable |= _list_used(output.formula, BaseFacts(quantiles), level, bought_level)
    return usable


def _list_used(
    formula: Formula, base_facts: BaseFacts, level: Fraction, bought_level: Fraction
) -> frozenset[int]:
    """List the atoms of quantiles whose bought intervals the interval of this formula uses.

    A value that would need a higher level than was bought uses none.
    """
    used: frozenset[int] = frozenset()
    for value in list_noisy_values(formula):
        if find_base_level(value, base_facts, level) <= bought_level:
            used |= list_quantiles_used(value, base_facts)
    return used


def write_interval_notes(
    formula: Formula, bands: Bands, level: Fraction, mechanisms: Sequence[Any]
) -> list[str]:
    """Write what a reader must know about the quantiles of a column.

    Also says whether the column has an interval.
    """
    laws = tuple(law for mechanism in mechanisms for law in list_rank_laws(mechanism))
    return list(_write_notes(formula, bands, level, laws))


@lru_cache(maxsize=256)
def _write_notes(
    formula: Formula, bands: Bands, level: Fraction, laws: tuple[RankErrorLaw, ...]
) -> tuple[str, ...]:
    """Write the notes from the laws of the ranks of all quantiles."""
    base_facts = BaseFacts(frozenset(atom for atom, _ in bands.cells))
    values = list(list_noisy_values(formula))
    notes = []
    for atom in atoms_of(formula):
        bounded = [value for value in values if atom in list_quantiles_used(value, base_facts)]
        is_bound = any(
            find_base_level(value, base_facts, level) == level
            or _is_bounded(value, bands, base_facts, level)
            for value in bounded
        )
        notes.append(bands.note(atom, level, laws, is_bound))
    without = [value for value in values if not _is_bounded(value, bands, base_facts, level)]
    if any(affine(value) is None or len(atoms_of(value)) > 1 for value in without):
        notes.append(NO_INTERVAL if len(without) == len(values) else SOME_WITHOUT)
    return tuple(note for note in notes if note)


def _is_bounded(value: Formula, bands: Bands, base_facts: BaseFacts, level: Fraction) -> bool:
    """Whether a value can have an interval, with the quantile ends that were bought."""
    needed = find_base_level(value, base_facts, level)
    covered = frozenset(atom for atom, band in bands.ends if needed <= band.level)
    return has_interval(value, base_facts, covered)
