"""The error of each value column before anything is released, from catalog and plan alone.

The noise of counts, sums and their affine functions is the same in every cell. An average or a
ratio errs more in a small group: its figures are those of a *reference cell* of `group_size` rows,
half of them at the lower bound of every column and half at the upper, which is as spread out as
bounds allow. Joint half-widths hold for all cells of a column at once: noises are independent, so
each is taken at the level's m-th root. Where noisy values choose what is shown, the half-width is
the widest that the result can have (`preview_selection.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.answer.alternatives import list_noisy_values
from dither.answer.average_bounds import find_average_bounds
from dither.answer.blocks import count_cells
from dither.answer.evaluate import FormulaInputs, evaluate, scale_integers
from dither.answer.interval_notes import write_interval_notes
from dither.answer.intervals import Noises, compute_interval, find_affine_half
from dither.answer.limit_notes import list_bin_notes, list_limit_notes
from dither.answer.preview_noise import (
    count_most_rows,
    find_span,
    note_bought_size,
    note_noise,
)
from dither.answer.preview_selection import foresee
from dither.answer.quantile_intervals import NO_BANDS, Bands
from dither.answer.result import list_noises
from dither.answer.size_shown import find_size_shown
from dither.answer.smallest_group import Flags, find_smallest_group, write_smallest_group
from dither.plan.algebra import Cells, Sum
from dither.plan.analysed_query import Analyses
from dither.plan.keys import bounds_in
from dither.question.expressions import Formula, Noisy
from dither.question.kinds import key_kind
from dither.question.recipe import GroupingSet, Output, Recipe
from dither.question.shapes import affine, atoms_of
from dither.question.unit_limits import UnitLimits
from dither.stored import stored

Floats = NDArray[np.float64]

_ROWS = 4


@stored(
    "preview_column",
    name="name",
    scale="scale",
    standard_error="standard_error",
    half_width="half_width",
    sensitivity="sensitivity",
    limits="limits",
    by="by",
    joint_half_width="joint_half_width",
    relative_error="relative_error",
    notes="notes",
    is_quantile="is_quantile",
    needs_group_size="needs_group_size",
)
@dataclass(frozen=True)
class PreviewColumn:
    """The error that one value column will have, in its own units.

    None where it depends on the data.
    """

    name: str
    scale: float | None
    standard_error: float | None
    half_width: float | None
    sensitivity: float | None
    limits: tuple[str, ...]
    by: str = ""
    joint_half_width: float | None = None
    relative_error: float | None = None
    notes: tuple[str, ...] = ()
    is_quantile: bool = False
    needs_group_size: bool = False


@dataclass(frozen=True)
class Terms:
    """What a preview is made for.

    The level, the group size, and the public facts that bounds come from.
    """

    level: Fraction
    analyses: Analyses
    group_size: int | None = None
    bands: Bands = NO_BANDS
    limits: UnitLimits | None = None


def list_preview_columns(
    recipe: Recipe, mechanisms: Sequence[Any], terms: Terms
) -> tuple[PreviewColumn, ...]:
    """List the previews of all value columns, in every grouping set."""
    columns: list[PreviewColumn] = []
    analysed = [terms.analyses.analyse_query(query) for query in recipe.queries]
    possible_rows = count_most_rows(analysed)
    is_possible = terms.group_size is not None and terms.group_size <= possible_rows
    most_rows = terms.group_size if is_possible else possible_rows
    for grouping_set, noises in zip(
        recipe.sets, list_noises(recipe, mechanisms, terms.bands), strict=True
    ):
        inputs = make_reference_cell(recipe, grouping_set, terms.analyses, terms.group_size)
        at_most = make_reference_cell(recipe, grouping_set, terms.analyses, most_rows)
        values = [output for output in recipe.outputs if output.role == "value"]
        for output in values:
            column = _preview_column(
                recipe, grouping_set, output, mechanisms, noises, inputs, terms
            )
            span = find_span(output.formula, recipe, grouping_set, analysed)
            half = column.half_width
            if span is not None and (half is None or not is_possible):
                widest = _find_widest((output.formula,), noises, at_most, terms.level)
                half = math.inf if widest is None else widest
            notes = (*column.notes, *note_noise(half, span))
            sizes = _note_sizes(output.formula, recipe, noises, terms)
            columns.append(replace(column, notes=(*notes, *sizes)))
    return tuple(columns)


def list_half_widths(
    recipe: Recipe, mechanisms: Sequence[Any], terms: Terms, names: Collection[str]
) -> list[tuple[str, float | None]]:
    """Name and half-width of the named value columns, in every grouping set, as a preview has them
    for a given group size."""
    halves: list[tuple[str, float | None]] = []
    for grouping_set, noises in zip(
        recipe.sets, list_noises(recipe, mechanisms, terms.bands), strict=True
    ):
        inputs = make_reference_cell(recipe, grouping_set, terms.analyses, terms.group_size)
        for output in recipe.outputs:
            if output.name in names:
                level = foresee(recipe, output.formula, terms.level).level
                values = tuple(list_noisy_values(output.formula))
                halves.append((output.name, _find_widest(values, noises, inputs, level)))
    return halves


def _note_sizes(formula: Formula, recipe: Recipe, noises: Noises, terms: Terms) -> tuple[str, ...]:
    """What the bought sizes of released numbers say about their noise; the first that says it."""
    for atom in sorted(atoms_of(formula)) if terms.limits is not None else ():
        assert terms.limits is not None
        size = terms.limits.clamps[atom].size
        half = _find_half(Noisy(atom), noises, None, terms.level)
        if notes := note_bought_size(half, size):
            return notes
    return ()


def _preview_column(
    recipe: Recipe,
    grouping_set: GroupingSet,
    output: Output,
    mechanisms: Sequence[Any],
    noises: Noises,
    inputs: FormulaInputs | None,
    terms: Terms,
) -> PreviewColumn:
    """Preview one value column in one grouping set."""
    formula = output.formula
    read = atoms_of(output.formula)
    limits = tuple(dict.fromkeys(limit for atom in read for limit in recipe.atoms[atom].limits))
    values = tuple(list_noisy_values(formula))
    cells = (count_cells(recipe, grouping_set) or 0) * len(values)
    foreseen = foresee(recipe, formula, terms.level)
    needs_group_size = (
        inputs is None
        and foreseen.level is not None
        and any(affine(value) is None for value in values)
    )
    joint_level = find_joint_level(terms.level, cells) if cells else None
    notes = [output.note] if output.note else []
    if needs_group_size:
        assert foreseen.level is not None
        strictest = max(foreseen.level, joint_level or foreseen.level)
        bounds = find_average_bounds(formula, recipe, terms.analyses)
        widest = math.inf if bounds is None else float(bounds[1] - bounds[0]) / 2

        def have_intervals(sizes: Sequence[int]) -> Flags:
            cells = make_reference_cells(recipe, grouping_set, terms.analyses, sizes)
            halves = _list_widest(values, noises, cells, strictest)
            return halves <= widest

        size = find_smallest_group(have_intervals, find_size_shown(mechanisms) or 1)
        inputs = make_reference_cell(recipe, grouping_set, terms.analyses, size)
        is_total = not grouping_set.keys
        if size is not None:
            notes.append(write_smallest_group(size, bounds is not None, is_total))
    half = _find_widest(values, noises, inputs, foreseen.level)
    scale = sensitivity = None
    law = noises.laws[formula.atom] if isinstance(formula, Noisy) else None
    if isinstance(formula, Noisy) and law is not None:
        query, column = grouping_set.positions[formula.atom]
        unit = float(recipe.atoms[formula.atom].unit)
        scale = float(law.error.noise_scale) * unit
        sensitivity = mechanisms[query].column_sensitivity(column).l1 * unit
    level = foreseen.level or terms.level
    notes += write_interval_notes(formula, terms.bands, level, mechanisms)
    return PreviewColumn(
        output.name,
        scale,
        _find_deviation(values[0], noises) if len(values) == 1 else None,
        half,
        sensitivity,
        limits,
        ", ".join(recipe.keys[key].column for key in grouping_set.keys) or "all",
        None if joint_level is None else _find_widest(values, noises, inputs, joint_level),
        _divide_by_value(half, formula, inputs),
        (
            *notes,
            *foreseen.notes,
            *(
                ()
                if terms.limits is not None
                else list_limit_notes(recipe, terms.analyses.catalog, read)
            ),
            *list_bin_notes(recipe),
        ),
        any(terms.bands.is_quantile(atom) for atom in read),
        needs_group_size,
    )


def _divide_by_value(
    half: float | None, formula: Formula, inputs: FormulaInputs | None
) -> float | None:
    """Divide half the length of an interval by the value at the reference cell."""
    value = None if inputs is None else np.ravel(evaluate(formula, inputs))[0]
    if half is None or not isinstance(value, float) or not value or math.isnan(value):
        return None
    return half / abs(value)


def find_joint_level(level: Fraction, cells: int) -> Fraction:
    """Find the level that each of `cells` independent intervals needs for all to hold at `level`.

    This is the `cells`-th root of `level`.

    >>> round(float(find_joint_level(Fraction(95, 100), 100)) ** 100, 9)
    0.95
    """
    # For a tiny level float(1 - level) is 1, and log1p(-1) fails: take the root itself, rounded up.
    if level < Fraction(1, 10**9):
        return Fraction(math.exp(math.log(level) / cells) * (1 + 1e-12))
    miss = -math.expm1(math.log1p(-float(1 - level)) / cells)
    return 1 - Fraction(miss)


def _find_widest(
    values: tuple[Formula, ...],
    noises: Noises,
    inputs: FormulaInputs | None,
    level: Fraction | None,
) -> float | None:
    """Find half the length of the widest interval that a column may show.

    None where one of them is not known.
    """
    halves = [
        None if level is None else _find_half(value, noises, inputs, level) for value in values
    ]
    bounded_halves = [half for half in halves if half is not None]
    return max(bounded_halves, default=None) if len(bounded_halves) == len(halves) else None


def _list_widest(
    values: tuple[Formula, ...], noises: Noises, inputs: FormulaInputs, level: Fraction
) -> Floats:
    """As `_find_widest`, for every cell of `inputs`; NaN where one of them is not known."""
    widest = np.full(inputs.atoms[0].shape, -math.inf)
    for value in values:
        if any(noises.laws[atom] is None for atom in atoms_of(value)):
            return np.full(widest.shape, np.nan)
        low, high = compute_interval(value, inputs, noises, level)
        widest = np.maximum(widest, (high - low) / 2)
    return widest


def _find_half(
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


def _find_deviation(formula: Formula, noises: Noises) -> float | None:
    """Compute the standard deviation of an affine formula's noise; None for any other formula."""
    whole = affine(formula)
    if whole is None or any(noises.laws[atom] is None for atom, _ in whole.weights):
        return None
    terms = [
        (weight * noises.atoms[atom].unit, noises.laws[atom]) for atom, weight in whole.weights
    ]
    return math.sqrt(
        sum((float(weight) * law.deviation) ** 2 for weight, law in terms if law is not None)
    )


