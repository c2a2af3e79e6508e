"""Dates and times: arithmetic with days and intervals, parts, periods, differences."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import Call, Expression, Value
from dither.plan.functions.calendar import plus_months
from dither.sql import constants
from dither.sql.constants import as_kind, number
from dither.sql.functions import PARTS, PERIODS
from dither.sql.refusals.refuse import refused
from dither.sql.resolve import apply, call, expression, no_rule
from dither.sql.scope import Scope


def plus(node: exp.Expr, scope: Scope) -> Expression:
    """a + b + c: numbers, or a date and days."""
    left, right = node.this, node.expression
    if isinstance(left, exp.Interval):
        left, right = right, left
    if isinstance(right, exp.Interval):
        return _later(left, right, 1, node, scope)
    one, two = expression(left, scope), expression(right, scope)
    kinds = scope.domain(one, node).kind, scope.domain(two, node).kind
    if "date" in kinds:
        one, two = (one, two) if kinds[0] == "date" else (two, one)
        return _add_days(one, two, node, scope)
    parts: list[Expression] = []
    for each in (one, two):
        inner = each.arguments if isinstance(each, Call) and each.function == "add" else (each,)
        parts += inner
    if len(parts) > 50:
        parts = [one, two]
    return apply("add", tuple(parts), node, scope)


def difference(node: exp.Expr, scope: Scope) -> Expression:
    if isinstance(node.expression, exp.Interval):
        return _later(node.this, node.expression, -1, node, scope)
    left, right = expression(node.this, scope), expression(node.expression, scope)
    kinds = scope.domain(left, node).kind, scope.domain(right, node).kind
    if kinds[0] in ("date", "timestamp") and kinds[1] == "number":
        return _add_days(left, apply("negate", (right,), node, scope), node, scope)
    if "date" in kinds:
        return apply("days_between", (right, left), node, scope)
    if "timestamp" in kinds:
        return apply("seconds_between", (right, left), node, scope)
    return apply("subtract", (left, right), node, scope)


def _add_days(day: Expression, days: Expression, node: exp.Expr, scope: Scope) -> Expression:
    if isinstance(day, Value) and isinstance(days, Value) and day.kind == "date" and days.kind == "number":
        moved = Value("date", Fraction(day.value) + Fraction(days.value))
        scope.domain(moved, node)
        return moved
    return apply("add_days", (day, days), node, scope)


def _later(source: exp.Expr, by: exp.Interval, sign: int, node: exp.Expr, scope: Scope) -> Expression:
    day, read = expression(source, scope), constants.interval(by)
    if isinstance(day, Value) and day.kind == "text":
        day = as_kind(day, "date") or day
    if read is None:
        raise refused("interval", scope.at, node)
    amount, unit = sign * read[0], read[1]
    if scope.domain(day, node).kind == "timestamp" and unit in constants.SECONDS:
        return apply("add_seconds", (day, number(amount * constants.SECONDS[unit])), node, scope)
    if unit in constants.DAYS:
        return _add_days(day, number(amount * constants.DAYS[unit]), node, scope)
    if unit not in constants.MONTHS:
        raise refused("interval", scope.at, node)
    months = amount * constants.MONTHS[unit]
    if isinstance(day, Value) and day.kind == "date" and abs(months) <= 120_000:
        moved = Value("date", Fraction(plus_months(int(Fraction(day.value)), months)))
        scope.domain(moved, node)
        return moved
    return apply("add_months", (day, number(months)), node, scope)


def part_of(name: str, source: exp.Expr, node: exp.Expr, scope: Scope) -> Expression:
    if name == "DOW":
        return day_of_week(node, scope, source)
    if name not in PARTS:
        raise no_rule(node, scope)
    return call(PARTS[name], (source,), node, scope)


def extract(node: exp.Expr, scope: Scope) -> Expression:
    return part_of(str(node.this.name).upper(), node.expression, node, scope)


def day_of_week(node: exp.Expr, scope: Scope, source: exp.Expr | None = None) -> Expression:
    """0 (Sunday) to 6, as the engines have it."""
    day = call("day_of_week", (source if source is not None else node.this,), node, scope)
    return apply("mod", (day, number(7)), node, scope)


def date_trunc(node: exp.Expr, scope: Scope) -> Expression:
    unit, source = str(node.args["unit"].name).upper(), expression(node.this, scope)
    if unit == "DAY":
        is_time = scope.domain(source, node).kind == "timestamp"
        return apply("date_of", (source,), node, scope) if is_time else source
    if unit not in PERIODS:
        raise no_rule(node, scope)
    return apply(f"trunc_{PERIODS[unit]}", (source,), node, scope)


def date_diff(node: exp.Expr, scope: Scope) -> Expression:
    """Days and whole weeks between two days; for months, quarters and years how many of their borders lie between."""
    unit = str(node.args["unit"].name).upper() if node.args.get("unit") is not None else "DAY"
    ends = []
    for each in (node.expression, node.this):
        value = expression(each, scope)
        value = (as_kind(value, "date") or value) if isinstance(value, Value) and value.kind == "text" else value
        ends.append(Call("date_of", (value,)) if scope.domain(value, node).kind == "timestamp" else value)
    first, last = ends
    if unit == "DAY":
        return apply("days_between", (first, last), node, scope)
    if unit == "WEEK":
        return apply("integer_divide", (apply("days_between", (first, last), node, scope), number(7)), node, scope)
    if unit not in constants.MONTHS:
        raise no_rule(node, scope)
    years = [apply("year", (each,), node, scope) for each in (last, first)]
    whole = apply("subtract", tuple(years), node, scope)
    if unit == "YEAR":
        return whole
    part, per = ("month", 12) if unit == "MONTH" else ("quarter", 4)
    parts = tuple(apply(part, (each,), node, scope) for each in (last, first))
    rest = apply("subtract", parts, node, scope)
    return apply("add", (apply("multiply", (whole, number(per)), node, scope), rest), node, scope)


def date_add(sign: int) -> Callable[[exp.Expr, Scope], Expression]:
    def rule(node: exp.Expr, scope: Scope) -> Expression:
        if not isinstance(node.expression, exp.Interval):
            raise refused("interval", scope.at, node)
        return _later(node.this, node.expression, sign, node, scope)

    return rule
