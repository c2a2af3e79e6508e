"""What the server may know of a copy when it plans: the catalog, sizes, and public rows.

Statistics of private columns are those of a few invented rows, spread evenly over what the catalog
declares; they are taken before the real rows come, and never again. So a plan follows from the
catalog and the sizes of tables, not from what rows hold. Indexes and foreign keys say what
registration made true: keys are unique within an owner, and a row meets its owner's rows alone.
Nothing but time depends on any of it, so what cannot be made is left out.
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
"""It shares no divisor with the number of rows: values come in no order, each as often."""
_MANY = 256
"""From so many values on, an index finds few rows of each."""
_EVEN = "WITH (deduplicate_items = off)"
"""Equal keys take as much room as different ones. When the server plans it also looks up the ends
of a column, in whole indexes alone: one with a condition says nothing of them."""


def write_statistics(connection: Any, schema: str, catalog: Catalog, table: Table) -> None:
    """Give a private table, still empty, the statistics of invented rows."""
    target = f"{name(schema)}.{name(table.name)}"
    values = {UNIT: "i"}
    counts = {UNIT: -1 / _guess_rows(table)}
    for column in table.columns:
        if column.name == catalog.owner_column(table):
            continue
        if (ends := _find_ends(column)) is not None:
            low, high = ends
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
    """Index the keys of all tables, say which follow from which, and analyse public tables."""
    for table in catalog.tables:
        for index in _list_indexes(catalog, table):
            _try(connection, index.format(table=f"{name(schema)}.{name(table.name)}"))
        if table.kind == "public":
            connection.execute(f"ANALYZE {name(schema)}.{name(table.name)}")
    for table in catalog.private_tables:
        for parent, pairs in _list_references(catalog, table):
            ours, theirs = (", ".join(map(name, columns)) for columns in zip(*pairs, strict=True))
            _try(
                connection,
                f"ALTER TABLE {name(schema)}.{name(table.name)} ADD FOREIGN KEY ({ours}) "
                f"REFERENCES {name(schema)}.{name(parent.name)} ({theirs}) NOT VALID",
            )


def _try(connection: Any, statement: str) -> None:
    """Run a statement; where the server refuses it, such as for a text too long to index, the copy
    is the same without."""
    errors = load_psycopg().errors
    refusals = (errors.ProgramLimitExceeded, errors.UniqueViolation, errors.InvalidForeignKey)
    with suppress(*refusals), connection.transaction():
        connection.execute(statement)


def _list_indexes(catalog: Catalog, table: Table) -> list[str]:
    """The indexes of a table, in which its name is still to be written."""
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
        if _find_ends(column) is not None and _find_ends(column) in _list_public_keys(catalog)
    ]
    return indexes + [
        f"CREATE INDEX ON {{table}} ({name(column)}) {_EVEN} WHERE {name(column)} IS NOT NULL"
        for column in joined
    ]


def _list_public_keys(catalog: Catalog) -> list[tuple[int, int]]:
    """The ends of keys of public tables that have many values: what private rows are met by."""
    ends = [
        _find_ends(table.column(column))
        for table in catalog.tables
        if table.kind == "public"
        for key in table.unique
        for column in key
    ]
    return [pair for pair in ends if pair is not None and pair[1] - pair[0] + 1 >= _MANY]


def _list_unit_keys(catalog: Catalog, table: Table) -> list[tuple[str, ...]]:
    """The stored columns in which no two rows of a private table agree, its unit first."""
    if catalog.unit.kind == "row":
        return []
    owner = catalog.owner_column(table)
    keys = [(UNIT, *(column for column in key if column != owner)) for key in table.unique]
    return [*keys, *([(UNIT,)] if table.rows_per_unit == 1 and (UNIT,) not in keys else [])]


def _list_references(catalog: Catalog, table: Table) -> list[tuple[Table, list[tuple[str, str]]]]:
    """The tables whose unique keys the rows of a private table hold, with pairs of columns."""
    references: list[tuple[Table, list[tuple[str, str]]]] = [
        (other, [(UNIT, UNIT)])
        for other in catalog.private_tables
        if other is not table and (UNIT,) in _list_unit_keys(catalog, other)
    ]
    if isinstance(table.owner, OwnerReference):
        parent = catalog.table(table.owner.references)
        pairs = [(UNIT, UNIT), *table.owner.by]
        key = tuple(theirs for _, theirs in pairs)
        if key in _list_unit_keys(catalog, parent):
            references.append((parent, pairs))
    for other in catalog.tables:
        for key in other.unique if other.kind == "public" else ():
            candidates = [_list_twins(table, other.column(column)) for column in key]
            if all(len(twins) == 1 for twins in candidates):
                ours = (twins[0] for twins in candidates)
                references.append((other, list(zip(ours, key, strict=True))))
    return references


def _list_twins(table: Table, key: Column) -> list[str]:
    """The columns of a table between the ends of a public key: they seem to hold its values."""
    ends = _find_ends(key)
    return [c.name for c in table.columns if ends is not None and _find_ends(c) == ends]


def _guess_rows(table: Table) -> int:
    """Rows of one owner, for plans alone: limits are wide, so a quarter of what is declared."""
    return max(1, (table.rows_per_unit or 1) // 4)


def _guess_share(catalog: Catalog, table: Table, column: str) -> float | None:
    """Different values of an id for each row: 1 for a key, fewer where rows name their parent."""
    if (column,) in table.unique:
        return 1.0
    if isinstance(table.owner, OwnerReference) and column in dict(table.owner.by):
        parent = catalog.table(table.owner.references)
        return min(1.0, _guess_rows(parent) / _guess_rows(table))
    return None


def _find_ends(column: Column) -> tuple[int, int] | None:
    """The least and the largest integer that a stored column may hold by the catalog alone; None
    for texts and labels without a list."""
    if isinstance(column, Bounded):
        return column.lower_grid, column.upper_grid
    if isinstance(column, Category) and isinstance(column.values, tuple):
        return 0, len(column.values) - (column.other == "drop")
    return None
