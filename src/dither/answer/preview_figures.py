"""Half-widths of a column before anything is released, computed once for the same facts.

A *reference cell* stands for a group: counts of `group_size` rows, half of them at the lower bound
of every column and half at the upper, which is as spread out as bounds allow. All that the figures
depend on is public and in the arguments of `compute_figures`: formulas, laws of noise, bounds and
levels. Questions that differ only in a condition share them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dither.answer.blocks import count_cells
from dither.answer.evaluate import FormulaInputs, evaluate, scale_integers
from dither.answer.intervals import compute_interval, find_affine_half
from dither.answer.noises import Noises
from dither.answer.smallest_group import Flags, find_smallest_group
from dither.plan.algebra import Cells, Sum
from dither.plan.analysed_query import Analyses
from dither.plan.keys import bounds_in
from dither.question.expressions import Formula
from dither.question.kinds import key_kind
from dither.question.recipe import Atom, GroupingSet, Recipe
from dither.question.shapes import affine, atoms_of

Floats = NDArray[np.float64]

_ROWS = 4


@dataclass(frozen=True)
class ReferenceCells:
    """What the reference cells of one grouping set are made of.

    `middles` has for each atom what one row adds to it, `text_keys` for each key whether it is a
    text, `absent_keys` those that the set leaves out. `rows` is how often one cell is repeated.
    """

    atoms: tuple[Atom, ...]
    middles: tuple[Fraction, ...]
    text_keys: tuple[bool, ...]
    absent_keys: tuple[int, ...]
    rows: int

    def make_cell(self, group_size: int | None) -> FormulaInputs | None:
        """Make the cell of one group size, None without one.

        It is repeated as the answer repeats it, up to four rows: points that serve one row may be
        too few for several.
        """
        return None if group_size is None else self.make_cells([group_size] * self.rows)

    def make_cells(self, sizes: Sequence[int]) -> FormulaInputs:
        """Make one cell for each group size: counts of that size, sums half-way in bounds."""
        rows = len(sizes)
        atoms = tuple(
            scale_integers(atom, np.array([float(middle * size) for size in sizes]))
            for atom, middle in zip(self.atoms, self.middles, strict=True)
        )
        keys = {
            key: np.full(rows, None, object) if is_text else np.full(rows, np.nan)
            for key, is_text in enumerate(self.text_keys)
        }
        return FormulaInputs(atoms, keys, {key: float(key in self.absent_keys) for key in keys})


def describe_reference_cells(
    recipe: Recipe, grouping_set: GroupingSet, analyses: Analyses
) -> ReferenceCells:
    """Read from recipe and bounds what the reference cells of a grouping set are made of."""
    middles = tuple(_find_middle(recipe, position, analyses) for position in grouping_set.positions)
    keys = range(len(recipe.keys))
    return ReferenceCells(
        recipe.atoms,
        middles,
        tuple(key_kind(recipe.keys[key]) == "text" for key in keys),
        tuple(key for key in keys if key not in grouping_set.keys),
        min(_ROWS, count_cells(recipe, grouping_set) or _ROWS),
    )


def _find_middle(recipe: Recipe, position: tuple[int, int], analyses: Analyses) -> Fraction:
    """What one row adds to a released number: the middle of the bounds for a sum, else 1."""
    query = recipe.queries[position[0]]
    aggregate = query.columns[position[1]] if isinstance(query, Cells) else None
    if not isinstance(aggregate, Sum):
        return Fraction(1)
    between = bounds_in(aggregate.column, analyses.analyse_rows(query.plan).columns)
    return Fraction(between.low + between.high, 2)


@dataclass(frozen=True)
class FigureTerms:
    """For which groups and at which levels the figures of a column are computed.

    `level` is None where it is not known beforehand how many intervals are shown; `asked_level` is
    the one that was asked for. Figures are those of a group of `group_size` rows. Without it a
    group is searched where `widest` is given: the smallest of `least_size` rows or more whose
    intervals are no wider. `most_rows` is the largest group, None where nobody reads its figure.
    """

    asked_level: Fraction
    level: Fraction | None
    joint_level: Fraction | None
    group_size: int | None
    most_rows: int | None
    widest: float | None = None
    least_size: int = 1


@dataclass(frozen=True)
class ColumnFigures:
    """Half-widths of a column; None where they are not known.

    `size` is the group that was searched, `relative` the half-width over the value, `half_at_most`
    the half-width of the largest group where it is not `half`.
    """

    size: int | None
    half: float | None
    joint_half: float | None
    relative: float | None
    half_at_most: float | None


@lru_cache(maxsize=256)
def compute_figures(
    formula: Formula,
    values: tuple[Formula, ...],
    noises: Noises,
    reference: ReferenceCells,
    terms: FigureTerms,
) -> ColumnFigures:
    """Compute the half-widths of a column whose formula may show these noisy values."""
    size = _find_size(values, noises, reference, terms)
    inputs = reference.make_cell(terms.group_size if size is None else size)
    half = find_widest(values, noises, inputs, terms.level)
    half_at_most = None
    if half is None or terms.most_rows != terms.group_size:
        at_most = reference.make_cell(terms.most_rows)
        if at_most is not None:
            half_at_most = find_widest((formula,), noises, at_most, terms.asked_level)
    return ColumnFigures(
        size,
        half,
        find_widest(values, noises, inputs, terms.joint_level) if terms.joint_level else None,
        _divide_by_value(half, formula, inputs),
        half_at_most,
    )


def _find_size(
    values: tuple[Formula, ...], noises: Noises, reference: ReferenceCells, terms: FigureTerms
) -> int | None:
    """Find the smallest group with intervals at both levels; None where none is searched."""
    if terms.widest is None or terms.level is None:
        return None
    strictest = max(terms.level, terms.joint_level or terms.level)
    widest = terms.widest

    def have_intervals(sizes: Sequence[int]) -> Flags:
        return _list_widest(values, noises, reference.make_cells(sizes), strictest) <= widest

    return find_smallest_group(have_intervals, terms.least_size)


def find_widest(
    values: tuple[Formula, ...],
    noises: Noises,
    inputs: FormulaInputs | None,
    level: Fraction | None,
) -> float | None:
    """Find half the length of the widest interval that a column may show.

    None where one of them is not known.
    """
    halves = [
        None if level is None else find_half(value, noises, inputs, level) for value in values
    ]
    bounded_halves = [half for half in halves if half is not None]
    return max(bounded_halves, default=None) if len(bounded_halves) == len(halves) else None


def _list_widest(
    values: tuple[Formula, ...], noises: Noises, inputs: FormulaInputs, level: Fraction
) -> Floats:
    """As `find_widest`, for every cell of `inputs`; NaN where one of them is not known."""
    widest = np.full(inputs.atoms[0].shape, -math.inf)
    for value in values:
        if any(noises.laws[atom] is None for atom in atoms_of(value)):
            return np.full(widest.shape, np.nan)
        low, high = compute_interval(value, inputs, noises, level)
        widest = np.maximum(widest, (high - low) / 2)
    return widest


def find_half(
    formula: Formula, noises: Noises, inputs: FormulaInputs | None, level: Fraction
) -> float | None:
    """Find half the length of a formula's interval; None where it is not known.

    For affine functions it is exact; for others it is taken at the reference cell `inputs`.
    """
    if any(noises.laws[atom] is None for atom in atoms_of(formula)):
        return None
    whole = affine(formula)
    if whole is not None:
        return find_affine_half(whole, noises, level)
    if inputs is None:
        return None
    low, high = compute_interval(formula, inputs, noises, level)
    length = float(high[0] - low[0])
    return None if math.isnan(length) else length / 2


def _divide_by_value(
    half: float | None, formula: Formula, inputs: FormulaInputs | None
) -> float | None:
    """Divide half the length of an interval by the value at the reference cell."""
    value = None if inputs is None else np.ravel(evaluate(formula, inputs))[0]
    if half is None or not isinstance(value, float) or not value or math.isnan(value):
        return None
    return half / abs(value)
