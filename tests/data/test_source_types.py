"""Typed sources: a bad value is repaired and counted, and a type that cannot be read exactly is
refused."""

from __future__ import annotations

import decimal
import itertools
import math
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dither import steward
from dither.catalog import Catalog, parse
from dither.data.register.owners import RegistrationError
from dither.data.register.parquet import open_reader
from dither.data.register.registration import write_copy
from dither.data.register.source_types import UNREADABLE, SourceError
from dither.data.register.sources import text_rows
from dither.errors import CatalogError
from tests.datasets import clinic
from tests.datasets.one_table import write_catalog
from tests.datasets.owners import OWNERS, hash_owner

MOST = 2**63 - 1
TIMESTAMP = (
    "{type: timestamp, bounds: ['2000-01-01T00:00:00', '2030-01-01T00:00:00'], zone: '+00:00', "
    "nulls: keep, provenance: the extract}"
)
DATE = "{type: date, bounds: [2000-01-01, 2030-01-01], nulls: keep, provenance: the extract}"
INTEGER = "{type: integer, bounds: [0, 1000], nulls: keep, provenance: the form}"
DECIMAL = "{type: decimal, bounds: [0, 1000], resolution: 0.01, nulls: keep, provenance: the form}"
TEXT = "{type: text, width: 60, nulls: keep}"
CATEGORY = "{type: category, values: undeclared, width: 60, nulls: drop}"


def catalog_of(engine: str = "parquet", **columns: str) -> Catalog:
    text = write_catalog(
        columns, name="odd", owner="patient", engine="parquet", rows_per_unit=1, max_rows=1000
    )
    if engine == "duckdb":
        text = text.replace("parquet, location: .", "duckdb, location: odd.db").replace(
            "odd.parquet", "odd"
        )
    return parse(text)


def write_source(folder: Path, engine: str, **columns: pa.Array) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    if engine == "parquet":
        pq.write_table(table, folder / "odd.parquet")
        return
    with duckdb.connect(str(folder / "odd.db")) as connection:
        connection.register("made", table)
        connection.execute("CREATE TABLE odd AS SELECT * FROM made")


def register(folder: Path, engine: str = "parquet", **columns: tuple[str, pa.Array]):
    """Registered values of each column in the order of people, and what the steward is told."""
    people = pa.array([f"p{i}" for i in range(len(next(iter(columns.values()))[1]))])
    write_source(
        folder,
        engine,
        patient=people,
        **{column: values for column, (_, values) in columns.items()},
    )
    catalog = catalog_of(engine, **{column: words for column, (words, _) in columns.items()})
    counts = write_data(folder, catalog)
    with duckdb.connect(str(folder / "data.duckdb"), read_only=True) as connection:
        found = connection.execute(f"SELECT {OWNERS}, {', '.join(columns)} FROM odd").fetchall()
    by_owner = {row[0]: row[1:] for row in found}
    owners = [hash_owner(person, clinic.KEY) for person in people.to_pylist()]
    rows = [by_owner[owner] for owner in owners if owner in by_owner]
    return dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)), counts


def write_data(folder: Path, catalog: Catalog) -> dict[str, int]:
    place = folder / "odd.db" if catalog.source.engine == "duckdb" else folder
    (repairs,) = write_copy(
        catalog, place, clinic.KEY, folder / "data.duckdb", folder / "spill", lambda _: None
    )
    return dict(repairs.counts)


@pytest.mark.parametrize("other", [2.0, math.inf])
def test_nan_is_a_null_whatever_the_others_hold(tmp_path, other):
    """Parquet's least and largest values leave NaN out: by them no value of the first file is it.

    Planted: with the optimizer that trusts them, NaN is 1000.00 beside 2.0 and a null beside inf.
    """
    values, counts = register(tmp_path, share=(DECIMAL, pa.array([1.0, math.nan, other])))
    assert values["share"][:2] == [100, 100_001]
    assert counts["share: values repaired"] == 1 + (other == math.inf)


