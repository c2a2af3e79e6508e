"""Random units of one window, and random plans over them: claims against brute force.

Two tables with a day or a time, in which a unit has rows of one window only, as registration leaves
them. Plans compute functions of the day, group and join by them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import date, timedelta

from dither.audit.naive_plans import NaiveDatabase
from dither.catalog import Catalog, parse
from dither.errors import RefusedError
from dither.plan import algebra as a
from dither.plan.algebra import Call, Column, Named, Plan, Scan
from dither.plan.analyse import analyse
from dither.plan.stability import Owned
from tests.plan.small_databases import Claims, find_violations
from tests.plan.small_neighbours import find_excess, measure_change

EPOCH = date(1970, 1, 1)
FIRST = date(2023, 12, 1)
DAYS = 450
"""Days from the first on: two turns of a year, and a leap day."""
FIELDS = (
    "trunc_month", "month", "year", "quarter", "trunc_quarter", "trunc_year", "last_day",
    "days_in_month", "week", "trunc_week", "day", "day_of_week", "day_of_year",
)  # fmt: skip
ZONES = (0, 2, -3)


@dataclass(frozen=True)
class WindowSchema:
    """A catalog whose unit is a person in one window; hours east of the unit and of the times."""

    catalog: Catalog
    every: str
    is_time: bool
    unit_zone: int
    column_zone: int
    limits: tuple[int, int]

    def draw_unit(self, draws: random.Random, name: str) -> NaiveDatabase:
        """Random rows of one unit: each lies in one window at the unit's zone."""
        anchor = draws.randrange(DAYS)
        days = [day for day in range(DAYS) if self._number(day) == self._number(anchor)]
        tables = {}
        for number, limit in enumerate(self.limits):
            count = draws.choice([limit, limit, 1, 0])
            tables[f"t{number}"] = [
                {
                    "owner": name,
                    "at": self._write(draws.choice([draws.choice(days), days[0], days[-1]]), draws),
                    "a": draws.randrange(3),
                    "b": draws.choice([None, 0, 1]),
                }
                for _ in range(count)
            ]
        return NaiveDatabase(self.catalog, tables, {}, b"")

    def _number(self, day: int) -> object:
        """The window that a day lies in."""
        moment = FIRST + timedelta(day)
        match self.every:
            case "day":
                return moment
            case "week":
                return moment - timedelta(moment.weekday())
            case "month":
                return moment.year, moment.month
        return moment.year

    def _write(self, day: int, draws: random.Random) -> int:
        """A registered value on a day: days, or seconds UTC of a time on that day at the unit's
        zone."""
        days = (FIRST - EPOCH).days + day
        if not self.is_time:
            return days
        seconds = draws.choice([0, 3600, 43_200, 86_399])
        return days * 86_400 + seconds - 3600 * self.unit_zone


def draw_schema(draws: random.Random) -> WindowSchema:
    every = draws.choice(["day", "week", "month", "year"])
    is_time = draws.random() < 0.5
    unit_zone, column_zone = draws.choice(ZONES), draws.choice(ZONES)
    if draws.random() < 0.6:
        column_zone = unit_zone
    limits = (draws.choice([2, 5, 12, 40]), draws.choice([1, 3]))
    moment = "{type: date, bounds: [2023-01-01, 2026-12-31], nulls: drop, provenance: x}"
    if is_time:
        moment = (
            '{type: timestamp, bounds: ["2023-01-01T00:00:00", "2026-12-31T00:00:00"], zone: '
            f'"{write_zone(column_zone)}", nulls: drop, provenance: x}}'
        )
    text = (
        "dither: 1\ndataset: w\nlineage: w\npopulation: w\n"
        f"neighbours: {draws.choice(['add_remove', 'replace'])}\nunit: {{kind: person_window, "
        f'column: at, every: {every}, zone: "{write_zone(unit_zone)}"}}\n'
        "people: {pid: {protected: true}}\nsource: {engine: csv, location: .}\ntables:\n"
    )
    for number, limit in enumerate(limits):
        text += (
            f"  t{number}:\n    kind: private\n    from: t{number}.csv\n    unique: []\n"
            f"    owner: {{column: pid}}\n    rows_per_unit: {limit}\n    max_rows: 1000\n"
            f"    columns:\n      pid: {{type: id}}\n      at: {moment}\n"
            "      a: {type: integer, bounds: [0, 2], nulls: drop, provenance: x}\n"
            "      b: {type: integer, bounds: [0, 1], nulls: keep, provenance: x}\n"
        )
    return WindowSchema(parse(text), every, is_time, unit_zone, column_zone, limits)