def make_reference_cell(
    recipe: Recipe, grouping_set: GroupingSet, analyses: Analyses, group_size: int | None
) -> FormulaInputs | None:
    """Make the cell at which a preview computes: counts of `group_size`, sums half-way in bounds.

    None without a group size. Repeated as the answer repeats it, up to four rows: points that serve
    one row may be too few for several.
    """
    if group_size is None:
        return None
    rows = min(_ROWS, count_cells(recipe, grouping_set) or _ROWS)
    return make_reference_cells(recipe, grouping_set, analyses, [group_size] * rows)


def make_reference_cells(
    recipe: Recipe, grouping_set: GroupingSet, analyses: Analyses, sizes: Sequence[int]
) -> FormulaInputs:
    """One reference cell for each group size: counts of that size, sums half-way between their
    bounds."""
    atoms = []
    rows = len(sizes)
    for atom, (query, column) in zip(recipe.atoms, grouping_set.positions, strict=True):
        released_query = recipe.queries[query]
        middle = Fraction(1)
        aggregate = released_query.columns[column] if isinstance(released_query, Cells) else None
        if isinstance(released_query, Cells) and isinstance(aggregate, Sum):
            between = bounds_in(
                aggregate.column, analyses.analyse_rows(released_query.plan).columns
            )
            middle = Fraction(between.low + between.high, 2)
        sums = np.array([float(middle * size) for size in sizes])
        atoms.append(scale_integers(atom, sums))
    keys = {
        key: np.full(rows, np.nan)
        if key_kind(recipe.keys[key]) != "text"
        else np.full(rows, None, object)
        for key in range(len(recipe.keys))
    }
    return FormulaInputs(
        tuple(atoms),
        keys,
        {key: float(key not in grouping_set.keys) for key in range(len(recipe.keys))},
    )
