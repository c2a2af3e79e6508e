"""SQL that is true where a repaired row breaks a rule between its columns.

Each condition is a function of one row and total: a null breaks nothing. So dropping such rows
moves nobody else's, like the null rule of a column.
"""

from __future__ import annotations

from collections.abc import Mapping

from dither.catalog import Category, Table
from dither.catalog.row_rules import RowRule
from dither.catalog.written_codes import find_code
from dither.data.quoting import name

_BROKEN = {"<=": ">", ">=": "<", "<": ">=", ">": "<=", "=": "<>", "!=": "="}


def write_broken(
    rule: RowRule,
    table: Table,
    outputs: Mapping[str, str],
    labels: Mapping[str, tuple[str, ...]],
) -> str:
    """Write SQL that is true where a row breaks the rule; `outputs` are the repaired values."""
    values = [f"({outputs[name(column)]})" for column in rule.columns]
    if rule.operator:
        return f"coalesce({values[0]} {_BROKEN[rule.operator]} {values[1]}, false)"
    if rule.pairs:
        return _write_follows(rule, table, values, labels)
    equal = [
        _write_equal(table, column, value, text, labels)
        for (column, text), value in zip(rule.values.items(), values, strict=True)
    ]
    return f"coalesce({' AND '.join(equal)}, false)"


def _write_follows(
    rule: RowRule, table: Table, values: list[str], labels: Mapping[str, tuple[str, ...]]
) -> str:
    """A listed value of the second column beside another value of the first than the listed one."""
    first, second = rule.columns
    broken = [
        f"({_write_equal(table, second, values[1], determining, labels)} AND NOT "
        f"{_write_equal(table, first, values[0], determined, labels)})"
        for determining, determined in rule.pairs
    ]
    return f"coalesce({' OR '.join(broken)}, false)"


def _write_equal(
    table: Table, column: str, value: str, text: str, labels: Mapping[str, tuple[str, ...]]
) -> str:
    """Equal to a written value; false where a public list has no such label."""
    described = table.column(column)
    listed = labels[column] if isinstance(described, Category) else None
    code = find_code(described, text, listed)
    return "false" if code is None else f"({value} = {code})"
