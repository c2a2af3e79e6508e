"""Registration from PostgreSQL: the registered rows are those of the same texts in a CSV file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import duckdb
import psycopg
import pytest

from dither import steward
from dither.catalog import Source, parse
from dither.data.register.owners import RegistrationError
from dither.data.register.postgres.copy import list_problems
from dither.data.register.postgres.identity import identify_database
from dither.data.register.postgres.source import PostgresSource
from dither.data.register.registration import write_copy_and_facts
from dither.data.register.source_types import SourceError
from dither.errors import CatalogError, RefusedError
from dither.state import State
from tests.data.test_differential import ODD
from tests.datasets import clinic
from tests.datasets.owners import hash_owner

ODD_TEXTS = [
    *(text for text in ODD if text),
    *("x\ny", "a\\b", "\\N", "\\.", "\r", "tab\t", "Ä", "ä", "ı", "2024-02-30"),
    *("2024-06-01T10:00:00Z", "0000-01-01", "t", "FALSE", "1e3", "9" * 18, "1" * 5000),
]


def odd_rows():
    """Rows in which every column meets every odd text."""
    names = clinic.COLUMNS[2:]
    rows = []
    for number, text in enumerate(ODD_TEXTS):
        for place, name in enumerate(names):
            person = f"p{(number + place) % 7}"
            rows.append(clinic.row(f"v{number}-{place}", person, **{name: text}))
    return [*rows, clinic.row("v", None), clinic.row("v", ""), clinic.row("", "p1")]


def make_table(location: str, name: str, rows, types=None) -> None:
    """A table with the clinic's columns, as texts unless said otherwise."""
    types = types or {}
    with psycopg.connect(location, autocommit=True) as connection:
        columns = ", ".join(f'"{c}" {types.get(c, "text")}' for c in clinic.COLUMNS)
        connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        connection.execute(f'CREATE TABLE "{name}" ({columns})')
        with connection.cursor().copy(f'COPY "{name}" FROM STDIN') as copy:
            for row in rows:
                copy.write_row([row[column] for column in clinic.COLUMNS])


def in_postgres(location: str, name: str = "visits"):
    facts = clinic.catalog()
    tables = tuple(replace(table, source_name=name) for table in facts.tables)
    return replace(facts, source=Source("postgres", location), tables=tables)


def register(catalog, folder: Path) -> list[tuple]:
    """Registered rows with owners and ranks, sorted; a number only says who is who."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "data.duckdb"
    spill = folder / "spill"
    write_copy_and_facts(catalog, folder, clinic.KEY, target, spill, lambda _: None)
    with duckdb.connect(str(target), read_only=True) as connection:
        sql = "SELECT * EXCLUDE (dither_unit) FROM visits"
        return sorted(connection.execute(sql).fetchall(), key=repr)


def write_parquet(file: Path, rows) -> None:
    """The same texts in a file that can hold line breaks, which CSV for us cannot."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: [row[name] for row in rows] for name in clinic.COLUMNS}
    pq.write_table(pa.table(columns, schema=pa.schema([(n, pa.string()) for n in columns])), file)


def test_the_registered_rows_are_those_of_a_file(postgres, tmp_path):
    """Same repairs, same owners, same ranks: every odd text in every column."""
    rows = odd_rows()
    make_table(postgres, "odd", rows)
    write_parquet(tmp_path / "visits.parquet", rows)
    file = clinic.catalog()
    tables = tuple(replace(table, source_name="visits.parquet") for table in file.tables)
    file = replace(file, source=Source("parquet", "."), tables=tables)
    target = tmp_path / "file.duckdb"
    write_copy_and_facts(file, tmp_path, clinic.KEY, target, tmp_path / "s", lambda _: None)
    with duckdb.connect(str(target), read_only=True) as connection:
        sql = "SELECT * EXCLUDE (dither_unit) FROM visits"
        expected = sorted(connection.execute(sql).fetchall(), key=repr)
    assert register(in_postgres(postgres, "odd"), tmp_path / "server") == expected
    assert len(expected) > 10


