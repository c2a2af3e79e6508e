"""Random plans over columns whose domains end where engine types end, for the engine, the oracle and neighbours."""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import replace
from fractions import Fraction as F
from random import Random

import numpy as np

import hospital
from dither.audit import naive
from dither.catalog import parse
from dither.data.lower import cells
from dither.errors import RefusedError
from dither.plan import algebra as a
from dither.plan.algebra import Call, Cells, Column, Named, Quantiles, Scan, Value
from dither.plan.analyse import analyse, analyse_node
from dither.plan.domain import is_stored
from dither.plan.domains import key_domains, open_keys
from dither.plan.grids import points_of
from dither.plan.measure import largest_value, sensitivity
from dither.plan.stability import Owned

INTEGERS = {
    "t126": (0, 126), "t127": (-128, 127), "t128": (-129, 126), "s": (-32768, 32766), "s2": (0, 32767),
    "i": (-(2**31), 2**31 - 2), "i1": (0, 2**31 - 1), "i2": (-5, 2**31), "b": (1 - 2**63, 2**63 - 2),
    "b1": (0, 2**63 - 1), "b2": (-(2**62), 2**62 - 1), "b3": (2**62 - 1, 2**62), "b4": (1 - 2**62, 2**62 - 1),
    "one": (7, 7), "neg": (-7, -7), "zero": (0, 0), "n1": (-1, -1), "k8": (0, 8), "m3": (-3, 3), "up": (1, 5),
    "down": (-5, -1), "u1": (0, 1), "t": (-128, 126),
    "l": (0, 3), "r": (-1, 2), "code": (0, 5), "place": (0, 126),
    "e1": (124, 127), "e2": (126, 128), "e3": (-130, -127),
}  # fmt: skip
DECIMALS = {"d": (-10, 500, "0.01"), "dh": (-9 * 10**13, 9 * 10**13, "0.0001"), "d5": (0, 1000, "5"), "d1": (1, 1, "1")}
DATES = {"day": ("0001-01-01", "9999-12-31"), "day1": ("2024-02-29", "2024-02-29"), "dy": ("2023-12-30", "2024-03-01")}
TIMES = {
    "tm": ("0001-01-02T00:00:00", "9999-12-30T23:59:59", "+01:00"),
    "tz": ("1969-12-31T23:59:58", "1970-01-01T00:00:02", "-03:30"),
}
CATEGORIES = {"c1": 1, "c2": 2, "c126": 126, "c127": 127, "c128": 128, "c255": 255, "c256": 256}
NARROWER = {
    "t126": (0, 100),
    "t127": (-5, 126),
    "s": (-9, 127),
    "i": (0, 2**31 - 1),
    "b": (0, 2**62),
    "k8": (2, 12),
    "m3": (-1, 127),
    "one": (6, 8),
    "zero": (-1, 0),
    "b2": (0, 2**63 - 1),
    "up": (1, 128),
    "u1": (0, 0),
}


def labels_of(count: int) -> list[str]:
    return [f"v{place}" for place in range(count)]


def columns_text(random: Random, table: str, unit: str) -> str:
    lines = []

    def nulls(some: list[str]) -> str:
        return random.choice(["keep", "keep", "drop", some[0]] if table == "two" else ["keep", "keep", "keep", "drop"])

    for name, (low, high) in INTEGERS.items():
        low, high = NARROWER.get(name, (low, high)) if table == "two" else (low, high)
        rule = "keep" if table == "one" and name in ("t127", "b", "u1") else nulls([f"{{value: {low}}}"])
        lines.append(f"{name}: {{type: integer, bounds: [{low}, {high}], nulls: {rule}, provenance: x}}")
    for name, (low, high, step) in DECIMALS.items():
        ends = f"bounds: [{low}, {high}], resolution: {step}"
        lines.append(f"{name}: {{type: decimal, {ends}, nulls: {nulls(['keep'])}, provenance: x}}")
    for name, (low, high) in DATES.items():
        rule = "drop" if (name, unit) == ("dy", "window") else nulls(["keep"])
        lines.append(f"{name}: {{type: date, bounds: [{low}, {high}], nulls: {rule}, provenance: x}}")
    for name, (low, high, zone) in TIMES.items():
        ends = f'bounds: ["{low}", "{high}"], zone: "{zone}"'
        lines.append(f"{name}: {{type: timestamp, {ends}, nulls: {nulls(['keep'])}, provenance: x}}")
    for name, count in CATEGORIES.items():
        other = "drop" if name in ("c126", "c1") else "keep"
        values = f"values: [{', '.join(labels_of(count))}], other: {other}"
        lines.append(f"{name}: {{type: category, {values}, nulls: {nulls(['{value: v0}'])}}}")
    lines.append(f"u: {{type: boolean, nulls: {nulls(['keep'])}}}")
    lines.append("lab: {type: category, values: undeclared, width: 3, nulls: keep}")
    lines.append("note: {type: text, width: 4, nulls: keep}")
    return "\n".join("      " + line for line in lines)


