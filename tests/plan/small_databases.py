"""Random small databases of one unit, and random plans over them: claims against brute force.

Tables have two or three integer columns of few values, with nulls, and random unique keys. The rows
of the unit are drawn so that they meet what registration enforces: unique keys (null is a value),
and the limit of rows. The naive evaluator gives the rows of a plan; a claim that they exceed is a
defect of the rules.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction as F
from itertools import combinations

from dither.audit.naive_plans import NaiveDatabase, rows
from dither.catalog import Catalog, parse
from dither.errors import RefusedError
from dither.plan import algebra as a
from dither.plan.algebra import Column, Named, Plan, Scan
from dither.plan.analyse import Analysed, analyse, analyse_node
from dither.plan.facts import Facts
from dither.plan.stability import Owned

HEAD = """\
dither: 1
dataset: small
lineage: small
population: small
neighbours: NEIGHBOURS
unit: {kind: person}
people:
  pid: {protected: true}
source: {engine: csv, location: .}
tables:
"""
VALUES = 3
"""Columns hold 0, 1 and 2, and perhaps null; a third column of a table holds 1, 2 and 3."""


@dataclass(frozen=True)
class SmallTable:
    """A table: its columns, which of them hold nulls, its keys without the owner, and its limit."""

    name: str
    columns: tuple[str, ...]
    nullable: frozenset[str]
    keys: tuple[tuple[str, ...], ...]
    limit: int
    is_public: bool = False

    def write(self) -> str:
        """The table in a catalog's words."""
        lines = [f"  {self.name}:", f"    kind: {'public' if self.is_public else 'private'}"]
        lines.append(f"    from: {self.name}.csv")
        keys = [key if self.is_public else ("pid", *key) for key in self.keys]
        written = ", ".join(f"[{', '.join(key)}]" for key in keys)
        lines.append(f"    unique: [{written}]")
        if not self.is_public:
            lines.append("    owner: {column: pid}")
            lines.append(f"    rows_per_unit: {self.limit}")
            lines.append("    max_rows: 1000")
        lines.append("    columns:")
        if not self.is_public:
            lines.append("      pid: {type: id}")
        for column in self.columns:
            nulls = "keep" if column in self.nullable else "drop"
            low = find_least(column)
            lines.append(
                f"      {column}: {{type: integer, bounds: [{low}, {low + VALUES - 1}], "
                f"nulls: {nulls}, provenance: the test}}"
            )
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class SmallDatabase:
    """A catalog of small tables, and the rows of the public ones."""

    catalog: Catalog
    tables: tuple[SmallTable, ...]
    public: dict[str, list[dict[str, int | None]]]
    facts: Facts

    def with_unit(self, draws: random.Random, owner: str = "u") -> NaiveDatabase:
        """The database with random rows of one unit: as many as the limits allow, or fewer."""
        tables = {
            table.name: [{"owner": owner, **row} for row in draw_rows(table, draws)]
            for table in self.tables
            if not table.is_public
        }
        return NaiveDatabase(self.catalog, {**tables, **self.public}, {}, b"")


def find_least(column: str) -> int:
    """The least value of a column."""
    return 1 if column.endswith("_c") else 0


def draw_rows(table: SmallTable, draws: random.Random) -> list[dict[str, int | None]]:
    """Rows that meet the keys and the limit of a table."""
    spread = draws.choice([1, 2, VALUES])
    kept: list[dict[str, int | None]] = []
    for _ in range(draws.choice([table.limit, 3 * table.limit, 0, 1])):
        row = {
            name: None
            if name in table.nullable and draws.random() < 0.3
            else find_least(name) + draws.randrange(spread)
            for name in table.columns
        }
        repeats = any(
            all(row[name] == earlier[name] for name in key)
            for key in table.keys
            for earlier in kept
        )
        if not repeats and len(kept) < table.limit:
            kept.append(row)
    return kept


