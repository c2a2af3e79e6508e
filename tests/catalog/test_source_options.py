"""How a source is written, the names of its columns there, and what a row is asserted to be."""

from __future__ import annotations

import pytest

from dither.canonical import dumps
from dither.catalog import Source, Unit, catalog_hash, from_json, guarantee, parse, to_json
from dither.errors import CatalogError
from tests.datasets import clinic

OPTIONS = (
    "{engine: csv, location: ., delimiter: ';', quote: \"'\", null_texts: ['?', NA], trim: true}"
)
WRITTEN = clinic.CATALOG.replace("{engine: csv, location: .}", OPTIONS).replace(
    "age:     {type: integer,", "age:     {type: integer, from: 'age (years)',"
)
ROWS = """\
dither: 1
dataset: adult
lineage: adult
population: adults
neighbours: add_remove
unit: {kind: row, one_row_is: person}
people: {}
source: {engine: csv, location: .}
tables:
  adult:
    kind: private
    from: adult.csv
    unique: []
    rows_per_unit: 1
    max_rows: 1000
    columns:
      age: {type: integer, bounds: [0, 120], nulls: keep, provenance: ages}
"""


def test_options_and_names_are_read():
    catalog = parse(WRITTEN)
    assert catalog.source == Source("csv", ".", ";", "'", ("?", "NA"), True)
    assert catalog.table("visits").source_columns == (("age", "age (years)"),)


def test_a_name_that_is_the_same_at_the_source_is_none():
    text = clinic.CATALOG.replace("age:     {type: integer,", "age:     {type: integer, from: age,")
    assert parse(text) == parse(clinic.CATALOG)


@pytest.mark.parametrize("text", [WRITTEN, ROWS, clinic.CATALOG])
def test_what_is_stored_is_read_back(text):
    catalog = parse(text)
    assert from_json(to_json(catalog)) == catalog


def test_new_keys_are_absent_from_catalogs_that_do_not_use_them():
    stored = dumps(to_json(parse(clinic.CATALOG)))
    for key in ("delimiter", "quote", "null_texts", "trim", "one_row_is"):
        assert key not in stored
    assert stored.count('"from"') == 1  # of the table


def test_options_are_part_of_the_hash():
    hashes = {catalog_hash(parse(text)) for text in (clinic.CATALOG, WRITTEN)}
    row = ROWS.replace(", one_row_is: person", "")
    assert len(hashes | {catalog_hash(parse(ROWS)), catalog_hash(parse(row))}) == 4


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{engine: parquet, location: ., trim: true}", "says how CSV is written"),
        ("{engine: csv, location: ., delimiter: ab}", "delimiter must be one character"),
        ("{engine: csv, location: ., delimiter: '\"'}", "delimiter must be one character"),
        ("{engine: csv, location: ., delimiter: a}", "delimiter must be one character"),
        ("{engine: csv, location: ., quote: '|'}", "quote cannot be '|'"),
        ("{engine: csv, location: ., null_texts: []}", "null_texts must list each text once"),
        ("{engine: csv, location: ., null_texts: [a, a]}", "null_texts must list each text once"),
        ("{engine: csv, location: ., trim: yes}", "trim must be true or false"),
    ],
)
def test_options_that_are_none_are_refused(source, words):
    with pytest.raises(CatalogError, match=words.replace("|", r"\|")):
        parse(clinic.CATALOG.replace("{engine: csv, location: .}", source))


@pytest.mark.parametrize("kind", ["person", "person_window"])
def test_only_a_row_can_be_asserted_to_be_a_person(kind):
    text = clinic.CATALOG.replace("{kind: person}", f"{{kind: {kind}, one_row_is: person}}")
    with pytest.raises(CatalogError, match="one_row_is has no place here"):
        parse(text)


def test_a_row_is_asserted_to_be_a_person_and_of_nothing_else():
    with pytest.raises(CatalogError, match="one_row_is cannot be 'household'"):
        parse(ROWS.replace("one_row_is: person", "one_row_is: household"))


def test_the_unit_says_that_it_was_asserted():
    assert parse(ROWS).unit == Unit("row", one_row_is="person")
    assert parse(ROWS).unit.label == "person (asserted, not checked)"
    assert "each person, who has one row of adult and no more: asserted, not checked" in guarantee(
        parse(ROWS)
    )


def test_an_asserted_person_has_limits_of_a_row():
    with pytest.raises(CatalogError, match="rows_per_unit must be 1"):
        parse(ROWS.replace("rows_per_unit: 1", "rows_per_unit: 2"))
