"""What is said about each column of a result: where its numbers come from, their noise, and what
was done to the rows.

A function of question, catalog and price, and of how many values are shown; no value enters.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from dither.answer.alternatives import MOST_ALTERNATIVES, is_chosen_by_noise, list_alternatives
from dither.answer.average_bounds import Bounds, find_average_bounds, is_average
from dither.answer.interval_notes import NO_INTERVAL, SOME_WITHOUT, write_interval_notes
from dither.answer.quantile_intervals import NO_BANDS, Bands
from dither.answer.selection import IntervalSelection
from dither.laws import AdditiveErrorLaw, find_error_law
from dither.plan.norms import Sensitivity
from dither.privacy.kernel.kernel import Release
from dither.question.expressions import Noisy
from dither.question.recipe import Output, Recipe
from dither.question.row_limits import list_row_limits
from dither.question.shapes import atoms_of

OF_WHAT_IS_SHOWN = (
    "an interval is that of the value shown, whichever it is; a constant that noise chose has none"
)
TOO_MANY = (
    f"more than {MOST_ALTERNATIVES} alternatives, chosen by noisy values: it has no intervals"
)
WITHOUT_INTERVAL = (NO_INTERVAL, SOME_WITHOUT, OF_WHAT_IS_SHOWN, TOO_MANY)
"""Notes that say why a value has no interval."""


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result: its name, role, noise, limits and notes."""

    name: str
    role: Literal["key", "value", "low", "high"]
    aggregate: str | None = None
    mechanism: str | None = None
    noise: str | None = None
    scale: Fraction | None = None
    sensitivity: Fraction | None = None
    resolution: Fraction | None = None
    confidence: Fraction | None = None
    limits: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    bounds: Bounds | None = None
    """Public bounds of what the column shows, where they are known: an average has those of the
    values that it averages."""


def describe_column(
    role: Literal["key", "value"],
    output: Output,
    recipe: Recipe,
    release: Release,
    level: Fraction,
    selection: IntervalSelection,
    bands: Bands = NO_BANDS,
) -> ResultColumn:
    """Describe a column: its noise if it is one released number, and the steps that it reads.

    The keys of a question without values carry the limits that its values would.
    """
    name = output.names[0]
    if role == "key":
        has_values = any(shown.role == "value" for shown in recipe.outputs)
        return ResultColumn(name, role, limits=() if has_values else _list_limits(recipe, release))
    read = atoms_of(output.formula)
    steps = tuple(
        sorted({grouping_set.positions[atom][0] for grouping_set in recipe.sets for atom in read})
    )
    mechanisms: list[Any] = [release.priced.steps[step].mechanism for step in steps]
    limits = tuple(dict.fromkeys(limit for atom in read for limit in recipe.atoms[atom].limits))
    notes = [output.note] if output.note else []
    notes += write_interval_notes(output.formula, bands, selection.level(level), mechanisms)
    notes += _write_choice_notes(output, selection, level)
    aggregate = output.aggregate or (recipe.atoms[read[0]].aggregate if read else "")
    common: dict[str, Any] = {
        "aggregate": aggregate,
        "confidence": level,
        "limits": limits,
        "steps": steps,
        "notes": tuple(dict.fromkeys(notes)),
        "bounds": _find_bounds(output, recipe, release),
    }
    names = " and ".join(dict.fromkeys(mechanism.stored_name for mechanism in mechanisms))
    marginals = _list_marginals(output, recipe, release)
    if not isinstance(output.formula, Noisy) or not marginals:
        return ResultColumn(name, role, mechanism=names or None, **common)
    unit = recipe.atoms[output.formula.atom].unit
    return ResultColumn(
        name,
        role,
        mechanism=names,
        noise=marginals[0][0].formula,
        scale=max(law.noise_scale for law, _ in marginals) * unit,
        sensitivity=max(sensitivity.l1 for _, sensitivity in marginals) * unit,
        resolution=unit,
        **common,
    )


def _find_bounds(output: Output, recipe: Recipe, release: Release) -> Bounds | None:
    if not is_average(output.formula):
        return None
    return find_average_bounds(output.formula, recipe, release.version.analyses)


def _list_limits(recipe: Recipe, release: Release) -> tuple[str, ...]:
    """List what registration limits per unit in the rows that a question reads."""
    catalog = release.version.catalog
    limits = (limit for query in recipe.queries for limit in list_row_limits(catalog, query.plan))
    return tuple(dict.fromkeys(limits))


def _list_marginals(
    output: Output, recipe: Recipe, release: Release
) -> list[tuple[AdditiveErrorLaw, Sensitivity]]:
    """List law and sensitivity of a column that is one count or sum, for every grouping set.

    The list is empty for every other column.
    """
    if not isinstance(output.formula, Noisy):
        return []
    marginals = []
    for grouping_set in recipe.sets:
        step, column = grouping_set.positions[output.formula.atom]
        mechanism = release.priced.steps[step].mechanism
        law = find_error_law(mechanism, column)
        sensitivity = mechanism.column_sensitivity(column)
        if isinstance(law, AdditiveErrorLaw) and sensitivity is not None:
            marginals.append((law, sensitivity))
    return marginals


def _write_choice_notes(output: Output, selection: IntervalSelection, level: Fraction) -> list[str]:
    """Say what noisy values chose to show, and what that does to intervals."""
    alternatives = list_alternatives(output.formula)
    if not alternatives:
        return [TOO_MANY]
    notes = []
    if selection.is_choice:
        noun = "rows" if len(alternatives) == 1 else "values"
        notes.append(
            f"{selection.shown_count} of {selection.candidate_count} {noun} were chosen by noisy "
            f"values: intervals are widened so that of the {noun} shown at most "
            f"{float(1 - level) * 100:.4g}% miss, on average"
        )
    if is_chosen_by_noise(output.formula):
        notes.append(OF_WHAT_IS_SHOWN)
    return notes