def draw_database(
    draws: random.Random, tables: int, *, public: int = 0, neighbours: str = "add_remove"
) -> SmallDatabase:
    """Tables t0, t1, ... and public ones p0, ...; columns have names of their own."""
    drawn = []
    for number in range(tables + public):
        is_public = number >= tables
        name = f"p{number - tables}" if is_public else f"t{number}"
        columns = tuple(f"{name}_{letter}" for letter in "abc"[: draws.choice([2, 3])])
        nullable = frozenset(column for column in columns if draws.random() < 0.4)
        sizes = [0, 1, 1, 2] if not is_public else [1, 2]
        keys = tuple(
            {
                tuple(sorted(draws.sample(columns, draws.choice(sizes)))): None
                for _ in range(draws.choice([0, 1, 1, 2]))
            }
        )
        drawn.append(
            SmallTable(name, columns, nullable, keys, draws.choice([1, 2, 3, 4]), is_public)
        )
    text = HEAD.replace("NEIGHBOURS", neighbours) + "".join(table.write() for table in drawn)
    rows_of = {table.name: draw_rows(table, draws) for table in drawn if table.is_public}
    return SmallDatabase(parse(text), tuple(drawn), rows_of, list_facts(drawn, rows_of))


def list_facts(tables: list[SmallTable], rows_of: dict[str, list[dict[str, int | None]]]) -> Facts:
    """What registration finds in the public tables: keys of one and two columns, and ranges."""
    public = [table for table in tables if table.is_public]
    multiplicities = tuple(
        (table.name, key, count_most(rows_of[table.name], key))
        for table in public
        for size in (1, 2)
        for key in combinations(table.columns, size)
    )
    ranges = []
    for table in public:
        for column in table.columns:
            values = [row[column] for row in rows_of[table.name] if row[column] is not None]
            if values:
                ranges.append((table.name, column, min(values), max(values)))
    return Facts(multiplicities, ranges=tuple(ranges))


def count_most(table_rows: list[dict[str, int | None]], key: tuple[str, ...]) -> int:
    """How often the most frequent value of a key occurs; null meets nothing."""
    values = [tuple(row[column] for column in key) for row in table_rows]
    counted = Counter(value for value in values if None not in value)
    return max(counted.values(), default=0)


def draw_plan(draws: random.Random, database: SmallDatabase, depth: int) -> Plan:
    """A plan of random operators; it may turn out to be refused."""
    private = [table for table in database.tables if not table.is_public]
    if depth == 0:
        return Scan(draws.choice(private).name)
    plan = draw_plan(draws, database, depth - 1)
    try:
        columns = list(analyse(plan, database.catalog, database.facts).columns)
    except RefusedError:
        return plan
    chosen = draws.sample(columns, draws.randint(0, min(2, len(columns))))
    match draws.randrange(9):
        case 0:
            return a.Filter(plan, draw_condition(draws, columns))
        case 1:
            return draw_projection(draws, plan, columns, depth)
        case 2:
            return a.Distinct(plan, True)
        case 3:
            per_unit = a.PerUnit(plan, tuple(chosen), (Named(f"n{depth}", a.Count()),))
            if draws.random() < 0.4:
                return a.LimitTotal(per_unit, tuple(chosen), f"n{depth}", F(draws.choice([1, 3])))
            return per_unit
        case 4 if chosen:
            return a.LimitGroups(plan, tuple(chosen), draws.choice([1, 2]))
        case 5:
            side = a.Project(plan, tuple(Named(name, Column(name)) for name in columns))
            return a.UnionAll(plan, side)
        case _:
            return draw_join(draws, plan, columns, database, depth)


def draw_condition(draws: random.Random, columns: list[str]) -> a.Condition:
    """A comparison, a choice between two, or a test for null."""
    name, second = draws.choice(columns), draws.choice(columns)
    operator = draws.choice(["=", "<>", "<", "<=", ">", ">="])
    compare = a.Compare(name, operator, F(draws.randrange(VALUES)))
    return draws.choice(
        [
            compare,
            a.Not(compare),
            a.Or((compare, a.Compare(second, "=", F(1)))),
            a.And((compare, a.Not(a.IsNull(second)))),
            a.IsNull(second),
            a.Holds(a.Call("eq", (Column(name), Column(second)))),
        ]
    )


