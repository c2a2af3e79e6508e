"""Registration in Spark: every row, rank, repair and number is the one that DuckDB gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dither.catalog import Source
from dither.data.register import registration
from dither.data.register.owners import RegistrationError
from dither.data.register.registration import write_copy_and_facts
from dither.data.register.spark.copy import list_problems
from dither.data.register.spark.source import SparkSource
from tests.data.engines.test_plans_everywhere import raw_rows
from tests.data.engines.test_postgres_source import odd_rows
from tests.data.test_ranked_owners import rank_everybody
from tests.datasets import clinic, hospital
from tests.datasets.edge_catalogs import catalog_of

pytestmark = pytest.mark.all


def write_sources(folder: Path, catalog: Any, raws: dict[str, list[dict[str, Any]]]) -> None:
    """Every table as a Parquet file of texts."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in catalog.tables:
        schema = pa.schema([(column, pa.string()) for column in table.column_names])
        columns = {c: [row[c] for row in raws[table.name]] for c in table.column_names}
        pq.write_table(pa.table(columns, schema=schema), folder / f"{table.name}.parquet")


def register_both(
    folder: Path, catalog: Any, raws: Any
) -> tuple[dict[str, list[tuple]], dict[str, list[tuple]]]:
    """Registered rows by table, in DuckDB and in Spark: all columns but the owner's name."""
    write_sources(folder / "source", catalog, raws)
    tables = tuple(replace(t, source_name=f"{t.name}.parquet") for t in catalog.tables)
    found = []
    counts = []
    for engine in ("parquet", "spark"):
        place = folder / engine
        (place / "spill").mkdir(parents=True)
        moved = replace(catalog, source=Source(engine, "."), tables=tables)
        with pytest.MonkeyPatch.context() as patch:
            # Spark ranks everybody, so DuckDB does here: all ranks are compared
            patch.setattr(registration, "find_ranked", rank_everybody)
            repairs, _ = write_copy_and_facts(
                moved,
                folder / "source",
                clinic.KEY,
                place / "data.duckdb",
                place / "spill",
                lambda _: None,
            )
        counts.append({done.table: dict(done.counts) for done in repairs})
        found.append({t.name: read_copy(place, t.name, engine) for t in catalog.private_tables})
    for table in catalog.private_tables:  # the steward reads the same counts
        in_files = counts[0][table.name]
        assert in_files.pop("lines that could not be read") == 0
        assert counts[1][table.name] == in_files
    return found[0], found[1]


def read_copy(place: Path, table: str, engine: str) -> list[tuple]:
    with duckdb.connect(str(place / "data.duckdb"), read_only=True) as connection:
        files = place / "spark" / table / "*.parquet"
        relation = f'"{table}"' if engine == "parquet" else f"read_parquet('{files}')"
        # Spark's copy keeps the owner's id; the two numbers made of it are compared instead
        left_out = "dither_unit" if engine == "parquet" else "dither_unit, dither_owner"
        rows = connection.execute(f"SELECT * EXCLUDE ({left_out}) FROM {relation}").fetchall()
    plain = [tuple(v if isinstance(v, str | None) else int(v) for v in row) for row in rows]
    return sorted(plain, key=repr)


def test_every_odd_text_in_every_column(tmp_path):
    expected, registered = register_both(tmp_path, clinic.catalog(), {"visits": odd_rows()})
    assert registered == expected
    assert len(expected["visits"]) > 10


def test_the_value_of_a_folder_is_text_whatever_other_folders_are_called(tmp_path):
    """Spark would read ward=01 and ward=02 as the numbers 1 and 2, until a person in ward=X comes:
    that one would change the rows of all others."""
    catalog = clinic.catalog()
    (table,) = catalog.tables
    moved = replace(
        catalog, source=Source("spark", "."), tables=(replace(table, source_name="visits"),)
    )
    names = [column for column in table.column_names if column != "ward"]
    schema = pa.schema([(column, pa.string()) for column in names])
    for index, ward in enumerate(["01", "02"]):
        row = clinic.row(str(index), str(index))
        place = tmp_path / "source" / "visits" / f"ward={ward}"
        place.mkdir(parents=True)
        columns = {column: [row[column]] for column in names}
        pq.write_table(pa.table(columns, schema=schema), place / "rows.parquet")
    source = SparkSource(".", tmp_path / "source", tmp_path)
    wards = {row["ward"] for row in source._read_texts(moved.tables[0]).collect()}
    assert wards == {"01", "02"}


