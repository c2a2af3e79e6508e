"""What the server knows of a copy when it plans, and what it may do with it; names of columns."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from dither.catalog import Catalog, parse
from dither.data.register.postgres.planning import (
    _run_if_accepted,
    write_indexes,
    write_statistics,
)
from tests.data.engines.twins import on_engine
from tests.datasets import hospital
from tests.datasets.catalog_texts import write_head, write_private_head

JOINED = "SELECT count(*) FROM patients p JOIN visits v ON v.dither_unit = p.dither_unit"
BY_INDEX = "/* by index */ "
WITHOUT_HASHES = ("enable_hashjoin", "enable_seqscan")
WITHOUT_INDEXES = ("enable_hashjoin", "enable_indexscan", "enable_bitmapscan")


@pytest.fixture(scope="module")
def pair(postgres: str) -> Iterator[tuple[hospital.Registered, hospital.Registered]]:
    with (
        hospital.registered(hospital.random_people(20)) as first,
        on_engine(first, "postgres", postgres) as other,
    ):
        yield first, other


def read_statistics(connection: psycopg.Connection, tables: list[str]) -> list[tuple]:
    """All that the server knows of the values of some tables."""
    query = "SELECT s::text FROM pg_stats s WHERE schemaname = current_schema() AND tablename = %s"
    rows = [connection.execute(query, (table,)).fetchall() for table in tables]
    schema = connection.execute("SELECT current_schema()").fetchone()[0]
    return sorted(row[0].replace(schema, "") for table in rows for row in table)


def compile_with(connection_of: hospital.Registered, settings: tuple[str, ...]) -> str:
    """What is run for a join, where the server is kept from some ways to join."""
    engine = connection_of.measurer.engine
    for setting in settings:
        engine.connection.execute(f"SET {setting} = off")
    try:
        return engine.compile("joined", JOINED, is_kept=False, rewrite=lambda _: JOINED)
    finally:
        for setting in settings:
            engine.connection.execute(f"RESET {setting}")


def test_what_is_known_of_people_follows_from_the_catalog(pair, postgres):
    """Otherwise a plan would follow from what rows hold."""
    other = pair[1]
    connection = other.measurer.engine.connection
    private = [table.name for table in other.catalog.private_tables]
    statistics = read_statistics(connection, private)
    assert any("salary" in row for row in statistics)
    with (
        hospital.registered(hospital.random_people(7)) as few,
        on_engine(few, "postgres", postgres) as copy,
    ):
        assert read_statistics(copy.measurer.engine.connection, private) == statistics
    # planted: statistics of the rows themselves are seen to differ
    connection.execute("SET default_transaction_read_only = off")
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("ANALYZE patients")
            assert read_statistics(connection, private) != statistics
    finally:
        connection.execute("SET default_transaction_read_only = on")


SHOP = """\
      person: {type: id}
      part:   {type: integer, bounds: [1, 1000], nulls: keep, provenance: list}
  parts:
    kind: public
    from: parts.csv
    unique: [[part]]
    columns:
      part: {type: integer, bounds: [1, 1000], nulls: drop, provenance: list}
      size: {type: integer, bounds: [1, 2000], nulls: drop, provenance: list}
