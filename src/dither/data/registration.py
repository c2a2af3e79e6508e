"""Registration: raw files become *the* database that the guarantee speaks of.

The prepared copy holds, per private table, values already cast, clamped, null-ruled and on the grid; one owner per
row; at most `rows_per_unit` rows per owner; clustered by owner. Public tables are pinned beside them, with their facts.
Proof that one unit's rows in the copy depend on that unit alone: docs/proofs/stability.md#registration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dither.catalog import Catalog, Category, OwnerReference, Table, Undeclared
from dither.data import repair
from dither.data.engines.duckdb import name, open_for_registration
from dither.data.limits import limited_rows, stored_columns
from dither.data.lower.columns import OWNER
from dither.data.owners import RegistrationError, build_map, owner_sql, window_sql
from dither.data.public import pin, public_order
from dither.data.sources import SourceError, text_rows, unread_lines
from dither.plan.domain import labels_of
from dither.plan.facts import NO_FACTS, Facts

__all__ = ["RegistrationError", "Repairs", "write_copy"]
Counts = list[tuple[str, int]]


@dataclass(frozen=True)
class Repairs:
    """What registration did to one table's rows. For the steward's eyes only: these are true counts."""

    table: str
    counts: tuple[tuple[str, int], ...]


@dataclass
class _Registering:
    connection: duckdb.DuckDBPyConnection
    catalog: Catalog
    place: Path
    stage: Callable[[str], None]
    facts: Facts = NO_FACTS

    def one(self, sql: str) -> int:
        row = self.connection.execute(sql).fetchone()
        assert row is not None
        return int(row[0] or 0)

    def rows_of(self, table: Table) -> str:
        return text_rows(self.connection, self.catalog.source, self.place, table)


def write_copy(
    catalog: Catalog, folder: Path, key: bytes, target: Path, spill: Path, stage: Callable[[str], None]
) -> list[Repairs]:
    """Write the prepared copy of every table of `catalog` (source at `folder`) into a new file `target`."""
    return write_copy_and_facts(catalog, folder, key, target, spill, stage)[0]


def write_copy_and_facts(
    catalog: Catalog,
    folder: Path,
    key: bytes,
    target: Path,
    spill: Path,
    stage: Callable[[str], None],
    memory: str | None = None,
) -> tuple[list[Repairs], Facts]:
    """As `write_copy`; also the public facts of the version. Above `memory` the engine spills."""
    connection = open_for_registration(target, spill, memory)
    at = _Registering(connection, catalog, folder, stage)
    try:
        connection.execute("SET VARIABLE dither_key = $key", {"key": key.hex()})
        found = [_register_public(at, table) for table in public_order(catalog)]
        _build_owner_maps(at)
        found += [_register_private(at, table) for table in catalog.private_tables]
        stage("writing the copy")
        connection.execute("CHECKPOINT")
        return found, at.facts
    except SourceError as error:
        raise RegistrationError(str(error)) from None
    except duckdb.Error as error:
        raise RegistrationError(f"the engine could not register the data: {error}") from None
    finally:
        connection.close()


def _build_owner_maps(at: _Registering) -> None:
    """From the tables nearest to the owner outwards, so that a parent's own path is known when it is needed."""
    wanted = {}
    for table in at.catalog.private_tables:
        if isinstance(table.owner, OwnerReference):
            parent = at.catalog.table(table.owner.references)
            wanted[parent.name, table.owner.by] = parent
    for (_, by), parent in sorted(wanted.items(), key=lambda item: len(at.catalog.owner_path(item[1]))):
        at.stage(f"{parent.name}: finding owners by {by}")
        build_map(at.connection, at.catalog, parent, by, at.rows_of(parent))


def _register_public(at: _Registering, table: Table) -> Repairs:
    counts = _repair(at, table)
    names = ", ".join(name(column.name) for column in table.columns)
    found = pin(at.connection, at.catalog, table, f"SELECT {names} FROM dither_repaired WHERE NOT dither_gone")
    at.facts = Facts(at.facts.multiplicities + found.multiplicities, at.facts.lists + found.lists)
    return _done(at, table, counts)


