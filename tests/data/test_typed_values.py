"""Values that keep their type are the values that their texts are read as, on every edge.

The reference is the way through text, which every type took before and most still take.
"""

from __future__ import annotations

import decimal
import struct
from random import Random

import duckdb
import pytest

from dither.catalog import Boolean, Date, Decimal, Id, Integer, Timestamp, parse
from dither.data.register import typed_values
from dither.data.register.repair import parse_sql
from dither.data.register.source_types import text_of
from dither.data.register.typed_values import _is_readable, list_typed, parse_typed_sql
from tests.datasets.one_table import write_catalog

COLUMNS = {
    "whole": "{type: integer, bounds: [-5, 1000], nulls: keep, provenance: p}",
    "share": "{type: decimal, bounds: [-1, 1000], resolution: 0.01, nulls: keep, provenance: p}",
    "flag": "{type: boolean, nulls: keep}",
    "day": "{type: date, bounds: [2000-01-01, 2030-01-01], nulls: keep, provenance: p}",
    "time": (
        "{type: timestamp, zone: '+02:00', bounds: ['2000-01-01 00:00:00', '2030-01-01 00:00:00'], "
        "nulls: keep, provenance: p}"
    ),
}
INTEGERS = {
    "TINYINT": 7,
    "SMALLINT": 15,
    "INTEGER": 31,
    "BIGINT": 63,
    "UTINYINT": 8,
    "USMALLINT": 16,
    "UINTEGER": 32,
    "UBIGINT": 64,
    "HUGEINT": 127,
}


def catalog():
    return parse(write_catalog(COLUMNS))


def draw_values(source_type: str, random: Random) -> list[str]:
    """SQL of values at the edges of a type, and of many between."""
    if source_type in INTEGERS:
        bits = INTEGERS[source_type]
        low = 0 if source_type.startswith("U") else -(1 << bits)
        edges = [low, low + 1, 0, 1, (1 << bits) - 1, (1 << bits) - 2, 999, 10**18, 10**15 + 1]
        drawn = [random.randrange(low, 1 << bits) >> random.randrange(60) for _ in range(300)]
        inside = [number for number in edges + drawn if low <= number < 1 << bits]
        return [f"'{number}'::{source_type}" for number in inside]
    if source_type == "DOUBLE":
        patterns = [struct.unpack("<d", random.randbytes(8))[0] for _ in range(2000)]
        plain = [random.randrange(10**7) / 100 for _ in range(500)]
        odd = [0.0, -0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1e22, 1e23]
        written = [repr(number) for number in patterns + plain + odd]
        return [f"'{number}'::DOUBLE" for number in [*written, "nan", "-nan", "inf", "-inf"]]
    if source_type.startswith("DECIMAL"):
        digits, scale = map(int, source_type[8:-1].split(","))
        drawn = [random.randrange(10**digits) // 10 ** random.randrange(digits) for _ in range(900)]
        numbers = [0, 1, 10**digits - 1, *drawn]
        signed = [number * sign for number in numbers for sign in (1, -1)]
        texts = [f"{decimal.Decimal(number).scaleb(-scale):f}" for number in signed]
        return [f"'{text}'::{source_type}" for text in texts]
    if source_type == "BOOLEAN":
        return ["true", "false"]
    days = ["-infinity", "infinity", "0001-01-01", "9999-12-31", "1969-12-31", "1970-01-01"]
    days += ["10000-01-01", "0001-01-01 (BC)", "2024-02-29", "200000-01-01"]
    days += [f"{random.randrange(1, 9999):04}-{random.randrange(1, 13):02}-17" for _ in range(200)]
    if source_type == "DATE":
        return [f"'{day}'::DATE" for day in days]
    clocks = ["00:00:00", "23:59:59.999999", "12:34:56.5", "23:59:59.4", "00:00:00.000001"]
    times = [f"{day} {clock}" for day in days[2:] if "BC" not in day for clock in clocks]
    return [f"'{time}'::{source_type}" for time in [*times, "infinity", "-infinity"]]


SOURCES = [
    *INTEGERS,
    "DOUBLE",
    "FLOAT",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
    "TIMESTAMP WITH TIME ZONE",
    "DECIMAL(15,2)",
    "DECIMAL(15,15)",
    "DECIMAL(4,1)",
    "DECIMAL(9,0)",
    "DECIMAL(18,4)",
]


def read_both(column, source_type: str, values: list[str]) -> list[tuple]:
    """The value by its type and by its text, for values that lie in a table."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = ", ".join(f"({value})" for value in [*values, "NULL"])
        connection.execute(f"CREATE TABLE source (v {source_type})")
        connection.execute(f"INSERT INTO source VALUES {rows}")
        written = text_of(column, source_type.split("(")[0], "v")
        name = f'"{column.name}"'
        typed = (
            f"SELECT {parse_typed_sql(column, source_type)} AS t FROM (SELECT v AS {name} FROM s)"
        )
        text = (
            f"SELECT {parse_sql(column)} AS t FROM (SELECT NULLIF({written}, '') AS {name} FROM s)"
        )
        both = [
            connection.sql(
                f"WITH s AS (SELECT v, rowid AS n FROM source ORDER BY n) {sql}"
            ).fetchall()
            for sql in (typed, text)
        ]
        return [(a, b) for (a,), (b,) in zip(*both, strict=True)]


@pytest.mark.parametrize("source_type", SOURCES)
def test_a_value_that_keeps_its_type_is_what_its_text_says(source_type):
    random = Random(source_type)
    (table,) = catalog().tables
    for column in table.columns:
        if not isinstance(column, Id) and _is_readable(column, source_type):
            pairs = read_both(column, source_type, draw_values(source_type, random))
            assert len(pairs) > 2 and pairs[-1] == (None, None)
            for typed, read in pairs:
                assert typed == read and str(typed) == str(read)  # -0.0 is no 0.0


def test_types_whose_texts_say_something_else_go_through_text():
    """A FLOAT 0.1 is the text 0.1 and the double 0.10000000149; HUGEINTs have too many digits for
    the grammar; decimals of 16 digits may be rounded twice."""
    (table,) = catalog().tables
    columns = {type(column): column for column in table.columns}
    for kind, source_type in [
        (Decimal, "FLOAT"),
        (Integer, "HUGEINT"),
        (Decimal, "HUGEINT"),
        (Decimal, "DECIMAL(18,4)"),
        (Integer, "DECIMAL(9,0)"),
        (Integer, "DOUBLE"),
        (Boolean, "INTEGER"),
        (Date, "TIMESTAMP"),
        (Timestamp, "TIMESTAMP_NS"),
        (Timestamp, "DATE"),
    ]:
        assert not _is_readable(columns[kind], source_type)


def test_planted_bug_floats_as_doubles_are_caught():
    column = catalog().tables[0].column("share")
    typed, read = read_both(column, "FLOAT", ["'0.1'::FLOAT"])[0]
    assert typed != read


def test_columns_that_name_owners_or_windows_stay_texts():
    (table,) = catalog().tables
    types = dict.fromkeys(table.column_names, "BIGINT")
    assert list(list_typed(catalog(), table, types)) == ["whole", "share"]
    assert typed_values.list_typed(catalog(), table, dict.fromkeys(types, "VARCHAR")) == {}