UNITS = {
    "person": "{kind: person}",
    "row": "{kind: row}",
    "window": "{kind: person_window, column: dy, every: week, zone: UTC}",
}


def catalog_of(random: Random, unit: str = "person"):
    """Two private tables with one list of columns, bounds and nulls different, and a public one."""
    tables = ""
    for table, unique, most in (("one", "[]", 3), ("two", "[[person, k8]]", 2)):
        owner = "" if unit == "row" else "    owner: {column: person}\n"
        unique, most = ("[]", 1) if unit == "row" else (unique, most)
        tables += f"  {table}:\n    kind: private\n    from: {table}.csv\n{owner}    unique: {unique}\n"
        tables += f"    rows_per_unit: {most}\n    max_rows: 60\n    columns:\n"
        tables += "" if unit == "row" else "      person: {type: id}\n"
        tables += columns_text(random, table, unit) + "\n"
    tables += "  pub:\n    kind: public\n    from: pub.csv\n    unique: []\n    columns:\n"
    people = "{}" if unit == "row" else "{person: {protected: true}}"
    return parse(
        "dither: 1\ndataset: edges\nlineage: edges\npopulation: residents\nneighbours: add_remove\n"
        f"unit: {UNITS[unit]}\npeople: {people}\nsource: {{engine: csv, location: .}}\ntables:\n"
        f"{tables}{columns_text(random, 'pub', unit)}\n"
    )


def cell(random: Random, column) -> str | None:
    """A raw text at or beyond an end of the column."""
    if random.random() < 0.25 and getattr(column.nulls, "rule", "") != "drop":
        return None
    name = column.name
    if name in CATEGORIES:
        last = CATEGORIES[name] - 1
        return random.choice(["v0", f"v{min(1, last)}", f"v{last}", "elsewhere" if column.other == "keep" else "v0"])
    if name == "u":
        return random.choice(["true", "false"])
    if name == "lab":
        return random.choice(["a", "b", "c", ""])
    if name == "note":
        return random.choice(["a", " b", "-7", "9999", "12", "é", "%"])
    low, high = column.lower_grid, column.upper_grid
    at = random.choice([low, low, low + 1, high - 1, high, high, 0, 1, -1, 127, random.randint(low, high)])
    at = max(low, min(high, at))
    if name in DATES:
        return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=at))
    if name in TIMES:
        moved = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=at)
        return moved.isoformat() + "Z"
    if name in DECIMALS:
        value = at * column.resolution
        return str(value.numerator) if value.denominator == 1 else f"{float(value):.4f}"
    return str(at)


def row_of(random: Random, table, person: str | None) -> hospital.Raw:
    made: hospital.Raw = {"person": person} if "person" in table.column_names else {}
    for column in table.columns:
        if column.name != "person":
            made[column.name] = cell(random, column)
    return made


def person_rows(random: Random, catalog, name: str | None, most: int = 4):
    """Rows of a person: independent ones, or copies of one row with a few cells changed, which meet and group."""
    alike = random.random() < 0.5
    found: dict[str, list[hospital.Raw]] = {}
    base = row_of(random, catalog.table("one"), name)
    for table in catalog.private_tables:
        found[table.name] = []
        for _ in range(random.randint(1, most)):
            new = row_of(random, table, name)
            if alike:
                changed = set(random.sample(list(new), random.choice([0, 1, 5, 15])))
                new = {column: new[column] if column in changed else base[column] for column in new}
                if name is not None and "person" in new:
                    new["person"] = name
            found[table.name].append(new)
    return found


