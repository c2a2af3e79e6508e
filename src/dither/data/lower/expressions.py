"""Expressions as columns.

Each call of the function table is one column over the columns of its arguments.

Calls are computed level by level, so that the SQL of an argument is always a name or a literal and
the text stays as long as the expression. Every function of the table is total: whatever rows reach
it, in whatever order, nothing raises.

An integer is computed as a pair: a value, which lies in its domain also where it is null, and a
flag that says whether it is null. `nulls.py` says how each function makes both; where it does not,
and for texts, the engine's nulls serve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dither.data.lower.columns import holds_null, null_flag
from dither.data.lower.dialect import dialect
from dither.data.lower.functions import write_function
from dither.data.lower.functions.sql import SqlArguments
from dither.data.lower.nulls import pair
from dither.data.quoting import name
from dither.plan.domain import Columns, is_stored
from dither.plan.expressions import Call, Column, Expression, Value
from dither.plan.functions import TABLE, arguments_of


@dataclass(frozen=True)
class Lowered:
    """SQL (a name or a literal) of an expression's value, and of its flag; no flag where it is
    never null, for texts, and for a column that is passed on as it is stored."""

    value: str
    null: str | None = None

    @property
    def is_one(self) -> str:
        return f"({self.value} > {self.null or 0})"

    @property
    def is_zero(self) -> str:
        return f"({self.value} = 0 AND {self.null} = 0)" if self.null else f"({self.value} = 0)"


class _Layers:
    """SQL of a source with more columns, one SELECT around another."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._names = 0

    def name_column(self) -> str:
        self._names += 1
        return f"dither_e{self._names}"

    def add(self, columns: list[str]) -> None:
        if columns:
            self.source = f"SELECT *, {', '.join(columns)} FROM ({self.source})"


def compute_columns(
    source: str, columns: Columns, expressions: list[Expression]
) -> tuple[str, list[Lowered]]:
    """Write SQL of the source with more columns, and the SQL of each expression over it."""
    levels: dict[int, dict[Call, None]] = {}
    lowered: dict[Expression, Lowered] = {}
    for expression in expressions:
        _collect(expression, levels, lowered)
    stored: dict[Expression, Lowered] = {
        expression: lowered[expression]
        for expression in expressions
        if isinstance(expression, Column)
    }
    layers = _Layers(source)
    _split(layers, columns, levels, lowered)
    for height in sorted(levels):
        before: list[str] = []
        here: list[str] = []
        after: list[str] = []
        for call in levels[height]:
            lowered[call] = _lower_call(call, columns, lowered, layers, (before, here, after))
        for added in (before, here, after):
            layers.add(added)
    return layers.source, [(lowered | stored)[expression] for expression in expressions]


def _split(
    layers: _Layers,
    columns: Columns,
    levels: dict[int, dict[Call, None]],
    lowered: dict[Expression, Lowered],
) -> None:
    """Split columns that calls read into pairs (value, null flag), as a new layer of SQL.

    The integer after the last value stands for null; there the pair holds the last value.
    """
    added = []
    arguments = {
        argument: None for calls in levels.values() for call in calls for argument in call.arguments
    }
    for argument in arguments:
        if isinstance(argument, Column) and holds_null(columns[argument.name]):
            column = name(argument.name)
            flag = null_flag(name(argument.name), columns[argument.name])
            lowered[argument] = Lowered(layers.name_column(), layers.name_column())
            added += [
                f"{column} - {flag} AS {lowered[argument].value}",
                f"{flag} AS {lowered[argument].null}",
            ]
    layers.add(added)


def _lower_call(
    call: Call,
    columns: Columns,
    lowered: dict[Expression, Lowered],
    layers: _Layers,
    layers_of_columns: tuple[list[str], list[str], list[str]],
) -> Lowered:
    """Lower one call to a column, and to a flag for null where it can be null.

    A function that has SQL for value and flag apart needs one layer. Any other is given the
    engine's nulls in the layer before, and its result is taken apart in the layer after.
    """
    before, here, after = layers_of_columns
    function = TABLE[call.function]
    operands = [lowered[argument] for argument in call.arguments]
    plain = arguments_of(call, columns)
    arguments = SqlArguments(
        plain.function, plain.domains, plain.constants, tuple(operand.value for operand in operands)
    )
    result = function.result(arguments)
    if value_and_flag := pair(
        function, arguments, tuple(operand.null for operand in operands), result
    ):
        output = Lowered(layers.name_column(), layers.name_column() if value_and_flag[1] else None)
        here += [
            f"{sql} AS {named}"
            for sql, named in zip(value_and_flag, (output.value, output.null), strict=True)
            if sql
        ]
        return output
    engine = []
    for operand in operands:
        engine.append(layers.name_column() if operand.null else operand.value)
        if operand.null:
            before.append(f"CASE WHEN {operand.null} = 0 THEN {operand.value} END AS {engine[-1]}")
    raw = layers.name_column()
    written = write_function(function.name, replace(arguments, sql=tuple(engine)), result)
    here.append(f"{written} AS {raw}")
    if not (is_stored(result) and result.nullable):
        return Lowered(raw)
    output = Lowered(layers.name_column(), layers.name_column())
    after += [
        f"coalesce({raw}, {result.low}) AS {output.value}",
        f"{dialect().truth(f'{raw} IS NULL', dialect().flag_type)} AS {output.null}",
    ]
    return output


def _collect(
    expression: Expression, levels: dict[int, dict[Call, None]], lowered: dict[Expression, Lowered]
) -> int:
    """Note the calls of an expression by height, each once; the height of the expression."""
    if isinstance(expression, Column):
        lowered[expression] = Lowered(name(expression.name))
        return 0
    if isinstance(expression, Value):
        value = expression.value
        lowered[expression] = Lowered(
            str(value.numerator) if isinstance(value, Fraction) else dialect().text(value)
        )
        return 0
    height = 1 + max(
        (_collect(argument, levels, lowered) for argument in expression.arguments), default=0
    )
    levels.setdefault(height, {})[expression] = None
    return height
