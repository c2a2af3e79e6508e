"""The clinic of the SQL reference: patients, visits, prescriptions and two public tables, with
generated rows.

`answers` evaluates a recipe without noise, by the naive oracle; `duckdb_answers` asks DuckDB the
same question about the same registered rows.
"""

from __future__ import annotations

import datetime
import math
import random
from contextlib import contextmanager
from fractions import Fraction
from itertools import product
from typing import Any

import duckdb

from dither.answer.shown_keys import list_shown_keys
from dither.audit import naive
from dither.audit.naive_plans import Label, decode_value, grouped
from dither.catalog import (
    Boolean,
    Catalog,
    Category,
    Date,
    Decimal,
    Id,
    Integer,
    Text,
    Timestamp,
    parse,
)
from dither.catalog.scalar_texts import write_days
from dither.plan.algebra import Cells, Keys, Quantiles, Sum
from dither.plan.analyse import analyse
from dither.question.expressions import Apply, Constant, Grouping, KeyValue, Noisy
from dither.question.recipe import Recipe
from tests.datasets import hospital
from tests.datasets.catalog_texts import write_head, write_private_head

CATALOG = (
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
      sex:        {type: category, values: [f, m, x], other: drop, nulls: keep}
      age:        {type: integer, bounds: [0, 110], nulls: drop, provenance: public life tables}
      born:       {type: date, bounds: [1920-01-01, 2026-12-31], nulls: keep, provenance: law}
"""
    + write_private_head(
        "visits",
        "{references: patients, by: patient_id}",
        20,
        unique="[[visit_id]]",
        max_rows=2_000_000,
    )
    + """\
      visit_id:   {type: id}
      patient_id: {type: id}
      doctor_id:  {type: id}
      date:       {type: date, bounds: [2024-01-01, 2026-12-31], nulls: drop,
          provenance: period of the extract}
      county:     {type: category, values: {from: counties.county}, other: keep, nulls: keep}
      diagnosis:  {type: category, values: undeclared, width: 12, nulls: drop}
      ward:       {type: category, values: [north, south], other: keep, nulls: keep}
      cost:       {type: decimal, bounds: [0, 5000], resolution: 0.01, nulls: keep,
          provenance: tariff 2026}
      score:      {type: integer, bounds: [-5, 5], nulls: keep, provenance: form}
      urgent:     {type: boolean, nulls: {value: false}}
      note:       {type: text, width: 40, nulls: keep}
      seen:       {type: timestamp, bounds: ["2024-01-01T00:00:00", "2026-12-31T23:59:59"],
          zone: +01:00,
                   nulls: keep, provenance: extract}
"""
    + write_private_head(
        "prescriptions", "{references: visits, by: visit_id}", 30, max_rows=2_000_000
    )
    + """\
      visit_id: {type: id}
      drug:     {type: category, values: [a, b, c], other: keep, nulls: drop}
      dose:     {type: integer, bounds: [0, 9], nulls: keep, provenance: form}
  counties:
    kind: public
    from: counties.csv
    unique: [[county]]
    columns:
      county: {type: text, width: 20, nulls: drop}
      region: {type: category, values: [inland, coast], other: drop, nulls: drop}
      beds:   {type: integer, bounds: [0, 9000], nulls: keep, provenance: ministry list}
  stations:
    kind: public
    from: stations.csv
    unique: []
    columns:
      county: {type: text, width: 20, nulls: keep}
      level:  {type: integer, bounds: [0, 5], nulls: keep, provenance: list}
"""
)
PUBLIC: hospital.Raws = {
    "counties": [
        {"county": "ash", "region": "inland", "beds": "10"},
        {"county": "elm", "region": "coast", "beds": None},
        {"county": "oak", "region": "coast", "beds": "99999"},
        {"county": "yew", "region": "inland", "beds": "300"},
    ],
    "stations": [
        {"county": "ash", "level": "1"},
        {"county": "ash", "level": "2"},
        {"county": "elm", "level": "1"},
        {"county": None, "level": "1"},
    ],
}


def catalog(**changes: str) -> Catalog:
    text = CATALOG
    for old, new in changes.items():
        text = text.replace(old.replace("__", ": "), new)
    return parse(text)


def raws(people: int = 40, seed: int = 8) -> hospital.Raws:
    """Generated rows with every kind of value, nulls and values outside the lists included."""
    draw = random.Random(seed)

    def maybe(value: object, nulls: float = 0.15) -> str | None:
        return None if draw.random() < nulls else str(value)

    patients, visits, prescriptions = [], [], []
    for p in range(people):
        born = datetime.date(1925, 1, 1) + datetime.timedelta(days=draw.randrange(36_000))
        patients.append(
            {
                "patient_id": f"p{p}",
                "sex": maybe(draw.choice("fmx")),
                "age": str(draw.randrange(0, 105)),
                "born": maybe(born),
            }
        )
        for _ in range(draw.choice([0, 1, 1, 2, 3, 5, 8, 24])):
            name = f"v{len(visits)}"
            day = datetime.date(2024, 1, 1) + datetime.timedelta(days=draw.randrange(1096))
            clock = datetime.time(draw.randrange(24), draw.randrange(60), draw.randrange(60))
            doctor = f"d{draw.randrange(4)}"
            visits.append(
                {
                    "visit_id": name,
                    "patient_id": f"p{p}",
                    "doctor_id": None if len(visits) % 7 == 3 else doctor,
                    "date": str(day),
                    "county": maybe(draw.choice(["ash", "elm", "oak", "ash", "fir"])),
                    "diagnosis": draw.choice(["flu", "flu", "cold", "fracture", "rash"]),
                    "ward": maybe(draw.choice(["north", "south", "east"])),
                    "cost": maybe(f"{draw.uniform(0, 900):.2f}"),
                    "score": maybe(draw.randrange(-5, 6)),
                    "urgent": maybe(draw.choice(["true", "false"])),
                    "note": maybe(draw.choice(["ok", "see x-ray", "Fax", "x", ""])),
                    "seen": maybe(f"{day} {clock}"),
                }
            )
            prescriptions += [
                {
                    "visit_id": name,
                    "drug": draw.choice(["a", "b", "c", "z"]),
                    "dose": maybe(draw.randrange(10)),
                }
                for _ in range(draw.choice([0, 0, 1, 2]))
            ]
    return {"patients": patients, "visits": visits, "prescriptions": prescriptions, **PUBLIC}


@contextmanager
def registered(people: int = 40):
    """The clinic registered, in the engine and in the oracle, and its registered rows in a DuckDB
    of their own."""
    with hospital.registered(raws(people), catalog()) as found:
        connection = duckdb.connect()
        for table in found.catalog.tables:
            _load(connection, table, found)
        try:
            yield found, connection
        finally:
            connection.close()


def _load(connection: duckdb.DuckDBPyConnection, table: Any, found: hospital.Registered) -> None:
    owner = found.catalog.owner_column(table) if table.kind == "private" else None
    types = {
        Id: "VARCHAR", Text: "VARCHAR", Category: "VARCHAR", Integer: "BIGINT",
        Decimal: "DECIMAL(18, 2)",
        Boolean: "BOOLEAN", Date: "DATE", Timestamp: "TIMESTAMP",
    }  # fmt: skip
    columns = ", ".join(f'"{column.name}" {types[type(column)]}' for column in table.columns)
    connection.execute(f'CREATE TABLE "{table.name}" ({columns})')
    for row in found.oracle.tables[table.name]:
        values = []
        for column in table.columns:
            raw = row["owner"] if column.name == owner else row[column.name]
            value = raw if column.name == owner else decode_value(raw, column, found.oracle.lists)
            if isinstance(value, datetime.datetime):
                value = value.replace(tzinfo=None)
            values.append(
                float(value)
                if isinstance(value, Fraction)
                else value
                if value is None
                else _plain(value)
            )
        marks = ", ".join("?" * len(values))
        connection.execute(f'INSERT INTO "{table.name}" VALUES ({marks})', values)


def _plain(value: Any) -> Any:
    return str.__str__(value) if isinstance(value, str) else value


# -- recipes without noise
# --------------------------------------------------------------------------------------


def answers(recipe: Recipe, found: hospital.Registered) -> list[dict[str, Any]]:
    """The rows that a recipe gives on exact numbers, HAVING, ORDER BY and LIMIT included."""
    rows = []
    for one in recipe.sets:
        rows += _set_rows(recipe, one, found)
    if recipe.having is not None:
        rows = [row for row in rows if value(recipe.having, row) == 1]
    for order in reversed(recipe.order):
        rows.sort(
            key=lambda row, f=order.formula: _sortable(value(f, row)), reverse=order.descending
        )
        nulls = [row for row in rows if value(order.formula, row) is None]
        others = [row for row in rows if value(order.formula, row) is not None]
        rows = nulls + others if order.nulls_first else others + nulls
    rows = rows[recipe.offset :]
    rows = rows if recipe.limit is None else rows[: recipe.limit]
    return [
        {
            "_empty": row["empty"],
            **{output.name: value(output.formula, row) for output in recipe.outputs},
        }
        for row in rows
    ]


def _sortable(value: Any) -> Any:
    return (0, 0) if value is None else (1, value)


def _set_rows(recipe: Recipe, one: Any, found: hospital.Registered) -> list[dict[str, Any]]:
    """The cells of a grouping set: keys as shown, exact atoms, whether the group is empty."""
    plan = recipe.queries[one.positions[0][0] if one.positions else one.selection].plan
    columns = analyse(plan, found.catalog, found.facts).columns
    exact = [_evaluated(query, found) for query in recipe.queries]
    present = (
        {key for place, _ in one.positions for key in exact[place]}
        if one.positions
        else set(exact[one.selection])
    )
    listed = []
    for place in one.keys:
        key = recipe.keys[place]
        domain = columns[key.column]
        if domain.undeclared:
            inside = sorted(
                {k[one.keys.index(place)] for k in present}, key=lambda v: (v is None, v)
            )
            listed.append([(v, v) for v in inside])
        else:
            first, last = domain.listed
            natural = [hospital.natural(domain, code) for code in range(first, last + 1)]
            natural = [*natural, None] if domain.nullable else natural
            names = list_shown_keys(key.domain)
            assert len(natural) == len(names), (natural[:5], names[:5])
            read = datetime.datetime if key.has_times else datetime.date
            names = [read.fromisoformat(v) if key.dated and v else v for v in names]
            listed.append(list(zip(natural, names, strict=True)))
    rows = []
    for combined in product(*listed):
        inner = tuple(v for v, _ in combined)
        atoms = []
        for (place, index), atom in zip(one.positions, recipe.atoms, strict=True):
            cell = exact[place].get(inner)
            number = (
                cell[index]
                if cell is not None
                else (None if isinstance(recipe.queries[place], Quantiles) else Fraction(0))
            )
            if isinstance(number, Fraction):
                assert ((number - atom.offset) / atom.unit).denominator == 1, (atom, number)
            atoms.append(number)
        keys = {place: v for place, (_, v) in zip(one.keys, combined, strict=True)}
        absent = {place: place not in one.keys for place in range(len(recipe.keys))}
        rows.append({"keys": keys, "absent": absent, "atoms": atoms, "empty": inner not in present})
    return rows


def _evaluated(query: Any, found: hospital.Registered) -> dict[tuple[Any, ...], list[Any]]:
    if isinstance(query, Cells):
        return grouped(query, found.oracle)
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for owner, row in naive.naive_rows(query.plan, found.oracle):
        groups.setdefault(tuple(row[key] for key in query.keys), []).append((owner, row))
    if isinstance(query, Keys):
        return {key: [Fraction(len({owner for owner, _ in mine}))] for key, mine in groups.items()}
    made = {}
    for key, mine in groups.items():
        values = sorted(row[query.column] for _, row in mine if row[query.column] is not None)
        made[key] = [
            values[max(0, math.ceil(share * len(values)) - 1)] if values else None
            for share in query.shares
        ]
    return made


def value(formula: Any, row: dict[str, Any]) -> Any:
    """A formula on exact numbers; None is null or undefined."""
    match formula:
        case Noisy(atom):
            return row["atoms"][atom]
        case Constant(Fraction() as days, "date"):
            return write_days(int(days))
        case Constant(constant):
            return constant
        case KeyValue(key):
            found = row["keys"].get(key)
            return str.__str__(found) if isinstance(found, Label) else found
        case Grouping(key):
            return Fraction(int(row["absent"][key]))
        case Apply(name, arguments):
            return _applied(name, [value(each, row) for each in arguments])
    raise AssertionError(formula)


def _day(value: Any, beside: Any) -> Any:
    return (
        datetime.date.fromisoformat(value)
        if isinstance(beside, datetime.date) and isinstance(value, str)
        else value
    )


def _applied(name: str, values: list[Any]) -> Any:
    if name == "case":
        for place in range(0, len(values) - 1, 2):
            if values[place]:
                return values[place + 1]
        return values[-1]
    if name == "coalesce":
        return next((each for each in values if each is not None), None)
    if name == "is_null":
        return Fraction(int(values[0] is None))
    if name in ("least", "greatest"):
        known = [each for each in values if each is not None]
        return (min if name == "least" else max)(known) if known else None
    if name in ("and", "or"):
        decisive = name == "or"
        if any(each is not None and bool(each) == decisive for each in values):
            return Fraction(int(decisive))
        return None if None in values else Fraction(int(not decisive))
    if name == "nullif":
        return None if values[0] is not None and values[0] == values[1] else values[0]
    if None in values:
        return None
    if name in ("eq", "ne", "lt", "le", "gt", "ge"):
        a, b = _day(values[0], values[1]), _day(values[1], values[0])
        truth = {"eq": a == b, "ne": a != b}.get(name)
        if truth is None:
            truth = {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[name]
        return Fraction(int(truth))
    try:
        return _PLAIN[name](*values)
    except (ZeroDivisionError, ValueError):
        return None


_PLAIN = {
    "add": lambda *x: sum(x),
    "subtract": lambda x, y: x - y,
    "multiply": lambda *x: math.prod(x),
    "divide": lambda x, y: x / y,
    "power": lambda x, y: x**y,
    "negate": lambda x: -x,
    "not": lambda x: 1 - x,
    "abs": abs,
    "sqrt": lambda x: math.sqrt(x),
    "floor": math.floor,
    "ceil": math.ceil,
    "sign": lambda x: (x > 0) - (x < 0),
    "ln": lambda x: math.log(x),
    "exp": lambda x: math.exp(x),
    "round": lambda x, n=0: math.copysign(
        math.floor(abs(x) * 10 ** int(n) + Fraction(1, 2)) / 10 ** int(n), x
    ),
}


def engine_cells(query: Cells, found: hospital.Registered) -> dict[tuple[Any, ...], list[Fraction]]:
    """What the engine measures, by key in its own units; cells of zeros left out."""
    columns = analyse(query.plan, found.catalog, found.facts).columns
    is_open = [columns[key].undeclared for key in query.keys]
    lists = []
    for key, unlisted in zip(query.keys, is_open, strict=True):
        if not unlisted:
            first, last = columns[key].listed
            natural = [hospital.natural(columns[key], code) for code in range(first, last + 1)]
            lists.append([*natural, None] if columns[key].nullable else natural)
    measured = found.measurer.measure(query)
    none = (0,) * len(query.columns)
    size = math.prod(len(values) for values in lists)
    by_open = (
        {key: [cells.get(code, none) for code in range(size)] for key, cells in measured.items()}
        if any(is_open)
        else {(): measured}
    )
    steps = [
        columns[one.column].step if isinstance(one, Sum) else Fraction(1) for one in query.columns
    ]
    cells = {}
    for labels, values in by_open.items():
        for row, inner in zip(values, product(*lists), strict=True):
            one, other = iter(labels), iter(inner)
            key = tuple(next(one) if unlisted else next(other) for unlisted in is_open)
            if any(row):
                cells[key] = [int(number) * step for number, step in zip(row, steps, strict=True)]
    return cells
