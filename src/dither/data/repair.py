"""Repair: a raw text becomes a registered value by an expression that cannot fail.

One expression per column type, each total on every text: what is not of the type is null, nulls follow the column's
rule, numbers are clamped, rounded by floor(x*m + 0.5) and clamped again on the grid. No TRY(), no cast that can raise;
the grammar of each type is a regular expression, so that every engine and the naive evaluator agree on it.
"""

from __future__ import annotations

from dither.catalog import Boolean, Bounded, Category, Column, Date, Decimal, Id, Integer
from dither.data.engines.duckdb import name, text
from dither.errors import CatalogError

INTEGER = r"[+-]?[0-9]{1,30}(\.0*)?"
NUMBER = r"[+-]?(([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?|(?i:nan|inf|infinity))"
DAY = r"(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})-[0-9]{2}-[0-9]{2}([ T][0-9:.,Z+-]{0,40})?"
TRUE, FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


def storage_type(column: Column) -> str:
    """The narrowest engine type that holds every registered value; from the catalog, never from data."""
    if isinstance(column, Id):
        return "VARCHAR"
    if isinstance(column, Category):
        low, high = 0, len(column.key_rows())
    elif isinstance(column, Bounded):
        low, high = column.lower_grid, column.upper_grid
    else:
        raise CatalogError(f"column {column.name}: type {column.type} cannot be registered yet")
    for kind, bits in (("TINYINT", 7), ("SMALLINT", 15), ("INTEGER", 31)):
        if -(1 << bits) <= low and high < 1 << bits:
            return kind
    return "BIGINT"


def parsed(column: Column) -> str:
    """SQL: the raw text as a value of the column's type, null if it is none; before null rule and clamp."""
    raw = f"trim({name(column.name)})"
    if isinstance(column, Id):
        return name(column.name)
    if isinstance(column, Category):
        assert isinstance(column.values, tuple)
        labels = "[" + ", ".join(text(label) for label in column.values) + "]"
        found = f"list_position({labels}, {name(column.name)}) - 1"
        return f"CASE WHEN {name(column.name)} IS NOT NULL THEN coalesce({found}, {len(column.values)}) END"
    if isinstance(column, Integer):
        whole = f"TRY_CAST(split_part({raw}, '.', 1) AS HUGEINT)"
        return f"CASE WHEN regexp_full_match({raw}, {text(INTEGER)}) THEN {whole} END"
    if isinstance(column, Decimal):
        number = f"CASE WHEN regexp_full_match({raw}, {text(NUMBER)}) THEN TRY_CAST({raw} AS DOUBLE) END"
        return f"CASE WHEN isnan({number}) THEN NULL ELSE {number} END"
    if isinstance(column, Boolean):
        yes, no = (", ".join(map(text, words)) for words in (TRUE, FALSE))
        return f"CASE WHEN lower({raw}) IN ({yes}) THEN 1 WHEN lower({raw}) IN ({no}) THEN 0 END"
    if isinstance(column, Date):
        day = f"TRY_CAST(substr({raw}, 1, 10) AS DATE)"
        return f"CASE WHEN regexp_full_match({raw}, {text(DAY)}) THEN {day} - DATE '1970-01-01' END"
    raise CatalogError(f"column {column.name}: type {column.type} cannot be registered yet")


def repaired(column: Column, value: str) -> str:
    """SQL: a parsed value (a column name) as its registered value; null where the null rule keeps it.

    DuckDB's greatest and least skip nulls, hence the CASE around them.
    """
    grid = value
    if isinstance(column, Decimal):
        low, high = (f"CAST({float(bound)!r} AS DOUBLE)" for bound in (column.lower, column.upper))
        factor, by = ("*", column.multiplier) if column.divisor == 1 else ("/", column.divisor)
        clamped = f"greatest({low}, least({high}, {value}))"
        grid = f"CAST(floor({clamped} {factor} CAST({by} AS DOUBLE) + CAST(0.5 AS DOUBLE)) AS HUGEINT)"
    if isinstance(column, Bounded):
        grid = f"greatest({column.lower_grid}, least({column.upper_grid}, {grid}))"
    return f"CAST(CASE WHEN {value} IS NULL THEN {_null(column)} ELSE {grid} END AS {storage_type(column)})"


def _null(column: Column) -> str:
    """SQL: what a null becomes; NULL where it stays (or its row goes)."""
    if isinstance(column, Id) or column.nulls.rule != "value":
        return "NULL"
    if isinstance(column, Category):
        assert isinstance(column.values, tuple) and isinstance(column.nulls.value, str)
        return str(column.values.index(column.nulls.value))
    return str(column.nulls.value)


def dropped(column: Column, value: str) -> str | None:
    """SQL: whether a row goes because of this column's (parsed) value; None if it never does."""
    reasons = []
    if not isinstance(column, Id) and column.nulls.rule == "drop":
        reasons.append(f"{value} IS NULL")
    if isinstance(column, Category) and column.other == "drop":
        assert isinstance(column.values, tuple)
        reasons.append(f"coalesce({value} = {len(column.values)}, false)")
    return " OR ".join(reasons) or None


def changed(column: Column, raw: str, value: str) -> str:
    """SQL: whether the text was no value of the type, or lay outside the bounds; for the steward's count."""
    unread = f"({raw} IS NOT NULL AND {value} IS NULL)"
    if isinstance(column, Category):
        assert isinstance(column.values, tuple)
        return f"coalesce({value} = {len(column.values)}, false)"
    if isinstance(column, Decimal):
        low, high = (f"CAST({float(bound)!r} AS DOUBLE)" for bound in (column.lower, column.upper))
        return f"({unread} OR coalesce({value} < {low} OR {value} > {high}, false))"
    if isinstance(column, Bounded):
        return f"({unread} OR coalesce({value} < {column.lower_grid} OR {value} > {column.upper_grid}, false))"
    return unread
