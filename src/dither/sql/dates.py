"""Dates and times: arithmetic with days and intervals, parts, periods, differences."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import Call, Expression, Value
from dither.plan.functions.calendar import plus_months
from dither.sql import constants
from dither.sql.constants import as_kind, number
from dither.sql.functions import DATE_PARTS, PERIODS
from dither.sql.key_codes import SECONDS, start_of_period
from dither.sql.refusals.refuse import make_refusal
from dither.sql.resolve import apply_function, refuse_node, resolve_call, resolve_expression
from dither.sql.scope import Scope

_TIME_UNITS = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}


def resolve_sum(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve a + b + c: numbers, or a date and days."""
    left = node.this
    right = node.expression
    if isinstance(left, exp.Interval):
        left, right = right, left
    if isinstance(right, exp.Interval):
        return _add_interval(left, right, 1, node, scope)
    first = resolve_expression(left, scope)
    second = resolve_expression(right, scope)
    kinds = scope.domain(first, node).kind, scope.domain(second, node).kind
    if "date" in kinds:
        first, second = (first, second) if kinds[0] == "date" else (second, first)
        return _add_days(first, second, node, scope)
    terms: list[Expression] = []
    for operand in (first, second):
        inner_terms = (
            operand.arguments
            if isinstance(operand, Call) and operand.function == "add"
            else (operand,)
        )
        terms += inner_terms
    if len(terms) > 50:
        terms = [first, second]
    return apply_function("add", tuple(terms), node, scope)


