"""Bound how long quantiles and keys without a list take, by declared rows, cells and points."""

from __future__ import annotations

from math import sqrt

from dither.curator.declared_rows import count_declared_rows
from dither.curator.expression_work import WIDE, WIDE_DIVISION_S
from dither.laws import find_error_law
from dither.laws.base import KeyErrorLaw
from dither.plan.algebra import Cells, CountDistinct, CountUnits, Keys, MeasuredQuery, Quantiles
from dither.plan.analysed_query import Analyses
from dither.plan.grids import Points
from dither.privacy.kernel.kernel import Priced

NUMBER_S = 10e-6
"""Seconds for one released number: its noise."""
QUANTILE_S = 1.5e-3
"""Seconds for one released quantile or end of one: 0.2 ms of CPU, 0.7 on a shared machine."""
POINT_S = 0.4e-6
"""Seconds for one point that holds rows and one quantile: 0.1 microseconds."""
SORTED_ROW_S = 0.3e-6
"""Seconds for one row that is sorted by its point: 0.1 microseconds."""
COUNTER_S = 10e-9
"""Seconds for one point of one cell that is counted in an array."""
KEY_S = 10e-6
"""Seconds for one label of a key without a list, in each column of a statement: 2 to 4 microseconds
of CPU to read it and to sort it, 10 on a machine that others use."""
SAMPLER_S = 20e-3
"""Seconds for the table of chances that the noise of one step needs: 10 ms of CPU."""
FEW_STEPS = 3
"""The tables of so many steps are made in the fixed part of the slots."""
DISTINCT_S = 0.3e-6
"""Seconds for one row and one aggregate over distinct values or units: 0.1 microseconds."""
MOST_COUNTERS = 1 << 24
"""The most points of all cells together that are counted in an array: `MOST_SPOTS` in
`data/lower/cells.py`."""
RARE = 0.001
"""Keys that are shown with a chance below this are counted by the chance, and others by owners."""


def bound_groups(query: MeasuredQuery, analyses: Analyses) -> float:
    """Bound the seconds that a statement takes for its groups, beside its rows."""
    if not isinstance(query, (Cells, Keys, Quantiles)):
        return 0.0
    analysed = analyses.analyse_query(query)
    rows = count_declared_rows(analysed.rows)
    seconds = 0.0
    if analysed.unlisted:
        columns = len(analysed.unlisted) + 1 + (analysed.width if isinstance(query, Cells) else 1)
        seconds += KEY_S * rows * columns
    if isinstance(query, Cells):
        distinct = sum(isinstance(of, (CountDistinct, CountUnits)) for of in query.columns)
        seconds += DISTINCT_S * rows * distinct
    if isinstance(query, Quantiles):
        is_wide = analysed.rows.columns[query.column].largest >= WIDE
        seconds += WIDE_DIVISION_S * rows * is_wide
        counters = analysed.cells * analysed.points.count
        seconds += SORTED_ROW_S * rows + COUNTER_S * min(counters, MOST_COUNTERS)
    return seconds


def bound_noise(priced: Priced) -> float:
    """Bound the seconds for the noise of quantiles, selected keys and many different scales."""
    analyses = priced.version.analyses
    shown = {
        (step.step.query.plan, step.step.query.keys): bound_shown_keys(
            find_error_law(step.mechanism),
            count_declared_rows(analyses.analyse_rows(step.step.query.plan)),
        )
        for step in priced.steps
        if isinstance(step.step.query, Keys)
    }
    seconds = SAMPLER_S * max(0, len(priced.steps) - FEW_STEPS)
    for step in priced.steps:
        query = step.step.query
        if not isinstance(query, (Cells, Quantiles)):
            continue
        keys = shown.get((query.plan, step.unlisted), 1) if step.unlisted else 1
        rows = count_declared_rows(analyses.analyse_rows(query.plan))
        if isinstance(query, Quantiles):
            assert isinstance(step.points, Points)
            filled = min(rows, keys * step.cells * step.points.count)
            numbers = keys * step.cells * query.width
            seconds += QUANTILE_S * numbers + POINT_S * filled * query.width
        else:
            seconds += NUMBER_S * (keys - 1) * step.cells * len(query.columns)
    return seconds


def bound_shown_keys(law: object, rows: int) -> int:
    """Bound how many keys of so many rows are shown; more are with a chance below 1e-8.

    Keys that are shown with a chance of at least RARE have so many owners that few of them fit into
    the rows. There is at most one other key for each row: a share RARE of these is shown, and six
    deviations and 20 more.
    """
    if not isinstance(law, KeyErrorLaw):
        return rows
    rare = RARE * rows
    return min(rows, rows // max(1, law.size_shown(RARE)) + int(rare + 6 * sqrt(rare)) + 20)
