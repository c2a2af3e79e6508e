"""Rules between columns, as a person writes them in the catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator

from dither.catalog.columns import Column, Date, Decimal, Integer, Timestamp
from dither.catalog.file.fields import Fields, Where
from dither.catalog.file.tree import Mapping
from dither.catalog.model import Catalog, Table
from dither.catalog.row_rules import FORMS, RowRule
from dither.catalog.written_codes import find_code
from dither.errors import CatalogError


def read_rules(outer: Fields, file: str, table: str) -> tuple[RowRule, ...]:
    """Read the rules of a table."""
    where = Where(file, f"table {table}, rules")
    return tuple(
        _read_rule(Fields(where, node, node.line, "rule"), node.line)
        for node in where.read_list(outer.node("rules"), "rules")
    )


def _read_rule(fields: Fields, line: int) -> RowRule:
    provenance = fields.prose("provenance")
    if "never" in fields:
        for key in ("rule", "column", "follows", "values"):
            fields.forbid(key, "it belongs to another form of rule")
        return RowRule(_write_never(_read_texts(fields, "never")), provenance, line=line)
    if "follows" in fields:
        fields.forbid("rule", "it belongs to another form of rule")
        text = _write_follows(
            fields.text("column"), fields.text("follows"), _read_texts(fields, "values")
        )
        return RowRule(text, provenance, line=line)
    for key in ("column", "values"):
        fields.forbid(key, "it belongs to a rule with follows")
    return RowRule(fields.prose("rule"), provenance, line=line)


def _read_texts(fields: Fields, key: str) -> dict[str, str]:
    node = fields.node(key)
    if not isinstance(node, Mapping):
        raise fields.error(f"{key} must be a mapping, such as {{sex: m, pregnant: true}}", key)
    return {entry.key: fields.where.text(entry.node, key) for entry in node.entries}


def check_rules(catalog: Catalog) -> Iterator[CatalogError]:
    """Yield an error for each rule that is none, or does not fit its columns."""
    for table in catalog.tables:
        for rule in table.rules:
            if why := find_rule_problem(rule, table):
                message = f"table {table.name}, rules: {why}"
                yield CatalogError(message, file=catalog.file, line=rule.line)


def find_rule_problem(rule: RowRule, table: Table) -> str | None:
    """What is wrong with a rule of this table; None where nothing is."""
    if table.kind == "public":
        return "a public table has no rules: its rows are shown as they are"
    if not rule.is_sound:
        return f"{rule.text!r} is no rule: write {FORMS}"
    missing = [name for name in rule.columns if name not in table.column_names]
    if missing:
        return f"{rule.text!r} names {missing[0]}, which is no column of {table.name}"
    columns = {name: table.column(name) for name in rule.columns}
    if rule.operator:
        return _find_comparison_problem(rule, *columns.values())
    named = list(rule.values.items())
    for second, first in rule.pairs:
        named += [(rule.columns[0], first), (rule.columns[1], second)]
    for name, value in named:
        if find_code(columns[name], value, None) is None:
            return f"{rule.text!r}: {value!r} is no value of {name} that the catalog lists"
    return None


def _find_comparison_problem(rule: RowRule, first: Column, second: Column) -> str | None:
    ordered = (Integer, Decimal, Date, Timestamp)
    is_alike = type(first) is type(second) and isinstance(first, ordered)
    if is_alike and isinstance(first, Decimal) and isinstance(second, Decimal):
        is_alike = first.resolution == second.resolution
    return None if is_alike else f"{rule.text!r} compares columns of different types"


def _write_never(values: dict[str, str]) -> str:
    """The text of a structural zero."""
    return f"never {json.dumps(values, ensure_ascii=False)}"


def _write_follows(column: str, follows: str, pairs: dict[str, str]) -> str:
    """The text of a dependency."""
    return f"{column} follows {follows} {json.dumps(pairs, ensure_ascii=False)}"
