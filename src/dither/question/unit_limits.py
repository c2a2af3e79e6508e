"""Clamp what one unit adds to a sum or a count, and then add up.

`SUM(x)` over many rows of a person needs noise for the most that all of them can add. Where few
people add that much, a smaller clamp errs less. The rows of a unit become one number for each
group (PerUnit), which is clamped; of the groups of a unit at most `max_groups` are kept. Or what a
unit adds to all groups together is clamped (LimitTotal). Every step is an operator of plans, so
that the kernel derives the sensitivity from what runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from fractions import Fraction

from dither.errors import ParameterError
from dither.plan.algebra import (
    Aggregate,
    Call,
    Cells,
    Column,
    Count,
    CountValues,
    LimitGroups,
    LimitTotal,
    Named,
    PerUnit,
    Plan,
    Project,
    Query,
    Sum,
    Value,
)
from dither.plan.analysed_query import Analyses
from dither.question.averages import counts_summands
from dither.question.expressions import Apply, Constant, Formula, Noisy
from dither.question.recipe import Atom, Recipe
from dither.question.shapes import atoms_of

_MIDDLE = re.compile(r" - -?[\d.]+(e[+-]?\d+)?\)$")


@dataclass(frozen=True)
class UnitClamp:
    """What one unit adds to one group of an aggregate lies in [low, high]; more is cut off.

    `size` is what the aggregate was estimated to be in a group when the clamp was bought, if it
    was.
    """

    aggregate: str
    low: Fraction
    high: Fraction
    size: Fraction | None = None


@dataclass(frozen=True)
class UnitLimits:
    """A clamp for every aggregate of a question, in the order of its atoms, and in how many groups
    one unit counts.

    A clamp is for what one unit adds to one group; with `is_total`, to all groups together.
    """

    clamps: tuple[UnitClamp, ...]
    max_groups: int | None = None
    is_total: bool = False


@dataclass(frozen=True)
class PartLimits:
    """Limits of a question that is asked in parts: the name of each part, and its limits, or None
    where it is asked without."""

    parts: tuple[tuple[str, UnitLimits | None], ...]


def can_be_limited(recipe: Recipe) -> bool:
    """Whether a question is made of counts, sums and averages by declared keys, and of ratios.

    Sums beside counts of the same rows are put together from a count and a sum of distances to the
    middle: cutting one of the two off would move the other. So are averages, and there a unit whose
    count is cut off keeps its own average.
    """
    are_sums = all(
        isinstance(query, Cells)
        and all(isinstance(column, (Count, CountValues, Sum)) for column in query.columns)
        for query in recipe.queries
    )
    return are_sums and not any(_adds_numbers(output.formula, recipe) for output in recipe.outputs)


def _adds_numbers(formula: Formula, recipe: Recipe) -> bool:
    """Whether a formula adds released numbers to anything."""
    if not isinstance(formula, Apply) or _read_average(formula, recipe) is not None:
        return False
    is_sum = formula.name in ("add", "subtract") and bool(atoms_of(formula))
    return is_sum or any(_adds_numbers(argument, recipe) for argument in formula.arguments)


def _read_average(formula: Formula, recipe: Recipe) -> tuple[int, int] | None:
    """The atoms of an average, its sum and its count; None for any other formula.

    It is a sum over the count of what was summed, perhaps around a middle.
    """
    match formula:
        case Apply("add", (Constant(), Apply("divide", (Noisy(total), Noisy(count))))):
            atoms = (total, count)
        case Apply("divide", (Noisy(total), Noisy(count))):
            atoms = (total, count)
        case _:
            return None
    return atoms if _are_sum_and_count(recipe, *atoms) else None


def _are_sum_and_count(recipe: Recipe, total: int, count: int) -> bool:
    """Whether an atom counts, in the same query, what another sums."""
    for grouping in recipe.sets:
        (number, summed), (counting, counted) = (grouping.positions[i] for i in (total, count))
        query = recipe.queries[number]
        if number != counting or not isinstance(query, Cells):
            return False
        column = query.columns[summed]
        if not isinstance(column, Sum):
            return False
        if not counts_summands(query, column, query, query.columns[counted]):
            return False
    return True


def find_counters(recipe: Recipe) -> dict[tuple[int, int], int]:
    """Map the (query, column) of every sum in an average to the column that counts its rows."""
    counters: dict[tuple[int, int], int] = {}
    formulas = [output.formula for output in recipe.outputs]
    while formulas:
        formula = formulas.pop()
        average = _read_average(formula, recipe)
        if average is not None:
            for grouping in recipe.sets:
                (query, column), (_, count) = (grouping.positions[atom] for atom in average)
                counters[query, column] = count
        elif isinstance(formula, Apply):
            formulas += formula.arguments
    return counters


def list_unit_rows(query: Cells) -> tuple[PerUnit, int | None]:
    """One row per unit and group with the unit's own numbers, and the limit of groups so far."""
    plan = query.plan
    groups = None
    if isinstance(plan, LimitGroups) and plan.keys == query.keys:
        groups = plan.groups
        plan = plan.source
    names = name_numbers(query)
    columns = tuple(
        Named(name, aggregate) for name, aggregate in zip(names, query.columns, strict=True)
    )
    return PerUnit(plan, query.keys, columns), groups