def together(public, *people) -> hospital.Raws:
    return {"pub": public, **{t: [row for each in people for row in each[t]] for t in ("one", "two")}}


# -- expressions -------------------------------------------------------------------------------------------------------

EDGE_NUMBERS = [
    F(0), F(1), F(-1), F(2), F(1, 2), F(-3), F(7), F(127), F(128), F(-128), F(-129), F(32767), F(2**31), F(-(2**31)),
    F(2**62), F(2**63 - 1), F(-(2**63)), F(10**18), F(1, 100), F(-7, 100), F(5),
]  # fmt: skip


def n(value) -> Value:
    return Value("number", F(value))


class Maker:
    """Random expressions over some columns; what it makes may be refused."""

    def __init__(self, random: Random, columns) -> None:
        self.random, self.columns = random, columns

    def of_kind(self, *kinds: str):
        return [Column(name) for name, domain in self.columns.items() if domain.kind in kinds]

    def constant(self, kind: str):
        near = [d for d in self.columns.values() if d.kind == kind]
        if kind == "boolean":
            return Value("boolean", F(self.random.randint(0, 1)))
        if near and self.random.random() < 0.6:
            domain = self.random.choice(near)
            at = self.random.choice([domain.low - 1, domain.low, domain.high, domain.high + 1, domain.high + 2])
            value = at * domain.step
            if kind == "date":
                value = max(F(-719162), min(F(2932896), value))
            if kind == "timestamp":
                value = max(F(-719162 * 86400), min(F((2932896 + 1) * 86400 - 1), value))
            return Value(kind, value)
        if kind == "number":
            return n(self.random.choice(EDGE_NUMBERS))
        if kind == "date":
            return Value("date", F(self.random.choice([0, -1, 19782, -719162, 2932896])))
        return Value("timestamp", F(self.random.choice([0, -1, 1, 1_714_561_200])))

    def leaf(self, kind: str):
        mine = self.of_kind(kind)
        # a constant time takes the zone of the column it is chosen with, which the oracle does not know
        if mine and (kind == "timestamp" or self.random.random() < 0.75):
            return self.random.choice(mine)
        if kind == "category":
            return self.random.choice(mine) if mine else None
        if kind == "text":
            return self.random.choice(mine) if mine else Value("text", "ab")
        return self.constant(kind)

    def make(self, kind: str, depth: int = 2):
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(kind)
        made = getattr(self, f"_{kind}")(depth - 1)
        if made is None or any(each is None for each in made.arguments):
            return self.leaf(kind)
        return made

    def _chosen(self, kind: str, depth: int):
        x, y = self.make(kind, depth), self.make(kind, depth)
        test = self.make("boolean", depth)
        if kind == "category":
            labels = [d.labels for d in self.columns.values() if d.kind == "category"]
            if not labels:
                return None
            y = self.random.choice([y, Value("text", self.random.choice(self.random.choice(labels)))])
        return self.random.choice(
            [
                Call("if", (test, x, y)),
                Call("case", (test, x)),
                Call("case", (test, x, self.make("boolean", depth), y)),
                Call("case", (test, x, self.make("boolean", depth), y, self.make(kind, depth))),
                Call("coalesce", (x, y)),
                Call("coalesce", (x, y, self.make(kind, depth))),
                Call("nullif", (x, y)),
            ]
        )

    def _number(self, depth: int):
        pick, x, y = self.random.choice, self.make("number", depth), self.make("number", depth)
        k = self.random.random()
        if k < 0.3:
            two = ["add", "subtract", "multiply", "divide", "integer_divide", "mod", "least", "greatest"]
            return Call(pick(two), (x, y))
        if k < 0.4:
            return Call(
                pick(["floor", "ceil", "trunc", "round", "to_integer", "abs", "negate", "sign", "sqrt", "to_number"]),
                (x,),
            )
        if k < 0.5:
            low, high = sorted([self.constant("number").value, self.constant("number").value])
            return pick(
                [
                    Call("clamp", (x, n(low), n(high))),
                    Call("width_bucket", (x, n(low), n(high), n(pick([1, 2, 7, 127, 128, 100_000])))),
                    Call("bin", (x, n(pick([1, 2, 3, 5, 100, 128, 2**31, F(1, 10)])))),
                    Call("round", (x, n(pick([0, 1, 2, 6])))),
                    Call("power", (x, n(pick([1, 2, 3])))),
                ]
            )
        if k < 0.6:
            date = self.make("date", depth)
            names = ["year", "quarter", "month", "week", "day", "day_of_week", "day_of_year", "days_in_month"]
            return Call(pick(names), (date,))
        if k < 0.68:
            return pick(
                [
                    Call(pick(["hour", "minute", "second"]), (self.make("timestamp", depth),)),
                    Call("days_between", (self.make("date", depth), self.make("date", depth))),
                    Call("age_years", (self.make("date", depth), self.make("date", depth))),
                    Call("seconds_between", (self.make("timestamp", depth), self.make("timestamp", depth))),
                ]
            )
        if k < 0.76:
            text = self.make("text", depth)
            return pick(
                [
                    Call(pick(["length", "byte_length"]), (text,)),
                    Call("position", (text, Value("text", "b"))),
                    Call("parse_integer", (text, n(pick([-7, 0, -128, -(10**17)])), n(pick([127, 128, 5, 10**17])))),
                ]
            )
        if k < 0.8:
            return Call("to_number", (self.make("boolean", depth),))
        return self._chosen("number", depth)

    def _boolean(self, depth: int):
        pick = self.random.choice
        kind = pick(["number", "number", "date", "timestamp"])
        x, y = self.make(kind, depth), self.make(kind, depth)
        p, q = self.make("boolean", depth), self.make("boolean", depth)
        k = self.random.random()
        if k < 0.3:
            return Call(pick(["eq", "ne", "lt", "le", "gt", "ge", "is_distinct_from"]), (x, y))
        if k < 0.4:
            return Call("between", (x, y, self.make(kind, depth)))
        if k < 0.5:
            return Call("in", (x, *(self.constant(kind) for _ in range(self.random.randint(1, 3)))))
        if k < 0.6:
            return Call(pick(["and", "or"]), (p, q, self.make("boolean", depth))[: pick([2, 3])])
        if k < 0.7:
            return Call(pick(["not", "is_true", "is_false", "is_null", "is_not_null"]), (p,))
        if k < 0.75:
            return Call("xor", (p, q))
        if k < 0.8:
            c = self.make("category", depth)
            labels = [d.labels for d in self.columns.values() if d.kind == "category"]
            if c is None or not labels:
                return Call("is_weekend", (self.make("date", depth),))
            some = [Value("text", pick(pick(labels))) for _ in range(2)]
            return pick(
                [Call(pick(["eq", "ne", "is_distinct_from"]), (c, some[0])), Call("in", (c, *some)),
                 Call("is_null", (c,)),                  Call("eq", (c, self.make("category", depth)))]
            )  # fmt: skip
        if k < 0.85:
            return Call(pick(["is_null", "is_not_null"]), (pick([x, y, self.make("text", depth)]),))
        return self._chosen("boolean", depth)

    def _date(self, depth: int):
        pick = self.random.choice
        x = self.make("date", depth)
        k = self.random.random()
        if k < 0.35:
            return Call(pick(["trunc_year", "trunc_quarter", "trunc_month", "trunc_week", "last_day"]), (x,))
        if k < 0.45:
            return Call("add_days", (x, self.make("number", depth)))
        if k < 0.55:
            return Call("add_months", (x, n(pick([0, 1, -1, 12, -13, 1200]))))
        if k < 0.65:
            return Call("date_of", (self.make("timestamp", depth),))
        return self._chosen("date", depth)

    def _timestamp(self, depth: int):
        if self.random.random() < 0.4:
            return Call("add_seconds", (self.make("timestamp", depth), self.make("number", depth)))
        return self._chosen("timestamp", depth)

    def _category(self, depth: int):
        return self._chosen("category", depth)

    def _text(self, depth: int):
        pick, x = self.random.choice, self.make("text", depth)
        return pick(
            [
                Call(pick(["lower", "upper", "trim"]), (x,)),
                Call("left", (x, n(1))),
                Call("concat", (x, self.make("text", depth))),
                Call("label", (self.make("category", depth),)),
                self._chosen("text", depth),
            ]
        )

    def condition(self, depth: int = 2):
        pick = self.random.choice
        if depth and self.random.random() < 0.4:
            parts = tuple(self.condition(depth - 1) for _ in range(self.random.randint(1, 3)))
            return pick([a.And(parts), a.Or(parts), a.Not(parts[0])])
        names = [name for name, domain in self.columns.items() if domain.kind != "id"]
        name = pick(names)
        domain = self.columns[name]
        if self.random.random() < 0.3:
            return a.Holds(self.make("boolean", 2))
        if self.random.random() < 0.15:
            return a.IsNull(name)
        if domain.kind == "category":
            return a.Compare(name, pick(["=", "<>"]), pick(domain.labels))
        if domain.kind == "text":
            return a.Compare(name, pick(["=", "<>"]), pick(["a", "", "v0"]))
        ends = [domain.low, domain.high]
        at = F(pick(ends) + pick([-2, -1, 0, 1, 2]) + pick([0, 0, 0, F(1, 2)])) * domain.step
        at = pick([at, at, at, F(pick([10**30, -(10**30), 0, 1, 127, 128]))])
        return a.Compare(name, pick(["=", "<>", "<", "<=", ">", ">="]), at)


