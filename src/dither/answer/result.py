"""Results: what was asked for, with intervals, and everything a reader needs to judge it. Frozen.

Every value column is followed by its pointwise interval: `n, n_low, n_high`. An interval covers the exact answer on the
*registered* table at least as often as its level says; what limits and clamps did to the data is named in `columns`,
not covered. Values are raw noisy values: nothing is clamped or rounded to look nice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any, Literal

import pyarrow as pa
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table as RichTable

from dither.answer.intervals import half_width, level_of, noise_scale
from dither.answer.recipe import KeyColumn, Recipe, ValueColumn
from dither.canonical import Number, dumps
from dither.catalog import Boolean, Category, Date, Integer
from dither.errors import DitherError
from dither.plan.domains import key_values
from dither.privacy.kernel import Release

_LAWS = {
    "IntegerLaplace": "P(z) ~ exp(-|z| / scale) on multiples of the resolution",
    "IntegerGaussian": "P(z) ~ exp(-z^2 / 2 scale^2) on multiples of the resolution",
}


@dataclass(frozen=True)
class ResultColumn:
    """What stands in one column, and how it came about."""

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


@dataclass(frozen=True)
class Result:
    """The answer to one question."""

    table: pa.Table
    columns: tuple[ResultColumn, ...]
    raw: pa.Table
    info: dict[str, Any]
    _release: Release
    _recipe: Recipe

    def to_arrow(self, *, intervals: bool = True) -> pa.Table:
        """An Arrow table; `info` is in the schema's metadata under `dither`."""
        kept = [column.name for column in self.columns if intervals or column.role in ("key", "value")]
        return self.table.select(kept)

    def to_dict(self, *, intervals: bool = True) -> dict[str, list[Any]]:
        """Column name to list of values."""
        return dict(self.to_arrow(intervals=intervals).to_pydict())

    def to_pandas(self, *, intervals: bool = True) -> Any:
        """A DataFrame; `info` is in `.attrs["dither"]`."""
        try:
            frame = self.to_arrow(intervals=intervals).to_pandas()
        except ImportError:
            raise DitherError("to_pandas() needs pandas: pip install 'dither[pandas]'") from None
        frame.attrs["dither"] = self.info
        return frame

    def to_polars(self, *, intervals: bool = True) -> Any:
        """A polars DataFrame."""
        try:
            import polars
        except ImportError:
            raise DitherError("to_polars() needs polars: pip install 'dither[polars]'") from None
        return polars.from_arrow(self.to_arrow(intervals=intervals))

    def interval(self, level: Number) -> Result:
        """The same release with intervals at another level; free, since nothing new leaves."""
        return build(self._release, self._recipe, level, self.info)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        paid = f"{self.info['measure']} {self.info['charged']} from pot {self.info['pot']}"
        shown = RichTable(
            caption=f"asked before: the stored answer, {paid}" if self.info["repeated"] else paid,
            caption_justify="left",
        )
        for column in self.columns:
            if column.role in ("key", "value"):
                shown.add_column(column.name, justify="right" if column.role == "value" else "left")
            elif column.role == "low" and column.confidence is not None:
                shown.add_column(f"{float(column.confidence):.0%} interval", justify="right")
        for row in self.table.to_pylist():
            shown.add_row(*self._cells(row))
        yield shown

    def _cells(self, row: dict[str, Any]) -> Iterator[str]:
        for column in self.columns:
            if column.role == "low":
                yield f"{_text(row[column.name])} … {_text(row[column.name.removesuffix('_low') + '_high'])}"
            elif column.role != "high":
                yield _text(row[column.name])

    def __str__(self) -> str:
        console = Console(width=120)
        with console.capture() as captured:
            console.print(self)
        return captured.get()


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def build(release: Release, recipe: Recipe, confidence: Number, info: dict[str, Any]) -> Result:
    """The table of a release by its recipe."""
    level = level_of(confidence)
    grid = list(product(*(key_values(key, recipe.table) for key in recipe.keys)))
    arrays: list[pa.Array] = []
    columns: list[ResultColumn] = []
    for column in recipe.columns:
        if isinstance(column, KeyColumn):
            arrays.append(pa.array([row[column.key] for row in grid], _key_type(recipe, column)))
            columns.append(ResultColumn(column.name, "key"))
            continue
        half = half_width(release.priced.steps[column.step].mechanism, level)
        values = release.values[column.step]
        for name, role, shift in zip(column.names, ("value", "low", "high"), (0, -half, half), strict=True):
            arrays.append(_value_array([value + shift for value in values], recipe, column, release))
            columns.append(_described(name, role, column, recipe, release, level))
    metadata = {b"dither": dumps(info).encode()}
    table = pa.table(arrays, names=[column.name for column in columns]).replace_schema_metadata(metadata)
    raw = pa.table(
        [_integers(values, each.width) for values, each in zip(release.values, release.priced.steps, strict=True)],
        names=[f"step_{i}" for i in range(len(release.values))],
    )
    return Result(table, tuple(columns), raw, info, release, recipe)


def _key_type(recipe: Recipe, column: KeyColumn) -> pa.DataType:
    declared = recipe.table.column(recipe.keys[column.key])
    if isinstance(declared, Category):
        return pa.string()
    if isinstance(declared, Boolean):
        return pa.bool_()
    if isinstance(declared, Date):
        return pa.date32()
    return pa.int64() if isinstance(declared, Integer) else pa.float64()


def _value_array(values: list[int], recipe: Recipe, column: ValueColumn, release: Release) -> pa.Array:
    if recipe.is_scaled(column):
        unit = recipe.unit(column)
        return pa.array([value * unit.numerator / unit.denominator for value in values], pa.float64())
    return _integers(values, release.priced.steps[column.step].width)


def _integers(values: Any, width: int) -> pa.Array:
    clamped = [max(-width, min(width, value)) for value in values]
    if width < 2**63:
        return pa.array(clamped, pa.int64())
    return pa.array([Decimal(value) for value in clamped], pa.decimal128(38, 0))


def _described(
    name: str, role: Any, column: ValueColumn, recipe: Recipe, release: Release, level: Fraction
) -> ResultColumn:
    mechanism = release.priced.steps[column.step].mechanism
    unit = recipe.unit(column)
    aggregate = recipe.aggregate(column)
    return ResultColumn(
        name,
        role,
        aggregate=type(aggregate).__name__.upper(),
        mechanism=type(mechanism).__name__,
        noise=_LAWS[type(mechanism).__name__],
        scale=noise_scale(mechanism) * unit,
        sensitivity=mechanism.sensitivity.l1 * unit,
        resolution=unit,
        confidence=level,
        limits=recipe.limits(column),
        steps=(column.step,),
    )
