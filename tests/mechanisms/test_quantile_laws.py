"""The exact loss of quantiles, ends and joint quantiles over all neighbours of tiny databases,
through real plans.

Every database of at most two other people and every set of rows of one person; the law of what
leaves is read off the code by following each of its random branches (exact_law.py), and its
log-ratios and Renyi divergences are held against what the kernel charges. Larger runs of the same
search found no loss above its charge.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from fractions import Fraction as F

import pytest

from dither.audit import naive
from dither.catalog import parse
from dither.plan.algebra import (
    Column,
    Distinct,
    Group,
    LimitGroups,
    Maximum,
    Named,
    PerUnit,
    Project,
    Quantiles,
    Scan,
    UnionAll,
)
from dither.plan.analyse import analyse
from dither.privacy.charges.rules import Rule, charge
from dither.privacy.kernel.calibrate import loss_of
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.mechanisms import quantile_families
from tests.case_lists import mark_between
from tests.datasets.one_table import write_catalog
from tests.kernel.calibrating import calibrate
from tests.mechanisms.exact_law import ratios

COLUMNS = {
    "g": "{type: category, values: [a, b], other: drop, nulls: drop}",
    "x": "{type: integer, bounds: [0, 2], nulls: drop, provenance: form}",
}
V = Scan("v")
MOST = Named("x", Maximum("x"))
BOTH = Project(V, (Named("g", Column("g")), Named("x", Column("x"))))
ORDERS = (1.001, 2.0, 8.0, 64.0)
KINDS = list(itertools.product("ab", range(3)))
ZCDP = Rule("zcdp", delta_conversion=F(1, 10**6))
KEY = bytes(range(32))
ASKED = {
    "median": [Quantiles(V, ("g",), "x", (F(1, 2),))],
    "with ends": [Quantiles(V, ("g",), "x", (F(9, 10),), (F(1, 2), F(1, 8)))],
    "joint": [Quantiles(V, ("g",), "x", (F(1, 10), F(1, 2), F(3, 4)))],
    "rollup": [
        Quantiles(V, ("g",), "x", (F(1, 2),)),
        Quantiles(V, (), "x", (F(1, 3),), (F(1, 2), F(1, 8))),
    ],
    "one group each": [
        Quantiles(LimitGroups(V, ("g",), 1), ("g",), "x", (F(1, 3),), (F(1, 2), F(9, 10)))
    ],
    "one row in each group": [Quantiles(PerUnit(V, ("g",), (MOST,)), ("g",), "x", (F(1, 3),))],
    "nobody's rows": [Quantiles(Group(V, ("g",), (MOST,)), ("g",), "x", (F(1, 3),))],
    "different rows": [Quantiles(Distinct(BOTH, False), ("g",), "x", (F(1, 3),))],
    "rows twice": [Quantiles(UnionAll(V, V), ("g",), "x", (F(1, 2),))],
}


def rows_of(most: int, kinds=KINDS):
    return [
        each for n in range(most + 1) for each in itertools.combinations_with_replacement(kinds, n)
    ]


def registered(catalog, others, mine):
    rows = [{"person": f"o{i}", "g": g, "x": str(x)} for i, (g, x) in enumerate(others)]
    rows += [{"person": "victim", "g": g, "x": str(x)} for g, x in mine]
    return naive.with_sample(naive.register({"v": rows}, catalog, KEY), bytes(32))


def histograms(query, database):
    domain = analyse(query.plan, database.catalog).columns[query.column]
    found = defaultdict(lambda: [0] * (domain.high - domain.low + 1))
    for _, row in naive.naive_rows(query.plan, database):
        if row[query.column] is not None:
            found[tuple(str(row[key]) for key in query.keys)][
                int(row[query.column]) - domain.low
            ] += 1
    return found


def worst(steps, pairs):
    """(largest |log-ratio|, largest D_a / a) of everything that leaves, over pairs of databases."""
    epsilon = rho = 0.0
    known = {}

    def seen(place, database):
        if (place, id(database)) not in known:
            known[place, id(database)] = histograms(steps[place].step.query, database)
        return known[place, id(database)]

    for one, two in pairs:
        high, low, renyi = 0.0, 0.0, [0.0] * len(ORDERS)
        for place, each in enumerate(steps):
            first, second = seen(place, one), seen(place, two)
            for cell in {*first, *second}:
                counts = [
                    tuple(side.get(cell) or [0] * each.points.count) for side in (first, second)
                ]
                if counts[0] != counts[1]:
                    top, bottom, spread = ratios(each.mechanism, *counts, ORDERS)
                    high, low = high + top, low + bottom
                    renyi = [a + b for a, b in zip(renyi, spread, strict=True)]
        epsilon = max(epsilon, high, -low)
        rho = max(rho, *(d / a for d, a in zip(renyi, ORDERS, strict=True)))
    return epsilon, rho


def neighbours_of(catalog):
    """Both orders of all pairs; few of them under replace, where they are many."""
    for others in rows_of(2, KINDS[::2])[:: 1 if catalog.neighbours == "add_remove" else 4]:
        victims = [registered(catalog, others, mine) for mine in rows_of(2)]
        if catalog.neighbours == "add_remove":
            yield from (
                (one, two)
                for each in victims
                for one, two in ((victims[0], each), (each, victims[0]))
            )
        else:
            yield from itertools.permutations(victims[::3], 2)


def searched(name, neighbours, price, family="exponential"):
    text = write_catalog(COLUMNS, name="v", owner="person", neighbours=neighbours, rows_per_unit=2)
    catalog = parse(text)
    steps = calibrate(
        Request(tuple(Step(q, family, F(1)) for q in ASKED[name]), price, "total"), catalog
    )
    return steps, *worst(steps, list(neighbours_of(catalog)))


@pytest.mark.parametrize("price", [Price(F(1)), Price(None, F(1, 10))], ids=["epsilon", "rho"])
@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize("name", mark_between(ASKED, step=3))
def test_no_neighbours_are_told_apart_better_than_was_charged(name, neighbours, price):
    steps, epsilon, rho = searched(name, neighbours, price)
    loss = loss_of(steps)
    charged = charge(loss, Rule("pure")).amount, charge(loss, ZCDP).amount
    assert charged[0 if price.rho is None else 1] <= price.value
    assert 0 < epsilon <= charged[0] + 1e-9 and 0 < rho <= charged[1] + 1e-9


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
@pytest.mark.parametrize(
    "name", ["one row in each group", pytest.param("joint", marks=pytest.mark.all)]
)
def test_rhos_of_groups_add_up_by_the_squares_of_their_rows(name, neighbours):
    steps, _, rho = searched(name, neighbours, Price(None, F(1, 10)), "exponential_by_rows")
    charged = charge(loss_of(steps), ZCDP).amount
    assert charged <= F(1, 10) and 0 < rho <= charged + 1e-9


def test_the_search_finds_a_scale_for_the_rows_of_one_cell(monkeypatch):
    """The planted mistake: all cells together are one range, with the scale of one row."""
    monkeypatch.setattr(quantile_families, "choose_ranges", lambda reach, measure: (1, 1))
    steps, epsilon, rho = searched("rows twice", "add_remove", Price(F(1)))
    loss = loss_of(steps)
    assert epsilon > charge(loss, Rule("pure")).amount and rho > charge(loss, ZCDP).amount