KINDS = ["number", "number", "number", "boolean", "date", "timestamp", "category", "text"]


class Plans:
    """Random plans over a registered database."""

    def __init__(self, random: Random, catalog, facts, always: tuple[str, ...] = ()) -> None:
        """`always`: columns that projections keep."""
        self.random, self.catalog, self.facts, self.always = random, catalog, facts, always

    def known(self, plan):
        return analyse_node(plan, self.catalog, self.facts, {})

    def tried(self, plan, most: int = 400):
        """The analysed plan, or None if it is refused."""
        try:
            found = self.known(plan)
        except RefusedError:
            return None
        return found if getattr(found.node, "rows", 0) <= most else None

    def start(self, table: str | None = None):
        """A few columns of a table, perhaps filtered first."""
        plan = Scan(table or self.random.choice(["one", "one", "two"]))
        columns = self.known(plan).columns
        if self.random.random() < 0.3:
            new = a.Filter(plan, Maker(self.random, columns).condition())
            plan = new if self.tried(new) else plan
        return self.projected(plan)

    def projected(self, plan):
        columns = self.known(plan).columns
        maker = Maker(self.random, columns)
        some = [name for name in columns if columns[name].kind != "id"]
        kept = self.random.sample(some, min(len(some), self.random.randint(1, 4)))
        kept = list(dict.fromkeys([*(name for name in self.always if name in columns), *kept]))
        named = [Named(name, Column(name)) for name in kept]
        if not self.always and self.random.random() < 0.2:
            named = [Named(name, Column(other)) for name, other in zip(kept, kept[1:] + kept[:1], strict=True)]
        for place in range(self.random.randint(0, 2)):
            made = maker.make(self.random.choice(KINDS), self.random.randint(1, 3))
            new = Named(f"x{self.random.randint(0, 10**6)}{place}", made)
            if made is not None and self.tried(a.Project(plan, (new,))):
                named.append(new)
        return a.Project(plan, tuple(named))

    def like(self, columns, table: str):
        """Rows of another table under the same names."""
        source = Scan(table)
        if self.random.random() < 0.3:
            new = a.Filter(source, Maker(self.random, self.known(source).columns).condition())
            source = new if self.tried(new) else source
        theirs = self.known(source).columns
        named = []
        for name, domain in columns.items():
            alike = [
                other
                for other, d in theirs.items()
                if (d.kind, d.step, d.labels, d.offset) == (domain.kind, domain.step, domain.labels, domain.offset)
            ]
            if not alike:
                return None
            of = Column(name) if name in alike and self.random.random() < 0.5 else Column(self.random.choice(alike))
            if domain.kind in ("number", "boolean", "date") and self.random.random() < 0.3:
                made = Maker(self.random, theirs).make(domain.kind, 2)
                found = self.tried(a.Project(source, (Named(name, made),))) if made else None
                if found and found.columns[name].step == domain.step:
                    of = made
            named.append(Named(name, of))
        return a.Project(source, tuple(named))

    def grown(self, plan):
        random, here = self.random, self.known(plan)
        columns = here.columns
        maker = Maker(random, columns)
        keys = [name for name, d in columns.items() if (is_stored(d) and d.step == 1) or d.undeclared]
        key = tuple(random.sample(keys, min(len(keys), random.randint(0, 2))))
        usable = [name for name, d in columns.items() if d.kind in ("number", "boolean", "date", "timestamp")]
        some = random.choice(usable or list(columns))
        fresh = f"q{random.randint(0, 10**6)}"
        each = [a.Count(), a.Minimum(some), a.Maximum(some), a.CountValues(random.choice(list(columns)))]
        each += [a.CountDistinct(random.choice(list(columns)))]
        each += [a.Sum(some)] if columns[some].kind in ("number", "boolean") else []
        aggregates = tuple(
            Named(f"{fresh}{place}", one) for place, one in enumerate(random.sample(each, random.randint(1, 3)))
        )
        if random.random() < 0.4:  # a new column may have the name of an old one
            names = random.sample([c for c in columns if c not in key], min(len(columns) - len(key), len(aggregates)))
            aggregates = (
                tuple(Named(name, each.of) for name, each in zip(names, aggregates, strict=False)) or aggregates
            )
        match random.randint(0, 13):
            case 0 | 1 | 2:
                return a.Filter(plan, maker.condition())
            case 3 | 4:
                return self.projected(plan)
            case 5 | 6:
                table = random.choice(["one", "two", "pub"])
                other = Scan(table)
                if random.random() < 0.4:
                    new = a.Filter(other, Maker(random, self.known(other).columns).condition())
                    other = new if self.tried(new) else other
                theirs = self.known(other).columns
                taken = random.sample([c for c in theirs if theirs[c].kind != "id"], 3)
                pairs = [
                    (mine, c)
                    for mine, d in columns.items()
                    for c in theirs
                    if theirs[c].kind == d.kind
                    and theirs[c].step == d.step
                    and theirs[c].labels == d.labels
                    and d.kind != "id"
                ]
                on = random.sample(pairs, min(len(pairs), random.choice([1, 1, 2] if table == "pub" else [0, 1, 2])))
                named = {f"r{fresh}{c}": c for c in [*taken, *(c for _, c in on)]}
                named = dict(list(named.items())[:6])
                right = a.Project(other, tuple(Named(new, Column(c)) for new, c in named.items()))
                joined = tuple((mine, f"r{fresh}{c}") for mine, c in on)
                return a.Join(plan, right, joined, random.choice(["inner", "left", "left"]))
            case 7 | 8:
                other = random.choice(
                    [
                        plan,
                        a.Filter(plan, maker.condition()),
                        *([self.like(columns, random.choice(["one", "two"]))] * 3),
                    ]
                )
                if other is None:
                    return None
                return a.UnionAll(*random.choice([(plan, other), (other, plan)]))
            case 9:
                return a.Distinct(plan, random.choice([True, True, False]))
            case 10 | 11:
                return a.PerUnit(plan, key, aggregates)
            case 12:
                return random.choice(
                    [a.Group(plan, key, aggregates), a.SampleUnits(plan, random.choice([F(1, 2), F(9, 10)]))]
                )
            case _:
                return a.LimitGroups(plan, key, random.randint(1, 2))

    def plan(self):
        plan = self.start()
        for _ in range(self.random.randint(0, 5)):
            new = self.grown(plan)
            if new is not None and self.tried(new):
                plan = new
        return plan

    def query(self, plan):
        found = analyse(plan, self.catalog, self.facts)
        columns, random = found.columns, self.random
        small = [name for name, d in columns.items() if is_stored(d) and d.listed[1] - d.listed[0] < 300]
        small += [name for name, d in columns.items() if d.undeclared and isinstance(found.node, Owned)]
        keys = tuple(random.sample(small, min(len(small), random.choice([0, 1, 1, 2]))))
        readable = [name for name, d in columns.items() if d.kind != "id"]
        choices = [a.Count()]
        if readable:
            choices += [a.CountValues(random.choice(readable)), a.CountDistinct(random.choice(readable))]
        choices += [a.Sum(name) for name, d in columns.items() if d.kind in ("number", "boolean")]
        if isinstance(found.node, Owned):
            choices.append(a.CountUnits())
        query = Cells(plan, keys, tuple(random.sample(choices, min(len(choices), random.randint(1, 3)))))
        try:
            sensitivity(query, self.catalog, self.facts)
            if len(key_domains(query, self.catalog, self.facts)) and _cells(query, self.catalog, self.facts) > 3000:
                return None
            for one in query.columns:
                largest_value(one, query, self.catalog, self.facts)
        except RefusedError:
            return None
        return query

    def quantiles(self, plan):
        columns, random = analyse(plan, self.catalog, self.facts).columns, self.random
        some = [name for name, d in columns.items() if d.kind in ("number", "boolean", "date", "timestamp")]
        if not some:
            return None
        small = [
            name for name, d in columns.items() if (is_stored(d) and d.listed[1] - d.listed[0] < 300) or d.undeclared
        ]
        keys = tuple(random.sample(small, min(len(small), random.choice([0, 1, 1, 2]))))
        query = Quantiles(plan, keys, random.choice(some), (F(1, 2),))
        try:
            points_of(query, self.catalog, self.facts)
            key_domains(query, self.catalog, self.facts)
        except RefusedError:
            return None
        return query