def name_numbers(query: Cells) -> tuple[str, ...]:
    """Names for the numbers of a unit that no key has."""
    prefix = "of_unit"
    while any(key.lower().startswith(prefix) for key in query.keys):
        prefix += "_"
    return tuple(f"{prefix}_{position}" for position in range(1, len(query.columns) + 1))


def limit_recipe(recipe: Recipe, limits: UnitLimits, unit: str, analyses: Analyses) -> Recipe:
    """Clamp what one unit adds to the aggregates of a question, and limit its groups."""
    if not can_be_limited(recipe):
        raise ParameterError(
            "limits= are for counts, sums and their ratios, and for averages, by declared keys: "
            "ask for sums beside counts in questions of their own"
        )
    counters = find_counters(recipe)
    positions = recipe.sets[0].positions
    averaged = [atom for atom, position in enumerate(positions) if position in counters]
    _check_aggregates(limits, recipe.atoms, averaged)
    limits = _round_totals(recipe, limits, analyses) if limits.is_total else limits
    clamps = {
        position: clamp
        for grouping in recipe.sets
        for clamp, position in zip(limits.clamps, grouping.positions, strict=True)
    }
    if counters and limits.is_total:
        raise ParameterError("is_total of limits is False where an average is asked for")
    queries: list[Query] = []
    for number, query in enumerate(recipe.queries):
        assert isinstance(query, Cells)
        own = [clamps[number, column] for column in range(len(query.columns))]
        counted_by = [counters.get((number, column)) for column in range(len(query.columns))]
        queries.append(
            _limit_totals(query, own, limits.max_groups)
            if limits.is_total and query.keys
            else _limit_query(query, own, counted_by, limits.max_groups, analyses)
        )
    atoms = tuple(
        _describe_limits(atom, clamp, limits, unit, is_averaged=position in counters)
        for atom, clamp, position in zip(
            recipe.atoms, limits.clamps, recipe.sets[0].positions, strict=True
        )
    )
    limited = replace(recipe, queries=tuple(queries), atoms=atoms)
    return _read_units(limited, analyses) if counters else limited


def _read_units(recipe: Recipe, analyses: Analyses) -> Recipe:
    """The recipe with the units of its sums as their plans have them: shares of an average are
    on a finer grid than the values."""
    atoms = []
    for atom, (number, column) in zip(recipe.atoms, recipe.sets[0].positions, strict=True):
        query = recipe.queries[number]
        assert isinstance(query, Cells)
        aggregate = query.columns[column]
        assert isinstance(aggregate, Sum)
        atoms.append(
            replace(atom, unit=analyses.analyse_rows(query.plan).columns[aggregate.column].step)
        )
    return replace(recipe, atoms=tuple(atoms))


def _check_aggregates(
    limits: UnitLimits, atoms: tuple[Atom, ...], averaged: Collection[int]
) -> None:
    """Refuse limits that were bought for another question.

    The `averaged` atoms are sums around a middle that conditions on rows may move, and with it
    their names: a condition may hold a number that was not known when limits were bought.
    """
    bought = [clamp.aggregate for clamp in limits.clamps]
    aggregates = [atom.aggregate for atom in atoms]
    if _strip_middles(bought, averaged) != _strip_middles(aggregates, averaged):
        raise ParameterError(
            f"these limits are for {', '.join(bought) or 'nothing'}, and the "
            f"question asks for {', '.join(aggregates)}: buy them for "
            'this question, as in limits = con.suggest("limits", sql, epsilon=0.1)'
        )


def _strip_middles(names: list[str], averaged: Collection[int]) -> list[str]:
    """The names of aggregates, those of averaged sums without the middle.

    >>> _strip_middles(["SUM(cost - 3)", "SUM(cost - -2.5)"], [1])
    ['SUM(cost - 3)', 'SUM(cost)']
    """
    return [
        _MIDDLE.sub(")", name) if position in averaged else name
        for position, name in enumerate(names)
    ]


