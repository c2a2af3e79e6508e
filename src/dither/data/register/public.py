"""Public tables: pinned copies, and the facts about them that plans may use.

Public rows are the same in every database, so whatever is read off them is public: how often a key
occurs and which labels a column holds. They are pinned with the version, so that neither moves
while questions are asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import duckdb

from dither.catalog import OTHER, Bounded, Catalog, Category, FromPublic, Table, Text, Undeclared
from dither.data.lower.columns import code_column
from dither.data.quoting import name
from dither.data.register.owners import RegistrationError
from dither.data.register.repair import is_text
from dither.plan.facts import Facts

MOST_PAIRED = 8
"""Of a public table with more columns that repeat a value no pairs are counted."""
MOST_TEXTS = 1000
"""Of a public text with more values no list is kept: each would be a row of an answer."""


def public_order(catalog: Catalog) -> list[Table]:
    """Public tables, those whose labels come from another one last."""
    public = [table for table in catalog.tables if table.kind == "public"]
    return sorted(public, key=lambda table: bool(_list_borrowed(table)))


def _list_borrowed(table: Table) -> list[FromPublic]:
    values_of_columns = [column.values for column in table.columns if isinstance(column, Category)]
    return [values for values in values_of_columns if isinstance(values, FromPublic)]


def pin(connection: duckdb.DuckDBPyConnection, catalog: Catalog, table: Table, rows: str) -> Facts:
    """Write the pinned copy from repaired rows; the facts about it."""
    codes = ""
    listed = sorted(
        {
            values.column
            for borrower in catalog.tables
            for values in _list_borrowed(borrower)
            if values.table == table.name
        }
    )
    for column in listed:
        if is_text(table.column(column)):
            code = f"dense_rank() OVER (ORDER BY {name(column)} NULLS LAST) - 1"
            # null is no label: it meets nobody
            code = f"CASE WHEN {name(column)} IS NOT NULL THEN {code} END"
            codes += f", CAST({code} AS INTEGER) AS {name(code_column(column))}"
    connection.execute(
        f"CREATE TABLE {name(table.name)} AS SELECT *{codes} FROM ({rows}) ORDER BY ALL"
    )
    multiplicities = tuple(
        (table.name, key, _measure_multiplicity(connection, table, key)) for key in list_keys(table)
    )
    for table_name, key, rows_per_key in multiplicities:
        if key in table.unique and rows_per_key > 1:
            raise RegistrationError(
                f"{table_name}: [{', '.join(key)}] is declared unique, and a value occurs "
                f"{rows_per_key} times: repair the public table, or remove the key from `unique`"
            )
    lists = tuple(
        (table.name, column, _read_labels(connection, table, column)) for column in listed
    )
    unlisted = [
        column.name
        for column in table.columns
        if isinstance(column, Text) and column.name not in listed
    ]
    texts = (
        (table.name, column, _read_few_texts(connection, table, column)) for column in unlisted
    )
    ranges = tuple(_list_ranges(connection, table))
    return Facts(multiplicities, lists, tuple(entry for entry in texts if entry[2]), ranges)


def _list_ranges(
    connection: duckdb.DuckDBPyConnection, table: Table
) -> Iterator[tuple[str, str, int, int]]:
    """Yield the least and the largest value of each number that lies between narrower ends than
    its bounds."""
    for column in table.columns:
        if not isinstance(column, Bounded):
            continue
        quoted = name(column.name)
        (row,) = connection.execute(
            f"SELECT min({quoted}), max({quoted}) FROM {name(table.name)}"
        ).fetchall()
        if row[0] is None:  # nothing but nulls
            continue
        low, high = int(row[0]), int(row[1])
        if (low, high) != (column.lower_grid, column.upper_grid):
            yield table.name, column.name, low, high


def _read_few_texts(
    connection: duckdb.DuckDBPyConnection, table: Table, column: str
) -> tuple[str, ...]:
    """The texts of a public column in order; nothing where they are more than anybody groups by."""
    rows = connection.execute(
        f"SELECT DISTINCT {name(column)} FROM {name(table.name)} WHERE {name(column)} IS NOT NULL "
        f"ORDER BY 1 LIMIT {MOST_TEXTS + 1}"
    ).fetchall()
    texts = tuple(str(row[0]) for row in rows)
    return texts if len(texts) <= MOST_TEXTS and OTHER not in texts else ()


def list_keys(table: Table) -> list[tuple[str, ...]]:
    """List every column by itself, every declared unique key, and every pair of few columns, texts
    last.

    A filter on one column of a pair leaves fewer rows that share a value of the other.
    """
    keys: list[tuple[str, ...]] = [
        (column.name,)
        for column in table.columns
        if not (isinstance(column, Category) and isinstance(column.values, Undeclared))
    ]
    keys += [key for key in table.unique if key not in keys]
    counted = [
        column.name
        for column in table.columns
        if (column.name,) in keys and (column.name,) not in table.unique
    ]
    texts = [name for name in counted if is_text(table.column(name))]
    others = [name for name in counted if name not in texts]
    paired = (others + texts)[:MOST_PAIRED] if len(others) <= MOST_PAIRED else []
    pairs = combinations([name for name in counted if name in paired], 2)
    return keys + [pair for pair in pairs if pair not in keys]


def _measure_multiplicity(
    connection: duckdb.DuckDBPyConnection, table: Table, key: tuple[str, ...]
) -> int:
    """Count the largest number of rows with one value of the key; null meets nothing in a join."""
    names = ", ".join(name(column) for column in key)
    present = " AND ".join(f"{name(column)} IS NOT NULL" for column in key)
    counted = f"SELECT count(*) AS n FROM {name(table.name)} WHERE {present} GROUP BY {names}"
    ((largest,),) = connection.execute(f"SELECT coalesce(max(n), 0) FROM ({counted})").fetchall()
    return int(largest)


def _read_labels(
    connection: duckdb.DuckDBPyConnection, table: Table, column: str
) -> tuple[str, ...]:
    """Read the labels that a public column lists; a list that cannot serve is refused."""
    declared = table.column(column)
    if isinstance(declared, Category):
        assert isinstance(declared.values, tuple)
        return declared.values
    quoted = name(column)
    rows = connection.execute(
        f"SELECT DISTINCT {quoted} FROM {name(table.name)} WHERE {quoted} IS NOT NULL ORDER BY 1"
    ).fetchall()
    labels = tuple(str(row[0]) for row in rows)
    if OTHER in labels or not labels:
        raise RegistrationError(
            f"{table.name}.{column}: a list of labels needs at least one, none of them '{OTHER}': "
            "that is the name under which values outside the list are shown"
        )
    return labels