def draw_projection(draws: random.Random, plan: Plan, columns: list[str], depth: int) -> Plan:
    """Some columns under other names, and perhaps one that is computed from two."""
    kept = draws.sample(columns, draws.randint(1, len(columns)))
    named = [Named(f"{name}_{depth}", Column(name)) for name in kept]
    if draws.random() < 0.4:
        pair = (Column(draws.choice(columns)), Column(draws.choice(columns)))
        named.append(Named(f"x{depth}", a.Call("add", pair)))
    return a.Project(plan, tuple(named))


def draw_join(
    draws: random.Random, plan: Plan, columns: list[str], database: SmallDatabase, depth: int
) -> Plan:
    """A join with a renamed table, with a public one, or with another random plan."""
    right = (
        Scan(draws.choice(database.tables).name)
        if draws.random() < 0.7
        else draw_plan(draws, database, max(0, depth - 2))
    )
    try:
        other = list(analyse_node(right, database.catalog, database.facts).columns)
    except RefusedError:
        return plan
    if draws.random() < 0.4:
        right = a.Filter(right, draw_condition(draws, other))
    renamed = [f"{name}_r{depth}" for name in other]
    right = a.Project(
        right, tuple(Named(new, Column(old)) for new, old in zip(renamed, other, strict=True))
    )
    size = draws.randint(0, min(2, len(columns), len(renamed)))
    on = tuple(zip(draws.sample(columns, size), draws.sample(renamed, size), strict=True))
    return a.Join(plan, right, on, draws.choice(["inner", "inner", "left"]))


@dataclass(frozen=True)
class Claims:
    """What an analysis claims about the rows of one unit: for some columns the values that they
    can have, and the rows with one value."""

    plan: Plan
    rows: int
    distinct: int
    columns: tuple[str, ...]
    groups: dict[tuple[str, ...], tuple[int, int]]

    @classmethod
    def of(cls, analysed: Analysed, most_columns: int = 2) -> Claims:
        node = analysed.node
        assert isinstance(node, Owned)
        columns = tuple(analysed.columns)
        groups = {
            keys: (node.groups(keys), node.rows_per_group(keys))
            for size in range(min(most_columns, len(columns)) + 1)
            for keys in combinations(columns, size)
        }
        return cls(analysed.plan, min(node.rows, node.most), node.distinct, columns, groups)


def find_violations(claims: Claims, database: NaiveDatabase) -> Iterator[str]:
    """The claims about one unit that its rows exceed."""
    unit_rows = [row for _, row in rows(claims.plan, database)]
    if len(unit_rows) > claims.rows:
        yield f"{len(unit_rows)} rows, {claims.rows} claimed"
    different = {tuple(row[name] for name in claims.columns) for row in unit_rows}
    if len(different) > claims.distinct:
        yield f"{len(different)} different rows, {claims.distinct} claimed"
    for keys, (groups, rows_per_group) in claims.groups.items():
        counted = Counter(tuple(row[name] for name in keys) for row in unit_rows)
        if len(counted) > groups:
            yield f"{len(counted)} values of {keys}, {groups} claimed"
        if max(counted.values(), default=0) > rows_per_group:
            yield f"{max(counted.values())} rows of one {keys}, {rows_per_group} claimed"


def search_violation(seed: int, schemas: int, plans: int = 10, units: int = 5) -> str | None:
    """The first claim that some unit exceeds, in so many random plans; None where there is none."""
    draws = random.Random(seed)
    for _ in range(schemas):
        small = draw_database(draws, draws.choice([1, 2, 3]), public=draws.choice([0, 1]))
        filled = [small.with_unit(draws) for _ in range(units)]
        for _ in range(plans):
            plan = draw_plan(draws, small, draws.choice([1, 2, 3, 4]))
            try:
                analysed = analyse(plan, small.catalog, small.facts)
            except RefusedError:
                continue
            if analysed.node.rows > 100:
                continue
            claims = Claims.of(analysed)
            for database in filled:
                for violation in find_violations(claims, database):
                    return f"{violation}: {plan}"
    return None
