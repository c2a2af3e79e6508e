"""Expressions as columns: each call of the function table is one column over the columns of its arguments.

Calls are computed level by level, so that the SQL of an argument is always a name or a literal and the text stays as
long as the expression. Every function of the table is total: whatever rows reach it, in whatever order, nothing raises.
"""

from __future__ import annotations

from fractions import Fraction

from dither.data.engines.duckdb import name, text
from dither.plan.domain import Columns
from dither.plan.expressions import Call, Column, Expression, Value
from dither.plan.functions import TABLE, arguments_of


def computed(source: str, columns: Columns, expressions: list[Expression]) -> tuple[str, list[str]]:
    """SQL of the source with more columns, and the SQL (name or literal) of each expression over it."""
    levels: dict[int, list[Call]] = {}
    names: dict[Expression, str] = {}
    for expression in expressions:
        _collect(expression, levels, names)
    for height in sorted(levels):
        made = []
        for call in levels[height]:
            arguments = arguments_of(call, columns, tuple(names[each] for each in call.arguments))
            function = TABLE[call.function]
            names[call] = f"dither_e{len(names)}"
            made.append(f"{function.duckdb(arguments, function.result(arguments))} AS {names[call]}")
        source = f"SELECT *, {', '.join(made)} FROM ({source})"
    return source, [names[each] for each in expressions]


def _collect(expression: Expression, levels: dict[int, list[Call]], names: dict[Expression, str]) -> int:
    """Note the calls of an expression by height, each once; the height of the expression."""
    if isinstance(expression, Column):
        names[expression] = name(expression.name)
        return 0
    if isinstance(expression, Value):
        value = expression.value
        names[expression] = str(value.numerator) if isinstance(value, Fraction) else text(value)
        return 0
    height = 1 + max((_collect(each, levels, names) for each in expression.arguments), default=0)
    if expression not in levels.setdefault(height, []):
        levels[height].append(expression)
    return height
