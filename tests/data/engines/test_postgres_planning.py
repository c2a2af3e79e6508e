"""PostgreSQL plans without statistics of values, and names the columns of what it returns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.data.engines.twins import on_engine
from tests.datasets import hospital

JOINED = "SELECT count(*) FROM patients p JOIN visits v ON v.dither_unit = p.dither_unit"


@pytest.fixture(scope="module")
def pair(postgres: str) -> Iterator[tuple[hospital.Registered, hospital.Registered]]:
    with (
        hospital.registered(hospital.random_people(20)) as first,
        on_engine(first, "postgres", postgres) as other,
    ):
        yield first, other


def test_the_copy_has_no_statistics_of_values(pair):
    """A plan would follow from what rows hold."""
    connection = pair[1].measurer.engine.connection
    query = "SELECT count(*) FROM pg_stats WHERE schemaname = current_schema()"
    assert connection.execute(query).fetchone() == (0,)


def test_no_join_goes_row_by_row(pair):
    """Without statistics the server takes joins for tiny; large ones then would not end."""
    connection = pair[1].measurer.engine.connection
    plan = [row[0] for row in connection.execute(f"EXPLAIN {JOINED}").fetchall()]
    assert any("Join" in step for step in plan)
    assert not any("Nested Loop" in step for step in plan)
    connection.execute("SET enable_hashjoin = off")
    connection.execute("SET enable_mergejoin = off")
    connection.execute("SET enable_nestloop = on")
    try:  # the planted setting is seen by the same words
        plan = [row[0] for row in connection.execute(f"EXPLAIN {JOINED}").fetchall()]
        assert any("Nested Loop" in step for step in plan)
    finally:
        connection.execute("RESET enable_hashjoin")
        connection.execute("RESET enable_mergejoin")
        connection.execute("SET enable_nestloop = off")


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