def resolve_difference(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve a - b: numbers, a date and days, or two dates or times."""
    if isinstance(node.expression, exp.Interval):
        return _add_interval(node.this, node.expression, -1, node, scope)
    left = resolve_expression(node.this, scope)
    right = resolve_expression(node.expression, scope)
    kinds = scope.domain(left, node).kind, scope.domain(right, node).kind
    if kinds[0] in ("date", "timestamp") and kinds[1] == "number":
        return _add_days(left, apply_function("negate", (right,), node, scope), node, scope)
    if "date" in kinds:
        return apply_function("days_between", (right, left), node, scope)
    if "timestamp" in kinds:
        return apply_function("seconds_between", (right, left), node, scope)
    return apply_function("subtract", (left, right), node, scope)


def _add_days(day: Expression, days: Expression, node: exp.Expr, scope: Scope) -> Expression:
    """Add days to a date; two constants give a constant."""
    if (
        isinstance(day, Value)
        and isinstance(days, Value)
        and day.kind == "date"
        and days.kind == "number"
    ):
        later_day = Value("date", Fraction(day.value) + Fraction(days.value))
        scope.domain(later_day, node)
        return later_day
    return apply_function("add_days", (day, days), node, scope)


def _add_interval(
    source: exp.Expr, interval: exp.Interval, sign: int, node: exp.Expr, scope: Scope
) -> Expression:
    """Add an interval to a day or second; constant days are computed here."""
    day = resolve_expression(source, scope)
    amount_and_unit = constants.read_interval(interval)
    if isinstance(day, Value) and day.kind == "text":
        day = as_kind(day, "date") or day
    if amount_and_unit is None:
        raise make_refusal("interval", scope.context, node)
    amount = sign * amount_and_unit[0]
    unit = amount_and_unit[1]
    if scope.domain(day, node).kind == "timestamp" and unit in constants.SECONDS:
        return apply_function(
            "add_seconds", (day, number(amount * constants.SECONDS[unit])), node, scope
        )
    if unit in constants.DAYS:
        return _add_days(day, number(amount * constants.DAYS[unit]), node, scope)
    if unit not in constants.MONTHS:
        raise make_refusal("interval", scope.context, node)
    months = amount * constants.MONTHS[unit]
    if isinstance(day, Value) and day.kind == "date" and abs(months) <= 120_000:
        later_day = Value("date", Fraction(plus_months(int(Fraction(day.value)), months)))
        scope.domain(later_day, node)
        return later_day
    return apply_function("add_months", (day, number(months)), node, scope)


def resolve_date_part(name: str, source: exp.Expr, node: exp.Expr, scope: Scope) -> Expression:
    """Resolve EXTRACT and date_part: one field of a date or time."""
    if name == "DOW":
        return resolve_day_of_week(node, scope, source)
    if name not in DATE_PARTS:
        raise refuse_node(node, scope)
    return resolve_call(DATE_PARTS[name], (source,), node, scope)


def resolve_extract(node: exp.Expr, scope: Scope) -> Expression:
    return resolve_date_part(str(node.this.name).upper(), node.expression, node, scope)


def resolve_day_of_week(node: exp.Expr, scope: Scope, source: exp.Expr | None = None) -> Expression:
    """0 (Sunday) to 6, as the engines have it."""
    day = resolve_call("day_of_week", (source if source is not None else node.this,), node, scope)
    return apply_function("mod", (day, number(7)), node, scope)


def resolve_date_trunc(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve date_trunc: the first day of the period that a date lies in.

    For hours and minutes of a time it is their first second.
    """
    unit = str(node.args["unit"].name).upper()
    source = resolve_expression(node.this, scope)
    if unit == "DAY":
        is_time = scope.domain(source, node).kind == "timestamp"
        return apply_function("date_of", (source,), node, scope) if is_time else source
    if unit.lower() in SECONDS and scope.domain(source, node).kind == "timestamp":
        start = start_of_period(source, unit.lower())
        scope.domain(start, node)
        return start
    if unit not in PERIODS:
        raise refuse_node(node, scope)
    return apply_function(f"trunc_{PERIODS[unit]}", (source,), node, scope)


def resolve_date_diff(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve date_diff: days and whole weeks between two days.

    For hours, months and other units it counts how many of their borders lie between.
    """
    unit = str(node.args["unit"].name).upper() if node.args.get("unit") is not None else "DAY"
    if unit in _TIME_UNITS:
        return _count_borders(node, _TIME_UNITS[unit], scope)
    days = []
    for source in (node.expression, node.this):
        value = resolve_expression(source, scope)
        value = (
            (as_kind(value, "date") or value)
            if isinstance(value, Value) and value.kind == "text"
            else value
        )
        days.append(
            Call("date_of", (value,)) if scope.domain(value, node).kind == "timestamp" else value
        )
    first, last = days
    if unit == "DAY":
        return apply_function("days_between", (first, last), node, scope)
    if unit == "WEEK":
        return apply_function(
            "integer_divide",
            (apply_function("days_between", (first, last), node, scope), number(7)),
            node,
            scope,
        )
    if unit not in constants.MONTHS:
        raise refuse_node(node, scope)
    years = [apply_function("year", (end,), node, scope) for end in (last, first)]
    whole = apply_function("subtract", tuple(years), node, scope)
    if unit == "YEAR":
        return whole
    period, per_year = ("month", 12) if unit == "MONTH" else ("quarter", 4)
    periods = tuple(apply_function(period, (end,), node, scope) for end in (last, first))
    rest = apply_function("subtract", periods, node, scope)
    return apply_function(
        "add",
        (apply_function("multiply", (whole, number(per_year)), node, scope), rest),
        node,
        scope,
    )


def _count_borders(node: exp.Expr, size: int, scope: Scope) -> Expression:
    """Count the full hours, minutes or seconds between two times, of `size` seconds each."""
    times = [resolve_expression(source, scope) for source in (node.expression, node.this)]
    offset = max(scope.domain(time, node).offset for time in times)
    starts = [_floor_time(time, size, offset, node, scope) for time in times]
    seconds = apply_function("seconds_between", tuple(starts), node, scope)
    return apply_function("integer_divide", (seconds, number(size)), node, scope)


def _floor_time(
    time: Expression, size: int, offset: int, node: exp.Expr, scope: Scope
) -> Expression:
    """The first second of the hour, minute or second that a time lies in, at the zone `offset`."""
    if isinstance(time, Value) and time.kind == "text":
        constant = as_kind(time, "timestamp", offset)
        if constant is None:
            raise scope.context.error(f"{str(time.value)[:40]!r} is no time", node)
        seconds = int(Fraction(constant.value))
        return Value("timestamp", Fraction(seconds - (seconds + offset) % size))
    if scope.domain(time, node).kind != "timestamp":
        raise scope.context.error(
            "hours, minutes and seconds lie between times, and this is a day: count days", node
        )
    period = {3600: "hour", 60: "minute"}.get(size)
    return time if period is None else start_of_period(time, period)


def make_interval_rule(sign: int) -> Callable[[exp.Expr, Scope], Expression]:
    """Make the rule for a date plus (`sign` 1) or minus (-1) an interval."""

    def rule(node: exp.Expr, scope: Scope) -> Expression:
        if not isinstance(node.expression, exp.Interval):
            raise make_refusal("interval", scope.context, node)
        return _add_interval(node.this, node.expression, sign, node, scope)

    return rule