"""
OF_PARTS = (
    "SELECT count(*) FROM orders WHERE part > 990",
    "SELECT count(*) FROM orders WHERE part < 10",
    "SELECT count(*) FROM orders JOIN parts USING (part) WHERE size = 7",
)


def explain_over(uri: str, catalog: Catalog, part: str) -> list[str]:
    """How the server would answer OF_PARTS over 5,000 orders of these parts."""
    with psycopg.connect(uri) as connection:
        connection.execute("CREATE SCHEMA shop")
        connection.execute("SET search_path = shop")
        connection.execute("CREATE TABLE orders (dither_unit BIGINT, person TEXT, part BIGINT)")
        connection.execute("CREATE TABLE parts (part BIGINT, size BIGINT)")
        write_statistics(connection, "shop", catalog, catalog.table("orders"))
        connection.execute("INSERT INTO parts SELECT i, i + 1 FROM generate_series(1, 1000) i")
        connection.execute(
            f"INSERT INTO orders SELECT i, NULL, {part} FROM generate_series(1, 5000) AS i"
        )
        write_indexes(connection, "shop", catalog)
        steps = [row[0] for query in OF_PARTS for row in connection.execute(f"EXPLAIN {query}")]
        connection.rollback()
    return steps


def test_a_plan_does_not_follow_from_the_ends_of_what_rows_hold(postgres):
    """The server looks them up in a whole index: one row more changed the plan."""
    head = write_head("shop", "customers", "person: {protected: true}")
    orders = write_private_head("orders", "{column: person}", 8)
    catalog = parse(head + orders + SHOP)
    steps = explain_over(postgres, catalog, "i % 1000 + 1")
    assert any("Index Cond: (part > 990)" in step for step in steps)
    assert any("Index Cond: (part = parts.part)" in step for step in steps)
    for part in ("i % 500 + 250", "CASE i WHEN 1 THEN 1000 ELSE 7 END", "500"):
        assert explain_over(postgres, catalog, part) == steps


def test_keys_within_an_owner_have_indexes_and_name_their_parents(pair):
    connection = pair[1].measurer.engine.connection
    query = "SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()"
    indexes = " ".join(row[0] for row in connection.execute(query).fetchall())
    assert "(dither_unit, visit)" in indexes
    query = (
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = current_schema()::regnamespace AND contype = 'f'"
    )
    references = {row[0] for row in connection.execute(query).fetchall()}
    assert "FOREIGN KEY (dither_unit, visit) REFERENCES visits(dither_unit, visit) NOT VALID" in (
        references
    )


def test_what_the_server_cannot_index_is_left_out(pair):
    """A text of 3,000 characters does not fit a page of an index; the rest goes on."""
    connection = pair[1].measurer.engine.connection
    connection.execute("SET default_transaction_read_only = off")
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("CREATE TABLE long (t TEXT)")
            digests = "SELECT string_agg(md5(i::text), '') FROM generate_series(1, 200) AS i"
            connection.execute(f"INSERT INTO long {digests}")
            _run_if_accepted(connection, "CREATE INDEX ON long (t)")
            assert connection.execute("SELECT count(*) FROM long").fetchone() == (1,)
            with pytest.raises(psycopg.errors.ProgramLimitExceeded):
                connection.execute("CREATE INDEX ON long (t)")
    finally:
        connection.execute("SET default_transaction_read_only = on")


def test_a_nested_loop_is_run_only_where_it_looks_rows_up(pair):
    """Otherwise all rows would meet all: the server may take large joins for tiny."""
    assert compile_with(pair[1], WITHOUT_HASHES) == BY_INDEX + JOINED
    assert compile_with(pair[1], WITHOUT_INDEXES) == JOINED


def test_what_does_not_look_rows_up_is_run_without_nested_loops(pair):
    engine = pair[1].measurer.engine
    for text, setting in ((BY_INDEX + JOINED, "on"), (JOINED, "off")):
        engine.fetch_rows(text)
        assert engine.connection.execute("SHOW enable_nestloop").fetchone() == (setting,)
    plan = [row[0] for row in engine.connection.execute(f"EXPLAIN {JOINED}").fetchall()]
    assert any("Join" in step for step in plan)
    assert not any("Nested Loop" in step for step in plan)


def test_public_rows_have_the_names_of_their_columns(pair):
    """They were c0, c1, ... and a question that shows public rows failed."""
    duck, other = pair
    tables = [table for table in duck.catalog.tables if table.kind == "public"]
    assert tables
    for table in tables:
        expected = duck.measurer.read_public(table.name, 1000)
        rows = other.measurer.read_public(table.name, 1000)
        assert rows.column_names == list(table.column_names) == expected.column_names
        as_numbers = [sorted(map(str, column)) for column in expected.to_pydict().values()]
        assert [sorted(map(str, column)) for column in rows.to_pydict().values()] == as_numbers
