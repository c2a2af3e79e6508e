"""Random queries on neighbouring small databases: how far they move, against what is claimed."""

from __future__ import annotations

import random
from fractions import Fraction as F

from dither.audit.naive_plans import NaiveDatabase, grouped
from dither.errors import RefusedError
from dither.plan import algebra as a
from dither.plan.algebra import Column, Named, Plan, Scan
from dither.plan.analyse import Analysed, analyse
from dither.plan.sensitivity import box_in, sensitivity_in, unit_box_in
from tests.plan.small_databases import (
    VALUES,
    SmallDatabase,
    draw_condition,
    draw_database,
    draw_plan,
)


def draw_rows_of_groups(draws: random.Random, database: SmallDatabase, depth: int) -> Plan:
    """A plan in which rows may lose their owner: groups of everybody's rows, filters, averages."""
    plan = draw_plan(draws, database, draws.choice([0, 0, 1, 2]))
    for level in range(depth):
        try:
            columns = list(analyse(plan, database.catalog, database.facts).columns)
        except RefusedError:
            return plan
        plan = draw_step(draws, plan, columns, level)
    return plan


def draw_step(draws: random.Random, plan: Plan, columns: list[str], level: int) -> Plan:
    """One more operator over rows that may have an owner or none."""
    keys = tuple(draws.sample(columns, draws.randint(1, min(2, len(columns)))))
    column = draws.choice(columns)
    named = (
        Named(f"n{level}g", a.Count()),
        Named(f"s{level}g", a.Sum(column)),
        Named(f"v{level}g", a.CountValues(column)),
        Named(f"d{level}g", a.CountDistinct(column)),
    )
    match draws.randrange(7):
        case 0:
            return a.Filter(plan, draw_condition(draws, columns))
        case 1 | 6:
            return a.Group(plan, keys, named)
        case 2:
            return a.PerUnit(plan, keys if draws.random() < 0.6 else (), named)
        case 3:
            return a.Distinct(plan, False)
        case _:
            return draw_values(draws, plan, columns, level)


def draw_values(draws: random.Random, plan: Plan, columns: list[str], level: int) -> Plan:
    """All columns, and a value that is computed: a choice, a quotient, a cut, a difference."""
    first = Column(draws.choice(columns))
    second = Column(draws.choice(columns))
    two = a.Value("number", F(draws.randrange(VALUES)))
    test = a.Call(draws.choice(["lt", "ge", "eq", "le"]), (first, draws.choice([two, second])))
    both = a.Call(
        draws.choice(["and", "or"]), (test, a.Call("not", (a.Call("gt", (second, two)),)))
    )
    value = draws.choice(
        [
            a.Call("case", (test, first)),
            a.Call("case", (both, a.Call("subtract", (first, second)), two)),
            a.Call("case", (a.Call("in", (first, two, a.Value("number", F(1)))), first, second)),
            a.Call("divide", (first, second)),
            a.Call("least", (first, two)),
            a.Call("least", (first, a.Value("number", two.value + F(1, 2)))),
            *([a.Call("divide", pair) for pair in pair_aggregates(columns)] * 3),
            a.Call(
                "case", (a.Call("between", (first, two, second)), a.Call("add", (first, first)))
            ),
        ]
    )
    kept = tuple(Named(name, Column(name)) for name in columns if draws.random() < 0.8)
    return a.Project(plan, (*kept, Named(f"x{level}v", value)))


def pair_aggregates(columns: list[str]) -> list[tuple[Column, Column]]:
    """The quotients of a sum and a count of the same groups."""
    return [
        (Column(total), Column(count))
        for total in columns
        for count in columns
        if total[1:] == count[1:] and total[0] in "sv" and count[0] in "nv" and total != count
    ]