DAY = 19_000  # 2022-01-08
SECONDS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
BAD = {
    "s": (2**53, -(2**53)),  # more in milliseconds than Parquet's writer takes
    "ms": (2**62, -(2**62), MOST, -MOST, 2**53),
    "us": (MOST, -MOST, -MOST + 10**6, 2**62),
    "ns": (MOST, -MOST),
}
ZONES = (None, "UTC", "Europe/Berlin")


def timestamps(unit: str, zone: str | None, values: list[int]) -> pa.Array:
    return pa.array(values, pa.int64()).view(pa.timestamp(unit, zone))


def timestamp_columns(engine: str, *, bad: bool) -> dict[str, tuple[str, pa.Array]]:
    """A column for each unit and zone: two days, then values that the calendar lacks (or nulls)."""
    columns = {}
    for unit, zone in itertools.product(SECONDS, ZONES):
        if engine == "duckdb" and zone and unit in ("s", "ms"):
            continue  # DuckDB has no such type
        days = [DAY * 86_400 * SECONDS[unit], (DAY + 1) * 86_400 * SECONDS[unit]]
        odd = list(BAD[unit]) if bad else []
        values = (days + odd + [None] * 5)[:7]
        columns[f"{unit}_{(zone or 'none').lower().replace('/', '_')}"] = (
            TIMESTAMP,
            timestamps(unit, zone, values),
        )
    return columns


@pytest.mark.parametrize("engine", ["parquet", "duckdb"])
def test_a_timestamp_that_the_calendar_lacks_is_repaired_and_changes_nobody_else(tmp_path, engine):
    """Before, one such row stopped registration."""
    alone, _ = register(tmp_path / "good", engine, **timestamp_columns(engine, bad=False))
    rows, counts = register(tmp_path / "bad", engine, **timestamp_columns(engine, bad=True))
    assert len(rows) == (12 if engine == "parquet" else 8)
    for column, values in rows.items():
        assert values[:2] == alone[column][:2] == [DAY * 86_400, (DAY + 1) * 86_400]
        assert len(values) == 7
        assert counts[f"{column}: values repaired"] == len(BAD[column.split("_")[0]])


@pytest.mark.parametrize("engine", ["parquet", "duckdb"])
def test_a_date_that_the_calendar_lacks_is_repaired(tmp_path, engine):
    days = pa.array([DAY, 2**31 - 1, -(2**31) + 1, -(2**31), 4_000_000], pa.int32()).view(
        pa.date32()
    )
    millis = pa.array([DAY, 10**7, -(10**7), 10**8, 3 * 10**6], pa.int64())
    wide = pa.array([value * 86_400_000 for value in millis.to_pylist()], pa.int64()).view(
        pa.date64()
    )
    rows, counts = register(tmp_path, engine, days=(DATE, days), wide=(DATE, wide))
    for column in ("days", "wide"):
        assert rows[column][0] == DAY and len(rows[column]) == 5
        assert counts[f"{column}: values repaired"] == 4


