"""How each kind of SQL expression over aggregates becomes a formula: one function for each kind.

A rule is given `read_nodes`, which reads the expressions inside the one at hand.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dither.errors import QueryError
from dither.question.expressions import (
    Apply,
    Constant,
    Formula,
)

_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UINT", "UBIGINT")
ReadNodes = Callable[..., tuple[Formula, ...]]


def _read_round(node: exp.Expr, read_nodes: ReadNodes) -> Formula:
    """Read ROUND over aggregates; without decimals it rounds to whole numbers."""
    decimals = node.args.get("decimals")
    return Apply(
        "round",
        (
            *read_nodes(node.this),
            *(read_nodes(decimals) if decimals is not None else (Constant(Fraction(0)),)),
        ),
    )


def _read_case(node: exp.Expr, read_nodes: ReadNodes) -> Formula:
    """Read CASE over aggregates, in both forms; without ELSE the rest is null."""
    arguments: list[Formula] = []
    for branch in node.args["ifs"]:
        test = (
            read_nodes(node.this, branch.this)
            if node.args.get("this") is not None
            else read_nodes(branch.this)
        )
        arguments += [
            Apply("eq", test) if len(test) == 2 else test[0],
            *read_nodes(branch.args["true"]),
        ]
    default = node.args.get("default")
    return Apply(
        "case", (*arguments, *(read_nodes(default) if default is not None else (Constant(None),)))
    )


def _read_if(node: exp.Expr, read_nodes: ReadNodes) -> Formula:
    """Read IF over aggregates as a CASE."""
    rest = node.args.get("false")
    return Apply(
        "case",
        (
            *read_nodes(node.this, node.args["true"]),
            *(read_nodes(rest) if rest is not None else (Constant(None),)),
        ),
    )


def _read_is(node: exp.Expr, read_nodes: ReadNodes) -> Formula:
    """Read `value IS NULL`, `IS TRUE` or `IS FALSE` over aggregates; a null value is neither.

    The parser puts IS NOT as a Not around this node; a `negate` flag is obeyed all the same.
    """
    (value,) = read_nodes(node.this)
    if isinstance(node.expression, exp.Null):
        test = Apply("is_null", (value,))
    else:
        is_true = bool(node.expression.this)
        equals = Apply("eq", (value, Constant(Fraction(int(is_true)))))
        test = Apply("coalesce", (equals, Constant(Fraction(0))))
    return Apply("not", (test,)) if node.args.get("negate") else test


def _read_between(node: exp.Expr, read_nodes: ReadNodes) -> Formula:
    value, low, high = read_nodes(node.this, node.args["low"], node.args["high"])
    return Apply("and", (Apply("ge", (value, low)), Apply("le", (value, high))))


def _read_in(node: exp.Expr, read_nodes: ReadNodes) -> Formula:
    value, *elements = read_nodes(node.this, *node.expressions)
    comparisons = tuple(Apply("eq", (value, element)) for element in elements)
    return comparisons[0] if len(comparisons) == 1 else Apply("or", comparisons)


def _truncate(value: Formula) -> Formula:
    return Apply("multiply", (Apply("sign", (value,)), Apply("floor", (Apply("abs", (value,)),))))


def _read_integer_divide(node: exp.Expr, read_nodes: ReadNodes) -> Formula:
    return _truncate(Apply("divide", read_nodes(node.this, node.expression)))


def _read_mod(node: exp.Expr, read_nodes: ReadNodes) -> Formula:
    left, right = read_nodes(node.this, node.expression)
    return Apply(
        "subtract", (left, Apply("multiply", (right, _truncate(Apply("divide", (left, right))))))
    )


def _read_cast(node: exp.Expr, read_nodes: ReadNodes) -> Formula:
    """Read CAST over aggregates: to whole numbers and decimals by rounding."""
    to = node.args["to"]
    name = to.this.name if hasattr(to.this, "name") else ""
    (value,) = read_nodes(node.this)
    if name in _NUMBERS:
        return Apply("round", (value, Constant(Fraction(0))))
    if name == "DECIMAL" and len(to.expressions) == 2:
        return Apply("round", (value, *read_nodes(to.expressions[1].this)))
    if name in ("DOUBLE", "FLOAT", "DECIMAL"):
        return value
    raise QueryError(
        f"CAST to {name.lower()} over aggregates is not answered: CAST to DOUBLE, DECIMAL or "
        f"INTEGER"
    )


FORMULA_RULES: dict[type[exp.Expr], Callable[[exp.Expr, ReadNodes], Formula]] = {
    exp.Round: _read_round,
    exp.Case: _read_case,
    exp.If: _read_if,
    exp.Is: _read_is,
    exp.Between: _read_between,
    exp.In: _read_in,
    exp.IntDiv: _read_integer_divide,
    exp.Mod: _read_mod,
    exp.Cast: _read_cast,
}
