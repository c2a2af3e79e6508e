"""Texts and labels of different lists are compared as texts."""

from __future__ import annotations

import pytest

from dither.sql.bind import bind
from tests.datasets import clinic_sql

LABEL = "CASE WHEN {} THEN '{}' ELSE 'elsewhere' END"
QUESTIONS = [
    f"SELECT COUNT(*) AS n FROM visits WHERE {LABEL.format('urgent', 'ash')} "
    "IN (SELECT county FROM counties)",
    f"SELECT COUNT(*) AS n FROM visits WHERE {LABEL.format('score > 0', 'elm')} "
    "IN (SELECT county FROM counties WHERE region = 'coast')",
    "SELECT COUNT(*) AS n FROM visits WHERE ward IN (SELECT county FROM counties)",
    "SELECT COUNT(*) AS n FROM visits v JOIN counties c ON v.ward = c.county",
    "SELECT COUNT(*) AS n FROM visits v JOIN counties c ON v.diagnosis = c.county",
    "SELECT COUNT(*) AS n, SUM(beds) AS b FROM visits v LEFT JOIN counties c ON v.note = c.county",
    "SELECT COUNT(*) AS n FROM visits v JOIN counties c ON v.county = c.county JOIN stations s ON "
    "c.county = s.county",
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
