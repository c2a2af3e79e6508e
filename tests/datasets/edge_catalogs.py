"""Catalogs whose columns end where engine types end, and rows for them with every kind of bad
value."""

from __future__ import annotations

import datetime
from random import Random

from dither.catalog import parse
from tests.datasets import hospital

INTEGERS = {
    "t126": (0, 126), "t127": (-128, 127), "t128": (-129, 126), "s": (-32768, 32766),
    "s2": (0, 32767),
    "i": (-(2**31), 2**31 - 2), "i1": (0, 2**31 - 1), "i2": (-5, 2**31),
    "b": (1 - 2**63, 2**63 - 2),
    "b1": (0, 2**63 - 1), "b2": (-(2**62), 2**62 - 1), "b3": (2**62 - 1, 2**62),
    "b4": (1 - 2**62, 2**62 - 1),
    "one": (7, 7), "neg": (-7, -7), "zero": (0, 0), "n1": (-1, -1), "k8": (0, 8), "m3": (-3, 3),
    "up": (1, 5),
    "down": (-5, -1), "u1": (0, 1), "t": (-128, 126),
    "l": (0, 3), "r": (-1, 2), "code": (0, 5), "place": (0, 126),
    "e1": (124, 127), "e2": (126, 128), "e3": (-130, -127),
}  # fmt: skip
DECIMALS = {
    "d": (-10, 500, "0.01"),
    "dh": (-9 * 10**13, 9 * 10**13, "0.0001"),
    "d5": (0, 1000, "5"),
    "d1": (1, 1, "1"),
}
DATES = {
    "day": ("0001-01-01", "9999-12-31"),
    "day1": ("2024-02-29", "2024-02-29"),
    "dy": ("2023-12-30", "2024-03-01"),
}
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
        return random.choice(
            ["keep", "keep", "drop", some[0]]
            if table == "two"
            else ["keep", "keep", "keep", "drop"]
        )

    for name, (low, high) in INTEGERS.items():
        low, high = NARROWER.get(name, (low, high)) if table == "two" else (low, high)
        rule = (
            "keep"
            if table == "one" and name in ("t127", "b", "u1")
            else nulls([f"{{value: {low}}}"])
        )
        lines.append(
            f"{name}: {{type: integer, bounds: [{low}, {high}], nulls: {rule}, provenance: x}}"
        )
    for name, (low, high, step) in DECIMALS.items():
        ends = f"bounds: [{low}, {high}], resolution: {step}"
        lines.append(f"{name}: {{type: decimal, {ends}, nulls: {nulls(['keep'])}, provenance: x}}")
    for name, (low, high) in DATES.items():
        rule = "drop" if (name, unit) == ("dy", "window") else nulls(["keep"])
        lines.append(
            f"{name}: {{type: date, bounds: [{low}, {high}], nulls: {rule}, provenance: x}}"
        )
    for name, (low, high, zone) in TIMES.items():
        ends = f'bounds: ["{low}", "{high}"], zone: "{zone}"'
        lines.append(
            f"{name}: {{type: timestamp, {ends}, nulls: {nulls(['keep'])}, provenance: x}}"
        )
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
        tables += (
            f"  {table}:\n    kind: private\n    from: {table}.csv\n{owner}    unique: {unique}\n"
        )
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
        return random.choice(
            ["v0", f"v{min(1, last)}", f"v{last}", "elsewhere" if column.other == "keep" else "v0"]
        )
    if name == "u":
        return random.choice(["true", "false"])
    if name == "lab":
        return random.choice(["a", "b", "c", ""])
    if name == "note":
        return random.choice(["a", " b", "-7", "9999", "12", "é", "%"])
    low, high = column.lower_grid, column.upper_grid
    at = random.choice(
        [low, low, low + 1, high - 1, high, high, 0, 1, -1, 127, random.randint(low, high)]
    )
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
    """Rows of a person: independent ones, or copies of one row with a few cells changed, which meet
    and group."""
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
    return {
        "pub": public,
        **{t: [row for each in people for row in each[t]] for t in ("one", "two")},
    }
