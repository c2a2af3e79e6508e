"""A small right catalog, to be broken one thing at a time."""

from dither.catalog import Column, parse
from tests.datasets.catalog_texts import write_head, write_private_head

CLINIC = (
    write_head(
        "clinic",
        "county-residents",
        "patient_id: {protected: true}",
        "doctor_id: {protected: false, because: staff listed on the public web page}",
        location="data",
    )
    + write_private_head(
        "patients", "{column: patient_id}", 1, unique="[[patient_id]]", max_rows=200_000
    )
    + """\
      patient_id: {type: id}
      sex: {type: category, values: [f, m, x], other: drop, nulls: keep}
      age: {type: integer, bounds: [0, 110], nulls: drop, provenance: public life tables}
"""
    + write_private_head(
        "visits",
        "{references: patients, by: patient_id}",
        20,
        unique="[[visit_id]]",
        max_rows=2_000_000,
    )
    + """\
      visit_id: {type: id}
      patient_id: {type: id}
      doctor_id: {type: id}
      date: {type: date, bounds: [2024-01-01, 2026-12-31], nulls: drop, provenance: the extract}
      county: {type: category, values: {from: counties.county}, other: keep, nulls: keep}
      cost: {type: decimal, bounds: [0, 5000], resolution: 0.01, nulls: keep, provenance: tariff}
  counties:
    kind: public
    from: counties.csv
    unique: [[county]]
    columns:
      county: {type: text, width: 20, nulls: drop}
      beds: {type: integer, bounds: [0, 9000], nulls: keep, provenance: ministry list}
"""
)
AGE = "      age: {type: integer, bounds: [0, 110], nulls: drop, provenance: public life tables}\n"


def change(*changes: str) -> str:
    """CLINIC with each `old, new` pair replaced once; `old` must be there."""
    text = CLINIC
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def column(line: str) -> Column:
    """The column written in `line`, named c, of an otherwise right catalog; it stands on line
    22."""
    return (
        parse(change(AGE, f"      {line}\n", "max_rows: 200000\n", "max_rows: 9\n"))
        .table("patients")
        .column("c")
    )
