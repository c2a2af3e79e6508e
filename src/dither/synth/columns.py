"""Columns of a synthetic table: from registered values to codes, and from codes back to values.

What a column may hold is declared in the catalog, or bought before (labels of undeclared
categories): never read from the data. Numbers and times with many values are put into bins of equal
width over their declared bounds, or into bins with edges that the asker chose or bought.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dither.catalog import OTHER, Table
from dither.errors import ParameterError
from dither.plan.algebra import Call, Column, Expression, Named, Plan, Project, Scan, Value
from dither.plan.analysed_query import Analyses
from dither.plan.domain import Domain
from dither.synth.edges import EPOCH, ORDERED, Bins, BoughtEdges, invent_edges, read_edges

MOST_VALUES = 256
"""Values of a column that are kept apart; a number or time with more is put into bins."""
BINS = 64
MOST_CODES = 1000
"""So that the cells of every pair are within what one query may count."""
MOST_LABELS = 50
"""Labels that one CASE can tell apart."""
_MOST_SPAN = 1 << 20
"""Columns with fewer integers between their bounds find distinct values by counting, others by
sorting."""
_TIME_DIFFERENCES = {"date": "days_between", "timestamp": "seconds_between"}


@dataclass(frozen=True)
class SynthColumn:
    """One column as codes: code c stands for grid integers from first + c * width on, `width` many;
    the last code is null where nulls are kept. `edges`, if any, are where bins after the first
    begin, and `width` is that of all of them together. `is_bought` is about labels."""

    name: str
    kind: str
    size: int
    has_null: bool
    first: int
    width: int
    low: int
    high: int
    step: Fraction
    labels: tuple[str, ...] = ()
    is_bought: bool = False
    edges: tuple[int, ...] = ()
    has_bought_edges: bool = False

    @property
    def is_ordered(self) -> bool:
        """Whether neighbouring codes are alike."""
        return self.kind in ORDERED

    def write_code(self, code: int) -> str:
        """A code in words, for reports."""
        if self.has_null and code == self.size - 1:
            return "(missing)"
        starts, ends = self.list_ends()
        low, high = int(starts[code]), int(ends[code])
        words = str(self._to_value(low))
        return words if low >= high else f"{words} to {self._to_value(high)}"

    def write_edges(self) -> str:
        """Where bins begin in words, for reports and certificates."""
        edges = ", ".join(str(self._to_value(edge)) for edge in self.edges)
        source = "bought quantiles" if self.has_bought_edges else "chosen by the asker"
        return f"bins of {self.name} begin at {edges}: {source}"

    def decode(self, codes: NDArray[np.int32], points: NDArray[np.float64]) -> pa.Array:
        """Values of the source's type and range; inside a bin the point of a row picks one."""
        is_null = codes == self.size - 1 if self.has_null else np.zeros(len(codes), bool)
        starts, ends = (bounds[np.where(is_null, 0, codes)] for bounds in self.list_ends())
        grid = starts + np.floor(points * (ends - starts + 1)).astype(np.int64)
        grid[is_null] = self.low
        distinct, inverse = _list_distinct(grid, self.low, self.high)
        values = pa.array([self._to_value(int(number)) for number in distinct], self.arrow_type)
        taken = pa.array(np.where(is_null, -1, inverse), pa.int64())
        taken = pa.compute.if_else(pa.array(is_null), pa.scalar(None, pa.int64()), taken)
        return values.take(taken)

    def list_ends(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first and last grid integer of every code but null."""
        begins = list(self.edges)  # Python integers: one past a bound may not fit in 64 bits
        if not begins:
            codes = range(1, self.size - self.has_null)
            begins = [self.first + code * self.width for code in codes]
        starts = np.array([max(self.first, self.low), *begins], np.int64)
        return starts, np.array([*(begin - 1 for begin in begins), self.high], np.int64)

    def find_wider_codes(self, wider: SynthColumn) -> NDArray[np.int64]:
        """Find, for every code, the code of its first value in the same column with wider bins."""
        starts, _ = self.list_ends()
        codes = np.array([wider.find_code(int(start)) for start in starts])
        return np.append(codes, wider.size - 1) if self.has_null else codes

    def find_code(self, grid: int) -> int:
        """Find the code of a grid integer between the bounds."""
        if self.edges:
            return bisect_right(self.edges, grid)
        return (grid - self.first) // self.width

    def encode(self, values: pa.ChunkedArray) -> NDArray[np.int64]:
        """Codes of values of this column's type: what `decode` undoes."""
        if not len(values):
            return np.zeros(0, np.int64)
        distinct = values.combine_chunks().dictionary_encode()
        listed = [self._encode_value(value) for value in distinct.dictionary.to_pylist()]
        codes = np.array([*listed, self.size - 1], np.int64)
        positions: NDArray[np.int64] = distinct.indices.fill_null(len(listed)).to_numpy()
        return codes[positions]

    def _encode_value(self, value: Any) -> int:
        """Encode one value; -1 where it is outside the bounds."""
        if self.kind == "category":
            is_other = self.is_bought and value not in self.labels
            return self.size - 1 if is_other else self.labels.index(value)
        if self.kind == "date":
            grid = int((value - EPOCH).days)
        elif self.kind == "timestamp":
            grid = int(value.timestamp())
        else:
            grid = read_number(value) // self.step
        return self.find_code(grid) if self.low <= grid <= self.high else -1

    def write_expression(self) -> Expression:
        """The codes as an expression over the registered column."""
        if self.is_bought:
            return self._write_case()
        if self.edges:
            return self._write_edges()
        if self.width == 1:
            return Column(self.name)
        argument: Expression = Column(self.name)
        if self.kind in ("date", "timestamp"):
            since = Value("date" if self.kind == "date" else "timestamp", Fraction(self.low))
            argument = Call(_TIME_DIFFERENCES[self.kind], (since, argument))
        return Call("bin", (argument, Value("number", self.width * self.step)))

    def _write_edges(self) -> Expression:
        """Bins by their codes: the first edge above a value decides, and null is the last code."""
        own = Column(self.name)
        arguments: list[Expression] = []
        if self.has_null:
            arguments = [Call("is_null", (own,)), Value("number", Fraction(self.size - 1))]
        kind: Any = self.kind
        for code, edge in enumerate(self.edges):
            arguments.append(Call("lt", (own, Value(kind, edge * self.step))))
            arguments.append(Value("number", Fraction(code)))
        return Call("case", (*arguments, Value("number", Fraction(len(self.edges)))))

    def _write_case(self) -> Expression:
        """Bought labels by their codes; whatever is none of them is the last."""
        arguments: list[Expression] = []
        for code, label in enumerate(self.labels[:-1]):
            arguments.append(Call("eq", (Column(self.name), Value("text", label))))
            arguments.append(Value("number", Fraction(code)))
        arguments.append(Value("number", Fraction(len(self.labels) - 1)))
        return Call("case", tuple(arguments)) if len(arguments) > 1 else arguments[0]

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the values."""
        if self.kind == "number":
            if self.step.denominator == 1:
                return pa.int64()
            return pa.decimal128(38, len(str(self.step.denominator)) - 1)
        types = {
            "boolean": pa.bool_(),
            "date": pa.date32(),
            "timestamp": pa.timestamp("s", tz="UTC"),
        }
        return types.get(self.kind, pa.string())

    def _to_value(self, grid: int) -> Any:
        """The value of one grid integer."""
        if self.kind == "category":
            return self.labels[grid]
        if self.kind == "boolean":
            return bool(grid)
        if self.kind == "date":
            return EPOCH + timedelta(days=grid)
        if self.kind == "timestamp":
            return datetime.fromtimestamp(grid, UTC)
        number = grid * self.step
        if self.step.denominator == 1:
            return int(number)
        return Decimal(number.numerator) / Decimal(number.denominator)


def read_number(value: Any) -> Fraction:
    """Read a number by its decimal digits: 0.3 is three tenths, and not the nearest float.

    >>> read_number(0.3), read_number(Decimal("0.3")), read_number(True)
    (Fraction(3, 10), Fraction(3, 10), Fraction(1, 1))
    """
    return Fraction(int(value)) if isinstance(value, bool) else Fraction(str(value))


def _list_distinct(
    grid: NDArray[np.int64], low: int, high: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List the distinct integers of an array between two bounds, and the position of each entry.

    >>> [array.tolist() for array in _list_distinct(np.array([7, 5, 7]), 5, 9)]
    [[5, 7], [1, 0, 1]]
    """
    if high - low >= _MOST_SPAN:
        return np.unique(grid, return_inverse=True)
    is_present = np.bincount(grid - low, minlength=high - low + 1) > 0
    positions = np.cumsum(is_present) - 1
    return np.flatnonzero(is_present) + low, positions[grid - low]


def make_columns(
    table: Table,
    names: tuple[str, ...],
    analyses: Analyses,
    bins: Bins,
    labels: Mapping[str, tuple[str, ...]],
) -> tuple[Plan, tuple[SynthColumn, ...]]:
    """The plan whose columns are codes, and what the codes stand for. Reads no data.

    `labels` are those that were bought for undeclared categories. Bins that are yet to be bought
    have stand-ins for their edges. A column without a domain is refused.
    """
    coded = make_codes(table, names, analyses, bins, labels)
    columns = tuple(column for column, _ in coded)
    return write_plan(table.name, columns), columns


def write_plan(table: str, columns: tuple[SynthColumn, ...]) -> Plan:
    """The plan whose columns are the codes of these columns of a table."""
    named = tuple(Named(column.name, column.write_expression()) for column in columns)
    if all(isinstance(entry.of, Column) for entry in named):
        return Scan(table)
    return Project(Scan(table), named)


def make_codes(
    table: Table,
    names: tuple[str, ...],
    analyses: Analyses,
    bins: Bins,
    labels: Mapping[str, tuple[str, ...]],
) -> list[tuple[SynthColumn, Expression]]:
    """Every column with the expression of its codes."""
    domains = analyses.analyse_rows(Scan(table.name)).columns
    columns = [
        _make_column(name, domains[_find_name(name, domains, table)], bins, labels)
        for name in names
    ]
    return [(column, column.write_expression()) for column in columns]


def _find_name(name: str, domains: Mapping[str, Domain], table: Table) -> str:
    if name not in domains:
        raise ParameterError(f"{table.name} has no column {name}: there are {', '.join(domains)}")
    return name


def _make_column(
    name: str, domain: Domain, bins: Bins, labels: Mapping[str, tuple[str, ...]]
) -> SynthColumn:
    if domain.undeclared and name in labels:
        return _make_bought(name, labels[name])
    if domain.undeclared:
        raise ParameterError(
            f"{name} has undeclared labels: list them in the catalog, or buy those that many "
            f"people share with labels_epsilon="
        )
    if domain.kind in ("id", "text"):
        raise ParameterError(
            f"{name} is of type {domain.kind} and has no list of values: leave it out of columns"
        )
    wish = bins.get(name)
    if isinstance(wish, BoughtEdges):
        return _make_edged(name, domain, wish.grid, has_bought_edges=True)
    if isinstance(wish, str):
        stand_ins = invent_edges(name, domain, wish)
        return _make_edged(name, domain, stand_ins, has_bought_edges=True)
    if wish is not None and not isinstance(wish, int):
        return _make_edged(name, domain, read_edges(name, domain, wish))
    low, high = domain.listed
    values = high - low + 1
    if _needs_bins(domain, values, wish):
        return _make_binned(name, domain, BINS if wish is None else wish)
    codes = values + domain.nullable
    if codes > MOST_CODES:
        raise ParameterError(
            f"{name} has {values:,} labels: at most {MOST_CODES:,}. Declare a coarser column"
        )
    return SynthColumn(
        name, domain.kind, codes, domain.nullable, low, 1, low, high, domain.step, domain.labels
    )


def _needs_bins(domain: Domain, values: int, bins: int | None) -> bool:
    most = MOST_VALUES if bins is None else bins
    return domain.kind in ORDERED and values > min(most, MOST_CODES - 1)


def _make_edged(
    name: str, domain: Domain, grid: tuple[int, ...], *, has_bought_edges: bool = False
) -> SynthColumn:
    """Bins that begin at the lower bound and at these integers of the grid."""
    low, high = domain.listed
    return SynthColumn(
        name,
        domain.kind,
        len(grid) + 1 + domain.nullable,
        domain.nullable,
        low,
        high - low + 1,
        low,
        high,
        domain.step,
        edges=grid,
        has_bought_edges=has_bought_edges,
    )


def widen_edges(column: SynthColumn, most: int) -> SynthColumn:
    """The column with every so many of its edges, for at most `most` bins."""
    stride = -(-(len(column.edges) + 1) // most)
    kept = column.edges[stride - 1 :: stride]
    return replace(column, edges=kept, size=len(kept) + 1 + column.has_null)


def _make_binned(name: str, domain: Domain, bins: int) -> SynthColumn:
    """Bins of equal width: multiples of the width, counted from 0, or from the first time."""
    if not 2 <= bins < MOST_CODES:
        raise ParameterError(f"{name} takes 2 to {MOST_CODES - 1} bins, got {bins}")
    low, high = domain.listed
    width = -(-(high - low + 1) // bins)
    start = low if domain.kind in _TIME_DIFFERENCES else (low // width) * width
    codes = (high - start) // width + 1 + domain.nullable
    kind = domain.kind
    return SynthColumn(name, kind, codes, domain.nullable, start, width, low, high, domain.step)


def _make_bought(name: str, labels: tuple[str, ...]) -> SynthColumn:
    """Bought labels and `other`, which also stands for nulls."""
    kept = (*labels[:MOST_LABELS], OTHER)
    last = len(kept) - 1
    return SynthColumn(
        name, "category", len(kept), False, 0, 1, 0, last, Fraction(1), kept, is_bought=True
    )
