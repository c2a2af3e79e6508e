"""The table of rules: every node of SQL that a question may use over rows, each with the plan's expression for it."""

from __future__ import annotations

from sqlglot import exp

from dither.plan.algebra import Expression, Value
from dither.plan.functions import REFUSED, TABLE
from dither.rules import PrivacyRule
from dither.sql import constants
from dither.sql.choices import all_of, between, case, coalesce, if_, in_, is_
from dither.sql.constants import as_kind, number
from dither.sql.dates import date_add, date_diff, date_trunc, day_of_week, difference, extract, part_of, plus
from dither.sql.functions import SAME
from dither.sql.refusals.refuse import did_you_mean, refused
from dither.sql.resolve import (
    COMPARISONS,
    RULES,
    apply,
    as_text,
    call,
    expression,
    flattened,
    negated,
    no_rule,
    value_of,
)
from dither.sql.scope import Scope

__all__ = ["COMPARISONS", "RULES", "expression", "flattened", "no_rule"]
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UTINYINT", "USMALLINT", "UINT", "UBIGINT")
_REALS = ("DOUBLE", "FLOAT")


def _column(node: exp.Expr, scope: Scope) -> Expression:
    assert isinstance(node, exp.Column)
    if isinstance(node.this, exp.Star):
        raise refused("rows", scope.at, node)
    return value_of(scope.field(node), node, scope)


def _literal(node: exp.Expr, scope: Scope) -> Expression:
    assert isinstance(node, exp.Literal)
    found = constants.literal(node)
    if found is None:
        raise scope.at.error(f"{str(node.this)[:40]} is no number that can be read exactly", node)
    return found


def _round(node: exp.Expr, scope: Scope) -> Expression:
    decimals = node.args.get("decimals")
    return call("round", (node.this, *([decimals] if decimals is not None else [])), node, scope)


def _trunc(node: exp.Expr, scope: Scope) -> Expression:
    if node.args.get("decimals") is not None:
        raise no_rule(node, scope)
    return call("trunc", (node.this,), node, scope)


def _trim(node: exp.Expr, scope: Scope) -> Expression:
    taken = node.args.get("expression")
    if taken is not None and not (isinstance(taken, exp.Literal) and taken.this == " "):
        raise no_rule(node, scope)
    function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    return call(function, (node.this,), node, scope)


def _pad(node: exp.Expr, scope: Scope) -> Expression:
    filled = node.args.get("fill_pattern") or exp.Literal.string(" ")
    return call("lpad" if node.args.get("is_left") else "rpad", (node.this, node.expression, filled), node, scope)


def _concat(node: exp.Expr, scope: Scope) -> Expression:
    """CONCAT(a, b) reads nulls as empty texts, a || b does not."""
    parts = []
    for each in node.expressions:
        value = expression(each, scope)
        value = as_text(value, scope.domain(value, node))
        nullable = scope.domain(value, node).nullable
        parts.append(apply("coalesce", (value, Value("text", "")), node, scope) if nullable else value)
    return parts[0] if len(parts) == 1 else apply("concat", tuple(parts), node, scope)


def _cast(node: exp.Expr, scope: Scope) -> Expression:
    to = node.args["to"]
    name = to.this.name if isinstance(to, exp.DataType) and hasattr(to.this, "name") else ""
    value = expression(node.this, scope)
    kind = scope.domain(value, node).kind
    if isinstance(value, Value) and value.kind == "text":
        if name == "DATE" and (day := as_kind(value, "date")):
            return day
        if name.startswith("TIMESTAMP") and as_kind(value, "timestamp"):
            return value  # a time without a zone: read at the zone of what it is compared with
        if name in ("TEXT", "VARCHAR"):
            return value
        raise scope.at.error(f"{str(value.value)[:40]!r} is no {name.lower()} that can be read", node)
    if name in _INTEGERS and kind in ("number", "boolean"):
        return apply("to_number" if kind == "boolean" else "to_integer", (value,), node, scope)
    if name in _REALS and kind in ("number", "boolean"):
        return apply("to_number", (value,), node, scope) if kind == "boolean" else value
    if name == "DECIMAL" and kind == "number":
        places = [each.this for each in to.expressions]
        digits = number(3) if not places else expression(places[1], scope) if len(places) > 1 else number(0)
        return apply("round", (value, digits), node, scope)
    if name == "DATE" and kind in ("date", "timestamp"):
        return value if kind == "date" else apply("date_of", (value,), node, scope)
    if name.startswith("TIMESTAMP") and kind == "timestamp":
        return value
    if name == "BOOLEAN" and kind in ("boolean", "number"):
        return value if kind == "boolean" else apply("ne", (value, number(0)), node, scope)
    if name in ("TEXT", "VARCHAR") and kind in ("text", "category"):
        return as_text(value, scope.domain(value))
    raise refused("cast", scope.at, node)


def _date(node: exp.Expr, scope: Scope) -> Expression:
    return _cast(exp.Cast(this=node.this, to=exp.DataType.build("date")), scope)


def _like(node: exp.Expr, scope: Scope) -> Expression:
    return negated(call("like", (node.this, node.expression), node, scope), node, scope)


def _anonymous(node: exp.Expr, scope: Scope) -> Expression:
    name = str(node.this).lower()
    name = SAME.get(name, name)
    if name == "date_part" and len(node.expressions) == 2 and isinstance(node.expressions[0], exp.Literal):
        return part_of(str(node.expressions[0].this).upper(), node.expressions[1], node, scope)
    if name in TABLE:
        return call(name, tuple(node.expressions), node, scope)
    if name in REFUSED:
        raise scope.at.error(f"{name} is refused: {REFUSED[name]} {PrivacyRule.LISTED_FUNCTIONS.label}", node)
    hint = did_you_mean(name, TABLE)
    hint = hint if hint.startswith("did") else "the list is in docs/reference/functions.md"
    raise scope.at.error(f"no function {name}: {hint} {PrivacyRule.LISTED_FUNCTIONS.label}", node)


RULES |= {
    exp.Paren: lambda node, scope: expression(node.this, scope),
    exp.Anonymous: _anonymous,
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, scope: constants.truth(bool(node.this)),
    exp.Add: plus,
    exp.Sub: difference,
    exp.And: all_of("and"),
    exp.Or: all_of("or"),
    exp.Xor: lambda node, scope: call("xor", (node.this, node.expression), node, scope),
    exp.BitwiseXor: lambda node, scope: call("xor", (node.this, node.expression), node, scope),
    exp.Not: lambda node, scope: call("not", (node.this,), node, scope),
    exp.Is: is_,
    exp.NullSafeEQ: lambda node, scope: apply(
        "not", (call("is_distinct_from", (node.this, node.expression), node, scope),), node, scope
    ),
    exp.Between: between,
    exp.In: in_,
    exp.Case: case,
    exp.If: if_,
    exp.Coalesce: coalesce,
    exp.Round: _round,
    exp.Trunc: _trunc,
    exp.Trim: _trim,
    exp.Pad: _pad,
    exp.Concat: _concat,
    exp.DPipe: lambda node, scope: call("concat", (node.this, node.expression), node, scope),
    exp.Like: _like,
    exp.Extract: extract,
    exp.DayOfWeek: day_of_week,
    exp.TimestampTrunc: date_trunc,
    exp.DateTrunc: date_trunc,
    exp.DateDiff: date_diff,
    exp.DateAdd: date_add(1),
    exp.DateSub: date_add(-1),
    exp.Cast: _cast,
    exp.Date: _date,
}
