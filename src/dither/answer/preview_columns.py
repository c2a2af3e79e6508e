"""The error of each value column before anything is released, from catalog and plan alone.

The noise of counts, sums and their affine functions is the same in every cell. An average or a
ratio errs more in a small group: its figures are those of a *reference cell* of `group_size` rows
(`preview_figures.py`). Joint half-widths hold for all cells of a column at once: noises are
independent, so each is taken at the level's m-th root. Where noisy values choose what is shown, the
half-width is the widest that the result can have (`preview_selection.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dither.answer.alternatives import list_noisy_values
from dither.answer.average_bounds import find_average_bounds
from dither.answer.blocks import count_cells
from dither.answer.interval_notes import write_interval_notes
from dither.answer.limit_notes import list_bin_notes, list_limit_notes
from dither.answer.noises import Noises, list_noises
from dither.answer.preview_figures import (
    ColumnFigures,
    FigureTerms,
    ReferenceCells,
    compute_figures,
    describe_reference_cells,
    find_half,
    find_widest,
)
from dither.answer.preview_noise import (
    count_most_rows,
    find_row_bound,
    find_span,
    note_bought_size,
    note_fewest_rows,
    note_largest_group,
    note_noise,
)
from dither.answer.preview_selection import foresee
from dither.answer.quantile_intervals import NO_BANDS, Bands
from dither.answer.size_shown import find_size_shown
from dither.answer.smallest_group import write_smallest_group
from dither.plan.analysed_query import AnalysedQuery, Analyses
from dither.question.expressions import Formula, Noisy
from dither.question.recipe import GroupingSet, Output, Recipe
from dither.question.shapes import affine, atoms_of
from dither.question.unit_limits import UnitLimits
from dither.stored import stored


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


@dataclass(frozen=True)
class SetFacts:
    """What the columns of one grouping set are previewed from."""

    recipe: Recipe
    grouping_set: GroupingSet
    mechanisms: Sequence[Any]
    noises: Noises
    reference: ReferenceCells


def list_set_facts(recipe: Recipe, mechanisms: Sequence[Any], terms: Terms) -> list[SetFacts]:
    """List the facts of every grouping set."""
    return [
        SetFacts(
            recipe,
            grouping_set,
            mechanisms,
            noises,
            describe_reference_cells(recipe, grouping_set, terms.analyses),
        )
        for grouping_set, noises in zip(
            recipe.sets, list_noises(recipe, mechanisms, terms.bands), strict=True
        )
    ]


def list_preview_columns(
    recipe: Recipe, mechanisms: Sequence[Any], terms: Terms
) -> tuple[PreviewColumn, ...]:
    """List the previews of all value columns, in every grouping set."""
    analysed = [terms.analyses.analyse_query(query) for query in recipe.queries]
    return tuple(
        _preview_column(set_facts, output, analysed, terms)
        for set_facts in list_set_facts(recipe, mechanisms, terms)
        for output in recipe.outputs
        if output.role == "value"
    )


def list_half_widths(
    recipe: Recipe, mechanisms: Sequence[Any], terms: Terms, names: Collection[str]
) -> list[tuple[str, float | None]]:
    """Name and half-width of the named value columns, in every grouping set, as a preview has them
    for a given group size."""
    halves: list[tuple[str, float | None]] = []
    for set_facts in list_set_facts(recipe, mechanisms, terms):
        inputs = set_facts.reference.make_cell(terms.group_size)
        for output in recipe.outputs:
            if output.name in names:
                level = foresee(recipe, output.formula, terms.level).level
                values = tuple(list_noisy_values(output.formula))
                half = find_widest(values, set_facts.noises, inputs, level)
                halves.append((output.name, half))
    return halves


def _note_sizes(
    formula: Formula, noises: Noises, terms: Terms, joint_half: float | None
) -> tuple[str, ...]:
    """What the bought sizes of released numbers say about their noise; the first that says it.

    `joint_half` is the half-width of the formula that holds for all groups at once.
    """
    for atom in sorted(atoms_of(formula)) if terms.limits is not None else ():
        assert terms.limits is not None
        size = terms.limits.clamps[atom].size
        half = find_half(Noisy(atom), noises, None, terms.level)
        own_half = joint_half if formula == Noisy(atom) else None
        if notes := note_bought_size(half, size) or note_largest_group(own_half, half, size):
            return notes
    return ()


def _note_rows(figures: ColumnFigures, row_bound: float | None, terms: Terms) -> tuple[str, ...]:
    """How many rows add up to the noise, where no limits were bought."""
    if terms.limits is not None:
        return ()
    return note_fewest_rows(figures.half, row_bound, terms.group_size)


def _preview_column(
    set_facts: SetFacts, output: Output, analysed: list[AnalysedQuery], terms: Terms
) -> PreviewColumn:
    """Preview one value column in one grouping set."""
    recipe = set_facts.recipe
    grouping_set = set_facts.grouping_set
    mechanisms = set_facts.mechanisms
    formula = output.formula
    read = atoms_of(formula)
    limits = tuple(dict.fromkeys(limit for atom in read for limit in recipe.atoms[atom].limits))
    values = tuple(list_noisy_values(formula))
    foreseen = foresee(recipe, formula, terms.level)
    needs_group_size = (
        terms.group_size is None
        and foreseen.level is not None
        and any(affine(value) is None for value in values)
    )
    cells = (count_cells(recipe, grouping_set) or 0) * len(values)
    span = find_span(formula, recipe, grouping_set, analysed)
    bounds = find_average_bounds(formula, recipe, terms.analyses) if needs_group_size else None
    figure_terms = FigureTerms(
        terms.level,
        foreseen.level,
        find_joint_level(terms.level, cells) if cells else None,
        terms.group_size,
        None if span is None else _find_most_rows(analysed, terms),
    )
    if needs_group_size:
        widest = math.inf if bounds is None else float(bounds[1] - bounds[0]) / 2
        least_size = find_size_shown(mechanisms) or 1
        figure_terms = replace(figure_terms, widest=widest, least_size=least_size)
    figures = compute_figures(formula, values, set_facts.noises, set_facts.reference, figure_terms)
    notes = [output.note] if output.note else []
    if figures.size is not None:
        notes.append(write_smallest_group(figures.size, bounds is not None, not grouping_set.keys))
    notes += write_interval_notes(formula, terms.bands, foreseen.level or terms.level, mechanisms)
    notes += foreseen.notes
    if terms.limits is None:
        notes += list_limit_notes(recipe, terms.analyses.catalog, read)
    notes += list_bin_notes(recipe)
    notes += _note_span(figures, figure_terms, span) or _note_rows(
        figures, find_row_bound(formula, recipe, grouping_set, analysed), terms
    )
    notes += _note_sizes(formula, set_facts.noises, terms, figures.joint_half)
    scale, sensitivity = _find_scale(set_facts, formula)
    return PreviewColumn(
        output.name,
        scale,
        _find_deviation(values[0], set_facts.noises) if len(values) == 1 else None,
        figures.half,
        sensitivity,
        limits,
        ", ".join(recipe.keys[key].column for key in grouping_set.keys) or "all",
        figures.joint_half,
        figures.relative,
        tuple(notes),
        any(terms.bands.is_quantile(atom) for atom in read),
        needs_group_size,
    )


def _find_most_rows(analysed: list[AnalysedQuery], terms: Terms) -> int:
    """The rows of the group named, or of the largest one where none or a larger one is named."""
    possible_rows = count_most_rows(analysed)
    return possible_rows if terms.group_size is None else min(terms.group_size, possible_rows)


def _note_span(figures: ColumnFigures, terms: FigureTerms, span: float | None) -> tuple[str, ...]:
    """Write a note where the interval of the largest group is wider than all possible answers."""
    if span is None:
        return ()
    half = figures.half
    if half is None or terms.most_rows != terms.group_size:
        half = math.inf if figures.half_at_most is None else figures.half_at_most
    return note_noise(half, span)


def _find_scale(set_facts: SetFacts, formula: Formula) -> tuple[float | None, float | None]:
    """Noise scale and sensitivity of a column that is a released number, in its own units."""
    law = set_facts.noises.laws[formula.atom] if isinstance(formula, Noisy) else None
    if not isinstance(formula, Noisy) or law is None:
        return None, None
    query, column = set_facts.grouping_set.positions[formula.atom]
    unit = float(set_facts.recipe.atoms[formula.atom].unit)
    sensitivity = set_facts.mechanisms[query].column_sensitivity(column).l1 * unit
    return float(law.error.noise_scale) * unit, sensitivity


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
