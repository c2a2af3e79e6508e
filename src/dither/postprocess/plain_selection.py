"""Answer statements that only pick columns of one table, or scale them, without an engine.

Starting an engine takes longer than picking columns. So `SELECT "a", b / 7.0 AS c FROM part ORDER
BY a` is read off the table. Any other statement, and any column of a type that an engine might
return differently, is left to the engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

_NAME = r'"[^"]+"|[A-Za-z_][A-Za-z0-9_]*'
_NUMBER = r"[0-9]{1,9}(?:\.[0-9]{1,6})?"
_TERM = rf"(?:{_NUMBER} \* )?(?:{_NAME})(?: [*/] {_NUMBER})?"
_LIST = rf"(?:{_TERM}(?: AS (?:{_NAME}))?(?:, |(?= FROM |$)))+"
_STATEMENT = re.compile(rf"SELECT ({_LIST}) FROM ({_NAME})(?: ORDER BY ({_LIST}))?")
_OUTPUT = re.compile(rf"(?:({_NUMBER}) \* )?({_NAME})(?: ([*/]) ({_NUMBER}))?(?: AS ({_NAME}))?")
_LARGEST = 1e200
"""Only columns of smaller numbers are scaled here: the engine may refuse what overflows."""
_LEFT_TO_ENGINE = "?"
_WORDS = {"distinct", "all", "desc", "null", "true", "false"}
"""Words of SQL that the patterns above would take for names."""
_SAME_TYPES: tuple[Callable[[pa.DataType], bool], ...] = (
    pa.types.is_string,
    pa.types.is_int64,
    pa.types.is_float64,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_decimal128,
)
_SORTED_TYPES: tuple[Callable[[pa.DataType], bool], ...] = (pa.types.is_string, pa.types.is_int64)


class _Output(NamedTuple):
    """A column, the name that it gets, and the number by which it is multiplied or divided.

    `operator` is * or /, empty for a column as it is, or _LEFT_TO_ENGINE.
    """

    column: str
    name: str
    operator: str
    number: float


def select_plain_columns(statement: str, tables: Mapping[str, pa.Table]) -> pa.Table | None:
    """Return the rows of a statement that only picks or scales columns of one table; None for any
    other.

    >>> table = pa.table({"a": ["y", "x"], "n": [1.0, 2.0]})
    >>> statement = "SELECT n / 2 AS m FROM part ORDER BY a"
    >>> select_plain_columns(statement, {"part": table}).to_pydict()
    {'m': [1.0, 0.5]}
    >>> select_plain_columns("SELECT n + 1 AS m FROM part", {"part": table}) is None
    True
    """
    match = _STATEMENT.fullmatch(statement)
    table = None if match is None else tables.get(_strip_quotes(match[2]))
    if match is None or table is None:
        return None
    outputs = _read_list(match[1])
    keys = _read_list(match[3] or "")
    # ORDER BY names outputs first, and then columns of the table
    named = {output.name.lower(): output for output in outputs}
    sorted_by = [named.get(key.name.lower(), key) for key in keys]
    if any(output.operator for output in (*keys, *sorted_by)):
        return None
    if not all(_has_type(table, output.column, _SAME_TYPES) for output in outputs):
        return None
    if not all(_can_scale(table, output) for output in outputs if output.operator):
        return None
    if not all(_has_type(table, key.column, _SORTED_TYPES) for key in sorted_by):
        return None
    if any(table[key.column].null_count for key in sorted_by):
        return None
    if sorted_by:
        table = table.sort_by([(key.column, "ascending") for key in sorted_by])
    columns = [_scale(table[output.column], output) for output in outputs]
    return pa.table(columns, names=[output.name for output in outputs])


def _read_list(text: str) -> list[_Output]:
    """Read a list of outputs; those scaled twice, or without a name, are left to the engine."""
    outputs = []
    for match in _OUTPUT.finditer(text):
        factor, column, operator, operand, name = match.groups()
        if factor is None and operator is None:
            scaling = ""
        elif name is None or (factor is not None and operator is not None):
            scaling = _LEFT_TO_ENGINE
        else:
            scaling = operator or "*"
        number = float(factor or operand or 1)
        outputs.append(
            _Output(_strip_quotes(column), _strip_quotes(name or column), scaling, number)
        )
    return outputs


def _strip_quotes(name: str) -> str:
    return name.removeprefix('"').removesuffix('"')


def _can_scale(table: pa.Table, output: _Output) -> bool:
    """Whether an output can be scaled here, with the engine's result bit for bit."""
    if output.operator == _LEFT_TO_ENGINE or not output.number:
        return False
    if not _has_type(table, output.column, (pa.types.is_float64,)):
        return False
    return all(value is None or abs(value) < _LARGEST for value in table[output.column].to_pylist())


def _scale(column: pa.ChunkedArray, output: _Output) -> pa.ChunkedArray:
    """Multiply or divide a column by the number of its output; null stays null."""
    if not output.operator:
        return column
    compute = pc.multiply if output.operator == "*" else pc.divide
    return compute(column, pa.scalar(output.number, pa.float64()))


def _has_type(
    table: pa.Table, column: str, kinds: tuple[Callable[[pa.DataType], bool], ...]
) -> bool:
    """Whether the table has one column of exactly this name, and it has one of these types."""
    if column.lower() in _WORDS or table.column_names.count(column) != 1:
        return False
    kind = table.schema.field(column).type
    return any(is_kind(kind) for is_kind in kinds)
