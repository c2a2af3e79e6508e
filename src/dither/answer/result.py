"""Results: what was asked for, with intervals, and everything a reader needs to judge it. Frozen.

Every value column is followed by its pointwise interval: `n, n_low, n_high`. An interval covers the
exact answer on the *registered* table as often as its level says: at least so often for counts,
sums and ratios of independent noise, about so often otherwise. Of values that noise chose to show,
so many on average. What limits and clamps did to the data is named in `columns`, not covered. An
end that is null is no bound. Values are raw noisy values: nothing is clamped or rounded to look
nice, unless `nonnegative()` or `consistent()` derives another result, which says what it did and
with which bias. Columns, intervals and tables are made when they are first read, from what was
released.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from dither.answer.blocks import make_blocks
from dither.answer.choose_rows import Rows, choose_rows, count_selection
from dither.answer.column_info import ResultColumn, describe_column
from dither.answer.intervals import read_level
from dither.answer.noises import list_noises
from dither.answer.quantile_intervals import NO_BANDS, Bands
from dither.answer.release_info import ABOUT_NOBODY
from dither.answer.selection import IntervalSelection
from dither.answer.show_result import (
    explain_columns,
    list_footnotes,
    make_shown_table,
    write_html_table,
    write_price,
)
from dither.answer.size_shown import explain_empty_answer
from dither.answer.table import make_column
from dither.canonical import Number, dumps
from dither.errors import DitherError, ParameterError
from dither.plan.algebra import Keys
from dither.privacy.kernel.kernel import DRY_RUN, Release
from dither.publish.commitment import commitment, make_nonce, plain
from dither.publish.seal import write_certificate
from dither.publish.text import render_text
from dither.question.recipe import Output, Recipe
from dither.surfaces import escape_json, make_rich_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_WIDTH_OF_COUNTS = 2**63 - 1
"""Of the counts that a selection of keys releases."""
Certify = Callable[[Release, Recipe, tuple[str, ...], str], dict[str, Any]]


@dataclass(frozen=True)
class Result:
    """The answer to one question."""

    info: dict[str, Any]
    _release: Release = field(repr=False)
    _recipe: Recipe = field(repr=False)
    _level: Fraction = field(repr=False)
    _bands: Bands = field(default=NO_BANDS, repr=False)
    notes: tuple[str, ...] = ()
    _certify: Certify | None = field(default=None, repr=False, compare=False)
    _nonce: str = field(default_factory=make_nonce, repr=False, compare=False)
    _derived: tuple[Callable[[Result], Result], ...] = field(default=(), repr=False, compare=False)
    _changed: pa.Table | None = field(default=None, repr=False)
    """The table of a derived result."""

    @cached_property
    def _rows(self) -> Rows:
        return choose_rows(self._recipe, self._release.values, self._release.version.analyses)

    @cached_property
    def _selections(self) -> dict[Output, IntervalSelection]:
        """Count, for every output, how many values noise chose to show and among how many."""
        nothing = IntervalSelection(0, 0)
        return {
            output: count_selection(self._recipe, output, self._rows)
            if output.role == "value"
            else nothing
            for output in self._recipe.outputs
        }

    @cached_property
    def columns(self) -> tuple[ResultColumn, ...]:
        """Describe every column of the table: its role, noise, limits and notes."""
        columns: list[ResultColumn] = []
        for output in self._recipe.outputs:
            role: Literal["key", "value"] = "key" if output.role == "key" else "value"
            selection = self._selections[output]
            value_column = describe_column(
                role, output, self._recipe, self._release, self._level, selection, self._bands
            )
            columns.append(value_column)
            if role == "value":
                low, high = output.names[1:]
                columns += [
                    replace(value_column, name=low, role="low"),
                    replace(value_column, name=high, role="high"),
                ]
        return tuple(columns)

    @cached_property
    def table(self) -> pa.Table:
        """Keys, values and the ends of their intervals.

        `info` is in the schema's metadata under `dither`.
        """
        return (
            self._add_metadata(self._make_table(intervals=True))
            if self._changed is None
            else self._changed
        )

    @cached_property
    def raw(self) -> pa.Table:
        """The released integers (and selected keys), one column per step."""
        return make_raw_table(self._release)

    def _make_table(self, *, intervals: bool) -> pa.Table:
        """Make the table of all rows; with `intervals` each value has its two ends beside it."""
        steps = self._release.priced.steps
        noises = list_noises(
            self._recipe, [calibrated.mechanism for calibrated in steps], self._bands
        )
        widths = _list_widths(self._recipe, steps)
        names: list[str] = []
        arrays: list[pa.Array] = []
        for output in self._recipe.outputs:
            level = self._selections[output].level(self._level) if intervals else self._level
            triple = make_column(self._recipe, output, self._rows, noises, widths, level, intervals)
            names += output.names if intervals else output.names[:1]
            arrays += triple.arrays()
        return pa.table(arrays, names)

    def _add_metadata(self, table: pa.Table) -> pa.Table:
        return table.replace_schema_metadata({b"dither": dumps(self.info).encode()})

    def _values(self) -> pa.Table:
        """The table without intervals, which are then not computed."""
        if self._changed is None and "table" not in self.__dict__:
            return self._make_table(intervals=False)
        return self.table.select([output.names[0] for output in self._recipe.outputs])

    def to_arrow(self, *, intervals: bool = True) -> pa.Table:
        """An Arrow table; `info` is in the schema's metadata under `dither`."""
        return self.table if intervals else self._add_metadata(self._values())

    def to_dict(self, *, intervals: bool = True) -> dict[str, list[Any]]:
        """Column name to list of values."""
        return dict((self.table if intervals else self._values()).to_pydict())

    def to_pandas(self, *, intervals: bool = True) -> Any:
        """Convert the table to a pandas DataFrame; `info` is in `.attrs["dither"]`.

        Raises DitherError where pandas is not installed.
        """
        try:
            frame = self.to_arrow(intervals=intervals).to_pandas()
        except ImportError:
            raise DitherError("to_pandas() needs pandas: pip install 'dither[pandas]'") from None
        frame.attrs["dither"] = self.info
        return frame

    def to_polars(self, *, intervals: bool = True) -> Any:
        """Convert the table to a polars DataFrame.

        Raises DitherError where polars is not installed.
        """
        try:
            import polars
        except ImportError:
            raise DitherError("to_polars() needs polars: pip install 'dither[polars]'") from None
        return polars.from_arrow(self.to_arrow(intervals=intervals))

    def interval(self, level: Number) -> Result:
        """Compute the same release with intervals at another level; free, since nothing new leaves.

        A derived result stays derived: what nonnegative() and consistent() did is done again, in
        the same order.
        """
        result = make_result(self._release, self._recipe, level, self.info, self._bands)
        result = replace(result, _certify=self._certify)
        for derive in self._derived:
            result = derive(result)
        return replace(result, _derived=self._derived)

    def certificate(self, file: str | Path | None = None) -> dict[str, Any]:
        """Make and sign a certificate, as JSON: what was promised for this release.

        Written to `file` too, for `dither verify FILE`.
        """
        if self._certify is None:
            raise DitherError(
                "a certificate is made by the connection that asked: con.sql(...).certificate()"
            )
        promised = commitment(self.to_dict(), self._nonce)
        signed = self._certify(self._release, self._recipe, self.notes, promised)
        if file is not None:
            Path(file).write_text(write_certificate(signed), encoding="utf-8")
        return signed

    def opening(self, file: str | Path | None = None) -> dict[str, Any]:
        """Return the table and the nonce that ties it to its certificate, for those who may see it.

        Written to `file` too, for `dither verify CERTIFICATE --values FILE`.
        """
        opening = {"columns": self.to_dict(), "nonce": self._nonce}
        if file is not None:
            document = json.dumps(opening, default=plain, ensure_ascii=False, indent=2)
            Path(file).write_text(escape_json(document), encoding="utf-8")
        return opening

    def nonnegative(self, *columns: str) -> Result:
        """Derive a result in which negative values of counts are 0.

        Names of columns choose other columns than the counts. The new result states its bias.
        """
        from dither.answer.derive import raise_negative_values

        def derive(result: Result) -> Result:
            return raise_negative_values(result, columns)

        return replace(derive(self), _derived=(*self._derived, derive))

    def consistent(self) -> Result:
        """Derive a result whose rollups add up, by least squares over all grouping sets.

        Its notes say so.
        """
        from dither.answer.derive import fit_totals

        def derive(result: Result) -> Result:
            return fit_totals(result, result._release, result._recipe)

        return replace(derive(self), _derived=(*self._derived, derive))

    def plot(self, column: str | None = None, ax: Any = None) -> Any:
        """A bar for every row with its interval: an altair chart, matplotlib axes or our own chart,
        by what is installed; with `ax` it is drawn there, by matplotlib."""
        from dither.answer.plot import plot

        return plot(self, column, ax)

    def explain(self) -> str:
        """Explain in words what each column holds, and what is unprotected.

        Says also what was done to the rows.
        """
        return explain_columns(self.info, self.columns, self.notes)

    @property
    def footnotes(self) -> tuple[str, ...]:
        """Notes, limits and reasons of NULLs: what is printed below the table."""
        footnotes = list_footnotes(self.columns, self.notes, self.table.to_pylist())
        return (*footnotes, *self._explain_empty())

    def _explain_empty(self) -> list[str]:
        """Why the answer has no row; nothing where it has one."""
        if self.table.num_rows:
            return []
        steps = self._release.priced.steps
        has_groups = any(block.rows for block in make_blocks(self._recipe, self._release.values))
        mechanisms = [calibrated.mechanism for calibrated in steps]
        return [explain_empty_answer(mechanisms, self.info["unit"], has_groups=has_groups)]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield make_shown_table(self.columns, self.table.to_pylist())
        repeated = "asked before: the stored answer, " if self.info["repeated"] else ""
        price = [] if ABOUT_NOBODY in self.notes else [repeated + write_price(self.info)]
        yield from map(make_rich_text, [*price, *self.footnotes])

    def _repr_html_(self) -> str:
        notes = (*self.notes, *self._explain_empty())
        return write_html_table(self.columns, self.table.to_pylist(), notes)

    def __str__(self) -> str:
        return render_text(self)

    def __repr__(self) -> str:
        return str(self)


