"""A small clinic for tests: its catalog, its files, its registration, and questions about it."""

from __future__ import annotations

import csv
from pathlib import Path

from dither import steward
from dither.catalog import Catalog, parse
from dither.data.measure import Measurer
from dither.data.register.registration import write_copy
from dither.state import State
from tests.datasets.owners import OWNERS

CATALOG = """\
dither: 1
dataset: clinic
lineage: clinic
population: residents
neighbours: add_remove
unit: {kind: person}
people:
  patient: {protected: true}
source: {engine: csv, location: .}
tables:
  visits:
    kind: private
    from: visits.csv
    owner: {column: patient}
    unique: [[visit]]
    rows_per_unit: 3
    max_rows: 1000
    columns:
      visit:   {type: id}
      patient: {type: id}
      ward:    {type: category, values: [north, south], other: keep, nulls: keep}
      kind:    {type: category, values: [a, b], other: drop, nulls: {value: b}}
      age:     {type: integer, bounds: [0, 110], nulls: drop, provenance: life tables}
      score:   {type: integer, bounds: [-5, 5], nulls: keep, provenance: the questionnaire}
      cost:    {type: decimal, bounds: [-10, 500], resolution: 0.01, nulls: keep,
          provenance: tariff}
      weight:  {type: decimal, bounds: [0, 300], resolution: 5, nulls: {value: 70},
          provenance: scales}
      urgent:  {type: boolean, nulls: {value: false}}
      day:     {type: date, bounds: [2024-01-01, 2024-12-31], nulls: keep, provenance: the extract}
"""
COLUMNS = ("visit", "patient", "ward", "kind", "age", "score", "cost", "weight", "urgent", "day")
KEY = bytes(range(32))
PURPOSE = {
    "question": "How busy are the two wards?",
    "population": "residents of the county",
    "recipient": "the hospital board",
}
Raw = dict[str, str | None]


def catalog(**changes: str) -> Catalog:
    """The clinic's catalog, with texts replaced."""
    text = CATALOG
    for old, new in changes.items():
        text = text.replace(old.replace("__", ": "), new)
    return parse(text)


def row(visit: str, patient: str | None, **values: str | None) -> Raw:
    """A raw row with unremarkable values."""
    plain: Raw = {
        "ward": "north",
        "kind": "a",
        "age": "40",
        "score": "1",
        "cost": "10.00",
        "weight": "70",
        "urgent": "true",
        "day": "2024-05-01",
    }
    return {"visit": visit, "patient": patient, **plain, **values}


def write_csv(file: Path, rows: list[Raw]) -> None:
    with file.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        writer.writerows([["" if r[name] is None else r[name] for name in COLUMNS] for r in rows])


def measurer(
    folder: Path, rows: list[Raw], facts: Catalog | None = None, key: bytes = KEY
) -> Measurer:
    """The rows registered in a folder of their own, ready to be measured."""
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "visits.csv", rows)
    target = folder / "data.duckdb"
    target.unlink(missing_ok=True)
    facts = facts or catalog()
    write_copy(facts, folder, key, target, folder / "spill", lambda _: None)
    return Measurer(target, facts)


def registered_rows(
    folder: Path, rows: list[Raw], facts: Catalog | None = None, key: bytes = KEY
) -> list[tuple]:
    """Every registered row, with owner and rank, sorted; without the owner's number, which only
    says who is who."""
    import duckdb

    measurer(folder, rows, facts, key).close()
    with duckdb.connect(str(folder / "data.duckdb"), read_only=True) as connection:
        return sorted(
            connection.execute(f"SELECT {OWNERS}, * EXCLUDE (dither_unit) FROM visits").fetchall(),
            key=repr,
        )


def register(
    folder: Path, rows: list[Raw], text: str = CATALOG, *, dev: bool = False
) -> tuple[Path, State]:
    """The whole way of a steward: catalog file, data, registration."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "clinic.yaml"
    file.write_text(text)
    write_csv(folder / "visits.csv", rows)
    place = State.beside(file)
    steward.register(file, state=place, dev=dev)
    return file, place


def open_total(place: State, epsilon: str = "10", ceiling: str = "10", **terms: object) -> None:
    steward.open_pot(
        place, catalog(), "total", epsilon=epsilon, ceiling=ceiling, purpose=PURPOSE, **terms
    )
