"""Which statements answer the steps of a request: steps over the same measured query share one."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from dither.plan.algebra import (
    BlockCounts,
    Cells,
    JointScores,
    Linear,
    MeasuredQuery,
    Scores,
    UnitVectors,
)
from dither.plan.apply_operator import to_integers
from dither.plan.linear import multiply_cells
from dither.plan.measured import measured_queries
from dither.plan.scores import evaluate_scores
from dither.privacy.kernel.calibrate import Calibrated
from dither.privacy.kernel.randomise import Exact
from dither.privacy.kernel.release import Priced
from dither.privacy.kernel.request import Step


def statements(priced: Priced) -> list[MeasuredQuery]:
    """List the queries to measure, each once, though several steps may share one.

    They are compared by their hashes: `==` confuses 1 and True.
    """
    return list(
        {
            query.hash: query
            for calibrated in priced.steps
            for query in measured_queries(calibrated.step.measured)
        }.values()
    )


def take_apart(priced: Priced, measured: list[Any]) -> list[Exact]:
    """Give each step its exact integers out of what the statements measured.

    `measured` has one result for each query of `statements`, in that order.
    """
    by_hash = {
        query.hash: numbers for query, numbers in zip(statements(priced), measured, strict=True)
    }
    return [
        _numbers_of(
            calibrated,
            [by_hash[query.hash] for query in measured_queries(calibrated.step.measured)],
        )
        for calibrated in priced.steps
    ]


def _numbers_of(calibrated: Calibrated, results: list[Any]) -> Exact:
    """The exact numbers that one step answers, from the results of its statements."""
    query = calibrated.step.measured
    if isinstance(query, JointScores):
        scores = [
            evaluate_scores(member, cells, calibrated.largest_cells)
            for member, cells in zip(query.members, results, strict=True)
        ]
        return {(): np.concatenate(scores)}
    (measured,) = results
    if isinstance(query, Linear):
        return {(): multiply_cells(query, measured, calibrated.largest_cells)}
    if isinstance(query, Scores):
        return {(): evaluate_scores(query, measured, calibrated.largest_cells)}
    if isinstance(query, BlockCounts):
        return {(): to_integers(measured[:, 0], calibrated.largest_cells)}
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