def _limit_query(
    query: Cells,
    clamps: list[UnitClamp],
    counted_by: list[int | None],
    max_groups: int | None,
    analyses: Analyses,
) -> Cells:
    """The query with what one unit adds to a group clamped.

    A sum that is averaged becomes the unit's own average there, times its clamped count, and its
    own clamp is not needed.
    """
    rows, groups = list_unit_rows(query)
    names = name_numbers(query)
    numbers = []
    for position, (name, counter) in enumerate(zip(names, counted_by, strict=True)):
        number = _write_clamp(name, clamps[position])
        if counter is not None:
            bounds = _find_value_bounds(query.columns[position], rows, analyses)
            number = _write_averaged(name, bounds, names[counter], clamps[counter])
        numbers.append(Named(name, number))
    keys = tuple(Named(key, Column(key)) for key in query.keys)
    plan = _limit_groups(Project(rows, (*keys, *numbers)), query.keys, groups, max_groups)
    return Cells(plan, query.keys, tuple(Sum(name) for name in names))


def _round_totals(recipe: Recipe, limits: UnitLimits, analyses: Analyses) -> UnitLimits:
    """Limits of totals as they are applied, and so as they are stated: absolute values are added up
    on the grid, and a total of numbers that may be negative is one in both directions."""
    clamps = []
    for clamp, (number, column) in zip(limits.clamps, recipe.sets[0].positions, strict=True):
        query = recipe.queries[number]
        assert isinstance(query, Cells)
        rows, _ = list_unit_rows(query)
        domain = analyses.analyse_rows(rows).columns[name_numbers(query)[column]]
        largest = max(abs(clamp.low), abs(clamp.high))
        total = max(domain.step, largest // domain.step * domain.step)
        clamps.append(replace(clamp, low=-total if domain.low < 0 else Fraction(0), high=total))
    return replace(limits, clamps=tuple(clamps))


def _limit_totals(query: Cells, clamps: list[UnitClamp], max_groups: int | None) -> Cells:
    """The query with what one unit adds to all groups together clamped."""
    rows, groups = list_unit_rows(query)
    plan = _limit_groups(rows, query.keys, groups, max_groups)
    names = name_numbers(query)
    for name, clamp in zip(names, clamps, strict=True):
        plan = LimitTotal(plan, query.keys, name, clamp.high)
    return Cells(plan, query.keys, tuple(Sum(name) for name in names))


def _limit_groups(plan: Plan, keys: tuple[str, ...], *limits: int | None) -> Plan:
    """Keep at most as many groups of each unit as the smallest limit says; all without a limit."""
    allowed = [limit for limit in limits if limit is not None]
    return LimitGroups(plan, keys, min(allowed)) if keys and allowed else plan


def _write_clamp(name: str, clamp: UnitClamp) -> Call:
    ends = (Value("number", clamp.low), Value("number", clamp.high))
    return Call("clamp", (Column(name), *ends))


def _find_value_bounds(
    aggregate: Aggregate, rows: PerUnit, analyses: Analyses
) -> tuple[Fraction, Fraction]:
    """The public bounds of the values of a sum, and so of their average; a row without a value
    may add 0."""
    assert isinstance(aggregate, Sum)
    domain = analyses.analyse_rows(rows.source).columns[aggregate.column]
    least = min(domain.low, 0) if domain.nullable else domain.low
    most = max(domain.high, 0) if domain.nullable else domain.high
    return least * domain.step, most * domain.step


def _write_averaged(
    total: str, bounds: tuple[Fraction, Fraction], count: str, counted: UnitClamp
) -> Call:
    """A unit's average times its clamped count. The average lies within the bounds of its values,
    and is clamped to them so that the plan says it."""
    low, high = (Value("number", bound) for bound in bounds)
    average = Call("clamp", (Call("divide", (Column(total), Column(count))), low, high))
    return Call("multiply", (average, _write_clamp(count, counted)))


def _describe_limits(
    atom: Atom, clamp: UnitClamp, limits: UnitLimits, unit: str, *, is_averaged: bool
) -> Atom:
    max_groups = limits.max_groups
    groups = "all groups together" if limits.is_total else "a group"
    words = [
        f"what one {unit} adds to {atom.aggregate} of {groups} "
        + (
            "is its own average there, times its clamped count"
            if is_averaged
            else f"clamped to [{float(clamp.low):g}, {float(clamp.high):g}]"
        )
    ]
    if max_groups is not None:
        words.append(f"at most {max_groups} groups per {unit}")
    kept = [limit for limit in atom.limits if " groups per " not in limit or max_groups is None]
    return replace(atom, limits=(*kept, *words))
