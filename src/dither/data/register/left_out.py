"""How many rows the limits left out of a registered copy: true counts, for the steward alone."""

from __future__ import annotations

from collections.abc import Callable

from dither.catalog import Catalog, OwnerColumn, Table
from dither.data.lower.columns import OWNER
from dither.data.lower.dialect import dialect
from dither.data.quoting import name
from dither.data.register.text_sql import fold_spelling


def count_left_out(
    count: Callable[[str], int],
    catalog: Catalog,
    table: Table,
    rows: str,
    candidates: int,
    kept: int,
) -> list[tuple[str, int]]:
    """Count the rows of a key that an owner had already, and the rows beyond the limit.

    `rows` is SQL of the rows that could have been registered, `candidates` how many those are, and
    `kept` how many were registered. Where a table has several unique keys the two are one number:
    telling them apart would take the whole ranking again.
    """
    if catalog.unit.kind == "row":
        return []
    unit = catalog.unit.label.replace("_", " and ")
    beyond = f"beyond {table.rows_per_unit} per {unit}, left out"
    repeated = "rows of a repeated unique key"
    left_out = candidates - kept
    if not table.unique:
        return [(beyond, left_out)]
    if len(table.unique) > 1:
        return [(f"{repeated}, or {beyond}", left_out)]
    owner = catalog.owner_column(table)
    keys = ", ".join([OWNER, *(name(key) for key in table.unique[0] if key != owner)])
    distinct = f"SELECT count(*) FROM (SELECT DISTINCT {keys} FROM ({rows}))"
    repeats = candidates - count(distinct) if left_out else 0
    return [(f"{repeated}, left out", repeats), (beyond, left_out - repeats)]


def count_spellings(
    count: Callable[[str], int], catalog: Catalog, table: Table, owners: str
) -> list[tuple[str, int]]:
    """Count owners that differ from another by case, spaces or zeros only, for the steward.

    `owners` is SQL of the registered owners, each once, where they are known also those of the
    tables before: 7 in one file is often 7.0 or 007 in the next. One person written in two forms
    is two units, each with rows and protection of its own.
    """
    if not isinstance(table.owner, OwnerColumn):
        return []
    people = f"SELECT {OWNER} AS person FROM ({owners})"
    if catalog.unit.column is not None:
        person = f"substr({OWNER}, instr({OWNER}, {dialect().text(':')}) + 1)"
        people = f"SELECT DISTINCT {person} AS person FROM ({owners})"
    folded = fold_spelling("lower(person)")
    alike = f"SELECT count(*) AS n FROM ({people}) GROUP BY {folded} HAVING count(*) > 1"
    number = count(f"SELECT coalesce(sum(n), 0) FROM ({alike})")
    return [("owners that differ from another by case, spaces or zeros only", number)]
