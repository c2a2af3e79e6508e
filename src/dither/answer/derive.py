"""Results derived from a result: postprocessing that costs nothing, with what it does to the
numbers said beside them.

The raw noisy integers stay in `raw`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dither.answer.blocks import Block, make_blocks
from dither.answer.choose_rows import Rows, choose_rows
from dither.answer.column_info import ResultColumn
from dither.answer.evaluate import scale_integers
from dither.answer.noises import list_noises
from dither.answer.result import Result, find_column, list_names
from dither.errors import RefusedError
from dither.figures import write_figure
from dither.laws import AdditiveErrorLaw, find_error_law
from dither.plan.algebra import Cells, Count, CountDistinct, CountUnits, CountValues, Sum
from dither.privacy.kernel.kernel import Release
from dither.question.expressions import Noisy
from dither.question.recipe import Output, Recipe
from dither.question.shapes import affine
from dither.rules import PrivacyRule

MOST_CELLS = 20_000
_NEXT_TO_NOTHING = 1e-6
"""Of a grid step: a deviation that is as good as 0, and can be divided by."""


def raise_negative_values(result: Result, columns: tuple[str, ...]) -> Result:
    """Set values below 0, and ends of intervals below 0, to 0.

    An interval covers as often as before, since the exact answer is not negative. The value is
    biased upwards: at an exact answer n by (b/2) e^(-n/b) under Laplace noise of scale b, by s
    phi(n/s) - n Phi(-n/s) under Gaussian noise of deviation s; in empty cells by b/2 or 0.4 s each,
    (d+1)/4 b in a box of d numbers, which adds up when many cells are summed.
    """
    chosen = [find_column(result, name).name for name in columns] or [
        output.name
        for output in result._recipe.outputs
        if output.role == "value" and _is_count(output, result._recipe)
    ]
    table = result.table
    notes = list(result.notes)
    for column in result.columns:
        if column.name not in chosen:
            continue
        for name in list_names(result, column):
            index = table.schema.get_field_index(name)
            zero = [
                None if value is None else max(value, type(value)(0))
                for value in table[name].to_pylist()
            ]
            table = table.set_column(
                index, table.schema.field(index), pa.array(zero, table.schema.field(index).type)
            )
        bias = (
            ""
            if column.scale is None
            else f", by {write_figure(_compute_empty_bias(result, column))} in an empty cell"
        )
        notes.append(
            f"{column.name}: negative values were set to 0, which biases it upwards{bias}; do not "
            f"add cells up"
        )
    return replace(
        result,
        _changed=table.replace_schema_metadata(result.table.schema.metadata),
        notes=tuple(notes),
    )


def _is_count(output: Output, recipe: Recipe) -> bool:
    """Whether a column is a count, or counts added up: COUNT(*) - 100 may be negative."""
    linear_form = affine(output.formula)
    if (
        linear_form is None
        or not linear_form.weights
        or linear_form.constant < 0
        or any(weight < 0 for _, weight in linear_form.weights)
    ):
        return False
    positions = [
        grouping.positions[atom] for grouping in recipe.sets for atom, _ in linear_form.weights
    ]
    queries = [(recipe.queries[query], column) for query, column in positions]
    counts = (Count, CountValues, CountUnits, CountDistinct)
    return all(
        isinstance(query, Cells) and isinstance(query.columns[column], counts)
        for query, column in queries
    )


def _compute_empty_bias(result: Result, column: ResultColumn) -> float:
    """Compute E max(0, noise): by how much raising negative values lifts a count that is 0."""
    assert column.scale is not None
    law = find_error_law(result._release.priced.steps[column.steps[0]].mechanism)
    if not isinstance(law, AdditiveErrorLaw):  # counts of shown keys are never negative
        return 0.0
    return float(column.scale) * law.positive_mean


def fit_totals(result: Result, release: Release, recipe: Recipe) -> Result:
    """Counts and sums that add up over a rollup.

    The weighted least squares fit to all grouping sets.

    Unbiased, and no cell is noisier than before. Only columns that are one additive number change;
    their intervals use the fit's own deviation with the wider of the normal quantile and that of
    the noise.
    """
    finest = _find_finest(recipe)
    all_blocks = make_blocks(recipe, release.values)
    rows = choose_rows(recipe, release.values, release.version.analyses)
    noises = list_noises(recipe, [calibrated.mechanism for calibrated in release.priced.steps])
    table = result.table
    changed = []
    for output in recipe.outputs:
        if (
            output.role != "value"
            or not isinstance(output.formula, Noisy)
            or not _is_additive(recipe, output.formula)
        ):
            continue
        atom = output.formula.atom
        laws = [noise.laws[atom] for noise in noises]
        confidence = find_column(result, output.name).confidence
        assert confidence is not None and all(law is not None for law in laws)
        deviations = [max(law.deviation, _NEXT_TO_NOTHING) for law in laws if law is not None]
        values = [scale_integers(recipe.atoms[atom], block.atoms[atom]) for block in all_blocks]
        fits, after = _fit_cells(all_blocks, finest, values, deviations)
        level = _level_of_dependent(rows, confidence)
        unit = float(recipe.atoms[atom].unit)
        normal = _find_normal_quantile(0.5 + float(level) / 2)
        lists: list[list[Any]] = [[None] * rows.shown_count for _ in range(3)]
        for i, (block, positions) in enumerate(rows.chosen):
            law = laws[i]
            assert law is not None
            half = after[i] * unit * max(normal, law.half_width(level) / deviations[i])
            row_by_name = {key: row for row, key in enumerate(_list_row_names(all_blocks[i]))}
            for position, name in zip(positions, _list_row_names(block), strict=True):
                row = row_by_name[name]
                for into, shift in zip(lists, (0.0, -half[row], half[row]), strict=True):
                    into[position] = float(fits[i][row] + shift)
        for title, values_shown in zip(output.names, lists, strict=True):
            index = table.schema.get_field_index(title)
            table = table.set_column(
                index, pa.field(title, pa.float64()), pa.array(values_shown, pa.float64())
            )
        changed.append(output.name)
    if not changed:
        raise RefusedError("no column is a plain count or sum", rule=PrivacyRule.ADDITIVE_FIT)
    note = (
        f"{', '.join(changed)}: fitted by least squares so that totals equal the sums of their "
        "parts; unbiased, whole numbers no longer; other columns are as released"
    )
    table = table.replace_schema_metadata(result.table.schema.metadata)
    return replace(result, _changed=table, notes=(*result.notes, note))


def _level_of_dependent(rows: Rows, confidence: Fraction) -> Fraction:
    """Compute the level of intervals of fitted rows, which share their noise.

    Where noise chose some, all intervals must hold at once (union bound).
    """
    return 1 - (1 - confidence) / rows.candidate_count if rows.is_choice else confidence


def _find_finest(recipe: Recipe) -> int:
    """Find the grouping set that all others are totals of."""
    if len(recipe.sets) < 2:
        raise RefusedError(
            "consistent() needs totals beside parts: GROUP BY ROLLUP", rule=PrivacyRule.ADDITIVE_FIT
        )
    everything = {key for grouping_set in recipe.sets for key in grouping_set.keys}
    for i, grouping_set in enumerate(recipe.sets):
        if set(grouping_set.keys) == everything:
            if any(recipe.keys[key].domain.undeclared for key in grouping_set.keys):
                raise RefusedError(
                    "the parts of undeclared keys do not add up: some are not shown",
                    rule=PrivacyRule.ADDITIVE_FIT,
                )
            return i
    raise RefusedError(
        "consistent() needs one set with all keys, as ROLLUP and CUBE have",
        rule=PrivacyRule.ADDITIVE_FIT,
    )


def _is_additive(recipe: Recipe, formula: Noisy) -> bool:
    """Whether the values of a number add up over groups, as counts and sums do.

    It must hold in every grouping set.
    """
    for grouping_set in recipe.sets:
        query, column = grouping_set.positions[formula.atom]
        released_query = recipe.queries[query]
        if not isinstance(released_query, Cells) or not isinstance(
            released_query.columns[column], (Count, CountValues, Sum)
        ):
            return False
    return not recipe.atoms[formula.atom].offset


def _list_row_names(block: Block) -> list[tuple[Any, ...]]:
    """List the keys of each row of a block as a tuple; empty tuples without keys."""
    return (
        list(zip(*(block.keys[key] for key in sorted(block.keys)), strict=True))
        if block.keys
        else [()] * block.rows
    )


def _fit_cells(
    all_blocks: tuple[Block, ...], finest: int, values: list[NDArray[Any]], deviations: list[float]
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]:
    """Fit the finest cells by least squares: x = (A' W A)^-1 A' W y.

    Returns every set's totals of x, and their deviations in grid steps.
    """
    fine = all_blocks[finest]
    if fine.rows > MOST_CELLS:
        raise RefusedError(
            f"consistent() fits at most {MOST_CELLS} cells", rule=PrivacyRule.BOUNDED_WORK
        )
    matrices = [_make_totals(fine, block) for block in all_blocks]
    weights = [1 / deviation**2 for deviation in deviations]
    normal = sum(
        weight * (matrix.T @ matrix) for weight, matrix in zip(weights, matrices, strict=True)
    )
    right = sum(
        weight * (matrix.T @ y) for weight, matrix, y in zip(weights, matrices, values, strict=True)
    )
    from scipy import sparse
    from scipy.sparse.linalg import splu

    solver = splu(sparse.csc_matrix(normal))
    cells = solver.solve(np.asarray(right))
    after: list[NDArray[np.float64]] = []
    for matrix in matrices:
        columns = matrix.T.toarray() if matrix.shape[0] * fine.rows <= 1 << 24 else None
        if columns is None:  # too large to invert: what one cell had before is a bound
            after.append(np.full(matrix.shape[0], deviations[len(after)]))
        else:
            after.append(np.sqrt(np.einsum("ij,ij->j", columns, solver.solve(columns))))
    return [matrix @ cells for matrix in matrices], after


def _make_totals(fine: Block, coarse: Block) -> Any:
    """Make the matrix that adds finest cells up to coarse cells."""
    kept = sorted(coarse.keys)
    names = list(zip(*(fine.keys[key] for key in kept), strict=True)) if kept else [()] * fine.rows
    row_by_name = {name: row for row, name in enumerate(_list_row_names(coarse))}
    rows = [row_by_name[name] for name in names]
    from scipy import sparse

    return sparse.csr_matrix(
        (np.ones(fine.rows), (rows, np.arange(fine.rows))), shape=(coarse.rows, fine.rows)
    )


def _find_normal_quantile(share: float) -> float:
    """Find the quantile of the standard normal law; SciPy is imported for derived results alone."""
    from scipy.special import ndtri

    return float(ndtri(share))
