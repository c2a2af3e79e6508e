"""Recipes written by hand over the tests' clinic, and a registered clinic to ask them of; no SQL is
involved."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction as F
from pathlib import Path
from typing import Any

from dither import steward
from dither.plan.algebra import Cells, Count, CountValues, Plan, Quantiles, Scan, Sum
from dither.plan.domain import declared_domain
from dither.plan.facts import NO_FACTS
from dither.privacy.kernel.kernel import Kernel
from dither.question.expressions import Apply, Constant, Formula, KeyValue, Noisy
from dither.question.recipe import Atom, GroupingSet, KeyColumn, Output, Recipe
from tests.datasets import clinic

VISITS = Scan("visits")


def apply(name: str, *arguments: Formula) -> Apply:
    return Apply(name, arguments)


def number(value: Any) -> Constant:
    return Constant(F(value))


def key(name: str) -> KeyColumn:
    table = clinic.catalog().table("visits")
    return KeyColumn(name, declared_domain(table.column(name), table, NO_FACTS))


COUNT, TOTAL, VALUES = Noisy(0), Noisy(1), Noisy(2)


def by_ward(
    *outputs: Output, plan: Plan = VISITS, keys: tuple[str, ...] = ("ward",), **more: Any
) -> Recipe:
    """COUNT(*), SUM(cost) and COUNT(cost) by keys; outputs are formulas over these three."""
    queries = tuple(
        Cells(plan, keys, (each,)) for each in (Count(), Sum("cost"), CountValues("cost"))
    )
    atoms = (
        Atom("COUNT(*)", limits=("at most 3 rows per person",)),
        Atom(
            "SUM(cost)",
            F(1, 100),
            display="number",
            limits=("at most 3 rows per person", "cost clamped to [-10, 500]"),
        ),
        Atom("COUNT(cost)", importance=F(500)),
    )
    places = tuple((i, 0) for i in range(len(queries)))
    sets = (GroupingSet(tuple(range(len(keys))), None, places),)
    shown = tuple(Output(name, KeyValue(i), "key") for i, name in enumerate(keys))
    columns = outputs or (Output("n", COUNT, "value"), Output("cost", TOTAL, "value"))
    return Recipe(
        "by hand", queries, tuple(map(key, keys)), atoms, sets, (*shown, *columns), **more
    )


def in_one_query(recipe: Recipe) -> Recipe:
    """The same numbers as columns of one query, the way that a question is bound."""
    columns = tuple(column for query in recipe.queries for column in query.columns)
    places = tuple((0, index) for index in range(len(columns)))
    sets = tuple(replace(grouping, positions=places) for grouping in recipe.sets)
    return replace(recipe, queries=(replace(recipe.queries[0], columns=columns),), sets=sets)


def rollup(plan: Plan = VISITS) -> Recipe:
    """COUNT(*) and SUM(cost) by ward and urgency, by ward, and in all."""
    levels = (("ward", "urgent"), ("ward",), ())
    queries = tuple(
        Cells(plan, keys, (each,)) for keys in levels for each in (Count(), Sum("cost"))
    )
    sets = tuple(
        GroupingSet(tuple(range(len(keys))), None, ((2 * i, 0), (2 * i + 1, 0)))
        for i, keys in enumerate(levels)
    )
    outputs = (
        Output("ward", KeyValue(0), "key"),
        Output("urgent", KeyValue(1), "key"),
        Output("n", COUNT, "value"),
        Output("cost", TOTAL, "value"),
        Output("mean", apply("divide", TOTAL, COUNT), "value", "AVG(cost)"),
    )
    atoms = (Atom("COUNT(*)"), Atom("SUM(cost)", F(1, 100), display="number"))
    return Recipe("by hand", queries, (key("ward"), key("urgent")), atoms, sets, outputs)


def median(*shares: F, counted: bool = True) -> Recipe:
    """Quantiles of age, with the count beside them."""
    queries = (
        Quantiles(VISITS, (), "age", shares),
        *((Cells(VISITS, (), (Count(),)),) if counted else ()),
    )
    atoms = tuple(Atom(f"QUANTILE(age, {share})") for share in shares) + (
        (Atom("COUNT(*)"),) if counted else ()
    )
    places = tuple((0, i) for i in range(len(shares))) + (((1, 0),) if counted else ())
    outputs = tuple(Output(f"q{i}", Noisy(i), "value") for i in range(len(shares)))
    return Recipe("by hand", queries, (), atoms, (GroupingSet((), None, places),), outputs)


@contextmanager
def kernel(folder: Path, rows: list[clinic.Raw], **terms: Any) -> Any:
    """A registered clinic's kernel, with a pot called total."""
    _, place = clinic.register(folder, rows)
    terms = {"epsilon": "1000", "ceiling": "1000", **terms}
    steward.open_pot(place, clinic.catalog(), "total", purpose=clinic.PURPOSE, **terms)
    found = Kernel(place)
    try:
        yield found
    finally:
        found.ledger.close()