@pytest.mark.parametrize("engine", ["parquet", "duckdb"])
def test_a_time_outside_a_day_is_repaired(tmp_path, engine):
    columns = {}
    for kind in (pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        numbers = pa.int32() if kind.bit_width == 32 else pa.int64()
        values = pa.array([3661 * SECONDS[kind.unit], 2 ** (kind.bit_width - 2), -5], numbers)
        columns[f"time_{kind.unit}"] = (TEXT, values.view(kind))
    rows, _ = register(tmp_path, engine, **columns)
    assert set(map(tuple, rows.values())) == {("01:01:01", UNREADABLE, UNREADABLE)}


def test_a_date_out_of_range_is_no_owner(tmp_path):
    """Two people whose ids are unreadable must not become one."""
    days = pa.array([DAY, 2**31 - 1, 2**31 - 1], pa.int32()).view(pa.date32())
    write_source(tmp_path, "parquet", patient=days, x=pa.array([1, 2, 3]))
    counts = write_data(tmp_path, catalog_of(x=INTEGER))
    assert counts["rows registered"] == 1
    assert counts["rows without an owner, dropped"] == 2


def broken_texts(texts: list[bytes]) -> pa.Array:
    """A column of type string whose bytes may be no UTF-8; pyarrow writes it as it is."""
    raw = pa.array(texts, pa.binary())
    return pa.StringArray.from_buffers(len(texts), raw.buffers()[1], raw.buffers()[2])


def test_a_text_that_is_no_utf_8_is_null_and_changes_nobody_else(tmp_path):
    """Spelt out, it could be the very text of somebody else: of ids, two people would be one."""
    rows, _ = register(
        tmp_path, x=(TEXT, broken_texts([b"plain", "Zürich".encode(), b"\xff\xfe", b"\\xff\\xfe"]))
    )
    assert rows["x"] == ["plain", "Zürich", None, "\\xff\\xfe"]


NUMBERS: dict = {
    "decimal(4, 2)": (pa.array([decimal.Decimal("12.34")], pa.decimal128(4, 2)), DECIMAL, 1234),
    "decimal(38, 10)": (pa.array([decimal.Decimal("5.5")], pa.decimal128(38, 10)), DECIMAL, 550),
    "decimal256(20, 0)": (pa.array([decimal.Decimal(7)], pa.decimal256(20, 0)), INTEGER, 7),
    "int8": (pa.array([5], pa.int8()), INTEGER, 5),
    "uint64": (pa.array([2**64 - 1], pa.uint64()), INTEGER, 1000),
    "int64": (pa.array([-(2**63)], pa.int64()), INTEGER, 0),
    "float16": (pa.array([1.5], pa.float16()), DECIMAL, 150),
    "float32": (pa.array([float("inf")], pa.float32()), DECIMAL, 100_000),
    "float64": (pa.array([float("nan")], pa.float64()), DECIMAL, 100_001),  # null, which is kept
    "dictionary": (pa.array([7]).dictionary_encode(), INTEGER, 7),
    "duration": (pa.array([7], pa.duration("us")), INTEGER, 7),
    "boolean": (pa.array([True]), "{type: boolean, nulls: keep}", 1),
    "null": (pa.array([None], pa.null()), INTEGER, 1001),
}


def test_numbers_of_every_type_are_read(tmp_path):
    columns = {f"x{i}": (words, values) for i, (values, words, _) in enumerate(NUMBERS.values())}
    rows, _ = register(tmp_path, **columns)
    assert [values[0] for values in rows.values()] == [
        expected for _, _, expected in NUMBERS.values()
    ]


NESTED = {
    "list": pa.array([[1], [2]]),
    "struct": pa.array([{"a": 1}, {"a": 2}]),
    "map": pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("engine", ["parquet", "duckdb"])
@pytest.mark.parametrize("kind", NESTED)
def test_several_values_in_one_are_refused_with_the_remedy(tmp_path, engine, kind):
    with pytest.raises(
        RegistrationError, match=r"odd\.x: .*holds several values in one: write one column"
    ):
        register(tmp_path, engine, x=(TEXT, NESTED[kind]))


EXACT = {
    "int64": pa.array([2**53, 2**53 + 1]),
    "uint64": pa.array([2**64 - 1, 2**64 - 2], pa.uint64()),
    "decimal(38, 0)": pa.array(
        [decimal.Decimal(10**37), decimal.Decimal(10**37 + 1)], pa.decimal128(38, 0)
    ),
    "decimal256(38, 0)": pa.array(
        [decimal.Decimal(10**37), decimal.Decimal(10**37 + 1)], pa.decimal256(38, 0)
    ),
    "binary": pa.array([b"\xff", b"\\xFF"]),
    "fixed binary": pa.array([b"\x00\x01", b"\x00\x02"], pa.binary(2)),
    "dictionary": pa.array(["a", "b"]).dictionary_encode(),
    "large string": pa.array(["a", "b"], pa.large_string()),
    "timestamp": timestamps("ns", None, [1, 2]),
}
ROUNDED = {
    "decimal256(39, 0)": pa.array(
        [decimal.Decimal(10**38), decimal.Decimal(10**38 + 1)], pa.decimal256(39, 0)
    ),
    "decimal256(76, 10)": pa.array([decimal.Decimal(1), decimal.Decimal(2)], pa.decimal256(76, 10)),
    "decimal128(10, 2)": pa.array([decimal.Decimal(7), decimal.Decimal(8)], pa.decimal128(10, 2)),
    "double": pa.array([2.0**53, 2.0**53 + 2]),
    "float": pa.array([1.0, 2.0], pa.float32()),
    "half float": pa.array([1.0, 2.0], pa.float16()),
}


class TestIds:
    @pytest.mark.parametrize("engine", ["parquet", "duckdb"])
    @pytest.mark.parametrize("kind", EXACT)
    def test_ids_that_differ_stay_two_people(self, tmp_path, engine, kind):
        ids = EXACT[kind]
        if engine == "duckdb" and pa.types.is_decimal256(ids.type):
            ids = ids.cast(pa.decimal128(38, 0))  # the widest that DuckDB has
        write_source(tmp_path, engine, patient=ids, x=pa.array([1, 2]))
        assert len(set(owners_of(tmp_path, engine))) == 2

    def test_ids_are_registered_as_they_are_read(self, tmp_path):
        write_source(tmp_path, "parquet", patient=EXACT["decimal(38, 0)"], x=pa.array([1, 2]))
        write_data(tmp_path, catalog_of(x=INTEGER))
        with duckdb.connect(str(tmp_path / "data.duckdb"), read_only=True) as connection:
            found = connection.execute(f"SELECT {OWNERS} FROM odd").fetchall()
        ids = (str(10**37), str(10**37 + 1))
        assert {row[0] for row in found} == {hash_owner(owner, clinic.KEY) for owner in ids}

    @pytest.mark.parametrize("kind", ROUNDED)
    def test_ids_that_are_rounded_are_refused_with_the_remedy(self, tmp_path, kind):
        """Before, ids of more than 38 digits were read as DOUBLE: long ones became one person."""
        write_source(tmp_path, "parquet", patient=ROUNDED[kind], x=pa.array([1, 2]))
        remedy = r"odd\.patient: .*cast the column to .*decimal\(38, 0\) or (to )?text"
        with pytest.raises(RegistrationError, match=remedy):
            write_data(tmp_path, catalog_of(x=INTEGER))
        with pytest.raises(CatalogError, match=remedy):
            steward.check_source(catalog_of(x=INTEGER), tmp_path / "odd.yaml")

    @pytest.mark.parametrize(
        ("first", "second", "is_read"),
        [
            (["7"], [7], True),
            ([7], pa.array([7], pa.int8()), True),
            (["7"], [7.0], False),
            (["7"], pa.array([7], pa.decimal128(9, 2)), False),
            (["2024-05-01"], [datetime(2024, 5, 1, tzinfo=UTC)], False),
        ],
        ids=["text, integer", "integers", "text, float", "text, decimal", "text, time"],
    )
    def test_a_person_is_one_in_all_files_of_a_table(self, tmp_path, first, second, is_read):
        """The engine takes the types of the first file: 7.0 of the second was a text of its own."""
        for number, ids in enumerate((first, second)):
            rows = pa.table({"patient": ids, "x": [number]})
            pq.write_table(rows, tmp_path / f"odd{number}.parquet")
        text = write_catalog({"x": INTEGER}, name="odd", owner="patient", engine="parquet")
        catalog = parse(text.replace("from: odd.parquet", "from: odd*.parquet"))
        if is_read:
            assert len({row[0] for row in texts_of(tmp_path, catalog)[0]}) == 1
            return
        with pytest.raises(SourceError, match=r"odd\.patient: .* in several ways"):
            texts_of(tmp_path, catalog)

    @pytest.mark.parametrize("kind", ["HUGEINT", "UHUGEINT", "BIGNUM", "UUID", "BLOB", "VARCHAR"])
    def test_wide_types_of_duckdb_are_read_exactly(self, tmp_path, kind):
        ids = [f"1700000000000000000000000000000000000{i}" for i in range(2)]
        if kind == "UUID":
            ids = [f"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1{i}" for i in range(2)]
        with duckdb.connect(str(tmp_path / "odd.db")) as connection:
            shown = ", ".join(f"('{each}'::{kind}, {i})" for i, each in enumerate(ids))
            connection.execute(f"CREATE TABLE odd AS FROM (VALUES {shown}) v(patient, x)")
        assert len(set(owners_of(tmp_path, "duckdb"))) == 2

    @pytest.mark.parametrize("kind", ["decimal256(39, 0)", "decimal256(76, 10)"])
    @pytest.mark.parametrize(
        "column", [CATEGORY, TEXT, INTEGER], ids=["category", "text", "integer"]
    )
    def test_wide_decimals_are_refused_in_every_column(self, tmp_path, kind, column):
        with pytest.raises(RegistrationError, match=r"odd\.x: .*more than 38 digits"):
            register(tmp_path, x=(column, ROUNDED[kind]))

    def test_labels_of_floats_are_read_exactly(self, tmp_path):
        """A label is no person, and a float's text says which float it is."""
        rows, _ = register(tmp_path, x=(CATEGORY, pa.array([0.1 + 0.2, 0.3, 2.0**53])))
        assert rows["x"] == ["0.30000000000000004", "0.3", "9007199254740992.0"]


def texts_of(
    folder: Path, catalog: Catalog, *, through_arrow: bool = False
) -> tuple[list[tuple], str]:
    """The rows of the source as text, in their order, and the SQL that reads them."""
    place = folder / "odd.db" if catalog.source.engine == "duckdb" else folder
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        rows = text_rows(
            connection, catalog.source, place, catalog.tables[0], through_arrow=through_arrow
        )
        return connection.execute(f"SELECT * FROM {rows}").fetchall(), rows


def owners_of(folder: Path, engine: str) -> list[str]:
    return [row[0] for row in texts_of(folder, catalog_of(engine, x=INTEGER))[0]]


def plain_columns() -> dict[str, pa.Array]:
    """Columns of every type with values that the engine reads."""
    found = {
        f"{unit} {zone}": timestamps(unit, zone, [0, 5, 86_400])
        for unit in SECONDS
        for zone in ZONES
    }
    found |= {kind: values for kind, (values, _, _) in NUMBERS.items()} | EXACT
    found |= {
        "date32": pa.array([DAY, 5], pa.int32()).view(pa.date32()),
        "date64": pa.array([DAY * 86_400_000], pa.int64()).view(pa.date64()),
        "time ms": pa.array([5], pa.int32()).view(pa.time32("ms")),
        "time us": pa.array([5], pa.int64()).view(pa.time64("us")),
        "time ns": pa.array([5], pa.int64()).view(pa.time64("ns")),
        "text": pa.array(["a", None, "", "Zürich"]),
        "floats": pa.array([0.1, 1e300, -0.0, 5e-324]),
        "float32": pa.array([0.1, 16777217.0], pa.float32()),
        "float16": pa.array([0.1], pa.float16()),
    }
    return found


@pytest.mark.parametrize(
    "options", [{}, {"use_deprecated_int96_timestamps": True}], ids=["plain", "int96"]
)
def test_a_file_is_read_through_arrow_as_the_engine_reads_it(tmp_path, options):
    """So that one person's bad value, after which Arrow reads, changes the text of nobody
    else's."""
    columns = {f"x{i}": values for i, values in enumerate(plain_columns().values())}
    columns = {column: pa.concat_arrays([values] * 4)[:4] for column, values in columns.items()}
    people = pa.array([f"p{i}" for i in range(4)])
    pq.write_table(pa.table({"patient": people, **columns}), tmp_path / "odd.parquet", **options)
    catalog = catalog_of(**dict.fromkeys(columns, TEXT))
    by_engine, _ = texts_of(tmp_path, catalog)
    by_arrow, sql = texts_of(tmp_path, catalog, through_arrow=True)
    assert "dither_arrow_odd" in sql
    assert by_arrow == by_engine


def test_arrow_reads_several_files_as_one(tmp_path):
    for place in range(2):
        pq.write_table(pa.table({"x": pa.array([place])}), tmp_path / f"{place}.parquet")
    files = sorted(tmp_path.glob("*.parquet"))
    assert open_reader(files, ["x"]).read_all().column("x").to_pylist() == [0, 1]
