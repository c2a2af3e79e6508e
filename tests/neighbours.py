"""Checks on neighbouring databases: the engine against the oracle, and both against what the plan
claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction as F
from itertools import combinations, product

from dither.audit import naive
from dither.plan import algebra as a
from dither.plan.algebra import Cells
from dither.plan.analyse import analyse
from dither.plan.facts import NO_FACTS
from dither.plan.of_catalog import box, key_domains, largest_value, sensitivity, unit_box
from dither.plan.stability import Loose, Owned
from tests.datasets import hospital


def measured(both: hospital.Registered, query: Cells):
    """Cells of the engine, which must be the oracle's; every key of the oracle must be a declared
    one."""
    cells = both.measurer.measure(query, both.sample_key)
    columns = analyse(query.plan, both.catalog, both.facts).columns
    steps = [columns[one.column].step if isinstance(one, a.Sum) else F(1) for one in query.columns]
    values = []
    for domain in key_domains(query, both.catalog, both.facts):
        known = replace(columns[domain.column], nullable=False)
        found = [hospital.natural(known, domain.first + code) for code in range(domain.size)]
        values.append([*found, None] if domain.has_null else found)
    expected = {
        tuple(map(hospital.plain, key)): cell
        for key, cell in naive.grouped(query, both.oracle).items()
    }
    for place, key in enumerate(product(*values)):
        wanted = expected.pop(key, [F(0)] * len(query.columns))
        assert [
            int(cell) * step for cell, step in zip(cells[place], steps, strict=True)
        ] == wanted, (query, key)
    assert not expected, "a key that was not declared"
    for place, one in enumerate(query.columns):
        assert max(abs(int(cell)) for cell in cells[:, place]) <= largest_value(
            one, query, both.catalog, both.facts
        )
    return cells


def check_claim(query: Cells, one, two, catalog, facts=NO_FACTS) -> None:
    """No norm of the measured change exceeds the claimed sensitivity."""
    moved = [abs(int(change)) for change in (one - two).ravel()]
    claim = sensitivity(query, catalog, facts)
    assert sum(moved) <= claim.l1, (query, moved, claim)
    assert sum(change > 0 for change in moved) <= claim.l0, (query, moved, claim)
    assert max(moved) <= claim.linf, (query, moved, claim)
    assert sum(change * change for change in moved) <= claim.l2_squared, (query, moved, claim)
    for claimed in (box(query, catalog, facts), unit_box(query, catalog, facts)):
        assert in_boxes(one - two, claimed.sides) <= claimed.rows, (query, moved, claimed)


@dataclass(frozen=True)
class Sizes:
    """Registered rows: all, all but those of the first person and the visits, and none."""

    many: hospital.Registered
    fewer: hospital.Registered
    none: hospital.Registered


SALARIES = (0, 7, 299_999, 300_000, 150_000)
PEOPLE = [hospital.patient(f"p{i}", salary=str(salary)) for i, salary in enumerate(SALARIES)]
VISITS = [
    hospital.visit("a", "p1", cost=None),
    hospital.visit("b", "p1", cost="499.99"),
    hospital.visit("c", "p2"),
]


@contextmanager
def register_sizes() -> Iterator[Sizes]:
    """PEOPLE and VISITS, registered at three sizes."""
    with (
        hospital.registered(hospital.raws(PEOPLE, VISITS)) as many,
        hospital.registered(hospital.raws(PEOPLE[1:], [])) as fewer,
        hospital.registered(hospital.raws()) as none,
    ):
        yield Sizes(many, fewer, none)


def check_query(query: Cells, sizes: Sizes) -> None:
    """Engine and oracle agree at each size, and what the first person moves is within the claim."""
    many = measured(sizes.many, query)
    check_claim(query, many, measured(sizes.fewer, query), sizes.fewer.catalog)
    assert not measured(sizes.none, query).any()


def in_boxes(change, sides: tuple[int, ...]) -> F:
    """How far all cells moved together, in boxes of these sides."""
    return sum(
        (
            max(F(abs(int(one)), side) for one, side in zip(cell, sides, strict=True))
            for cell in change
        ),
        F(0),
    )


def check_rows(
    plan, without: Counter, within: Counter, at: hospital.Registered, victim: str | None = None
) -> None:
    """Stability as claimed: owners other than the victim do not move, and the victim has no more
    than its rows. The victim is called as rows call it; without one, it is the id `victim`."""
    victim = at.name_owner("victim") if victim is None else victim
    found = analyse(plan, at.catalog, at.facts)
    node, names = found.node, list(found.columns)
    assert sum(within.values()) <= node.most
    moved = (within - without) + (without - within)
    if isinstance(node, Loose):
        assert sum(moved.values()) <= node.rows, plan
        return
    assert all(owner == victim for owner, _ in moved), plan
    mine = Counter({values: count for (owner, values), count in within.items() if owner == victim})
    assert sum(mine.values()) <= node.rows, plan
    assert len(mine) <= node.distinct, plan
    for size in range(3):
        for keys in combinations(names, size):
            check_groups(node, keys, names, mine)
    for grouped in node.grouped:
        groups = count_groups(sorted(grouped.keys), names, mine)
        assert len(groups) <= grouped.groups, plan
        assert max(groups.values(), default=0) <= grouped.rows, plan


def check_groups(node: Owned, keys: tuple[str, ...], names: list[str], mine: Counter) -> None:
    """The rows of one unit have no more values of the keys, and no more rows with one value, than
    claimed."""
    groups = count_groups(keys, names, mine)
    assert len(groups) <= node.groups(keys), keys
    assert max(groups.values(), default=0) <= node.rows_per_group(keys), keys


def count_groups(keys: Iterable[str], names: list[str], mine: Counter) -> Counter:
    """How many rows have each value of the keys."""
    positions = [names.index(key) for key in keys]
    groups: Counter = Counter()
    for values, count in mine.items():
        groups[tuple(values[position] for position in positions)] += count
    return groups
