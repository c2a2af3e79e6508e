"""Recipes: which queries a question needs, and how released cells become the columns that were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dither.catalog import Boolean, Bounded, Decimal, Table
from dither.plan.algebra import Aggregate, Cells, Sum


@dataclass(frozen=True)
class KeyColumn:
    """A key of the GROUP BY, by its position there."""

    name: str
    key: int

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name,)


@dataclass(frozen=True)
class ValueColumn:
    """A noisy value with its interval, by the query that gives it."""

    name: str
    step: int

    @property
    def names(self) -> tuple[str, ...]:
        return self.name, f"{self.name}_low", f"{self.name}_high"


@dataclass(frozen=True)
class Recipe:
    """A bound question."""

    sql: str
    table: Table
    queries: tuple[Cells, ...]
    columns: tuple[KeyColumn | ValueColumn, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        return self.queries[0].keys

    def aggregate(self, column: ValueColumn) -> Aggregate:
        return self.queries[column.step].columns[0]

    def unit(self, column: ValueColumn) -> Fraction:
        """What one released integer is worth in the column's own units."""
        aggregate = self.aggregate(column)
        if not isinstance(aggregate, Sum):
            return Fraction(1)
        declared = self.table.column(aggregate.column)
        assert isinstance(declared, Bounded)
        return declared.step

    def is_scaled(self, column: ValueColumn) -> bool:
        """Whether values are shown as decimals rather than integers."""
        aggregate = self.aggregate(column)
        return isinstance(aggregate, Sum) and isinstance(self.table.column(aggregate.column), Decimal)

    def limits(self, column: ValueColumn) -> tuple[str, ...]:
        """What was done to the rows before they were counted, in words."""
        said = [f"at most {self.table.rows_per_unit} rows per person"]
        aggregate = self.aggregate(column)
        if isinstance(aggregate, Sum):
            declared = self.table.column(aggregate.column)
            assert isinstance(declared, Bounded)
            if not isinstance(declared, Boolean):
                low, high = declared.lower_grid * declared.step, declared.upper_grid * declared.step
                said.append(f"{aggregate.column} clamped to [{float(low):g}, {float(high):g}]")
        return tuple(said)