def write_zone(hours: int) -> str:
    return f"{'-' if hours < 0 else '+'}{abs(hours):02}:00" if hours else "UTC"


def draw_field(draws: random.Random, day: a.Expression) -> a.Expression:
    """A function of a day: mostly one field, sometimes two, or the field of another day."""
    first = Call(draws.choice(FIELDS), (day,))
    number = a.Value("number", draws.choice([1, 40]))
    shifted = Call(draws.choice(FIELDS), (Call("add_days", (day, number)),))
    both = Call("days_between", (Call("trunc_year", (day,)), Call("trunc_month", (day,))))
    return draws.choice([first, first, first, shifted, both, day])


def draw_window_plan(draws: random.Random, schema: WindowSchema) -> Plan:
    """Fields of the day, perhaps over a join, a filter, a table per unit or a union."""
    columns = {"at", "a", "b"}
    plan: Plan = Scan("t0")
    if draws.random() < 0.4:
        names = {"at": "at2", "a": "a2"}
        right = a.Project(Scan("t1"), tuple(Named(new, Column(old)) for old, new in names.items()))
        on = draws.choice([(), (("a", "a2"),), (("at", "at2"),)])
        plan = a.Join(plan, right, on, draws.choice(["inner", "left"]))
        columns |= set(names.values())
    if draws.random() < 0.3:
        plan = a.Filter(plan, a.Compare("a", draws.choice(["<", "=", ">"]), 1))
    if draws.random() < 0.2:
        plan = a.UnionAll(plan, plan)
    moments = [name for name in ("at", "at2") if name in columns]
    if draws.random() < 0.3:
        plan = a.Project(plan, tuple(Named(f"{n}x", Column(n)) for n in sorted(columns)))
        moments = [f"{name}x" for name in moments]
        columns = {f"{name}x" for name in columns}
    fields = []
    for number in range(draws.choice([1, 2])):
        moment: a.Expression = Column(draws.choice(moments))
        if schema.is_time:
            moment = Call("date_of", (moment,))
        fields.append(Named(f"f{number}", draw_field(draws, moment)))
    plan = a.Project(plan, (*(Named(n, Column(n)) for n in sorted(columns)), *fields))
    if draws.random() < 0.3:
        keys = tuple(draws.sample([*sorted(columns), "f0"], 2))
        plan = a.PerUnit(plan, keys, (Named("n", a.Count()),))
    return plan


def search_window_violation(seed: int, schemas: int, plans: int = 12) -> tuple[str | None, int]:
    """The first claim that some unit or pair of neighbours exceeds, and how many were compared."""
    draws = random.Random(seed)
    compared = 0
    for _ in range(schemas):
        schema = draw_schema(draws)
        units = [schema.draw_unit(draws, "u") for _ in range(4)]
        for _ in range(plans):
            plan = draw_window_plan(draws, schema)
            try:
                analysed = analyse(plan, schema.catalog)
            except RefusedError:
                continue
            assert isinstance(analysed.node, Owned)
            if analysed.node.rows > 200:
                continue
            claims = Claims.of(analysed)
            keys = [n for n, d in analysed.columns.items() if d.high - d.low < 5000]
            key = draws.choice(keys)
            aggregates = (draws.choice([a.Count(), a.CountUnits(), a.CountDistinct(key)]),)
            query = a.Cells(plan, (key,), aggregates)
            empty = NaiveDatabase(schema.catalog, {"t0": [], "t1": []}, {}, b"")
            is_replace = schema.catalog.neighbours == "replace"
            for unit in units:
                compared += 1
                for violation in find_violations(claims, unit):
                    return f"{schema.every}: {violation}: {plan}", compared
                neighbour = draws.choice(units) if is_replace else empty
                change = measure_change(query, analysed, unit, neighbour)
                if excess := find_excess(query, analysed, schema.catalog.neighbours, change):
                    return f"{schema.every}: {excess}: {query}", compared
    return None, compared
