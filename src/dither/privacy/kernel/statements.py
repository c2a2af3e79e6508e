"""Which statements answer the steps of a request: steps over the same measured query share one."""

from __future__ import annotations

from typing import Any, cast

from dither.plan.algebra import (
    Cells,
    Linear,
    MeasuredQuery,
    Scores,
    UnitVectors,
    measured_query,
)
from dither.plan.linear import multiply_cells
from dither.plan.scores import evaluate_scores
from dither.privacy.kernel.calibrate import Calibrated
from dither.privacy.kernel.randomise import Exact
from dither.privacy.kernel.release import Priced
from dither.privacy.kernel.request import Step


def statements(priced: Priced) -> list[MeasuredQuery]:
    """List the queries to measure, each once, though several steps may share one.

    They are compared by their hashes: `==` confuses 1 and True.
    """
    queries = [measured_query(calibrated.step.measured) for calibrated in priced.steps]
    return list({query.hash: query for query in queries}.values())


def take_apart(priced: Priced, measured: list[Any]) -> list[Exact]:
    """Give each step its exact integers out of what the statements measured.

    `measured` has one result for each query of `statements`, in that order.
    """
    by_hash = {
        query.hash: numbers for query, numbers in zip(statements(priced), measured, strict=True)
    }
    return [
        _numbers_of(calibrated, by_hash[measured_query(calibrated.step.measured).hash])
        for calibrated in priced.steps
    ]


def _numbers_of(calibrated: Calibrated, measured: Any) -> Exact:
    """The exact numbers that one step answers."""
    query = calibrated.step.measured
    if isinstance(query, Linear):
        return {(): multiply_cells(query, measured, calibrated.largest_cells)}
    if isinstance(query, Scores):
        return {(): evaluate_scores(query, measured, calibrated.largest_cells)}
    if isinstance(query, UnitVectors):
        return {(): measured}
    return _columns_of(calibrated.step, measured)


def _columns_of(step: Step, measured: Any) -> Exact:
    """Take the columns of one step out of a measured query.

    The result maps each unlisted key to the cells that hold rows; without unlisted keys it has the
    one key `()`.
    """
    if not isinstance(step.measured, Cells):
        return cast(Exact, measured)
    columns = list(range(len(step.measured.columns)) if step.columns is None else step.columns)
    if not isinstance(measured, dict):
        return {(): measured[:, columns]}
    return {
        key: {code: tuple(row[column] for column in columns) for code, row in cells.items()}
        for key, cells in measured.items()
    }