def make_result(
    release: Release,
    recipe: Recipe,
    confidence: Number,
    info: dict[str, Any],
    bands: Bands = NO_BANDS,
) -> Result:
    """Build the result of a release from its recipe. That of a rehearsal says so."""
    notes = (ABOUT_NOBODY,) if info.get("context") == DRY_RUN else ()
    return Result(info, release, recipe, read_level(confidence), bands, notes)


def _list_widths(recipe: Recipe, steps: Sequence[Any]) -> list[int]:
    """List the public width of each atom, that of its own number in a cell."""
    positions_by_atom = zip(*(grouping_set.positions for grouping_set in recipe.sets), strict=True)
    own = [getattr(calibrated, "widths", ()) for calibrated in steps]
    return [
        max(
            own[step][position] if own[step] else steps[step].width or _WIDTH_OF_COUNTS
            for step, position in positions
        )
        for positions in positions_by_atom
    ]


def make_raw_table(release: Release) -> pa.Table:
    """Make a table of the released integers (and selected keys), one column per step.

    Steps of fewer cells end in nulls. Where a step asks for several numbers of a cell, they follow
    each other, cell by cell.
    """
    longest = max(map(len, release.values), default=0)
    arrays = []
    for values, calibrated in zip(release.values, release.priced.steps, strict=True):
        padding = [None] * (longest - len(values))
        if isinstance(getattr(getattr(calibrated, "step", None), "query", None), Keys):
            arrays.append(pa.array([*map(list, values), *padding], pa.list_(pa.string())))
        elif getattr(calibrated, "width", 0) and calibrated.width >= 2**63:
            arrays.append(pa.array([*map(Decimal, values), *padding], pa.decimal128(38, 0)))
        else:
            arrays.append(pa.array([*values, *padding], pa.int64()))
    return pa.table(arrays, names=[f"step_{i}" for i in range(len(arrays))])


def find_column(result: Result, name: str | None, role: str = "value") -> ResultColumn:
    """Find a column of a result by its name, or the first of its role."""
    for column in result.columns:
        if column.role == role and (name is None or column.name == name):
            return column
    names = ", ".join(column.name for column in result.columns if column.role == role)
    raise ParameterError(f"no {role} column {name!r}: there are {names or 'none'}")


def list_names(result: Result, column: ResultColumn) -> tuple[str, str, str]:
    """List the names of a value column and of the ends of its interval."""
    names = [described.name for described in result.columns]
    roles = [described.role for described in result.columns]
    position = names.index(column.name)
    if roles[position + 1 : position + 3] != ["low", "high"]:
        raise ParameterError(f"{column.name} has no interval: it was computed from noisy answers")
    return column.name, names[position + 1], names[position + 2]