def test_bytes_that_are_no_text_become_null(tmp_path):
    raws = [clinic.row("1", "1"), clinic.row("2", "2")]
    write_sources(tmp_path / "source", clinic.catalog(), {"visits": raws})
    file = tmp_path / "source" / "visits.parquet"
    texts = pq.read_table(file)
    bad = pa.array([b"\xff\xfe", b"2"], pa.binary()).view(pa.string())
    position = texts.schema.get_field_index("patient")
    pq.write_table(texts.set_column(position, "patient", bad), file)
    table = replace(clinic.catalog().tables[0], source_name="visits.parquet")
    source = SparkSource(".", tmp_path / "source", tmp_path)
    patients = [row["patient"] for row in source._read_texts(table).collect()]
    assert sorted(map(str, patients)) == ["2", "None"]


@pytest.mark.parametrize("unit", ["person", "window", "row"])
def test_edges_of_types_under_every_unit(tmp_path, unit):
    random = Random(unit)
    catalog = catalog_of(random, unit)
    if list_problems(catalog):
        catalog = keep_narrow(catalog)
    expected, registered = register_both(tmp_path, catalog, raw_rows(random, catalog))
    assert registered == expected


def keep_narrow(catalog: Any) -> Any:
    """The catalog without the columns that Spark refuses."""
    words = " ".join(list_problems(catalog))
    return replace(
        catalog,
        tables=tuple(
            replace(
                table,
                columns=tuple(c for c in table.columns if f"{table.name}.{c.name} " not in words),
            )
            for table in catalog.tables
        ),
    )


def test_owners_along_foreign_keys(tmp_path):
    raws = hospital.random_people(30, seed=4)
    raws["items"] = [
        hospital.item(visit["visit"], str(number % 9))
        for number, visit in enumerate(raws["visits"] * 2)
    ]
    expected, registered = register_both(tmp_path, hospital.catalog(), raws)
    assert registered == expected
    assert expected["items"]


def test_two_owners_of_a_key_stop_it(tmp_path):
    raws = hospital.random_people(3)
    raws["visits"][1]["visit"] = raws["visits"][0]["visit"]
    raws["visits"][1]["person"] = "p2"
    raws["visits"][0]["person"] = "p1"
    with pytest.raises(RegistrationError, match="belong to two owners"):
        register_both(tmp_path, hospital.catalog(), raws)


def test_the_steward_reads_the_same_counts_of_spellings_and_of_rows_left_out(tmp_path):
    """Ann in two spellings; five rows of one person, of which three stay; a key twice."""
    raws = [clinic.row(f"v{i}", "p", cost=str(i)) for i in range(5)]
    raws += [clinic.row("w", "Ann"), clinic.row("w", "Ann", cost="3"), clinic.row("x", "a nn")]
    expected, registered = register_both(tmp_path, clinic.catalog(), {"visits": raws})
    assert registered == expected and len(expected["visits"]) == 5


def test_an_object_store_path_is_read_like_a_folder(tmp_path):
    """file:// stands for s3://, which cannot be had here: both go through Hadoop's readers."""
    raws = {"visits": [clinic.row(f"v{i}", f"p{i}", cost=str(i)) for i in range(5)]}
    write_sources(tmp_path / "source", clinic.catalog(), raws)
    (table,) = clinic.catalog().tables
    copies = []
    for number, location in enumerate([".", f"file://{tmp_path / 'source'}"]):
        place = tmp_path / str(number)
        (place / "spill").mkdir(parents=True)
        moved = replace(clinic.catalog(), source=Source("spark", location), tables=(table,))
        folder = tmp_path / "source" if location == "." else tmp_path / "nowhere"
        write_copy_and_facts(
            moved, folder, clinic.KEY, place / "data.duckdb", place / "spill", lambda _: None
        )
        copies.append(read_copy(place, "visits", "spark"))
    assert copies[0] == copies[1] and len(copies[0]) == 5
