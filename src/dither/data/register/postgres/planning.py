"""What PostgreSQL may know of a copy when it plans: the catalog, sizes of tables, and public rows.

Statistics of private columns are those of invented rows, spread evenly over the values that the
catalog declares. They are taken before the real rows come, and never again. So a plan follows from
the catalog and the sizes of tables, not from what private rows hold. Indexes and foreign keys state
what registration made true: keys are unique within an owner, and a row meets its owner's rows
alone. Only the time of a question depends on them, so one that the server refuses is left out.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dither.catalog import Bounded, Catalog, Category, Column, OwnerReference, Table
from dither.data.engines.postgres.session import load_psycopg
from dither.data.lower.columns import UNIT
from dither.data.quoting import name

_INVENTED_ROWS = 1000
_STRIDE = 617
"""It shares no divisor with _INVENTED_ROWS, so that i * _STRIDE % _INVENTED_ROWS takes every value
once, in no order of size."""
_MANY = 256
"""Keys with at least so many values have an index, which then finds few rows for each of them."""
_EVEN = "WITH (deduplicate_items = off)"
"""Equal keys take as much room as different ones. When the server plans, it also looks up the ends
of a column, but only in indexes without a condition."""


def write_statistics(connection: Any, schema: str, catalog: Catalog, table: Table) -> None:
    """Give a private table that is still empty the statistics of invented rows.

    `counts` are numbers of different values as PostgreSQL writes them: those below 0 are shares of
    the number of rows.
    """
    target = f"{name(schema)}.{name(table.name)}"
    values = {UNIT: "i"}
    counts = {UNIT: -1 / _guess_rows(table)}
    for column in table.columns:
        if column.name == catalog.owner_column(table):
            continue
        if (bounds := _find_bounds(column)) is not None:
            low, high = bounds
            spread = f"(i * {_STRIDE} % {_INVENTED_ROWS})::numeric * {high - low + 1}"
            values[column.name] = f"{low} + div({spread}, {_INVENTED_ROWS})"
            counts[column.name] = high - low + 1
        elif (share := _guess_share(catalog, table, column.name)) is not None:
            values[column.name] = "i::text"
            counts[column.name] = -share
    names = ", ".join(map(name, values))
    connection.execute(
        f"INSERT INTO {target} ({names}) SELECT {', '.join(values.values())} "
        f"FROM generate_series(0, {_INVENTED_ROWS - 1}) AS i"
    )
    for column_name, count in counts.items():
        connection.execute(
            f"ALTER TABLE {target} ALTER COLUMN {name(column_name)} SET (n_distinct = {count})"
        )
    connection.execute(f"ANALYZE {target} ({names})")
    connection.execute(f"TRUNCATE {target}")


def write_indexes(connection: Any, schema: str, catalog: Catalog) -> None:
    """Index the keys of all tables, declare foreign keys, and analyse public tables."""
    for table in catalog.tables:
        for index in _list_indexes(catalog, table):
            _run_if_accepted(connection, index.format(table=f"{name(schema)}.{name(table.name)}"))
        if table.kind == "public":
            connection.execute(f"ANALYZE {name(schema)}.{name(table.name)}")
    for table in catalog.private_tables:
        for parent, pairs in _list_references(catalog, table):
            columns, key = (", ".join(map(name, names)) for names in zip(*pairs, strict=True))
            _run_if_accepted(
                connection,
                f"ALTER TABLE {name(schema)}.{name(table.name)} ADD FOREIGN KEY ({columns}) "
                f"REFERENCES {name(schema)}.{name(parent.name)} ({key}) NOT VALID",
            )


def _run_if_accepted(connection: Any, statement: str) -> None:
    """Run a statement that the copy can do without, where the server does not refuse it.

    It refuses, for instance, to index long texts.
    """
    errors = load_psycopg().errors
    refusals = (errors.ProgramLimitExceeded, errors.UniqueViolation, errors.InvalidForeignKey)
    with suppress(*refusals), connection.transaction():
        connection.execute(statement)


def _list_indexes(catalog: Catalog, table: Table) -> list[str]:
    """List statements that make the indexes of a table, with {table} in place of its name."""
    if table.kind == "public":
        keys = [", ".join(map(name, key)) for key in table.unique]
        return [f"CREATE UNIQUE INDEX ON {{table}} ({key})" for key in keys]
    keys = [", ".join(map(name, key)) for key in _list_unit_keys(catalog, table)]
    indexes = [f"CREATE UNIQUE INDEX ON {{table}} ({key})" for key in keys]
    if not indexes:
        indexes = [f"CREATE INDEX ON {{table}} ({name(UNIT)}) {_EVEN}"]
    joined = [
        column.name
        for column in table.columns
        if _find_bounds(column) is not None and _find_bounds(column) in _list_public_keys(catalog)
    ]
    return indexes + [
        f"CREATE INDEX ON {{table}} ({name(column)}) {_EVEN} WHERE {name(column)} IS NOT NULL"
        for column in joined
    ]


def _list_public_keys(catalog: Catalog) -> list[tuple[int, int]]:
    """List the bounds of the columns of public tables' keys, where these have many values.

    Private rows are joined to public ones by such columns.
    """
    bounds = [
        _find_bounds(table.column(column))
        for table in catalog.tables
        if table.kind == "public"
        for key in table.unique
        for column in key
    ]
    return [pair for pair in bounds if pair is not None and pair[1] - pair[0] + 1 >= _MANY]


def _list_unit_keys(catalog: Catalog, table: Table) -> list[tuple[str, ...]]:
    """List the keys that are unique in a stored private table; each begins with the unit."""
    if catalog.unit.kind == "row":
        return []
    owner = catalog.owner_column(table)
    keys = [(UNIT, *(column for column in key if column != owner)) for key in table.unique]
    return [*keys, *([(UNIT,)] if table.rows_per_unit == 1 and (UNIT,) not in keys else [])]


def _list_references(catalog: Catalog, table: Table) -> list[tuple[Table, list[tuple[str, str]]]]:
    """List the tables that a private table refers to, with pairs of its columns and theirs."""
    references: list[tuple[Table, list[tuple[str, str]]]] = [
        (other, [(UNIT, UNIT)])
        for other in catalog.private_tables
        if other is not table and (UNIT,) in _list_unit_keys(catalog, other)
    ]
    if isinstance(table.owner, OwnerReference):
        parent = catalog.table(table.owner.references)
        pairs = [(UNIT, UNIT), *table.owner.by]
        key = tuple(parent_column for _, parent_column in pairs)
        if key in _list_unit_keys(catalog, parent):
            references.append((parent, pairs))
    for other in catalog.tables:
        for key in other.unique if other.kind == "public" else ():
            candidates = [_list_columns_within(table, other.column(column)) for column in key]
            if all(len(columns) == 1 for columns in candidates):
                referring = (columns[0] for columns in candidates)
                references.append((other, list(zip(referring, key, strict=True))))
    return references


def _list_columns_within(table: Table, key: Column) -> list[str]:
    """List the columns of a table that have the bounds of this key of a public table.

    They seem to refer to it.
    """
    bounds = _find_bounds(key)
    return [c.name for c in table.columns if bounds is not None and _find_bounds(c) == bounds]


def _guess_rows(table: Table) -> int:
    """Guess the rows of one owner, for plans alone: limits are wide, so a quarter of the limit."""
    return max(1, (table.rows_per_unit or 1) // 4)


def _guess_share(catalog: Catalog, table: Table, column: str) -> float | None:
    """Guess how many different values a column of ids has for each row; None where it has no ids.

    There is one for each row of a key, and fewer where rows name their parent.
    """
    if (column,) in table.unique:
        return 1.0
    if isinstance(table.owner, OwnerReference) and column in dict(table.owner.by):
        parent = catalog.table(table.owner.references)
        return min(1.0, _guess_rows(parent) / _guess_rows(table))
    return None


def _find_bounds(column: Column) -> tuple[int, int] | None:
    """Find the least and the largest integer that a stored column may hold, by the catalog.

    None for texts, and for labels that the catalog does not list.
    """
    if isinstance(column, Bounded):
        return column.lower_grid, column.upper_grid
    if isinstance(column, Category) and isinstance(column.values, tuple):
        return 0, len(column.values) - (column.other == "drop")
    return None
