"""Catalogs and rows of the stored datasets: invented, small, with columns of every type."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from tests.datasets.catalog_texts import write_head, write_private_head

Row = tuple[object, ...]

HOSPITAL = (
    write_head(
        "hospital",
        "residents",
        "person: {protected: true}",
        "doctor: {protected: false, because: staff listed on the public web page}",
        location="data",
    )
    + write_private_head("patients", "{column: person}", 1, unique="[[person]]")
    + """\
      person: {type: id}
      sex:    {type: category, values: [f, m], other: drop, nulls: keep}
      born:   {type: date, bounds: [1920-01-01, 2024-12-31], nulls: keep, provenance: law}
      salary: {type: integer, bounds: [0, 300000], nulls: drop, provenance: law}
"""
    + write_private_head("visits", "{references: patients, by: person}", 3, unique="[[visit]]")
    + """\
      visit:  {type: id}
      person: {type: id}
      doctor: {type: id}
      county: {type: category, values: {from: counties.county}, other: keep, nulls: keep}
      diag:   {type: category, values: undeclared, width: 8, nulls: keep}
      score:  {type: integer, bounds: [-5, 5], nulls: keep, provenance: form}
      cost:   {type: decimal, bounds: [-10, 500], resolution: 0.01, nulls: keep, provenance: tariff}
      weight: {type: decimal, bounds: [0, 300], resolution: 5, nulls: {value: 70},
               provenance: scales}
      day:    {type: date, bounds: [2024-01-01, 2024-12-31], nulls: keep, provenance: extract}
      seen:   {type: timestamp, bounds: ["2024-01-01T00:00:00", "2024-12-31T23:59:59"],
               zone: +01:00, nulls: keep, provenance: extract}
      note:   {type: text, width: 8, nulls: keep}
      urgent: {type: boolean, nulls: {value: false}}
"""
    + write_private_head("items", "{references: visits, by: visit}", 4)
    + """\
      visit: {type: id}
      qty:   {type: integer, bounds: [0, 9], nulls: keep, provenance: form}
      drug:  {type: category, values: [a, b, c], other: keep, nulls: keep}
  counties:
    kind: public
    from: counties.csv
    unique: [[county]]
    columns:
      county: {type: text, width: 8, nulls: drop}
      region: {type: category, values: [n, s], other: drop, nulls: drop}
      beds:   {type: integer, bounds: [0, 9000], nulls: keep, provenance: list}
  wards:
    kind: public
    from: wards.csv
    unique: []
    columns:
      county: {type: text, width: 8, nulls: keep}
      level:  {type: integer, bounds: [-5, 5], nulls: keep, provenance: list}
"""
)

SHOPS = (
    write_head(
        "shops", "customers", "customer: {protected: true}", neighbours="replace", location="data"
    )
    + write_private_head("customers", "{column: customer}", 1, unique="[[customer]]")
    + """\
      customer: {type: id}
      region:   {type: category, values: [north, south], other: drop, nulls: drop}
      age:      {type: integer, bounds: [0, 110], nulls: drop, provenance: life tables}
"""
    + write_private_head("sales", "{column: customer}", 2)
    + """\
      customer: {type: id}
      product:  {type: category, values: undeclared, width: 8, nulls: drop}
      price:    {type: decimal, bounds: [0, 99.9], resolution: 0.1, nulls: drop, provenance: list}
"""
)

MONTHS = (
    write_head(
        "months",
        "residents",
        "person: {protected: true}",
        unit="{kind: person_window, column: day, every: month, zone: UTC}",
        location="data",
    )
    + write_private_head("visits", "{column: person}", 2)
    + """\
      person: {type: id}
      day:    {type: date, bounds: [2026-01-01, 2026-03-31], nulls: drop, provenance: the extract}
      cost:   {type: integer, bounds: [0, 9], nulls: drop, provenance: tariff}
"""
)

CLOSED = (
    write_head("closed", "parcels", unit="{kind: row}", location="data")
    + """\
  parcels:
    kind: private
    from: parcels.csv
    unique: []
    rows_per_unit: 1
    max_rows: 1000
    columns:
      size: {type: integer, bounds: [0, 9], nulls: drop, provenance: the form}
"""
)


def write_table(folder: Path, name: str, header: str, rows: Iterable[Row]) -> None:
    """One CSV file; None is an empty field."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header.split())
        writer.writerows(["" if value is None else value for value in row] for row in rows)


def write_hospital(folder: Path, people: int) -> None:
    """Patients along two foreign keys; some values null, some outside their lists and bounds."""
    write_table(folder, "patients", "person sex born salary", (_patient(p) for p in range(people)))
    visits = [_visit(p, v) for p in range(people) for v in range(p % 3 + 1)]
    write_table(
        folder,
        "visits",
        "visit person doctor county diag score cost weight day seen note urgent",
        visits,
    )
    odd_visits = list(enumerate(visits))[1::2]
    items = [(visit[0], number % 11, "abcd"[number % 4]) for number, visit in odd_visits]
    write_table(folder, "items", "visit qty drug", items)
    counties = [("ash", "n", 10), ("elm", "s", None), ("oak", "s", 99999)]
    write_table(folder, "counties", "county region beds", counties)
    wards = [("ash", 1), ("ash", 2), ("elm", 1), (None, 1), ("fir", None)]
    write_table(folder, "wards", "county level", wards)


def _patient(p: int) -> Row:
    return f"p{p}", ("f", "m", None)[p % 3], f"{1950 + p}-02-{p % 28 + 1:02d}", 1000 * p


def _visit(p: int, v: int) -> Row:
    number = 3 * p + v
    day = f"2024-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
    return (
        f"v{p}_{v}",
        f"p{p}",
        f"d{number % 4}",
        ("ash", "elm", "oak", "fir", None)[number % 5],
        ("flu", "cold")[number % 2],
        None if number % 7 == 0 else number % 13 - 6,
        f"{number * 7 % 600}.{number % 100:02d}",
        None if number % 6 == 0 else number * 5,
        day,
        f"{day} {number % 24:02d}:30:00",
        ("ok", "Later", None)[number % 3],
        ("true", "false", None)[number % 3],
    )


def write_shops(folder: Path) -> None:
    """Customers of two regions and what they bought."""
    customers = [(f"c{c}", ("north", "south")[c % 2], 20 + c) for c in range(30)]
    write_table(folder, "customers", "customer region age", customers)
    sales = [(f"c{c}", ("tea", "bread")[c % 2], f"{c}.{c % 10}") for c in range(30)]
    write_table(folder, "sales", "customer product price", sales)


def write_months(folder: Path) -> None:
    """Visits over three months."""
    visits = [(f"p{p}", f"2026-{p % 3 + 1:02d}-{p % 28 + 1:02d}", p % 10) for p in range(30)]
    write_table(folder, "visits", "person day cost", visits)


def write_closed(folder: Path) -> None:
    """Parcels, each of which is a unit of its own."""
    write_table(folder, "parcels", "size", [(s % 10,) for s in range(20)])
