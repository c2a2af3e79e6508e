"""Expressions as columns: each call of the function table is one column over the columns of its arguments.

Calls are computed level by level, so that the SQL of an argument is always a name or a literal and the text stays as
long as the expression. Every function of the table is total: whatever rows reach it, in whatever order, nothing raises.

An integer is computed as a pair: a value, which lies in its domain also where it is null, and a flag that says whether
it is null. `nulls.py` says how each function makes both; where it does not, and for texts, the engine's nulls serve.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from dither.data.engines.duckdb import name, text
from dither.data.lower.columns import holds_null, null_flag
from dither.data.lower.functions import SQL
from dither.data.lower.functions.sql import SqlArguments
from dither.data.lower.nulls import pair
from dither.plan.domain import Columns, is_stored
from dither.plan.expressions import Call, Column, Expression, Value
from dither.plan.functions import TABLE, arguments_of


@dataclass(frozen=True)
class Lowered:
    """SQL (a name or a literal) of an expression's value, and of its flag; no flag where it is never null, for texts,
    and for a column that is passed on as it is stored."""

    value: str
    null: str | None = None

    @property
    def is_one(self) -> str:
        return f"({self.value} > {self.null})" if self.null else f"({self.value} = 1)"

    @property
    def is_zero(self) -> str:
        return f"({self.value} = 0 AND {self.null} = 0)" if self.null else f"({self.value} = 0)"


class _Layers:
    """SQL of a source with more columns, one SELECT around another."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._names = 0

    def fresh(self) -> str:
        self._names += 1
        return f"dither_e{self._names}"

    def add(self, items: list[str]) -> None:
        if items:
            self.source = f"SELECT *, {', '.join(items)} FROM ({self.source})"


def computed(source: str, columns: Columns, expressions: list[Expression]) -> tuple[str, list[Lowered]]:
    """SQL of the source with more columns, and each expression over it."""
    levels: dict[int, list[Call]] = {}
    known: dict[Expression, Lowered] = {}
    for expression in expressions:
        _collect(expression, levels, known)
    stored: dict[Expression, Lowered] = {each: known[each] for each in expressions if isinstance(each, Column)}
    layers = _Layers(source)
    _split(layers, columns, levels, known)
    for height in sorted(levels):
        before: list[str] = []
        here: list[str] = []
        after: list[str] = []
        for call in levels[height]:
            known[call] = _called(call, columns, known, layers, (before, here, after))
        for items in (before, here, after):
            layers.add(items)
    return layers.source, [(known | stored)[each] for each in expressions]


def _split(layers: _Layers, columns: Columns, levels: dict[int, list[Call]], known: dict[Expression, Lowered]) -> None:
    """Columns that calls read, as pairs: the integer after the last is null, and the last one its place holder."""
    items = []
    arguments = {each: None for calls in levels.values() for call in calls for each in call.arguments}
    for each in arguments:
        if isinstance(each, Column) and holds_null(columns[each.name]):
            column, flag = name(each.name), null_flag(name(each.name), columns[each.name])
            known[each] = Lowered(layers.fresh(), layers.fresh())
            items += [f"{column} - {flag} AS {known[each].value}", f"{flag} AS {known[each].null}"]
    layers.add(items)


def _called(
    call: Call,
    columns: Columns,
    known: dict[Expression, Lowered],
    layers: _Layers,
    items: tuple[list[str], list[str], list[str]],
) -> Lowered:
    before, here, after = items
    function, parts = TABLE[call.function], [known[each] for each in call.arguments]
    plain = arguments_of(call, columns)
    arguments = SqlArguments(plain.function, plain.domains, plain.constants, tuple(part.value for part in parts))
    result = function.result(arguments)
    if found := pair(function, arguments, tuple(part.null for part in parts), result):
        made = Lowered(layers.fresh(), layers.fresh() if found[1] else None)
        here += [f"{sql} AS {named}" for sql, named in zip(found, (made.value, made.null), strict=True) if sql]
        return made
    engine = []
    for part in parts:
        engine.append(layers.fresh() if part.null else part.value)
        if part.null:
            before.append(f"CASE WHEN {part.null} = 0 THEN {part.value} END AS {engine[-1]}")
    raw = layers.fresh()
    here.append(f"{SQL[function.name](replace(arguments, sql=tuple(engine)), result)} AS {raw}")
    if not (is_stored(result) and result.nullable):
        return Lowered(raw)
    made = Lowered(layers.fresh(), layers.fresh())
    after += [f"coalesce({raw}, {result.low}) AS {made.value}", f"CAST({raw} IS NULL AS TINYINT) AS {made.null}"]
    return made


def _collect(expression: Expression, levels: dict[int, list[Call]], known: dict[Expression, Lowered]) -> int:
    """Note the calls of an expression by height, each once; the height of the expression."""
    if isinstance(expression, Column):
        known[expression] = Lowered(name(expression.name))
        return 0
    if isinstance(expression, Value):
        value = expression.value
        known[expression] = Lowered(str(value.numerator) if isinstance(value, Fraction) else text(value))
        return 0
    height = 1 + max((_collect(each, levels, known) for each in expression.arguments), default=0)
    if expression not in levels.setdefault(height, []):
        levels[height].append(expression)
    return height