def draw_chain(draws: random.Random, database: SmallDatabase) -> a.Cells:
    """A query of a common shape: rows of a table, perhaps grouped, chosen, computed and summed."""
    table = draws.choice([table for table in database.tables if not table.is_public])
    column = draws.choice(table.columns)
    plan: Plan = Scan(table.name)
    columns = list(table.columns)
    if draws.random() < 0.7:
        group = draws.choice([a.Group, a.Group, a.PerUnit])
        named = (
            Named("n", a.Count()),
            Named("s", a.Sum(column)),
            Named("v", a.CountValues(column)),
        )
        key = draws.choice(columns)
        plan = group(plan, (key,), named)
        columns = [key, "n", "s", "v"]
        if group is a.PerUnit and draws.random() < 0.4:
            plan = draw_total(draws, plan, (key,), draws.choice("nsv"))
    if draws.random() < 0.5:
        plan = a.Filter(plan, draw_condition(draws, columns))
    value = draws.choice(columns)
    if draws.random() < 0.6:
        plan = draw_values(draws, plan, columns, 0)
        value = plan.columns[-1].name
        columns = [named.name for named in plan.columns]
    aggregate = draws.choice([a.Sum(value), a.Sum(value), a.Count()])
    return a.Cells(plan, draws.choice([(), (draws.choice(columns),)]), (aggregate,))


def draw_total(draws: random.Random, plan: a.PerUnit, keys: tuple[str, ...], column: str) -> Plan:
    """What one unit has of a column, limited; perhaps of a column with negative values too."""
    if draws.random() < 0.4:
        lowered = a.Call("subtract", (Column(column), a.Value("number", F(2))))
        names = [*plan.keys, *(named.name for named in plan.columns)]
        kept = tuple(Named(name, Column(name)) for name in names if name != column)
        source = a.Project(plan, (*kept, Named(column, lowered)))
        return a.LimitTotal(source, keys, column, F(draws.choice([1, 2, 3, 5])))
    return a.LimitTotal(plan, keys, column, F(draws.choice([1, 2, 3, 5])))


def draw_query(draws: random.Random, plan: Plan, columns: list[str]) -> a.Cells:
    """Counts and sums of a plan by random keys."""
    column = draws.choice([*columns, *columns[-2:] * 2])
    aggregates: list[a.Aggregate] = [a.Count(), a.CountUnits(), a.Sum(column)]
    aggregates += [a.CountValues(column), a.CountDistinct(column)]
    chosen = tuple(draws.sample([*aggregates, a.Sum(column)], draws.choice([1, 1, 2])))
    keys = draws.choice([(), (draws.choice(columns),)])
    return a.Cells(plan, keys, tuple(dict.fromkeys(chosen)))


def measure_change(
    query: a.Cells, analysed: Analysed, one: NaiveDatabase, two: NaiveDatabase
) -> list[list[F]]:
    """How far each number of each cell moves, in steps of its grid."""
    steps = [
        analysed.columns[number.column].step if isinstance(number, a.Sum) else F(1)
        for number in query.columns
    ]
    first = grouped(query, one)
    second = grouped(query, two)
    nothing = [F(0)] * len(query.columns)
    return [
        [
            (before - after) / step
            for before, after, step in zip(
                first.get(key, nothing), second.get(key, nothing), steps, strict=True
            )
        ]
        for key in {**first, **second}
    ]


def find_excess(query: a.Cells, analysed: Analysed, neighbours: str, change: list[list[F]]) -> str:
    """Which norm of a change is above what is claimed; nothing where none is."""
    claim = sensitivity_in(query, analysed, neighbours)
    moved = [abs(number) for cell in change for number in cell]
    sizes = {
        "l0": (sum(number > 0 for number in moved), claim.l0),
        "l1": (sum(moved), claim.l1),
        "l2": (sum(number * number for number in moved), claim.l2_squared),
        "linf": (max(moved, default=F(0)), claim.linf),
    }
    for name, find_box in (("box", box_in), ("unit box", unit_box_in)):
        box = find_box(query, analysed, neighbours)
        boxes = (max(abs(n) / s for n, s in zip(cell, box.sides, strict=True)) for cell in change)
        sizes[name] = (sum(boxes, F(0)), box.rows)
    return "; ".join(
        f"{name} {size} > {most}" for name, (size, most) in sizes.items() if size > most
    )


