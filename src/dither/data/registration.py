"""Registration: raw files become *the* database that the guarantee speaks of.

The prepared copy holds, per private table, values already cast, clamped, null-ruled and on the grid; one owner per
row; at most `rows_per_unit` rows per owner; clustered by owner. Which rows of an owner stay is a function of
(installation key, owner, the row's repaired columns, ordinal among identical rows) and nothing else: never of rowid,
file position or another owner's rows (privacy-rules 3; proof: docs/proofs/stability.md#registration).
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dither.catalog import Catalog, Column, Id, OwnerColumn, Table
from dither.data.engines.duckdb import name, open_for_registration, text
from dither.data.repair import changed, dropped, parsed, repaired
from dither.errors import DitherError

OWNER, RANK = "dither_owner", "dither_rank"
ORDINAL, DIGEST, PLACE = "dither_ordinal", "dither_digest", "dither_place"  # no declared name starts with dither_
RAW, PARSED = "dither_raw", "dither_parsed"


class RegistrationError(DitherError):
    """Registration stopped; the message is for the steward only, the version in use stays in use."""


@dataclass(frozen=True)
class Repairs:
    """What registration did to one table's rows. For the steward's eyes only: these are true counts."""

    table: str
    counts: tuple[tuple[str, int], ...]


def write_copy(
    catalog: Catalog, folder: Path, key: bytes, target: Path, spill: Path, stage: Callable[[str], None]
) -> list[Repairs]:
    """Write the prepared copy of every private table of `catalog` (files under `folder`) into a new file `target`."""
    connection = open_for_registration(target, spill)
    try:
        connection.execute("SET VARIABLE dither_key = $key", {"key": key.hex()})
        found = [_register(connection, table, folder, stage) for table in catalog.private_tables]
        stage("writing the copy")
        connection.execute("CHECKPOINT")
        return found
    except duckdb.Error as error:
        raise RegistrationError(f"the engine could not register the data: {error}") from None
    finally:
        connection.close()


def _register(
    connection: duckdb.DuckDBPyConnection, table: Table, folder: Path, stage: Callable[[str], None]
) -> Repairs:
    stage(f"{table.name}: reading {table.source_name}")
    counts: list[tuple[str, int]] = [("lines that could not be read", _read_text(connection, table, folder))]
    stage(f"{table.name}: repairing values")
    connection.execute(f"CREATE TEMP TABLE {PARSED} AS {_parsed_rows(table)}")
    counts += _count_repairs(connection, table)
    connection.execute(f"DROP TABLE {RAW}")
    stage(f"{table.name}: limiting to {table.rows_per_unit} rows per person")
    copy = f"{name(_file_name(connection))}.main.{name(table.name)}"  # in full: a temporary table may have any name
    connection.execute(f"CREATE TABLE {copy} AS {_limited_rows(table)}")
    kept = _one(connection, f"SELECT count(*) FROM {copy}")
    connection.execute(f"DROP TABLE {PARSED}")
    if table.max_rows is None or kept > table.max_rows:
        raise RegistrationError(
            f"{table.name}: more rows than max_rows {table.max_rows} are left after the limits. Nothing was "
            "registered: raise max_rows in the catalog, to a round number that leaves room and does not follow the data"
        )
    return Repairs(table.name, (*counts, ("rows registered", kept)))


def _file_name(connection: duckdb.DuckDBPyConnection) -> str:
    row = connection.execute("SELECT current_database()").fetchone()
    assert row is not None
    return str(row[0])


def _one(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    row = connection.execute(sql).fetchone()
    assert row is not None
    return int(row[0] or 0)


def _read_text(connection: duckdb.DuckDBPyConnection, table: Table, folder: Path) -> int:
    """Load the declared columns as text; the number of lines that were no CSV.

    One line is one row, and is read by itself: by one thread from the start (a parallel reader guesses whether its part
    begins inside quotes, and guesses by other people's rows), and every line is accounted for: a record that spans
    lines stops registration, since an unclosed quote would silently swallow the rows after it. So nobody's row can
    change how another's is read.
    """
    path = folder / table.source_name
    header = _header(path, table)
    columns = "{" + ", ".join(f"{text(column)}: 'VARCHAR'" for column in header) + "}"
    wanted = ", ".join(name(column.name) for column in table.columns)
    connection.execute(
        f"CREATE TEMP TABLE {RAW} AS SELECT {wanted} FROM read_csv({text(str(path))}, auto_detect = false, "
        f"header = true, delim = ',', quote = '\"', escape = '\"', nullstr = '', columns = {columns}, "
        "ignore_errors = true, store_rejects = true, rejects_limit = 0, parallel = false, hive_partitioning = false)"
    )
    unread = _one(connection, "SELECT count(DISTINCT line) FROM reject_errors")
    lost = _lines(path) - 1 - _one(connection, f"SELECT count(*) FROM {RAW}") - unread
    if lost:
        raise RegistrationError(
            f"{table.name}: {abs(lost)} lines of {path.name} are inside records that span several lines, because of a "
            "line break inside quotes or a quote that is never closed. Nothing was registered: such a quote swallows "
            "other people's rows, so remove line breaks inside fields at the source"
        )
    return unread


def _lines(path: Path) -> int:
    """Lines of a file that are not blank."""
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip(b"\r\n"))


def _header(path: Path, table: Table) -> list[str]:
    """The names in the file's first line: schema, not data. Types and values are never looked at."""
    if set("*?[") & set(str(path)):
        raise RegistrationError(f"{table.name}: {path} holds a wildcard; name one file")
    try:
        with path.open("rb") as file:
            header = next(csv.reader([file.readline(1 << 20).decode("utf-8-sig")]), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RegistrationError(f"{table.name}: cannot read {path}: {type(error).__name__}") from None
    missing = [column for column in table.column_names if column not in header]
    if missing or len(set(header)) != len(header):
        raise RegistrationError(
            f"{table.name}: the first line of {path.name} must name every declared column once; "
            f"missing: {', '.join(missing) or 'none'}; found: {', '.join(header)}"
        )
    return header


def _owner(table: Table) -> str:
    assert isinstance(table.owner, OwnerColumn)
    return table.owner.column


def _stored(table: Table) -> list[Column]:
    """The columns of the copy beside the owner, in catalog order."""
    return [column for column in table.columns if column.name != _owner(table)]


def _parsed_rows(table: Table) -> str:
    """SQL: every raw row that has an owner, its texts read by type."""
    values = ", ".join(f"{parsed(column)} AS {name('p_' + column.name)}" for column in _stored(table))
    raws = ", ".join(f"{name(column.name)} AS {name('r_' + column.name)}" for column in _stored(table))
    owner = name(_owner(table))
    parts = ", ".join(part for part in (f"{owner} AS {OWNER}", values, raws) if part)
    return f"SELECT {parts} FROM {RAW} WHERE {owner} IS NOT NULL"


def _count_repairs(connection: duckdb.DuckDBPyConnection, table: Table) -> list[tuple[str, int]]:
    tests = {"rows": "true"}
    for column in _stored(table):
        value = name("p_" + column.name)
        tests[f"{column.name}: values repaired"] = changed(column, name("r_" + column.name), value)
        if reason := dropped(column, value):
            tests[f"{column.name}: rows dropped"] = reason
    counted = ", ".join(f"count_if({test})" for test in tests.values())
    row = connection.execute(f"SELECT {counted} FROM {PARSED}").fetchone()
    assert row is not None
    found = {what: int(count or 0) for what, count in zip(tests, row, strict=True)}
    orphans = _one(connection, f"SELECT count(*) FROM {RAW}") - found.pop("rows")
    return [("rows without an owner, dropped", orphans), *found.items()]


def _limited_rows(table: Table) -> str:
    """SQL: repaired rows, made unique per owner, ranked by content within the owner, cut at the limit."""
    columns = _stored(table)
    names = ", ".join([OWNER, *(name(column.name) for column in columns)])
    values = [f"{repaired(column, name('p_' + column.name))} AS {name(column.name)}" for column in columns]
    gone = [f"({reason})" for column in columns if (reason := dropped(column, name("p_" + column.name)))]
    keep = f" WHERE NOT ({' OR '.join(gone)})" if gone else ""
    sql = f"SELECT {', '.join([OWNER, *values])} FROM {PARSED}{keep}"
    sql = f"SELECT *, row_number() OVER (PARTITION BY {names}) AS {ORDINAL} FROM ({sql})"
    sql = f"SELECT *, {_digest(columns)} AS {DIGEST} FROM ({sql})"
    order = f"{DIGEST}, {names}, {ORDINAL}"
    for unique in table.unique:
        parts = {OWNER, *(name(part) for part in unique if part != _owner(table))}
        sql = (
            f"SELECT * EXCLUDE ({PLACE}) FROM (SELECT *, row_number() OVER (PARTITION BY {', '.join(sorted(parts))} "
            f"ORDER BY {order}) AS {PLACE} FROM ({sql})) WHERE {PLACE} = 1"
        )
    ranked = f"SELECT *, row_number() OVER (PARTITION BY {OWNER} ORDER BY {order}) AS {RANK} FROM ({sql})"
    shown = ", ".join([OWNER, f"CAST({RANK} AS INTEGER) AS {RANK}", *(name(column.name) for column in columns)])
    return f"SELECT {shown} FROM ({ranked}) WHERE {RANK} <= {table.rows_per_unit} ORDER BY {OWNER}, {RANK}"


def _digest(columns: list[Column]) -> str:
    """SQL: sha256 over key, owner, every declared column and the ordinal, each as `length:bytes`, null as `-`."""
    fields = ["concat('64:', getvariable('dither_key'))", _field(OWNER, is_text=True)]
    fields += [_field(name(column.name), is_text=isinstance(column, Id)) for column in columns]
    fields.append(_field(ORDINAL, is_text=False))
    return f"sha256(concat({', '.join(fields)}))"


def _field(expression: str, *, is_text: bool) -> str:
    written = expression if is_text else f"CAST({expression} AS VARCHAR)"
    return f"CASE WHEN {expression} IS NULL THEN '-' ELSE concat(strlen({written}), ':', {written}) END"
