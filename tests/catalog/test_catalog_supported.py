"""What the format says and dither cannot do yet is refused by name; each later issue deletes cases here."""

from pathlib import Path

import pytest
from broken_clinic import CLINIC

from dither.catalog import load, parse, refuse_unsupported
from dither.errors import CatalogError


def test_the_example_is_supported():
    refuse_unsupported(load(Path(__file__).parent / "clinic.yaml"))
    refuse_unsupported(parse(CLINIC))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("engine: csv", "engine: parquet"),
        ("engine: csv", "engine: duckdb"),
        ("add_remove", "replace"),
        ("values: {from: counties.county}, other: keep", "values: undeclared, width: 9"),
    ],
)
def test_supported(old, new):
    assert old in CLINIC
    refuse_unsupported(parse(CLINIC.replace(old, new)))


def test_an_owner_path_under_windows_is_refused_with_its_line():
    """Without a parent row, its children in other windows would go: neighbours would differ in more than one unit."""
    text = CLINIC.replace("kind: person}", "kind: person_window, column: date, every: day, zone: UTC}")
    date = (
        "      date: {type: date, bounds: [2024-01-01, 2026-12-31], nulls: drop, provenance: period of the extract}\n"
    )
    text = text.replace("      patient_id: {type: id}\n      sex", f"      patient_id: {{type: id}}\n{date}      sex")
    with pytest.raises(CatalogError, match="under windows is not supported yet") as caught:
        refuse_unsupported(parse(text))
    assert "references" in text.splitlines()[caught.value.line - 1]