def search_excess(seed: int, schemas: int, plans: int = 40) -> str | None:
    """The first query whose change between neighbours is larger than claimed; None without one."""
    draws = random.Random(seed)
    for _ in range(schemas):
        neighbours = draws.choice(["add_remove", "replace"])
        small = draw_database(
            draws, draws.choice([1, 2]), public=draws.choice([0, 1]), neighbours=neighbours
        )
        pairs = [draw_neighbours(draws, small, neighbours) for _ in range(4)]
        for _ in range(plans):
            try:
                if draws.random() < 0.7:
                    query = draw_chain(draws, small)
                else:
                    plan = draw_rows_of_groups(draws, small, draws.choice([1, 2, 3]))
                    names = list(analyse(plan, small.catalog, small.facts).columns)
                    query = draw_query(draws, plan, names)
                analysed = analyse(query.plan, small.catalog, small.facts)
                sensitivity_in(query, analysed, neighbours)
            except RefusedError:
                continue
            if analysed.node.rows > 100:
                continue
            for one, two in pairs:
                change = measure_change(query, analysed, one, two)
                if excess := find_excess(query, analysed, neighbours, change):
                    return f"{neighbours}: {excess}: {query}"
    return None


def draw_public_join(draws: random.Random, small: SmallDatabase) -> a.Cells:
    """Rows of a person beside public rows that a filter leaves, counted or summed."""
    private, public = small.tables
    names = list(public.columns)
    right: Plan = Scan(public.name)
    for _ in range(draws.choice([0, 1, 1, 2])):
        right = a.Filter(right, draw_condition(draws, names))
    if draws.random() < 0.5:
        names = [f"{name}x" for name in names]
        right = a.Project(
            right, tuple(Named(name, Column(name.removesuffix("x"))) for name in names)
        )
    if draws.random() < 0.3:
        right = a.Filter(right, draw_condition(draws, names))
    on = ((draws.choice(private.columns), draws.choice(names)),)
    plan = a.Join(Scan(private.name), right, on, draws.choice(["inner", "inner", "left"]))
    aggregate = draws.choice([a.Count(), a.Sum(draws.choice(names)), a.Sum(draws.choice(names))])
    return a.Cells(plan, draws.choice([(), (draws.choice(names),)]), (aggregate,))


def search_public_excess(seed: int, schemas: int, plans: int = 12) -> tuple[str | None, int]:
    """The first join with public rows that moves further than claimed, and how many were
    compared."""
    draws = random.Random(seed)
    compared = 0
    for _ in range(schemas):
        neighbours = draws.choice(["add_remove", "replace"])
        small = draw_database(draws, 1, public=1, neighbours=neighbours)
        pairs = [draw_neighbours(draws, small, neighbours) for _ in range(3)]
        for _ in range(plans):
            query = draw_public_join(draws, small)
            analysed = analyse(query.plan, small.catalog, small.facts)
            for one, two in pairs:
                compared += 1
                change = measure_change(query, analysed, one, two)
                if excess := find_excess(query, analysed, neighbours, change):
                    return f"{neighbours}: {excess}: {query}", compared
    return None, compared


def draw_neighbours(
    draws: random.Random, small: SmallDatabase, neighbours: str
) -> tuple[NaiveDatabase, NaiveDatabase]:
    """Two databases that differ in the rows of one unit; under replace it has rows in both."""
    around = [small.with_unit(draws, f"v{number}") for number in range(draws.choice([0, 1, 2, 3]))]
    victims = [small.with_unit(draws, "u")]
    if neighbours == "replace":
        victims.append(small.with_unit(draws, "u"))
    return merge_units(small, [*around, victims[0]]), merge_units(small, [*around, *victims[1:]])


def merge_units(small: SmallDatabase, units: list[NaiveDatabase]) -> NaiveDatabase:
    """One database with the rows of all units."""
    tables = {
        table.name: [row for unit in units for row in unit.tables[table.name]]
        for table in small.tables
        if not table.is_public
    }
    return NaiveDatabase(small.catalog, {**tables, **small.public}, {}, b"")