@pytest.mark.all
def test_the_order_of_rows_moves_nothing(postgres, tmp_path):
    rows = odd_rows()
    make_table(postgres, "forward", rows)
    make_table(postgres, "backward", rows[::-1])
    forward = register(in_postgres(postgres, "forward"), tmp_path / "one")
    assert register(in_postgres(postgres, "backward"), tmp_path / "two") == forward


def test_typed_columns_are_read_as_their_values(postgres, tmp_path):
    """Floats with all their digits, dates of any style, infinities, and days outside the years."""
    types = {"cost": "double precision", "day": "date", "age": "smallint", "urgent": "boolean"}
    values = [
        {"cost": "0.1", "day": "2024-05-01"},
        {"cost": "NaN", "day": "infinity"},
        {"cost": "-Infinity", "day": "0044-03-15 BC"},
        {"cost": "1e308", "day": "20000-01-01"},
        {"cost": "-0", "day": "2024-12-31"},
        {"cost": "0.30000000000000004", "day": None},
    ]
    rows = [clinic.row(f"v{i}", f"p{i}", **value) for i, value in enumerate(values)]
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("ALTER ROLE CURRENT_USER SET DateStyle = 'German, DMY'")
    try:
        make_table(f"{postgres}&options=-cDateStyle%3DISO", "typed", rows, types)
        found = register(in_postgres(postgres, "typed"), tmp_path)
    finally:
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute("ALTER ROLE CURRENT_USER RESET DateStyle")
    names = ["rank", "a", "b", *clinic.COLUMNS[:1], *clinic.COLUMNS[2:]]
    people = {hash_owner(f"p{i}", clinic.KEY): f"p{i}" for i in range(6)}
    named = [dict(zip(names, row, strict=False)) for row in found]
    by_owner = {people[f"{row['a']}:{row['b']}"]: row for row in named}
    costs = {owner: row["cost"] for owner, row in by_owner.items()}
    assert costs == {"p0": 10, "p1": 50001, "p2": -1000, "p3": 50000, "p4": 0, "p5": 30}
    null_day = 20088 + 1  # the day after the last one of the bounds
    days = [by_owner[f"p{i}"]["day"] for i in range(6)]
    assert days == [19844, null_day, null_day, null_day, 20088, null_day]


def test_all_tables_are_of_one_snapshot(postgres):
    """What is written while registration runs is in none of the tables."""
    make_table(postgres, "snapshot", [clinic.row("v1", "p1")])
    source = PostgresSource(postgres)
    connection = duckdb.connect()
    try:
        source.list_types("snapshot")
        with psycopg.connect(postgres, autocommit=True) as other:
            other.execute("INSERT INTO snapshot (visit, patient) VALUES ('v2', 'p2')")
        (table,) = in_postgres(postgres, "snapshot").tables
        sql = source.text_rows(connection, table)
        assert connection.execute(f"SELECT patient FROM {sql}").fetchall() == [("p1",)]
    finally:
        source.close()
        connection.close()


@pytest.mark.parametrize(
    ("column", "kind", "message"),
    [
        ("patient", "double precision", "written in two ways"),
        ("patient", "numeric", "written in two ways"),
        ("patient", "numeric(10,2)", "written in two ways"),
        ("patient", "timestamp without time zone", "written in two ways"),
        ("ward", "jsonb", "type jsonb, which is not read"),
        ("ward", "text[]", r"type text\[\]"),
        ("ward", "bytea", "type bytea"),
    ],
)
def test_types_that_cannot_be_read_are_refused(postgres, tmp_path, column, kind, message):
    make_table(postgres, "refused", [], {column: kind})
    with pytest.raises(RegistrationError, match=message):
        register(in_postgres(postgres, "refused"), tmp_path)


