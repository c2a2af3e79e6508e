"""The SELECT of a table's repaired rows: registered values, the owner, and whether a row goes."""

from __future__ import annotations

from collections.abc import Mapping

from dither.catalog import Catalog, Category, Column, Table, Undeclared
from dither.data.lower.columns import OWNER
from dither.data.quoting import name
from dither.data.register import repair
from dither.data.register.limits import stored_columns
from dither.data.register.owners import RegistrationError, add_window, owner_sql, window_sql
from dither.data.register.row_rules import write_broken
from dither.data.register.source_types import NO_TYPES
from dither.data.register.typed_values import parse_typed_sql
from dither.plan.domain import labels_of
from dither.plan.facts import Facts

GONE = "dither_gone"


def repaired_rows_sql(
    catalog: Catalog,
    table: Table,
    raw: str,
    facts: Facts,
    types: Mapping[str, str] = NO_TYPES,
) -> tuple[str, dict[str, str]]:
    """Write the SELECT of the repaired rows of `raw`, and what to count of them for the steward.

    Columns of `raw` are texts, but for those in `types`. Counts are conditions on the rows by
    their words. A row is a function of its raw row and of the row that says who owns it.
    """
    columns = stored_columns(catalog, table)
    labels = {column.name: _list_labels(column, facts) for column in columns}
    owner, join = owner_sql(catalog, table) if table.kind == "private" else ("''", "")
    read = [f"{owner} AS {OWNER}", *(f"raw.{name(column.name)}" for column in columns)]
    source = add_window(catalog, table, raw) if join else raw
    sql = f"SELECT {', '.join(read)} FROM {source} AS raw{join}"
    values = [
        f"{_parse_sql(column, labels[column.name], types)} AS {_name_parsed(column.name)}"
        for column in columns
    ]
    sql = f"SELECT {', '.join(['*', *values])} FROM ({sql})"
    outputs = {OWNER: OWNER}
    gone = ["false"]
    counted = {"rows without an owner, dropped": f"{OWNER} IS NULL"}
    for column in columns:
        column_labels = labels[column.name]
        flag = name(f"dither_changed_{column.name}")
        parsed = _name_parsed(column.name)
        outputs[name(column.name)] = repair.repair_sql(column, parsed, column_labels)
        outputs[flag] = repair.change_sql(column, parsed, column_labels)
        counted[f"{column.name}: values repaired"] = flag
        if reason := repair.drop_sql(column, parsed, column_labels):
            gone.append(f"({reason})")
            dropped = name(f"dither_dropped_{column.name}")
            outputs[dropped] = f"({reason})"
            counted[f"{column.name}: rows dropped"] = dropped
    for number, rule in enumerate(table.rules):
        broken = name(f"dither_broken_{number}")
        outputs[broken] = write_broken(rule, table, outputs, labels)
        gone.append(outputs[broken])
        counted[f"rule {rule.text}: rows dropped"] = broken
    outputs[GONE] = f"({' OR '.join(gone)})"
    shown = ", ".join(f"{value} AS {column}" for column, value in outputs.items())
    sql = f"SELECT {shown} FROM ({sql})"
    return _add_windows_to_owners(catalog, table, sql, list(outputs)), counted


def _parse_sql(column: Column, labels: tuple[str, ...], types: Mapping[str, str]) -> str:
    if column.name in types:
        return parse_typed_sql(column, types[column.name])
    return repair.parse_sql(column, labels)


def _add_windows_to_owners(catalog: Catalog, table: Table, sql: str, outputs: list[str]) -> str:
    """Write rows whose owner is a person in a window, where that is the unit."""
    if table.kind != "private" or catalog.unit.column is None:
        return sql
    window = window_sql(catalog.unit, table, name(catalog.unit.column))
    pair = f"concat(CAST({window} AS STRING), ':', {OWNER})"
    pair = f"CASE WHEN {OWNER} IS NOT NULL THEN {pair} END AS {OWNER}"
    return f"SELECT {', '.join([pair, *outputs[1:]])} FROM ({sql})"


def _name_parsed(column: str) -> str:
    return name("dither_parsed_" + column)  # no column of a catalog has such a name


def _list_labels(column: object, facts: Facts) -> tuple[str, ...]:
    """List the labels of a category; none for other columns. Checks what nulls become."""
    if isinstance(column, Category) and not isinstance(column.values, Undeclared):
        labels = labels_of(column, facts)
        if isinstance(column.nulls.value, str) and column.nulls.value not in labels:
            raise RegistrationError(
                f"{column.name}: nulls become '{column.nulls.value}', which is no label of its list"
            )
        return labels
    return ()
