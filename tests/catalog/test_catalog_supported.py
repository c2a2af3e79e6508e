"""What the format says and dither cannot do yet is refused by name; each later issue deletes cases here."""

import pytest
from broken_clinic import CLINIC

from dither.catalog import parse, refuse_unsupported
from dither.errors import CatalogError

SUPPORTED = """\
dither: 1
dataset: clinic
lineage: clinic
population: county-residents
neighbours: add_remove
unit: {kind: person}
people: {patient_id: {protected: true}}
source: {engine: csv, location: data}
tables:
  visits:
    kind: private
    from: visits.csv
    owner: {column: patient_id}
    unique: []
    rows_per_unit: 20
    max_rows: 2000000
    columns:
      patient_id: {type: id}
      sex: {type: category, values: [f, m], other: keep, nulls: keep}
      age: {type: integer, bounds: [0, 110], nulls: drop, provenance: life tables}
      date: {type: date, bounds: [2024-01-01, 2026-12-31], nulls: drop, provenance: period of the extract}
      cost: {type: decimal, bounds: [0, 5000], resolution: 0.01, nulls: {value: 0}, provenance: tariff 2026}
      urgent: {type: boolean, nulls: {value: false}}
"""
URGENT = "urgent: {type: boolean, nulls: {value: false}}"
STAFF = """\
  staff:
    kind: private
    from: staff.csv
    owner: {column: patient_id}
    unique: []
    rows_per_unit: 1
    max_rows: 9
    columns: {patient_id: {type: id}}
"""
TIMES = "bounds: [2024-01-01T00:00:00, 2025-01-01T00:00:00], zone: UTC, nulls: drop, provenance: law"


def test_one_private_table_of_persons_is_supported():
    refuse_unsupported(parse(SUPPORTED))


@pytest.mark.parametrize(
    ("old", "new", "line", "thing"),
    [
        ("engine: csv", "engine: parquet", 8, "source engine parquet"),
        ("engine: csv", "engine: duckdb", 8, "source engine duckdb"),
        ("add_remove", "replace", 5, "neighbours replace"),
        ("kind: person}", "kind: person_window, column: date, every: day, zone: UTC}", 6, "unit kind person_window"),
        (URGENT, "note: {type: text, width: 9, nulls: keep}", 23, "column visits.note: type text"),
        (URGENT, f"seen: {{type: timestamp, {TIMES}}}", 23, "column visits.seen: type timestamp"),
        ("values: [f, m], other: keep", "values: undeclared, width: 9", 19, "column visits.sex: undeclared values"),
        (f"{URGENT}\n", f"{URGENT}\n{STAFF}", 24, "a second private table (staff)"),
    ],
)
def test_not_yet(old, new, line, thing):
    with pytest.raises(CatalogError) as caught:
        refuse_unsupported(parse(SUPPORTED.replace(old, new)))
    assert caught.value.line == line
    assert caught.value.message.startswith(f"{thing} is not supported yet: ")


def test_rows_as_units():
    text = SUPPORTED.replace("kind: person}", "kind: row}").replace("{patient_id: {protected: true}}", "{}")
    text = text.replace("    owner: {column: patient_id}\n", "").replace("rows_per_unit: 20", "rows_per_unit: 1")
    catalog = parse(text.replace("      patient_id: {type: id}\n", ""))
    assert catalog.owner_column(catalog.tables[0]) is None
    with pytest.raises(CatalogError, match="unit kind row is not supported yet"):
        refuse_unsupported(catalog)


def test_public_tables_owner_paths_and_their_labels():
    without_public = CLINIC[: CLINIC.index("  counties:")].replace("{from: counties.county}", "[a]")
    for text, thing in [(CLINIC, "public table counties"), (without_public, "an owner in another table")]:
        with pytest.raises(CatalogError, match=f"{thing}.* is not supported yet"):
            refuse_unsupported(parse(text))
