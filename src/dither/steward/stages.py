"""Exact answers of a *dev* lineage, and where the error of an answer comes from, stage by stage.

For teaching and tuning on invented or public data: a prod lineage has neither, since an exact
answer that anyone sees is a release that nobody paid for. Stages follow the order of registration:
values are clamped, then rows beyond the limits are left out; then keys may be suppressed, and noise
is added.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dither.catalog import Catalog, Category, Column, Decimal, FromPublic, Integer, Table
from dither.catalog.file.load import load
from dither.data.measure import Measurer
from dither.data.register.registration import write_copy_and_facts
from dither.errors import RefusedError
from dither.plan.algebra import (
    Cells,
    Keys,
    LimitGroups,
    LimitTotal,
    Plan,
    Quantiles,
    Query,
    Scan,
    nodes_of,
)
from dither.plan.grids import Points
from dither.plan.measured import measured_query
from dither.privacy.kernel.calibrate import Calibrated
from dither.privacy.kernel.randomise import dense
from dither.privacy.kernel.release import Release, Values
from dither.rules import PrivacyRule
from dither.state import State
from dither.steward.budgets import read_registered

WIDE = 10**12
Cell = tuple[tuple[str | None, ...], int]


class Stage(NamedTuple):
    """Exact cells after one stage: (values of unlisted keys, code of the listed ones) -> one
    integer per aggregate."""

    name: str
    cells: dict[Cell, tuple[int, ...]]


def truth(state: State, query: Cells, catalog: Catalog) -> list[list[int]]:
    """Exact cells of a *dev* lineage, for teaching and tests; a prod lineage has none to show."""
    return [list(map(int, row)) for row in measured(state, query, catalog)]


def measured(state: State, query: Query, catalog: Catalog) -> Any:
    """What the kernel would measure for any query of a *dev* lineage, exactly, for audits."""
    with _open_measurer(state, catalog) as measurer:
        return measurer.measure(measured_query(query))


def measure_truth(state: State, release: Release) -> Values:
    """Measure a release without noise, for the keys that it shows; dev lineages only."""
    with _open_measurer(state, release.version.catalog) as measurer:
        values_by_step = dict(zip(release.priced.steps, release.values, strict=True))
        selected = {
            (calibrated.step.query.plan, calibrated.step.query.keys): tuple(
                labels[: len(calibrated.step.query.keys)] for labels in keys
            )
            for calibrated, keys in values_by_step.items()
            if isinstance(calibrated.step.query, Keys)
        }
        return tuple(
            _measure_exactly(calibrated, measurer, selected) for calibrated in release.priced.steps
        )


def _measure_exactly(
    calibrated: Calibrated, measurer: Measurer, selected: dict[Any, Any]
) -> tuple[Any, ...]:
    """Measure one step without noise, for the keys that the release selected."""
    query = calibrated.step.query
    if isinstance(query, Keys):
        shown = selected[query.plan, query.keys]
        if calibrated.mechanism.column_sensitivity(1) is None:  # keys without counts
            return tuple(shown)
        owners = measurer.measure(query, bytes(32))
        return tuple((*key, str(owners.get(key, 0))) for key in shown)
    keys = selected[query.plan, calibrated.unlisted] if calibrated.unlisted else ((),)
    if not isinstance(query, (Cells, Quantiles)):
        raise RefusedError(
            f"no exact answer is shown for {type(query).__name__}: ask for its cells",
            rule=PrivacyRule.NO_RULE,
        )
    measurement = measurer.measure(query, bytes(32))
    if isinstance(query, Quantiles):
        return tuple(
            value
            for key in keys
            for value in _find_quantiles(calibrated, query, measurement.get(key, {}))
        )
    shape = (calibrated.cells, len(query.columns))
    blocks = (
        [dense(measurement.get(key, {}), shape) for key in keys]
        if calibrated.unlisted
        else [measurement]
    )
    return tuple(int(value) for block in blocks for value in block.ravel())


def _find_quantiles(
    calibrated: Calibrated, query: Quantiles, histograms: dict[int, Any]
) -> Iterator[int]:
    """Find the smallest point that the share of rows does not exceed; of an empty cell, the lowest.

    Ends of a quantile without noise are the quantile itself.
    """
    assert isinstance(calibrated.points, Points)
    for code in range(calibrated.cells):
        codes, counts = histograms.get(code, (np.zeros(1, np.int64), np.ones(1, np.int64)))
        total = np.cumsum(counts)
        for share in query.shares * (query.width // len(query.shares)):
            rank = max(Fraction(1), share * int(total[-1]))
            yield calibrated.points.value(int(codes[int(np.searchsorted(total, float(rank)))]))


def measure_stages(
    state: State, catalog_file: Path, *queries: Cells
) -> tuple[tuple[Stage, ...], ...]:
    """Measure each query on the file's rows, after clamping, and after the limits.

    Only for dev lineages.
    """
    catalog = load(catalog_file)
    unlimited = [replace(query, plan=_drop_limits(query.plan)) for query in queries]
    needed = _keep_needed_tables(catalog, *(query.plan for query in queries))
    with _open_measurer(state, catalog) as measurer:
        measured_stages = [[Stage("limits", _measure_cells(measurer, query)) for query in queries]]
    for name, changed in (
        ("clamps", _lift_limits(needed)),
        ("file", _lift_clamps(_lift_limits(needed))),
    ):
        with tempfile.TemporaryDirectory(prefix="dither-stages-") as folder:
            target = Path(folder) / "data.duckdb"
            spill = Path(folder) / "spill"
            spill.mkdir()
            source = catalog_file.parent / catalog.source.location
            _, facts = write_copy_and_facts(
                changed, source, bytes(32), target, spill, lambda _: None
            )
            measurer = Measurer(target, changed, facts)
            try:
                measured_stages.append(
                    [Stage(name, _measure_cells(measurer, query)) for query in unlimited]
                )
            finally:
                measurer.close()
    return tuple(zip(*reversed(measured_stages), strict=True))


def _measure_cells(measurer: Measurer, query: Cells) -> dict[Cell, tuple[int, ...]]:
    """Measure a query exactly, as (key, cell code) -> one integer for each column."""
    if not isinstance(query, (Cells, Quantiles)):
        raise RefusedError(
            f"no exact answer is shown for {type(query).__name__}: ask for its cells",
            rule=PrivacyRule.NO_RULE,
        )
    measurement = measurer.measure(query, bytes(32))
    by_key = (
        measurement
        if isinstance(measurement, dict)
        else {(): dict(enumerate(measurement.tolist()))}
    )
    return {
        (key, code): tuple(int(value) for value in row)
        for key, cells in by_key.items()
        for code, row in cells.items()
    }


@contextmanager
def _open_measurer(state: State, catalog: Catalog) -> Iterator[Measurer]:
    """Open the registered copy of a dev lineage; any other is refused."""
    registered = read_registered(state)
    if registered.public["context"] != "dev":
        raise RefusedError(
            "exact answers are shown for dev datasets only", rule=PrivacyRule.EXACT_VALUES
        )
    copy = state.version(registered.version) / "data.duckdb"
    measurer = Measurer(copy, catalog, scratch=state.scratch)
    try:
        yield measurer
    finally:
        measurer.close()


def _drop_limits(plan: Plan) -> Plan:
    """Drop every limit of groups and totals from a plan."""
    if isinstance(plan, (LimitGroups, LimitTotal)):
        return _drop_limits(plan.source)
    changed: dict[str, Any] = {}
    for plan_field in fields(plan):
        value: Any = getattr(plan, plan_field.name)
        if plan_field.name in ("source", "left", "right"):
            changed[plan_field.name] = _drop_limits(value)
    return replace(plan, **changed) if changed else plan


def _keep_needed_tables(catalog: Catalog, *plans: Plan) -> Catalog:
    """Keep only the tables that the plans need.

    They are the tables read, those on the path to their owners, and lists of labels.
    """
    names = set()
    for node in (node for plan in plans for node in nodes_of(plan)):
        if isinstance(node, Scan):
            names |= {table.name for table in catalog.owner_path(catalog.table(node.table))}
    for table in catalog.tables:
        if table.name in names:
            lists = [column.values for column in table.columns if isinstance(column, Category)]
            names |= {labels.table for labels in lists if isinstance(labels, FromPublic)}
    return replace(catalog, tables=tuple(table for table in catalog.tables if table.name in names))


def _lift_limits(catalog: Catalog) -> Catalog:
    return replace(catalog, tables=tuple(map(_all_rows, catalog.tables)))


def _all_rows(table: Table) -> Table:
    return (
        table if table.kind == "public" else replace(table, rows_per_unit=100_000, max_rows=10**9)
    )


def _lift_clamps(catalog: Catalog) -> Catalog:
    """Return the catalog with bounds so wide that no number of a private table is clamped."""
    tables = (
        replace(table, columns=tuple(map(_widen_column, table.columns)))
        if table.kind == "private"
        else table
        for table in catalog.tables
    )
    return replace(catalog, tables=tuple(tables))


def _widen_column(column: Column) -> Column:
    """Return a number column with very wide bounds; any other column as it is."""
    if isinstance(column, Integer):
        return replace(column, lower=-WIDE, upper=WIDE)
    if isinstance(column, Decimal):
        return replace(column, lower=Fraction(-WIDE), upper=Fraction(WIDE))
    return column
