"""Statements that only pick columns of one answer: no engine is started for them.

Starting an engine takes longer than to pick columns. `SELECT a, b AS c FROM part ORDER BY a` is
read off the table; any other statement, and any column of a type that an engine might hand back
differently, is left to the engine.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import sqlglot
from sqlglot import exp

_SAME_TYPES = (
    pa.types.is_string,
    pa.types.is_int64,
    pa.types.is_float64,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_decimal128,
)
_CLAUSES = {"expressions", "from_", "order"}


def select_plain_columns(statement: str, tables: Mapping[str, pa.Table]) -> pa.Table | None:
    """The rows of a statement that only picks columns of one table; None for any other.

    >>> table = pa.table({"a": ["y", "x"], "n": [1, 2]})
    >>> select_plain_columns('SELECT "n" AS m FROM part ORDER BY a', {"part": table}).to_pydict()
    {'m': [2, 1]}
    >>> select_plain_columns("SELECT n + 1 AS m FROM part", {"part": table}) is None
    True
    """
    tree = sqlglot.parse_one(statement, read="duckdb")
    if not isinstance(tree, exp.Select):
        return None
    if any(value and clause not in _CLAUSES for clause, value in tree.args.items()):
        return None
    source = tree.args["from_"].this
    if not isinstance(source, exp.Table) or [
        key for key, value in source.args.items() if value
    ] != ["this"]:
        return None
    table = tables.get(source.name)
    if table is None:
        return None
    columns = [_name_column(output.unalias(), table) for output in tree.selects]
    order = tree.args.get("order")
    sorted_by = [] if order is None else [_name_sorted(term, table) for term in order.expressions]
    picked = [name for name in (*columns, *sorted_by) if name is not None]
    if len(picked) < len(columns) + len(sorted_by) or not picked:
        return None
    if sorted_by:
        table = table.sort_by([(name, "ascending") for name in picked[len(columns) :]])
    names = [output.alias_or_name for output in tree.selects]
    return table.select(picked[: len(columns)]).rename_columns(names)


def _name_column(node: exp.Expr, table: pa.Table) -> str | None:
    """The column of the table that an expression is, if it is one of a type that stays."""
    if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
        return None
    if node.table or table.column_names.count(node.name) != 1:
        return None
    kind = table.schema.field(node.name).type
    return node.name if any(holds(kind) for holds in _SAME_TYPES) else None


def _name_sorted(term: exp.Expr, table: pa.Table) -> str | None:
    """The column of texts or whole numbers without nulls by which rows are sorted upwards."""
    if not isinstance(term, exp.Ordered) or term.args.get("desc") or term.args.get("with_fill"):
        return None
    name = _name_column(term.this, table)
    if name is None or table[name].null_count:
        return None
    kind = table.schema.field(name).type
    return name if pa.types.is_string(kind) or pa.types.is_int64(kind) else None