def _cells(query, catalog, facts) -> int:
    size = 1
    for domain in key_domains(query, catalog, facts):
        size *= domain.codes
    return size


def histogram(both, query) -> Counter:
    """What a histogram must hold, by the oracle: (open keys, code) and point."""
    columns = analyse(query.plan, both.catalog, both.facts).columns
    points = points_of(query, both.catalog, both.facts)
    unlisted = open_keys(query, both.catalog, both.facts)
    domains = {d.column: d for d in key_domains(query, both.catalog, both.facts)}
    found: Counter = Counter()
    for _, row in naive.naive_rows(query.plan, both.oracle):
        if row[query.column] is None:
            continue
        code = 0
        for key, domain in domains.items():
            at = domain.size if row[key] is None else _grid(row[key], columns[key]) - domain.first
            assert 0 <= at < domain.codes
            code = code * domain.codes + at
        place = (_grid(row[query.column], columns[query.column]) - points.low) // points.step
        found[tuple(None if row[k] is None else str(row[k]) for k in unlisted), code, place] += 1
    return found


def _grid(value, domain) -> int:
    if domain.kind == "category":
        return domain.labels.index(str(value))
    value = hospital.plain(value)
    if isinstance(value, tuple):
        return value[1]
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    at = F(value) / domain.step
    assert at.denominator == 1
    return int(at)


