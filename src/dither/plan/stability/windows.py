"""What all rows of a unit share where the unit is a person in one window of time.

The rows of such a unit lie in one day, week, month or year, so a function of the day that is
constant inside each window has one value. Proof: docs/proofs/stability.md#windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dither.catalog import Unit
from dither.plan.conditions import columns_of
from dither.plan.domain import Columns
from dither.plan.expressions import Call, Column
from dither.plan.stability.degrees import Degree, Mask, RowDegrees

DAYS = {"day": 1, "week": 7, "month": 31, "year": 366}
"""The most days that a window can have."""
SECONDS = 86_400
CONSTANT = {
    "day": frozenset[str](),
    "week": frozenset({"trunc_week", "week"}),
    "month": frozenset(
        {
            "trunc_month",
            "last_day",
            "month",
            "days_in_month",
            "trunc_quarter",
            "quarter",
            "trunc_year",
            "year",
        }
    ),
    "year": frozenset({"trunc_year", "year"}),
}
"""Functions of a day that have one value inside each window of a length."""


def add_window(degrees: RowDegrees, unit: Unit, columns: Columns) -> RowDegrees:
    """Return the degrees of a registered table with what its rows share in one window.

    Days of a timestamp are read at its column's zone: they make up windows where the unit's zone is
    the same.
    """
    if unit.column is None or unit.every is None:
        return degrees
    domain = columns[unit.column]
    is_time = domain.kind == "timestamp"
    mask = degrees.mask((unit.column,))
    values = DAYS[unit.every] * (SECONDS if is_time else 1)
    has_days = not is_time or domain.offset == (unit.offset_seconds or 0)
    return replace(degrees.add(Degree(0, mask, values)), moments=mask if has_days else 0)


def fix_computed(
    computed: Mapping[str, object], source: RowDegrees, columns: Columns, unit: Unit
) -> dict[str, Mask]:
    """Return the symbols whose values fix each computed column of a projection.

    They are those of the columns that it reads; what is constant inside a window needs none.
    """
    moments = frozenset(name for name in columns if source.moments & source.mask((name,)))
    return {
        name: source.mask(_list_varying(expression, moments, columns, unit.every or ""))
        for name, expression in computed.items()
    }


def _list_varying(
    expression: object, moments: frozenset[str], columns: Columns, every: str
) -> frozenset[str]:
    """The columns that an expression reads beside what is constant inside a window."""
    if not isinstance(expression, Call) or not moments:
        return columns_of(expression)
    match expression:
        case Call("date_of", (Column(name),)) if every == "day" and name in moments:
            return frozenset()
        case Call(function, (argument,)) if function in CONSTANT.get(every, ()):
            if _is_day(argument, moments, columns):
                return frozenset()
    return frozenset().union(
        *(_list_varying(argument, moments, columns, every) for argument in expression.arguments)
    )


def _is_day(expression: object, moments: frozenset[str], columns: Columns) -> bool:
    """Whether an expression is the day of a moment in the unit's window."""
    match expression:
        case Column(name):
            return name in moments and columns[name].kind == "date"
        case Call("date_of", (Column(name),)):
            return name in moments
    return False
