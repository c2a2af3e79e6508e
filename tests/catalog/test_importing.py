"""Catalogs from SmartNoise, Snowflake and dbt: what they say is kept, what is missing is ???, what
loosens is named."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from dither import CatalogError
from dither.catalog import Catalog, parse
from dither.catalog.file.importing import import_catalog

SMARTNOISE = """
'':
  PUMS:
    PUMS:
      max_ids: 3
      rows: 1000
      row_privacy: False
      censor_dims: False
      sample_max_ids: False
      clamp_columns: True
      age: {type: int, lower: 0, upper: 100}
      sex: {type: string, cardinality: 2}
      income: {type: float, lower: -10, upper: 500000, missing_value: 0, sensitivity: 5}
      married: {type: boolean}
      at: {type: datetime}
      pid: {type: int, private_id: True}
"""
SNOWFLAKE = """
-- what the administrator wrote
CREATE OR REPLACE TABLE db.s.Visits (
  patient_id INT, age INT PRIVACY DOMAIN BETWEEN (0, 120),
  kind VARCHAR(20) PRIVACY DOMAIN IN ('a', 'it''s, so', 'b'));
ALTER TABLE visits ADD PRIVACY POLICY policies.p ENTITY KEY (patient_id);
ALTER TABLE visits MODIFY COLUMN zip SET PRIVACY DOMAIN REFERENCES zips(zip);
ALTER TABLE visits ALTER COLUMN cost SET PRIVACY DOMAIN BETWEEN (-0.5, 99.5);
"""
DBT = """
version: 2
models:
  - name: patients
    meta: {entity_key: patient}
    columns:
      - {name: patient, tests: [unique, not_null]}
  - name: visits
    columns:
      - name: patient
        tests: [{relationships: {to: "ref('patients')", field: patient}}]
      - name: age
        data_type: integer
        config: {meta: {privacy_domain: {between: [0, 120]}}}
        data_tests: [not_null]
      - name: ward
        tests: [{accepted_values: {values: [north, south]}}]
"""


def decided(text: str, **answers: str) -> Catalog:
    """The catalog once a person has decided: each ??? by the key it stands for."""
    plain = {
        "dataset": "d", "lineage": "d", "population": "p", "neighbours": "add_remove",
        "engine": "csv", "location": ".",
        "from": "f.csv", "max_rows": "1000", "nulls": "drop", "provenance": "x",
        "resolution": "0.01",
        "values": "[a, b]", "other": "drop", "zone": "+00:00",
        "bounds": "[2024-01-01T00:00:00, 2025-01-01T00:00:00]",
        "rows_per_unit": "3", "kind": "private", **answers,
    }  # fmt: skip
    text = text.replace("[???, ???]", "???")
    return parse(re.sub(r"(\w+): \?\?\?", lambda found: f"{found[1]}: {plain[found[1]]}", text))


def test_a_smartnoise_user_gets_their_table():
    text = import_catalog("smartnoise", SMARTNOISE)
    catalog = decided(text)
    table = catalog.table("PUMS")
    assert (catalog.unit.kind, table.rows_per_unit) == ("person", 3)
    assert table.column("age").upper_grid == 100 and table.column("income").lower_grid == -1000
    assert table.column("income").nulls.value == 0
    assert {column.name: column.type for column in table.columns} == {
        "age": "integer", "sex": "category", "income": "decimal", "married": "boolean",
        "at": "timestamp", "pid": "id",
    }  # fmt: skip
    for name in ("censor_dims", "sample_max_ids", "rows: 1000", "sensitivity"):
        assert name in text
    assert "clamp_columns" not in text


def test_nothing_is_decided_for_the_steward():
    text = import_catalog("smartnoise", SMARTNOISE)
    with pytest.raises(CatalogError):
        parse(text)
    for key in (
        "lineage",
        "population",
        "neighbours",
        "max_rows",
        "provenance",
        "nulls",
        "resolution",
    ):
        assert f"{key}: ???" in text


def test_row_privacy_is_a_row_unit():
    text = import_catalog(
        "smartnoise",
        "'':\n  s:\n    t:\n      row_privacy: True\n      x: {type: int, lower: 0, upper: 9}\n",
    )
    assert "unit: {kind: row}" in text and "k times the epsilon" in text
    assert decided(text).unit.kind == "row"


def test_a_snowflake_listing():
    text = import_catalog("snowflake", SNOWFLAKE)
    assert "zip: {type: category, values: {from: zips.zip}" in text
    table = decided(text.replace("{from: zips.zip}", "[a]")).table("visits")
    assert table.column("kind").values == ("a", "it's, so", "b")
    assert (table.column("age").upper_grid, table.column("cost").lower_grid) == (120, -50)
    assert "owner: {column: patient_id}" in text


def test_a_dbt_schema():
    catalog = decided(
        import_catalog("dbt", DBT).replace("rows_per_unit: ???", "rows_per_unit: 1", 1)
    )
    assert catalog.table("visits").owner.references == "patients"
    assert catalog.table("visits").column("ward").values == ("north", "south")
    assert catalog.table("patients").unique == (("patient",),)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("smartnoise", "a: 1"), ("smartnoise", "{"), ("smartnoise", "[]"), ("dbt", "models: []"),
     ("snowflake", "SELECT 1"),
     ("smartnoise", "'':\n  s:\n    't t':\n      x: {}\n"), ("other", "")],
)  # fmt: skip
def test_what_cannot_be_read_says_so(kind, text):
    with pytest.raises(CatalogError):
        import_catalog(kind, text)


def test_a_comment_cannot_become_a_setting():
    text = import_catalog(
        "smartnoise",
        "'':\n  s:\n    t:\n      rows: \"1\\n    max_rows: 5\"\n      x: {type: int}\n",
    )
    assert "\n    max_rows: 5" not in text


def test_on_the_command_line(tmp_path):
    from dither.cli.main import app

    file = tmp_path / "meta.yaml"
    file.write_text(SMARTNOISE)
    shown = CliRunner().invoke(app, ["catalog", "import", str(file), "--from", "smartnoise"])
    assert shown.exit_code == 0 and shown.output == import_catalog("smartnoise", SMARTNOISE)
