"""WHERE: a condition in SQL becomes a condition of the plan; every node has a rule or is refused."""

from __future__ import annotations

import datetime
from fractions import Fraction

from sqlglot import exp

from dither.catalog import OTHER, Boolean, Bounded, Category, Column, Date, Table
from dither.plan.algebra import And, Compare, Condition, IsNull, Not, Operator, Or
from dither.sql.refuse import did_you_mean, refuse

_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_FLIPPED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def condition(node: exp.Expr, table: Table, sql: str) -> Condition:
    """The plan's condition for a WHERE expression."""
    if isinstance(node, exp.Paren):
        return condition(node.this, table, sql)
    if isinstance(node, (exp.And, exp.Or)):
        parts = (condition(node.this, table, sql), condition(node.expression, table, sql))
        return And(parts) if isinstance(node, exp.And) else Or(parts)
    if isinstance(node, exp.Not):
        return Not(condition(node.this, table, sql))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return IsNull(_named(node.this, table, sql).name)
    if isinstance(node, exp.Between):
        low = _compare(exp.GTE, node.this, node.args["low"], table, sql)
        return And((low, _compare(exp.LTE, node.this, node.args["high"], table, sql)))
    if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
        return Or(tuple(_compare(exp.EQ, node.this, value, table, sql) for value in node.expressions))
    if type(node) in _OPERATORS:
        return _compare(type(node), node.this, node.expression, table, sql)
    if isinstance(node, exp.Column):
        column = _named(node, table, sql)
        if isinstance(column, Boolean):
            return Compare(column.name, "=", Fraction(1))
        raise refuse(f"{column.name} is no truth value: compare it, as in {column.name} = ...", sql, node)
    raise refuse(
        f"WHERE has no rule for {type(node).__name__} yet: compare columns with constants by "
        "=, <>, <, <=, >, >=, BETWEEN, IN, IS NULL, and join with AND, OR, NOT",
        sql,
        node,
    )


def _compare(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr, table: Table, sql: str) -> Compare:
    operator = _OPERATORS[kind]
    if not isinstance(left, exp.Column) and isinstance(right, exp.Column):
        left, right, operator = right, left, _FLIPPED[operator]
    if not isinstance(left, exp.Column):
        raise refuse("a comparison needs a column on one side and a constant on the other", sql, left)
    column = _named(left, table, sql)
    if isinstance(column, Category):
        return Compare(column.name, operator, _label(column, operator, right, sql))
    return Compare(column.name, operator, _number(column, right, sql))


def _named(node: exp.Expr, table: Table, sql: str) -> Bounded | Category:
    """The declared column that a node names; ids are refused."""
    if not isinstance(node, exp.Column):
        raise refuse("a comparison needs a column on one side and a constant on the other", sql, node)
    column = find_column(node, table, sql)
    if not isinstance(column, (Bounded, Category)):
        raise refuse(f"{column.name} cannot be compared: it names people or rows", sql, node)
    return column


def find_column(node: exp.Column, table: Table, sql: str) -> Column:
    """The declared column of that name, in any case."""
    try:
        return table.column(node.name)
    except KeyError:
        hint = did_you_mean(node.name, table.column_names)
        raise refuse(f"no column {node.name} in {table.name}: {hint}", sql, node) from None


def _label(column: Category, operator: Operator, node: exp.Expr, sql: str) -> str:
    if operator not in ("=", "<>"):
        raise refuse(f"{column.name} is a category: compare it with = or <>", sql, node)
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise refuse(f"{column.name} is a category: compare it with a quoted label", sql, node)
    if not isinstance(column.values, tuple):
        raise refuse(f"{column.name} has no list of labels in the catalog: it cannot be compared yet", sql, node)
    labels = [label for label in column.key_rows() if label is not None]
    if node.this not in labels:
        hint = did_you_mean(node.this, labels) if len(labels) <= 50 else "see the catalog"
        raise refuse(f"{column.name} has no declared label {node.this!r}: {hint}", sql, node)
    return OTHER if node.this == OTHER else str(node.this)


def _number(column: Bounded, node: exp.Expr, sql: str) -> Fraction:
    if isinstance(node, exp.Neg):
        return -_number(column, node.this, sql)
    if isinstance(node, exp.Paren):
        return _number(column, node.this, sql)
    if isinstance(column, Boolean):
        if isinstance(node, exp.Boolean):
            return Fraction(int(node.this))
        raise refuse(f"{column.name} is a truth value: compare it with TRUE or FALSE", sql, node)
    if isinstance(column, Date):
        literal = node.this if isinstance(node, exp.Cast) and node.to.is_type("date") else node
        if isinstance(literal, exp.Literal) and literal.is_string:
            try:
                return Fraction((datetime.date.fromisoformat(literal.this) - datetime.date(1970, 1, 1)).days)
            except ValueError:
                pass
        raise refuse(f"{column.name} is a date: compare it with DATE '2026-01-31'", sql, node)
    if isinstance(node, exp.Literal) and not node.is_string:
        try:
            return Fraction(node.this)
        except (ValueError, ZeroDivisionError):
            pass
    raise refuse(f"{column.name} is a number: compare it with a number", sql, node)
