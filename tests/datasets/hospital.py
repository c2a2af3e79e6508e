"""A hospital for tests of plans: three private tables along a path of foreign keys, two public
ones, every type."""

from __future__ import annotations

import csv
import datetime
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from dither.audit import naive
from dither.catalog import Catalog, parse
from dither.data.lower.columns import holds_null, null_code
from dither.data.lower.dialect import writing_in
from dither.data.lower.plan import plan_sql
from dither.data.measure import Measurer
from dither.data.register.registration import write_copy_and_facts
from dither.plan.algebra import Plan
from dither.plan.analyse import analyse_node
from dither.plan.domain import Domain, is_stored
from dither.plan.facts import Facts
from tests.datasets.catalog_texts import write_head, write_private_head
from tests.datasets.owners import OWNERS, hash_owner

CATALOG = (
    write_head("hospital", "residents", "person: {protected: true}")
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
      county: {type: category, values: {from: counties.county}, other: keep, nulls: keep}
      diag:   {type: category, values: undeclared, width: 4, nulls: keep}
      score:  {type: integer, bounds: [-5, 5], nulls: keep, provenance: form}
      cost:   {type: decimal, bounds: [-10, 500], resolution: 0.01, nulls: keep, provenance: tariff}
      day:    {type: date, bounds: [2024-01-01, 2024-12-31], nulls: keep, provenance: extract}
      seen:   {type: timestamp, bounds: ["2024-01-01T00:00:00", "2024-12-31T23:59:59"], 
               zone: +01:00, nulls: keep, provenance: extract}
      note:   {type: text, width: 8, nulls: keep}
      urgent: {type: boolean, nulls: keep}
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
Raw = dict[str, str | None]
Raws = dict[str, list[Raw]]
KEY = bytes(range(32))
PUBLIC: Raws = {
    "counties": [
        {"county": "ash", "region": "n", "beds": "10"},
        {"county": "elm", "region": "s", "beds": None},
        {"county": "oak", "region": "s", "beds": "99999"},
    ],
    "wards": [
        {"county": "ash", "level": "1"},
        {"county": "ash", "level": "2"},
        {"county": "elm", "level": "1"},
        {"county": None, "level": "1"},
        {"county": "fir", "level": None},
    ],
}


def catalog(text: str = CATALOG, **changes: str) -> Catalog:
    for old, new in changes.items():
        text = text.replace(old.replace("__", ": "), new)
    return parse(text)


def patient(person: str | None, **values: str | None) -> Raw:
    return {"person": person, "sex": "f", "born": "1980-02-29", "salary": "1000", **values}


def visit(name: str | None, person: str | None, **values: str | None) -> Raw:
    plain: Raw = {
        "county": "ash",
        "diag": "flu",
        "score": "1",
        "cost": "10.00",
        "day": "2024-05-01",
        "seen": "2024-05-01 10:11:12",
        "note": "ok",
        "urgent": "true",
    }
    return {"visit": name, "person": person, **plain, **values}


def item(visit_name: str | None, qty: str | None = "1", drug: str | None = "a") -> Raw:
    return {"visit": visit_name, "qty": qty, "drug": drug}


def raws(patients: list[Raw] = (), visits: list[Raw] = (), items: list[Raw] = ()) -> Raws:  # type: ignore[assignment]
    return {"patients": list(patients), "visits": list(visits), "items": list(items), **PUBLIC}


DIAGNOSES = ["flu", "cold", "gout", None, "x" * 4, "a'b"]


def random_people(count: int, seed: int = 0) -> Raws:
    """Patients with one to three visits each, whose values are drawn anew at each seed."""
    draw = random.Random(seed)
    visits = [
        visit(
            f"v{i}-{j}",
            f"p{i}",
            diag=draw.choice(DIAGNOSES),
            county=draw.choice(["ash", "elm", "oak", "other", None]),
            cost=draw.choice([None, "1", "20.5", "499.99", "-10", "9999"]),
            score=draw.choice([None, "-5", "0", "5"]),
        )
        for i in range(count)
        for j in range(draw.randint(1, 3))
    ]
    return raws([patient(f"p{i}") for i in range(count)], visits)


def write_csv(file: Path, columns: tuple[str, ...], rows: list[Raw]) -> None:
    with file.open("w", encoding="utf-8", newline="", errors="surrogatepass") as out:
        writer = csv.writer(out)
        writer.writerow(columns)
        writer.writerows(
            [["" if row[name] is None else row[name] for name in columns] for row in rows]
        )


@dataclass
class Registered:
    """A database twice: in the engine, and in the oracle."""

    catalog: Catalog
    facts: Facts
    measurer: Measurer
    oracle: naive.NaiveDatabase
    sample_key: bytes = bytes(32)
    key: bytes = KEY

    def rows(self, plan: Plan) -> Counter[Any]:
        """The rows of a plan in the engine: owner and values in their own units."""
        here = analyse_node(plan, self.catalog, self.facts)
        with writing_in(self.measurer.engine.dialect):
            sql = plan_sql(here, self.sample_key)
        names, found = self.fetch(sql)
        owners = self.owners()
        result: Counter[Any] = Counter()
        for row in found:
            named = dict(zip(names, row, strict=True))
            values = tuple(natural(here.columns[name], named[name]) for name in here.columns)
            result[owners.get(named.get("dither_unit")), values] += 1
        return result

    def fetch(self, sql: str) -> tuple[list[str], list[Any]]:
        """Names and rows of a statement that the kernel would not run."""
        if hasattr(self.measurer.engine, "session"):
            answer = self.measurer.engine.session.sql(sql)
            return answer.columns, [tuple(row) for row in answer.collect()]
        cursor = self.measurer.engine.connection.execute(sql)
        names = [column[0] for column in cursor.description]
        return names, cursor.fetchall()

    def owners(self) -> dict[Any, str]:
        """The owner of each number, which is the same in all tables."""
        found: dict[Any, str] = {}
        for table in self.catalog.private_tables:
            for number, owner in self.fetch(
                f'SELECT DISTINCT dither_unit, {OWNERS} FROM "{table.name}"'
            )[1]:
                assert found.setdefault(number, owner) == owner
        assert len(set(found.values())) == len(found)
        return found

    def name_owner(self, owner: str) -> str:
        """What rows call an owner: the copy holds no ids."""
        return hash_owner(owner, self.key)

    def expected(self, plan: Plan) -> Counter[Any]:
        """The same, by the oracle."""
        here = analyse_node(plan, self.catalog, self.facts)
        found = naive.naive_rows(plan, self.oracle)
        return Counter(
            (
                None if owner is None else self.name_owner(owner),
                tuple(plain(row[name]) for name in here.columns),
            )
            for owner, row in found
        )


def natural(domain: Domain, value: Any) -> Any:
    """A value of the engine in its own units."""
    if value is None or (holds_null(domain) and value == null_code(domain)):
        assert value is not None or not is_stored(domain), (
            "an integer column holds a null of the engine"
        )
        return None
    match domain.kind:
        case "number":
            return int(value) * domain.step
        case "date":
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=int(value))
        case "timestamp":
            return ("second", int(value))
        case "boolean":
            return bool(value)
        case "category":
            return domain.labels[value]
    return value


def plain(value: Any) -> Any:
    """A value of the oracle, comparable with `natural`."""
    if isinstance(value, datetime.datetime):
        return (
            "second",
            round((value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)).total_seconds()),
        )
    if isinstance(value, str):
        return str.__str__(value)
    return Fraction(value) if isinstance(value, int) and not isinstance(value, bool) else value


@contextmanager
def registered(rows: Raws, facts: Catalog | None = None, key: bytes = KEY) -> Iterator[Registered]:
    """Both databases of some raw rows."""
    known = facts or catalog()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for table in known.tables:
            write_csv(folder / table.source_name, table.column_names, rows[table.name])
        found = write_copy_and_facts(
            known, folder, key, folder / "data.duckdb", folder / "spill", lambda _: None
        )[1]
        measurer = Measurer(folder / "data.duckdb", known, found)
        try:
            oracle = naive.register(rows, known, key)
            yield Registered(known, found, measurer, naive.with_sample(oracle, bytes(32)), key=key)
        finally:
            measurer.close()
