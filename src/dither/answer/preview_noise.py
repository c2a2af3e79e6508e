"""Answers that would be nothing but noise: the preview says so in words, from public bounds
alone."""

from __future__ import annotations

from fractions import Fraction
from math import isinf

from dither.figures import write_figure
from dither.plan.algebra import Cells, Count, CountValues, Sum
from dither.plan.analysed_query import AnalysedQuery
from dither.plan.keys import bounds_in
from dither.plan.stability import Public
from dither.question.expressions import Apply, Constant, Formula, Noisy
from dither.question.recipe import GroupingSet, Recipe

MANY_ROWS = 500
"""So many rows of pure noise are said; a reader of a preview sees that of fewer."""


def note_noise(half: float | None, span: float | None) -> tuple[str, ...]:
    """Write a note where an interval is wider than all answers that are possible; else none.

    `half` is half the interval, `span` the distance from the least to the largest answer.

    >>> note_noise(75_000.0, 10.0)
    ('this answer would be noise: ± 75,000 is more than the 10 between its least and largest \
possible value',)
    """
    if half is None or span is None or half <= span:
        return ()
    if isinf(half):
        return ("this answer would be noise: its interval has no end, however many rows there are",)
    return (
        f"this answer would be noise: ± {write_figure(half, 6)} is more than the "
        f"{write_figure(span, 6)} between its least and largest possible value",
    )


def note_bought_size(half: float | None, size: Fraction | None) -> tuple[str, ...]:
    """A note where an interval is wider than the size that was bought with the limits.

    >>> note_bought_size(160.0, Fraction(100))
    ('this answer would be noise: ± 160 beside about 100 in a group, by what the limits were \
bought with',)
    """
    if half is None or size is None or half <= size:
        return ()
    if not size:
        return (
            "this answer would be noise: when its limits were bought, too few people added "
            "anything to be told from none",
        )
    return (
        f"this answer would be noise: ± {write_figure(half, 3)} beside about "
        f"{write_figure(float(size), 3)} in a group, by what the limits were bought with",
    )


def note_largest_group(
    joint_half: float | None, half: float | None, size: Fraction | None
) -> tuple[str, ...]:
    """A note where one group can be told from nothing, by the size that was bought, but the
    largest noise of all groups cannot.

    >>> note_largest_group(900.0, 60.0, Fraction(100))
    ('which group is largest would be noise: ± 900 holds for all groups at once, beside about 100 \
in a group, by what the limits were bought with',)
    """
    if joint_half is None or half is None or not size or not half <= size < joint_half:
        return ()
    return (
        f"which group is largest would be noise: ± {write_figure(joint_half, 3)} holds for all "
        f"groups at once, beside about {write_figure(float(size), 3)} in a group, by what the "
        "limits were bought with",
    )


def note_fewest_rows(
    half: float | None, row_bound: float | None, group_size: int | None
) -> tuple[str, ...]:
    """A note of how many rows add up to no more than the noise, where these are many, or more
    than the group that was named has.

    >>> note_fewest_rows(75_000.0, 10.0, None)
    ('± 75,000 is as much as 7,500 rows add at most: from so many or fewer the answer would be \
noise',)
    >>> note_fewest_rows(75_000.0, 10.0, 100)
    ('this answer would be noise: ± 75,000 is more than 100 rows can add',)
    >>> note_fewest_rows(750.0, 10.0, None)
    ()
    """
    if half is None or not row_bound or isinf(half):
        return ()
    rows = half / row_bound
    if group_size is not None:
        if rows <= group_size:
            return ()
        return (
            f"this answer would be noise: ± {write_figure(half, 6)} is more than {group_size:,} "
            "rows can add",
        )
    if rows < MANY_ROWS:
        return ()
    return (
        f"± {write_figure(half, 6)} is as much as {int(rows):,} rows add at most: from so many or "
        "fewer the answer would be noise",
    )


def find_row_bound(
    formula: Formula, recipe: Recipe, of: GroupingSet, analysed: list[AnalysedQuery]
) -> float | None:
    """Find the most that one row adds to a count or sum by size; None for other columns."""
    if not isinstance(formula, Noisy):
        return None
    position, column = of.positions[formula.atom]
    query = analysed[position].query
    aggregate = query.columns[column] if isinstance(query, Cells) else None
    if isinstance(aggregate, (Count, CountValues)):
        return 1.0
    if not isinstance(aggregate, Sum):
        return None
    bounds = bounds_in(aggregate.column, analysed[position].rows.columns)
    return float(bounds.largest * recipe.atoms[formula.atom].unit)


def find_span(
    formula: Formula, recipe: Recipe, of: GroupingSet, analysed: list[AnalysedQuery]
) -> float | None:
    """Find how far apart the least and the largest value of a count, a sum or an average can be.

    Counts and sums: by the largest number of rows that the catalog allows. None for others.
    """
    match formula:
        case Noisy(atom):
            query, column = of.positions[atom]
            if not isinstance(analysed[query].query, Cells):
                return None
            return analysed[query].largest_values[column] * float(recipe.atoms[atom].unit)
        case Apply("add", (Constant(), Apply("divide", (Noisy(atom), Noisy())))):
            return _find_width(atom, recipe, of, analysed)
        case Apply("divide", (Noisy(atom), Noisy())):
            return _find_width(atom, recipe, of, analysed)
    return None


def _find_width(
    atom: int, recipe: Recipe, of: GroupingSet, analysed: list[AnalysedQuery]
) -> float | None:
    """Find the width of the bounds of the column that an atom sums; None where it is no sum."""
    number, column = of.positions[atom]
    query = analysed[number].query
    aggregate = query.columns[column] if isinstance(query, Cells) else None
    if not isinstance(aggregate, Sum):
        return None
    bounds = bounds_in(aggregate.column, analysed[number].rows.columns)
    return (bounds.high - bounds.low) * float(recipe.atoms[atom].unit)


def count_most_rows(analysed: list[AnalysedQuery]) -> int:
    """The largest number of rows that a cell can have by the catalog."""
    nodes = [query.rows.node for query in analysed]
    return max((node.most for node in nodes if not isinstance(node, Public)), default=1)
