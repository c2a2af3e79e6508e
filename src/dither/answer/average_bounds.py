"""Public bounds of averages: an average of values in [L, U] lies in [L, U], whatever the data is.

The noisy average of a small group can lie far outside. It is shown at the nearest bound then, with
the released value beside it. Bounds follow from the recipe and the catalog alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dither.plan.algebra import Call, Cells, Column, Count, Sum, Value
from dither.plan.analysed_query import Analyses
from dither.plan.keys import bounds_in
from dither.question.averages import counts_summands, find_expression
from dither.question.expressions import Apply, Constant, Formula, Noisy
from dither.question.recipe import GroupingSet, Recipe

Bounds = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Average:
    """An average as AVG is bound: a constant, plus a sum over a count."""

    middle: Fraction
    total: int
    count: int


def is_average(formula: Formula) -> bool:
    """Whether a column has the form of an average, and may have bounds."""
    return read_average(formula) is not None


def find_average_bounds(formula: Formula, recipe: Recipe, analyses: Analyses) -> Bounds | None:
    """Find the public bounds of a column that is an average; None for any other column.

    The same bounds hold in every grouping set: all of them read the same rows.
    """
    average = read_average(formula)
    if average is None:
        return None
    grouping_set = recipe.sets[0]
    summed = _find_query(recipe, grouping_set, average.total)
    counted = _find_query(recipe, grouping_set, average.count)
    if summed is None or counted is None:
        return None
    aggregate = summed.columns[grouping_set.positions[average.total][1]]
    counter = counted.columns[grouping_set.positions[average.count][1]]
    if not isinstance(aggregate, Sum):
        return None
    between = bounds_in(aggregate.column, analyses.analyse_rows(summed.plan).columns)
    unit = recipe.atoms[average.total].unit
    low = between.low * unit
    high = between.high * unit
    if isinstance(counter, Sum):
        most = _read_most_rows(summed, aggregate, counted, counter, analyses)
        if most is None:
            return None
        return average.middle + low / most, average.middle + high / most
    if not counts_summands(summed, aggregate, counted, counter):
        return None
    # Where all rows are counted, one without a value adds 0 to the sum.
    ends = (low, high, Fraction(0)) if isinstance(counter, Count) else (low, high)
    return average.middle + min(ends), average.middle + max(ends)


def _read_most_rows(
    summed: Cells, total: Sum, counted: Cells, counter: Sum, analyses: Analyses
) -> Fraction | None:
    """Read how often one unit's own average counts at most, where units were limited so: as many
    rows as the clamp leaves, or as a unit has at most."""
    if summed.plan != counted.plan:
        return None
    kept = find_expression(summed.plan, counter.column)
    match find_expression(summed.plan, total.column), kept:
        case (
            Call("multiply", (Call("clamp", (Call("divide", (_, Column(own))), *_)), factor)),
            Call("clamp", (Column(count), Value(value=Fraction() as least), _)),
        ) if factor == kept and own == count and least == 0:
            domain = analyses.analyse_rows(counted.plan).columns[counter.column]
            return domain.high * domain.step if domain.high > 0 else None
    return None


def clamp_value(value: Any, bounds: Bounds | None) -> Any:
    """The value, or the public bound that is nearest where it lies beyond.

    >>> clamp_value(1100.5, (Fraction(0), Fraction(150))), clamp_value(-3, None)
    (150.0, -3)
    """
    if bounds is None or value is None or bounds[0] <= value <= bounds[1]:
        return value
    return float(bounds[0] if value < bounds[0] else bounds[1])


def clamp_interval(low: Any, high: Any, bounds: Bounds | None) -> tuple[Any, Any]:
    """The interval less what lies beyond the bounds; as it is where nothing of it is within.

    It covers as often as before, since the exact answer lies within the bounds.
    """
    if bounds is None or (low is not None and low > bounds[1]):
        return low, high
    if high is not None and high < bounds[0]:
        return low, high
    return clamp_value(low, bounds), clamp_value(high, bounds)


def read_average(formula: Formula) -> Average | None:
    """Read a formula of the form sum / count, or middle + sum / count; None for any other."""
    match formula:
        case Apply("divide", (Noisy(total), Noisy(count))):
            return Average(Fraction(0), total, count)
        case Apply("add", (Constant(Fraction() as middle), inner)):
            average = read_average(inner)
            return None if average is None else Average(middle, average.total, average.count)
    return None


def _find_query(recipe: Recipe, grouping_set: GroupingSet, atom: int) -> Cells | None:
    query = recipe.queries[grouping_set.positions[atom][0]]
    return query if isinstance(query, Cells) and not recipe.atoms[atom].offset else None