def test_a_missing_table_or_column_is_refused(postgres):
    source = PostgresSource(postgres)
    try:
        (table,) = in_postgres(postgres, "nowhere").tables
        with pytest.raises(SourceError, match="no table nowhere"):
            source.check_table(table)
    finally:
        source.close()


def test_a_catalog_holds_no_password():
    for location in ("host=x password=y", "postgresql://me:secret@host/db"):
        text = clinic.CATALOG.replace(
            "{engine: csv, location: .}", f"{{engine: postgres, location: '{location}'}}"
        )
        with pytest.raises(CatalogError, match="holds a password"):
            parse(text)


def test_names_that_postgres_would_cut_are_refused():
    long = "x" * 51
    catalog = clinic.catalog()
    (table,) = catalog.tables
    columns = tuple(replace(c, name=long) if c.name == "score" else c for c in table.columns)
    changed = replace(catalog, tables=(replace(table, columns=columns),))
    assert list_problems(catalog) == []
    assert "longer than 50" in list_problems(changed)[0]


def test_the_grants_are_enough_and_no_more(postgres, tmp_path):
    """A role with the printed grants registers and reads; it sees no other column."""
    from dither.data.register.postgres.grants import write_grants

    make_table(postgres, "granted", [clinic.row("v1", "p1")])
    with psycopg.connect(postgres, autocommit=True) as owner:
        owner.execute("ALTER TABLE granted ADD COLUMN diary text")
        grants = write_grants(in_postgres(postgres, "granted"), "reader")
        owner.execute(grants.replace(':"DBNAME"', "postgres"))
    location = postgres.replace("postgres:@", "reader@")
    assert register(in_postgres(location, "granted"), tmp_path)
    with psycopg.connect(location) as reader, pytest.raises(psycopg.errors.InsufficientPrivilege):
        reader.execute("SELECT diary FROM granted")


@pytest.mark.all
def test_a_table_of_several_batches_is_read_whole(postgres, tmp_path):
    rows = [clinic.row(f"v{i}", f"p{i}") for i in range(70_000)]
    make_table(postgres, "large", rows)
    catalog = in_postgres(postgres, "large")
    tables = tuple(replace(table, max_rows=10**6) for table in catalog.tables)
    assert len(register(replace(catalog, tables=tables), tmp_path)) == 70_000


def test_a_database_has_one_name_however_its_location_is_written(postgres):
    """What ever had a budget cannot be dev: another spelling of the location is no other source."""
    fields = psycopg.conninfo.conninfo_to_dict(postgres)
    respelt = " ".join(f"{key}='{value}'" for key, value in sorted(fields.items()))
    assert respelt != postgres
    named = identify_database(postgres)
    assert identify_database(respelt) == named and named.startswith("postgres:")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE DATABASE another_source")
    elsewhere = " ".join([respelt, "dbname=another_source"])
    assert identify_database(elsewhere) != named


def test_a_source_that_has_a_budget_is_not_dev_under_another_spelling(
    postgres, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    make_table(postgres, "visits_respelt", [clinic.row("v", "p")])
    fields = psycopg.conninfo.conninfo_to_dict(postgres)
    respelt = " ".join(f"{key}='{value}'" for key, value in sorted(fields.items()))
    files = []
    for number, location in enumerate((postgres, respelt)):
        (tmp_path / str(number)).mkdir()
        files.append(tmp_path / str(number) / "clinic.yaml")
        text = clinic.CATALOG.replace(
            "source: {engine: csv, location: .}",
            f'source: {{engine: postgres, location: "{location}"}}',
        )
        text = text.replace("lineage: clinic", f"lineage: clinic{number}")
        files[-1].write_text(text.replace("from: visits.csv", "from: visits_respelt"))
    steward.register(files[0])
    clinic.open_total(State.beside(files[0]))
    with pytest.raises(RefusedError, match="cannot be dev"):
        steward.register(files[1], dev=True)
