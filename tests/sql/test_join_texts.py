"""Texts and labels of different lists: compared as texts, or refused with the names as written."""

from __future__ import annotations

import pytest

from dither import QueryError
from dither.sql.bind import bind
from tests.datasets import clinic_sql

LABEL = "CASE WHEN {} THEN '{}' ELSE 'elsewhere' END"
QUESTIONS = [
    f"SELECT COUNT(*) AS n FROM visits WHERE {LABEL.format('urgent', 'ash')} "
    "IN (SELECT county FROM counties)",
    f"SELECT COUNT(*) AS n FROM visits WHERE {LABEL.format('score > 0', 'elm')} "
    "IN (SELECT county FROM counties WHERE region = 'coast')",
    "SELECT COUNT(*) AS n FROM visits WHERE ward IN (SELECT county FROM counties)",
    "SELECT COUNT(*) AS n FROM visits v JOIN (SELECT patient_id, "
    f"{LABEL.format('age > 40', 'north')} "
    "AS place FROM patients) p ON v.patient_id = p.patient_id AND v.ward = p.place",
]


@pytest.fixture(scope="module")
def place():
    with clinic_sql.registered() as registered:
        yield registered


@pytest.mark.parametrize("sql", QUESTIONS)
def test_lists_of_labels_meet_as_texts(place, sql):
    """The oracle is DuckDB on the registered rows; the engine's own plan is compared too."""
    registered, connection = place
    recipe = bind(sql, registered.catalog, registered.facts)
    expected = connection.sql(sql).fetchall()[0][0]
    assert clinic_sql.answers(recipe, registered)[0]["n"] == expected
    cells = clinic_sql.engine_cells(recipe.queries[0], registered)
    assert sum(values[0] for values in cells.values()) == expected


def test_some_of_them_match(place):
    _, connection = place
    counts = [connection.sql(sql).fetchall()[0][0] for sql in QUESTIONS]
    assert sum(count > 0 for count in counts) >= 3


@pytest.mark.parametrize("column", ["ward", "note", "diagnosis"])
def test_a_public_list_cannot_be_joined_by_another(place, column):
    registered, _ = place
    sql = f"SELECT COUNT(*) FROM visits v JOIN counties c ON v.{column} = c.county"
    with pytest.raises(QueryError) as caught:
        bind(sql, registered.catalog, registered.facts)
    assert caught.value.message.startswith(f"{column} cannot be joined with county: ")
    assert caught.value.end > caught.value.start