def engine_histogram(both, query) -> Counter:
    found: Counter = Counter()
    for labels, by_code in both.measurer.measure(query, both.sample_key).items():
        for code, (places, counts) in by_code.items():
            assert np.all(np.diff(places) > 0)
            for place, count in zip(places.tolist(), counts.tolist(), strict=True):
                found[labels, code, place] += count
    return found


def both_ways(both, query) -> None:
    """Counted in an array, and by the engine's groups: as the oracle says."""
    wanted = histogram(both, query)
    assert engine_histogram(both, query) == wanted, query
    most = cells.MOST_SPOTS
    cells.MOST_SPOTS = 0
    try:
        again = replace(query)  # not the one that may be compiled already
        assert engine_histogram(both, again) == wanted, query
    finally:
        cells.MOST_SPOTS = most


def open_cells(both, query) -> dict:
    """Cells of unlisted keys by the oracle, as the measurer gives them."""
    columns = analyse(query.plan, both.catalog, both.facts).columns
    unlisted = open_keys(query, both.catalog, both.facts)
    domains = {d.column: d for d in key_domains(query, both.catalog, both.facts)}
    steps = [columns[one.column].step if isinstance(one, a.Sum) else F(1) for one in query.columns]
    found: dict = {}
    for key, values in naive.grouped(query, both.oracle).items():
        row, code = dict(zip(query.keys, key, strict=True)), 0
        for name, domain in domains.items():
            at = domain.size if row[name] is None else _grid(row[name], columns[name]) - domain.first
            code = code * domain.codes + at
        mine = found.setdefault(tuple(row[name] for name in unlisted), {})
        mine[code] = tuple(int(value / step) for value, step in zip(values, steps, strict=True))
    return found


def owners_of_keys(both, query: a.Keys) -> dict:
    found: dict = {}
    for owner, row in naive.naive_rows(query.plan, both.oracle):
        found.setdefault(tuple(row[key] for key in query.keys), set()).add(owner)
    return {key: len(owners) for key, owners in found.items()}