def _register_private(at: _Registering, table: Table) -> Repairs:
    counts = _repair(at, table)
    at.stage(f"{table.name}: limiting to {table.rows_per_unit} rows per {at.catalog.unit.kind}")
    rows = f"SELECT * FROM dither_repaired WHERE {OWNER} IS NOT NULL AND NOT dither_gone"
    at.connection.execute(f"CREATE TABLE {name(table.name)} AS {limited_rows(at.catalog, table, rows)}")
    done = _done(at, table, counts)
    if table.max_rows is None or done.counts[-1][1] > table.max_rows:
        raise RegistrationError(
            f"{table.name}: more rows than max_rows {table.max_rows} are left after the limits. Nothing was "
            "registered: raise max_rows in the catalog, to a round number that leaves room and does not follow the data"
        )
    return done


def _done(at: _Registering, table: Table, counts: Counts) -> Repairs:
    at.connection.execute("DROP TABLE dither_repaired")
    kept = at.one(f"SELECT count(*) FROM {name(table.name)}")
    return Repairs(table.name, (*counts, ("rows registered", kept)))


def _repair(at: _Registering, table: Table) -> Counts:
    """The temporary table `dither_repaired`: registered values, the owner, whether the row goes; and what was done."""
    at.stage(f"{table.name}: reading and repairing {table.source_name}")
    columns = stored_columns(at.catalog, table)
    labels = {column.name: _labels(at, column) for column in columns}
    owner, join = owner_sql(at.catalog, table) if table.kind == "private" else ("''", "")
    read = [f"{owner} AS {OWNER}", *(f"raw.{name(column.name)}" for column in columns)]
    sql = f"SELECT {', '.join(read)} FROM {at.rows_of(table)} AS raw{join}"
    values = [f"{repair.parsed(column, labels[column.name])} AS {_p(column.name)}" for column in columns]
    sql = f"SELECT {', '.join(['*', *values])} FROM ({sql})"
    shown, gone, counted = [OWNER], ["false"], {"rows without an owner, dropped": f"{OWNER} IS NULL"}
    for column in columns:
        mine, flag = labels[column.name], name(f"dither_changed_{column.name}")
        shown.append(f"{repair.repaired(column, _p(column.name), mine)} AS {name(column.name)}")
        shown.append(f"{repair.changed(column, _p(column.name), mine)} AS {flag}")
        counted[f"{column.name}: values repaired"] = flag
        if reason := repair.dropped(column, _p(column.name), mine):
            gone.append(f"({reason})")
            shown.append(f"({reason}) AS {name(f'dither_dropped_{column.name}')}")
            counted[f"{column.name}: rows dropped"] = name(f"dither_dropped_{column.name}")
    sql = f"SELECT {', '.join(shown)}, ({' OR '.join(gone)}) AS dither_gone FROM ({sql})"
    if table.kind == "private" and at.catalog.unit.column is not None:
        window = window_sql(at.catalog.unit, table, name(at.catalog.unit.column))
        pair = f"CASE WHEN {OWNER} IS NOT NULL THEN concat({window}, ':', {OWNER}) END"
        sql = f"SELECT * REPLACE ({pair} AS {OWNER}) FROM ({sql})"
    at.connection.execute(f"CREATE TEMP TABLE dither_repaired AS {sql}")
    found = at.connection.execute(
        f"SELECT {', '.join(f'count_if({test})' for test in counted.values())} FROM dither_repaired"
    ).fetchone()
    assert found is not None
    counts = [(what, int(count or 0)) for what, count in zip(counted, found, strict=True)]
    rows_read = at.one("SELECT count(*) FROM dither_repaired")
    unread = unread_lines(at.connection, at.catalog.source, at.place, table, rows_read)
    return [("lines that could not be read", unread), *counts]


def _p(column: str) -> str:
    return name("p_" + column)


def _labels(at: _Registering, column: object) -> tuple[str, ...]:
    if isinstance(column, Category) and not isinstance(column.values, Undeclared):
        labels = labels_of(column, at.facts)
        if isinstance(column.nulls.value, str) and column.nulls.value not in labels:
            raise RegistrationError(
                f"{column.name}: nulls become '{column.nulls.value}', which is no label of its list"
            )
        return labels
    return ()
