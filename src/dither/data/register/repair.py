"""Repair: a raw text becomes a registered value by an expression that cannot fail.

One expression per column type, each total on every text: what is not of the type is null, nulls
follow the column's rule, numbers are clamped, rounded by floor(x*m + 0.5) and clamped again on the
grid. No TRY(), no cast that can raise; the grammar of each type is a regular expression, so that
every engine and the naive evaluator agree on it.
"""

from __future__ import annotations

from dither.catalog import (
    Boolean,
    Bounded,
    Category,
    Column,
    Date,
    Decimal,
    Id,
    Integer,
    Text,
    Timestamp,
    Undeclared,
)
from dither.data.lower.dialect import dialect
from dither.data.quoting import name
from dither.data.register.clamp import clamp_sql
from dither.data.register.text_sql import find_label

INTEGER = r"[+-]?[0-9]{1,30}(\.0*)?"
NUMBER = (
    r"[+-]?(([0-9]{1,400}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][+-]?[0-9]{1,3})?"
    r"|(?i:nan|inf|infinity))"
)
YEAR = r"(000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
DAY = YEAR + r"-[0-9]{2}-[0-9]{2}([ T][0-9:.,Z+-]{0,40})?"
OFFSET = r"(Z|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)"
TIME = (
    YEAR
    + r"-[0-9]{2}-[0-9]{2}([ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{0,9})?)? ?"
    + OFFSET
    + r"?)?"
)
PLAIN_INTEGER = "-?[0-9]{1,18}"
PLAIN_NUMBER = r"-?[0-9]{1,18}(\.[0-9]{1,18})?"
PLAIN_DAY = YEAR + "-[0-9]{2}-[0-9]{2}"
TRUE = ("true", "t", "yes", "y", "1")
FALSE = ("false", "f", "no", "n", "0")
Labels = tuple[str, ...]


def is_text(column: Column) -> bool:
    """Whether registered values are texts."""
    return isinstance(column, (Id, Text)) or (
        isinstance(column, Category) and isinstance(column.values, Undeclared)
    )


def storage_type(column: Column, labels: Labels = ()) -> str:
    """Choose the narrowest engine type for a column, from the catalog, never from data.

    It holds every registered value and the integer after, which stands for null.
    """
    if is_text(column):
        return "VARCHAR"
    if isinstance(column, Category):
        low = 0
        high = len(labels) + 1
    else:
        assert isinstance(column, Bounded)
        low = column.lower_grid
        high = column.upper_grid + 1
    for kind, bits in (("TINYINT", 7), ("SMALLINT", 15), ("INTEGER", 31), ("BIGINT", 63)):
        if -(1 << bits) <= low and high < 1 << bits:
            return kind
    return "HUGEINT"


def parse_sql(column: Column, labels: Labels = ()) -> str:
    """Write SQL of the raw text as a value of the column's type, null if it is none.

    This comes before the null rule and the clamp.
    """
    raw = _trim_blanks(name(column.name))
    if isinstance(column, Id):
        return name(column.name)
    if isinstance(column, Text):
        return f"left({name(column.name)}, {column.width})"
    if isinstance(column, Category):
        if isinstance(column.values, Undeclared):
            return f"left({name(column.name)}, {column.values.width})"
        code = find_label(name(column.name), labels)
        return f"CASE WHEN {name(column.name)} IS NOT NULL THEN coalesce({code}, {len(labels)}) END"
    if isinstance(column, Integer):
        whole = _try_cast(f"split_part({raw}, '.', 1)", "HUGEINT")
        plain = _try_cast("{}", "HUGEINT")
        return _first(column, PLAIN_INTEGER, plain, INTEGER, whole)
    if isinstance(column, Decimal):
        number = f"NULLIF({_try_cast(raw, 'DOUBLE')}, CAST('nan' AS DOUBLE))"
        plain = _try_cast("{}", "DOUBLE")
        return _first(column, PLAIN_NUMBER, plain, NUMBER, number)
    if isinstance(column, Boolean):
        yes, no = (", ".join(map(dialect().text, words)) for words in (TRUE, FALSE))
        return f"CASE WHEN lower({raw}) IN ({yes}) THEN 1 WHEN lower({raw}) IN ({no}) THEN 0 END"
    day = dialect().count_days(_try_cast(f"substr({raw}, 1, 10)", "DATE"))
    if isinstance(column, Date):
        plain = dialect().count_days(_try_cast("{}", "DATE"))
        return _first(column, PLAIN_DAY, plain, DAY, day)
    assert isinstance(column, Timestamp)
    return (
        f"CASE WHEN {dialect().full_match(raw, TIME)} THEN "
        f"{_seconds(raw, day, column.offset_seconds)} END"
    )


def _first(column: Column, plain: str, value: str, grammar: str, careful: str) -> str:
    """Write SQL that reads texts of a plain form as they are.

    Only the others are trimmed and held against the grammar. The plain form lies inside the grammar
    and reads as the same value, so this saves time and changes nothing.
    """
    raw = name(column.name)
    is_plain = dialect().full_match(raw, plain)
    is_careful = dialect().full_match(_trim_blanks(raw), grammar)
    return f"CASE WHEN {is_plain} THEN {value.format(raw)} WHEN {is_careful} THEN {careful} END"


