"""Answer statements that only pick columns of one table without an engine.

To start an engine takes longer than to pick columns. `SELECT "a", b AS c FROM part ORDER BY a` is
read off the table. Any other statement, and any column of a type that an engine might return
differently, is left to the engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

_NAME = r'"[^"]+"|[A-Za-z_][A-Za-z0-9_]*'
_LIST = rf"(?:(?:{_NAME})(?: AS (?:{_NAME}))?(?:, |(?= FROM |$)))+"
_STATEMENT = re.compile(rf"SELECT ({_LIST}) FROM ({_NAME})(?: ORDER BY ({_LIST}))?")
_OUTPUT = re.compile(rf"({_NAME})(?: AS ({_NAME}))?")
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


def select_plain_columns(statement: str, tables: Mapping[str, pa.Table]) -> pa.Table | None:
    """Return the rows of a statement that only picks columns of one table; None for any other.

    >>> table = pa.table({"a": ["y", "x"], "n": [1, 2]})
    >>> select_plain_columns('SELECT "n" AS m FROM part ORDER BY a', {"part": table}).to_pydict()
    {'m': [2, 1]}
    >>> select_plain_columns("SELECT n + 1 AS m FROM part", {"part": table}) is None
    True
    """
    match = _STATEMENT.fullmatch(statement)
    table = None if match is None else tables.get(_strip_quotes(match[2]))
    if match is None or table is None:
        return None
    outputs = list(_read_list(match[1]))
    # ORDER BY names outputs first, and then columns of the table
    named = {name.lower(): column for column, name in outputs}
    sorted_by = [named.get(name.lower(), name) for _, name in _read_list(match[3] or "")]
    columns = [column for column, _ in outputs]
    if not all(_has_type(table, column, _SAME_TYPES) for column in columns):
        return None
    if not all(_has_type(table, column, _SORTED_TYPES) for column in sorted_by):
        return None
    if any(table[column].null_count for column in sorted_by):
        return None
    if sorted_by:
        table = table.sort_by([(column, "ascending") for column in sorted_by])
    return table.select(columns).rename_columns([name for _, name in outputs])


def _read_list(text: str) -> Iterator[tuple[str, str]]:
    """Read a list of columns: their names, and the names that they get."""
    for match in _OUTPUT.finditer(text):
        yield _strip_quotes(match[1]), _strip_quotes(match[2] or match[1])


def _strip_quotes(name: str) -> str:
    return name.removeprefix('"').removesuffix('"')


def _has_type(
    table: pa.Table, column: str, kinds: tuple[Callable[[pa.DataType], bool], ...]
) -> bool:
    """Whether the table has one column of exactly this name, and it has one of these types."""
    if column.lower() in _WORDS or table.column_names.count(column) != 1:
        return False
    kind = table.schema.field(column).type
    return any(is_kind(kind) for is_kind in kinds)
