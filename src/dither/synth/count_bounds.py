"""Bound a count by noisy counts of fewer columns, however the columns depend on each other.

Rows that meet all conditions are at most those that meet some of them, and at least those less the
rows that break another. So every measured table bounds every count. Where only some values of a
group meet the conditions, the whole group counts for the upper end and nothing of it for the lower
one: nothing is assumed of how rows are spread in a group. Groups were chosen by the noisy counts of
single values, so single columns are bounded by these values, never by groups. Proof:
docs/proofs/synthetic-tables.md#what-is-known-of-the-error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from scipy import stats

from dither.synth.contraction import Table
from dither.synth.estimate import Measurement
from dither.synth.fitted import FittedTable
from dither.synth.groupings import ValueGrouping, keep_all
from dither.synth.junction_tree import Clique

CHANCE = 0.025
"""The chance that the noise of any table used misleads; the other half of 5% is for `gaps`."""
_SUMS = 5
"""How many ends of sums of one table are used: meeting from both sides, failing, and all rows."""
Conditions = Mapping[int, Table]
"""By attribute the share of each value that a condition allows."""


@dataclass(frozen=True)
class CountBounds:
    """The least and the most rows that meet a condition, with 95% confidence."""

    low: float
    high: float


def bound_count(fitted: FittedTable, where: Conditions, is_gaussian: bool) -> CountBounds | None:
    """Bound the number of rows that meet all conditions; None where no measured table helps.

    `is_gaussian` says that all noise is Gaussian; else a bound for Laplace noise is used, which
    holds for both.
    """
    usable = _list_usable(fitted, where)
    if not usable:
        return None
    chance = CHANCE / (_SUMS * len(usable))
    tables = _choose_tables(usable, where)
    bounds_of = {
        columns: _bound_table(table, where, chance, is_gaussian)
        for columns, table in tables.items()
    }
    high = min(bounds.meeting_high for bounds in bounds_of.values())
    low = max(
        bounds.meeting_low - _bound_failing({*where} - columns, bounds_of)
        for columns, bounds in bounds_of.items()
    )
    gap = _find_gap(fitted, {*where})
    if gap is not None:
        clique, distance = gap
        rows = _bound_rows(tables.values(), chance, is_gaussian)
        low_rows, high_rows = _count_in_model(fitted, clique, where)
        moved = (distance + max(abs(end - fitted.model.total) for end in rows)) / 2
        low = max(low, low_rows - moved)
        high = min(high, high_rows + moved)
    return CountBounds(max(0.0, min(low, high)), max(0.0, low, high))


@dataclass(frozen=True)
class _CountedTable:
    """Noisy counts, and for every attribute the groups of values that they count.

    The groups do not depend on the noise of these counts.
    """

    measurement: Measurement
    groupings: Sequence[ValueGrouping]

    def mark(self, where: Conditions, *, is_any: bool) -> np.ndarray:
        """Mark the cells in which some values meet the conditions, or all do."""
        return _mark_groups(self.measurement.clique, self.groupings, where, is_any=is_any)


@dataclass(frozen=True)
class _TableBounds:
    """What one measured table says: the rows that meet its conditions, and those that break one."""

    meeting_low: float
    meeting_high: float
    failing_high: float


def _list_usable(fitted: FittedTable, where: Conditions) -> list[_CountedTable]:
    """List the tables that say something of the conditions, or of all rows where there are none.

    Single columns count values here. Where a file has no such counts, and the groups are not single
    values, the column is left out: its groups were chosen by its noise.
    """
    values = [keep_all(grouping.values) for grouping in fitted.groupings]
    singles = {measurement.clique: measurement for measurement in fitted.single_counts}
    usable = []
    for measurement in fitted.measurements:
        clique = measurement.clique
        if where and not {*clique} & {*where}:
            continue
        if len(clique) > 1:
            usable.append(_CountedTable(measurement, fitted.groupings))
        elif clique in singles:
            usable.append(_CountedTable(singles[clique], values))
        elif fitted.groupings[clique[0]] == values[clique[0]]:
            usable.append(_CountedTable(measurement, values))
    return usable


def _choose_tables(
    usable: Sequence[_CountedTable], where: Conditions
) -> dict[frozenset[int], _CountedTable]:
    """Choose, for every set of columns with conditions that a table has, the table with the least
    noise in the cells that meet them.

    Which cells these are may depend on the noise of other tables, so that every usable table takes
    its share of the chance of an error, chosen or not.
    """
    tables: dict[frozenset[int], _CountedTable] = {}
    least: dict[frozenset[int], float] = {}
    for table in usable:
        columns = frozenset({*table.measurement.clique} & {*where})
        variance = float(table.measurement.variance[table.mark(where, is_any=True)].sum())
        if columns not in least or variance < least[columns]:
            least[columns] = variance
            tables[columns] = table
    return tables


def _mark_groups(
    clique: Clique, groupings: Sequence[ValueGrouping], where: Conditions, *, is_any: bool
) -> np.ndarray:
    """Mark the cells of groups in which some values meet the conditions, or all do."""
    marks = np.ones((), bool)
    for attribute in clique:
        grouping = groupings[attribute]
        marked = np.ones(grouping.size, bool)
        if attribute in where:
            shares = where[attribute]
            is_met = shares > 0 if is_any else shares >= 1
            met = grouping.matrix @ is_met
            marked = met > 0 if is_any else met == grouping.matrix.sum(axis=1)
        marks = np.multiply.outer(marks, marked)
    return marks


def _bound_table(
    table: _CountedTable, where: Conditions, chance: float, is_gaussian: bool
) -> _TableBounds:
    measurement = table.measurement
    touched = table.mark(where, is_any=True)
    whole = table.mark(where, is_any=False)
    _, meeting_high = _bound_sum(measurement, touched, chance, is_gaussian)
    meeting_low, _ = _bound_sum(measurement, whole, chance, is_gaussian)
    _, failing_high = _bound_sum(measurement, ~whole, chance, is_gaussian)
    return _TableBounds(max(0.0, meeting_low), max(0.0, meeting_high), max(0.0, failing_high))


def _bound_sum(
    measurement: Measurement, cells: np.ndarray, chance: float, is_gaussian: bool
) -> tuple[float, float]:
    """Bound the sum of some exact counts from both sides; each end fails with at most `chance`."""
    total = float(measurement.counts[cells].sum())
    reach = bound_noise(measurement.variance[cells], chance, is_gaussian)
    return total - reach, total + reach


def bound_noise(variances: Table, chance: float, is_gaussian: bool) -> float:
    """Bound what a sum of independent noises exceeds with at most this chance.

    Laplace noises by Chernoff: with largest scale b and variance v of the sum, the logarithm of the
    moment generating function at l is at most -v / (2 b^2) log(1 - l^2 b^2). Gaussian ones are
    whole numbers: a sum above the bound is at least the next whole number, hence half a row is
    added. Rounding adds at most a twelfth to each variance.
    """
    if not variances.size:
        return 0.0
    variance = float(variances.sum())
    if is_gaussian:
        return float(stats.norm.isf(chance)) * sqrt(variance + variances.size / 12) + 0.5
    scale = sqrt(float(variances.max()) / 2)
    points = np.linspace(0.0, 1.0, 400)[1:-1]
    logs = -log(chance) - variance / (2 * scale**2) * np.log1p(-np.square(points))
    return float((logs / points).min()) * scale


def _bound_failing(rest: set[int], bounds_of: Mapping[frozenset[int], _TableBounds]) -> float:
    """Bound the rows that break a condition on the columns `rest`: a sum over tables with these."""
    failing = 0.0
    while rest:
        useful = {columns: bounds for columns, bounds in bounds_of.items() if columns & rest}
        if not useful:
            return float("inf")
        columns = min(
            useful, key=lambda covered: useful[covered].failing_high / len(covered & rest)
        )
        failing += useful[columns].failing_high
        rest = rest - columns
    return failing


def _find_gap(fitted: FittedTable, columns: set[int]) -> tuple[Clique, float] | None:
    """Find, among bounded cliques that were not measured, the one with these columns and the least
    distance from the model."""
    gaps = [(clique, gap) for clique, gap in fitted.gaps.items() if columns <= {*clique}]
    return min(gaps, key=lambda bounded: bounded[1], default=None)


def _bound_rows(
    tables: Collection[_CountedTable], chance: float, is_gaussian: bool
) -> tuple[float, float]:
    """Bound the number of all rows from both sides, by the table with the least noise."""
    measurements = [table.measurement for table in tables]
    best = min(measurements, key=lambda measurement: float(measurement.variance.sum()))
    return _bound_sum(best, np.ones(best.counts.shape, bool), chance, is_gaussian)


def _count_in_model(fitted: FittedTable, clique: Clique, where: Conditions) -> tuple[float, float]:
    """Count the model's rows in groups of which all values meet the conditions, and some do."""
    table = fitted.model.find_marginal(clique)
    whole = _mark_groups(clique, fitted.groupings, where, is_any=False)
    touched = _mark_groups(clique, fitted.groupings, where, is_any=True)
    return float(table[whole].sum()), float(table[touched].sum())
