"""The table of rules: every node of SQL that a question may use over rows, each with the plan's
expression for it."""

from __future__ import annotations

from sqlglot import exp

from dither.plan.algebra import Expression, Value
from dither.plan.functions import TABLE
from dither.sql import constants
from dither.sql.choices import (
    make_chain_rule,
    resolve_between,
    resolve_case,
    resolve_coalesce,
    resolve_if,
    resolve_in,
    resolve_is,
)
from dither.sql.constants import as_kind, number
from dither.sql.date_formats import resolve_strftime
from dither.sql.dates import (
    make_interval_rule,
    resolve_date_diff,
    resolve_date_part,
    resolve_date_trunc,
    resolve_day_of_week,
    resolve_difference,
    resolve_extract,
    resolve_sum,
)
from dither.sql.functions import SAME
from dither.sql.refusals.refuse import make_refusal
from dither.sql.resolve import (
    COMPARISONS,
    RULES,
    apply_function,
    as_text,
    flatten_chain,
    negate_flagged,
    read_field,
    refuse_node,
    resolve_call,
    resolve_expression,
)
from dither.sql.scope import Scope

__all__ = ["COMPARISONS", "RULES", "flatten_chain", "refuse_node", "resolve_expression"]
_INTEGERS = (
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "INT128",
    "UTINYINT",
    "USMALLINT",
    "UINT",
    "UBIGINT",
)
_REALS = ("DOUBLE", "FLOAT")


def _resolve_column(node: exp.Expr, scope: Scope) -> Expression:
    assert isinstance(node, exp.Column)
    if isinstance(node.this, exp.Star):
        raise make_refusal("rows", scope.context, node)
    return read_field(scope.field(node), node, scope)