def _seconds(raw: str, day: str, offset: int) -> str:
    """Write SQL of the seconds UTC of a text of the grammar TIME; fractions of a second are cut."""

    def number_at(start: int, length: int = 2) -> str:
        digits = _try_cast(f"substr({raw}, {start}, {length})", "BIGINT")
        return f"coalesce({digits}, 0)"

    seconds = f"CASE WHEN substr({raw}, 17, 1) = ':' THEN {number_at(18)} ELSE 0 END"
    zone = f"regexp_extract(substr({raw}, 17), '{OFFSET}$', 0)"
    digits = f"replace({zone}, ':', '')"
    hours = f"coalesce({_try_cast(f'substr({digits}, 2, 2)', 'BIGINT')}, 0)"
    written_minutes = f"NULLIF(substr({digits}, 4, 2), '')"
    minutes = f"coalesce({_try_cast(written_minutes, 'BIGINT')}, 0)"
    sign = f"CASE WHEN left({zone}, 1) = '-' THEN -1 ELSE 1 END"
    stated_offset = f"{sign} * ({hours} * 3600 + {minutes} * 60)"
    east = f"CASE WHEN {zone} = '' THEN {offset} WHEN {zone} = 'Z' THEN 0 ELSE {stated_offset} END"
    return (
        f"CAST({day} AS BIGINT) * 86400 + {number_at(12)} * 3600 + {number_at(15)} * 60 "
        f"+ {seconds} - {east}"
    )


def repair_sql(column: Column, value: str, labels: Labels = ()) -> str:
    """Write SQL of a parsed value (a column name) as its registered value.

    Null where the null rule keeps it. DuckDB's greatest and least, which clamp the grid of a
    decimal again, skip nulls, hence the CASE around them.
    """
    grid = value
    if isinstance(column, Bounded):
        grid = clamp_sql(value, str(column.lower_grid), str(column.upper_grid))
    if isinstance(column, Decimal):
        low, high = (f"CAST({float(bound)!r} AS DOUBLE)" for bound in (column.lower, column.upper))
        factor, by = ("*", column.multiplier) if column.divisor == 1 else ("/", column.divisor)
        clamped = clamp_sql(value, low, high)
        largest = max(abs(column.lower_grid), abs(column.upper_grid))
        whole = "BIGINT" if largest < 1 << 60 else "HUGEINT"
        grid = (
            f"CAST(floor(({clamped}) {factor} CAST({by} AS DOUBLE) + CAST(0.5 AS DOUBLE)) "
            f"AS {dialect().type_name(whole)})"
        )
        grid = f"greatest({column.lower_grid}, least({column.upper_grid}, {grid}))"
    kind = dialect().type_name(storage_type(column, labels))
    return f"CAST(CASE WHEN {value} IS NULL THEN {_null(column, labels)} ELSE {grid} END AS {kind})"


def _null(column: Column, labels: Labels) -> str:
    """Write SQL of what a null becomes; NULL where it stays (or its row goes)."""
    if isinstance(column, Id) or column.nulls.rule != "value":
        return "NULL"
    if isinstance(column.nulls.value, str):
        return (
            dialect().text(column.nulls.value)
            if is_text(column)
            else str(labels.index(column.nulls.value))
        )
    return str(column.nulls.value)


def drop_sql(column: Column, value: str, labels: Labels = ()) -> str | None:
    """Write SQL that is true where a row goes because of this column's (parsed) value.

    None if it never does.
    """
    reasons = []
    if not isinstance(column, Id) and column.nulls.rule == "drop":
        reasons.append(f"{value} IS NULL")
    if isinstance(column, Category) and column.other == "drop":
        reasons.append(f"coalesce({value} = {len(labels)}, false)")
    return " OR ".join(reasons) or None


def change_sql(column: Column, value: str, labels: Labels = ()) -> str:
    """Write SQL that is true where the text was no value of the type, or lay outside the bounds.

    The steward's count of repairs is made of it.
    """
    raw = name(column.name)
    if is_text(column):
        return f"coalesce({raw} <> {value}, false)"
    if isinstance(column, Category):
        return f"coalesce({value} = {len(labels)}, false)"
    if isinstance(column, Decimal):
        low, high = (f"CAST({float(bound)!r} AS DOUBLE)" for bound in (column.lower, column.upper))
    else:
        assert isinstance(column, Bounded)
        low, high = str(column.lower_grid), str(column.upper_grid)
    # a comparison with null is null: the value was then no value of the type, or not there at all
    return f"coalesce({value} < {low} OR {value} > {high}, {raw} IS NOT NULL)"


def _try_cast(value: str, kind: str) -> str:
    """Write a cast that is null where it would fail; `kind` is DuckDB's word."""
    return f"TRY_CAST({value} AS {dialect().type_name(kind)})"


def _trim_blanks(value: str) -> str:
    """Write a text without the spaces at both ends."""
    return f"trim(BOTH ' ' FROM {value})"