def _resolve_literal(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve a constant. Raises QueryError for a number that cannot be read exactly."""
    assert isinstance(node, exp.Literal)
    value = constants.read_literal(node)
    if value is None:
        raise scope.context.error(
            f"{str(node.this)[:40]} is no number that can be read exactly", node
        )
    return value


def _resolve_round(node: exp.Expr, scope: Scope) -> Expression:
    decimals = node.args.get("decimals")
    return resolve_call(
        "round", (node.this, *([decimals] if decimals is not None else [])), node, scope
    )


def _resolve_trunc(node: exp.Expr, scope: Scope) -> Expression:
    if node.args.get("decimals") is not None:
        raise refuse_node(node, scope)
    return resolve_call("trunc", (node.this,), node, scope)


def _resolve_trim(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve TRIM, LTRIM and RTRIM of spaces."""
    taken = node.args.get("expression")
    if taken is not None and not (isinstance(taken, exp.Literal) and taken.this == " "):
        raise refuse_node(node, scope)
    function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(
        str(node.args.get("position") or ""), "trim"
    )
    return resolve_call(function, (node.this,), node, scope)


def _resolve_pad(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve LPAD and RPAD; without a third argument they fill with spaces."""
    filled = node.args.get("fill_pattern") or exp.Literal.string(" ")
    return resolve_call(
        "lpad" if node.args.get("is_left") else "rpad",
        (node.this, node.expression, filled),
        node,
        scope,
    )


def _resolve_concat(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve CONCAT(a, b), which reads nulls as empty texts. The operator for texts does not."""
    texts = []
    for argument in node.expressions:
        value = resolve_expression(argument, scope)
        value = as_text(value, scope.domain(value, node))
        nullable = scope.domain(value, node).nullable
        texts.append(
            apply_function("coalesce", (value, Value("text", "")), node, scope)
            if nullable
            else value
        )
    return texts[0] if len(texts) == 1 else apply_function("concat", tuple(texts), node, scope)


def _resolve_cast(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve CAST between kinds that have a rule. Raises QueryError for any other."""
    to = node.args["to"]
    name = to.this.name if isinstance(to, exp.DataType) and hasattr(to.this, "name") else ""
    value = resolve_expression(node.this, scope)
    kind = scope.domain(value, node).kind
    if isinstance(value, Value) and value.kind == "text":
        if name == "DATE" and (day := as_kind(value, "date")):
            return day
        if name.startswith("TIMESTAMP") and as_kind(value, "timestamp"):
            return value  # a time without a zone: read at the zone of what it is compared with
        if name in ("TEXT", "VARCHAR"):
            return value
        raise scope.context.error(
            f"{str(value.value)[:40]!r} is no {name.lower()} that can be read", node
        )
    if name in _INTEGERS and kind in ("number", "boolean"):
        return apply_function(
            "to_number" if kind == "boolean" else "to_integer", (value,), node, scope
        )
    if name in _REALS and kind in ("number", "boolean"):
        return apply_function("to_number", (value,), node, scope) if kind == "boolean" else value
    if name == "DECIMAL" and kind == "number":
        sizes = [size.this for size in to.expressions]
        digits = (
            number(3)
            if not sizes
            else resolve_expression(sizes[1], scope)
            if len(sizes) > 1
            else number(0)
        )
        return apply_function("round", (value, digits), node, scope)
    if name == "DATE" and kind in ("date", "timestamp"):
        return value if kind == "date" else apply_function("date_of", (value,), node, scope)
    if name.startswith("TIMESTAMP") and kind == "timestamp":
        return value
    if name == "BOOLEAN" and kind in ("boolean", "number"):
        return value if kind == "boolean" else apply_function("ne", (value, number(0)), node, scope)
    if name in ("TEXT", "VARCHAR") and kind in ("text", "category"):
        return as_text(value, scope.domain(value))
    raise make_refusal("cast", scope.context, node)


def _resolve_date(node: exp.Expr, scope: Scope) -> Expression:
    return _resolve_cast(exp.Cast(this=node.this, to=exp.DataType.build("date")), scope)


def _resolve_like(node: exp.Expr, scope: Scope) -> Expression:
    return negate_flagged(
        resolve_call("like", (node.this, node.expression), node, scope), node, scope
    )


def _resolve_named_function(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve a function that the parser left by name."""
    name = str(node.this).lower()
    name = SAME.get(name, name)
    if (
        name == "date_part"
        and len(node.expressions) == 2
        and isinstance(node.expressions[0], exp.Literal)
    ):
        return resolve_date_part(
            str(node.expressions[0].this).upper(), node.expressions[1], node, scope
        )
    if name in TABLE:
        return resolve_call(name, tuple(node.expressions), node, scope)
    raise refuse_node(node, scope)


RULES |= {
    exp.Paren: lambda node, scope: resolve_expression(node.this, scope),
    exp.Anonymous: _resolve_named_function,
    exp.Column: _resolve_column,
    exp.Literal: _resolve_literal,
    exp.Boolean: lambda node, scope: constants.truth(bool(node.this)),
    exp.Add: resolve_sum,
    exp.Sub: resolve_difference,
    exp.And: make_chain_rule("and"),
    exp.Or: make_chain_rule("or"),
    exp.Xor: lambda node, scope: resolve_call("xor", (node.this, node.expression), node, scope),
    exp.BitwiseXor: lambda node, scope: resolve_call(
        "xor", (node.this, node.expression), node, scope
    ),
    exp.Not: lambda node, scope: resolve_call("not", (node.this,), node, scope),
    exp.Is: resolve_is,
    exp.NullSafeEQ: lambda node, scope: apply_function(
        "not",
        (resolve_call("is_distinct_from", (node.this, node.expression), node, scope),),
        node,
        scope,
    ),
    exp.Between: resolve_between,
    exp.In: resolve_in,
    exp.Case: resolve_case,
    exp.If: resolve_if,
    exp.Coalesce: resolve_coalesce,
    exp.Round: _resolve_round,
    exp.Trunc: _resolve_trunc,
    exp.Trim: _resolve_trim,
    exp.Pad: _resolve_pad,
    exp.Concat: _resolve_concat,
    exp.DPipe: lambda node, scope: resolve_call(
        "concat", (node.this, node.expression), node, scope
    ),
    exp.Like: _resolve_like,
    exp.Extract: resolve_extract,
    exp.DayOfWeek: resolve_day_of_week,
    exp.TimestampTrunc: resolve_date_trunc,
    exp.DateTrunc: resolve_date_trunc,
    exp.DateDiff: resolve_date_diff,
    exp.DateAdd: make_interval_rule(1),
    exp.DateSub: make_interval_rule(-1),
    exp.Cast: _resolve_cast,
    exp.Date: _resolve_date,
    exp.TimeToStr: resolve_strftime,
}
