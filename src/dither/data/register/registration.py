"""Registration: raw files become *the* database that the guarantee speaks of.

The prepared copy holds, per private table, values already cast, clamped, null-ruled and on the
grid; one owner per row; at most `rows_per_unit` rows per owner; clustered by owner. Public tables
are pinned beside them, with their facts. Proof that one unit's rows in the copy depend on that unit
alone: docs/proofs/stability.md#registration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import duckdb

from dither.catalog import Catalog, Table
from dither.data.engines.choose import SPARK_FOLDER
from dither.data.lower.columns import OWNER, UNIT
from dither.data.quoting import name
from dither.data.register.compression import create_copy_table
from dither.data.register.connections import CANNOT_ENCRYPT, open_for_registration
from dither.data.register.csv_source import read_header
from dither.data.register.interruptible import run_interruptibly
from dither.data.register.left_out import count_left_out, count_spellings
from dither.data.register.limits import (
    TIE,
    UNITS,
    add_units,
    count_rows,
    find_ranked,
    keep_rows_sql,
    limit_rows_sql,
    make_units,
    order_by_owner,
)
from dither.data.register.owners import RegistrationError, make_owner_map
from dither.data.register.public import pin, public_order
from dither.data.register.repair_flags import pack_flags
from dither.data.register.repaired_rows import repaired_rows_sql
from dither.data.register.server_tables import ServerTables, open_tables
from dither.data.register.source_types import NO_TYPES, SourceError
from dither.data.register.sources import (
    check_lines,
    count_unread,
    list_whole_types,
    text_rows,
)
from dither.data.register.stages import (
    WRITING,
    list_owner_maps,
    name_map_step,
    name_steps,
    watch_progress,
)
from dither.data.register.typed_values import list_typed
from dither.plan.analyse import NEWEST_RULES
from dither.plan.facts import Facts

__all__ = ["RegistrationError", "Repairs", "write_copy", "write_copy_and_facts"]
Counts = list[tuple[str, int]]
_TRUSTING = "statistics_propagation,compressed_materialization"
"""What the engine does by the statistics of a source."""
_REORDERING = "join_order,build_side_probe_side"
"""What may swap the sides of a join where the engine expects few rows. The rows of an owner would
no longer lie side by side."""


@dataclass(frozen=True)
class Repairs:
    """What registration did to one table's rows.

    For the steward's eyes only: these are true counts.
    """

    table: str
    counts: tuple[tuple[str, int], ...]


@dataclass
class _Registering:
    connection: duckdb.DuckDBPyConnection
    catalog: Catalog
    folder: Path
    target: Path
    stage: Callable[[str], None]
    share: Callable[[float], None] | None = None
    facts: Facts = field(default_factory=lambda: Facts(rules=NEWEST_RULES))
    units: int = 0
    tables: ServerTables | None = None
    """The snapshot of a server that holds the source."""
    through_arrow: set[str] = field(default_factory=set)
    """Tables at which the engine's own reader stopped."""

    def run(self, sql: str) -> None:
        """Execute a long statement, telling `share` how far the engine is."""
        with watch_progress(self.connection, self.share):
            self.connection.execute(sql)

    @contextmanager
    def without_optimizers(self, names: str) -> Iterator[None]:
        """Keep some of the engine's optimizers off for the statements of this block."""
        self.connection.execute(f"SET disabled_optimizers = '{names}'")
        try:
            yield
        finally:
            self.connection.execute("RESET disabled_optimizers")

    def count(self, sql: str) -> int:
        # all of them: a connection with rows left to fetch takes no reader
        ((number,),) = self.connection.execute(sql).fetchall()
        return int(number or 0)

    def read(
        self,
        table: Table,
        use_rows: Callable[[str], None],
        types: Mapping[str, str] = NO_TYPES,
    ) -> None:
        """Use the rows of a source, given as SQL; columns in `types` are no texts.

        Where a value stops the engine's reader, read through Arrow.
        """
        try:
            use_rows(self.read_rows_sql(table, types))
        except (duckdb.InvalidInputException, duckdb.ConversionException):
            if self.catalog.source.engine != "parquet" or table.name in self.through_arrow:
                raise
            self.through_arrow.add(table.name)
            use_rows(self.read_rows_sql(table, types))

    def read_rows_sql(
        self, table: Table, types: Mapping[str, str] = NO_TYPES, *, by_all_threads: bool = False
    ) -> str:
        if self.tables is not None:
            return self.tables.text_rows(self.connection, table)
        return text_rows(
            self.connection,
            self.catalog.source,
            self.folder,
            table,
            types=types,
            through_arrow=table.name in self.through_arrow,
            by_all_threads=by_all_threads,
        )


def write_copy(
    catalog: Catalog,
    folder: Path,
    key: bytes,
    target: Path,
    spill: Path,
    stage: Callable[[str], None],
) -> list[Repairs]:
    """Write the prepared copy of every table of `catalog` into a new file `target`.

    The source lies at `folder`.
    """
    return write_copy_and_facts(catalog, folder, key, target, spill, stage)[0]


def write_copy_and_facts(
    catalog: Catalog,
    folder: Path,
    key: bytes,
    target: Path,
    spill: Path,
    stage: Callable[[str], None],
    memory: str | None = None,
    share: Callable[[float], None] | None = None,
    *,
    plain_spill: bool = False,
) -> tuple[list[Repairs], Facts]:
    """Write the registered copy, as `write_copy` does; return the repairs and the public facts.

    Above `memory` the engine spills, encrypted or in plain. `stage` is called with each of
    `list_stages(catalog)` as it begins, `share` (from another thread) with the share of it that is
    done. Raises RegistrationError; nothing is registered then.
    """
    connection = open_for_registration(target, spill, memory, plain=plain_spill)
    registering = _Registering(connection, catalog, folder, target, stage, share)
    try:
        registering.tables = open_tables(catalog.source, folder, spill)
        return run_interruptibly(lambda: _write_tables(registering, key), connection.interrupt)
    except SourceError as error:
        raise RegistrationError(str(error)) from None
    except duckdb.Error as error:
        if CANNOT_ENCRYPT in str(error):
            raise RegistrationError(
                "the data does not fit in memory, and this DuckDB cannot encrypt what it spills "
                "(its extension httpfs can). Nothing was registered: give more --memory, or say "
                "with --spill FOLDER where rows may lie in plain while registration runs"
            ) from None
        raise RegistrationError(f"the engine could not register the data: {error}") from None
    finally:
        connection.close()
        if registering.tables is not None:
            registering.tables.close()


def _write_tables(registering: _Registering, key: bytes) -> tuple[list[Repairs], Facts]:
    """Write every table of the catalog, public ones first; return repairs and facts."""
    catalog = registering.catalog
    registering.connection.execute("SET VARIABLE dither_key = $key", {"key": key.hex()})
    registering.connection.execute(make_units())
    repairs = [_register_public(registering, table) for table in public_order(catalog)]
    if catalog.source.engine == "spark":
        return repairs + _register_in_spark(registering, key), registering.facts
    _make_owner_maps(registering)
    repairs += [_register_private(registering, table) for table in catalog.private_tables]
    registering.stage(WRITING)
    registering.run("CHECKPOINT")
    return repairs, registering.facts


def _register_in_spark(registering: _Registering, key: bytes) -> list[Repairs]:
    """Write the private tables in Spark, where their rows lie, beside the file."""
    from dither.data.register.spark.register import register_private
    from dither.data.register.spark.source import SparkSource

    assert isinstance(registering.tables, SparkSource)
    counts = register_private(
        registering.catalog,
        registering.tables,
        key,
        registering.target.parent / SPARK_FOLDER,
        registering.facts,
        registering.stage,
    )
    return [Repairs(table, counted) for table, counted in counts.items()]


def _make_owner_maps(registering: _Registering) -> None:
    """Make all maps from keys to owners, in an order in which a parent's own map comes first."""
    for parent, key in list_owner_maps(registering.catalog):
        registering.stage(name_map_step(parent, key))
        with watch_progress(registering.connection, registering.share):
            registering.read(
                parent,
                partial(make_owner_map, registering.connection, registering.catalog, parent, key),
            )


def _register_public(registering: _Registering, table: Table) -> Repairs:
    """Write one public table, and add what is public about it to the facts."""
    counts = _repair(registering, table)
    names = ", ".join(name(column.name) for column in table.columns)
    registering.stage(name_steps(registering.catalog, table)[2])
    pinned = pin(
        registering.connection,
        registering.catalog,
        table,
        f"SELECT {names} FROM dither_repaired WHERE NOT dither_gone",
    )
    facts = registering.facts
    registering.facts = replace(
        facts,
        multiplicities=facts.multiplicities + pinned.multiplicities,
        lists=facts.lists + pinned.lists,
        texts=facts.texts + pinned.texts,
        ranges=facts.ranges + pinned.ranges,
    )
    return _finish_table(registering, table, counts)


def _register_private(registering: _Registering, table: Table) -> Repairs:
    """Write one private table: repair its rows, number their owners, apply the limits.

    Raises RegistrationError where more than `max_rows` rows are left.
    """
    counts = _repair(registering, table)
    registering.stage(name_steps(registering.catalog, table)[2])
    rows = f"SELECT * FROM dither_repaired WHERE {OWNER} IS NOT NULL AND NOT dither_gone"
    registering.connection.execute(f"SET VARIABLE dither_first = {registering.units}")
    choose_rows = limit_rows_sql
    if registering.catalog.unit.kind != "row":
        choose_rows = keep_rows_sql
        registering.run(count_rows(rows))
        registering.run(add_units())
        registering.run(find_ranked(registering.catalog, table, rows))
    _write_rows(registering, table, choose_rows, rows)
    counted = name(table.name) if registering.catalog.unit.kind == "row" else UNITS
    registering.units = registering.count(
        f"SELECT coalesce(max({UNIT}), {registering.units}) FROM {counted}"
    )
    count = registering.count
    owners = f"SELECT {OWNER} FROM {UNITS}"
    kept = count(f"SELECT count(*) FROM {name(table.name)}")
    counts += count_spellings(count, registering.catalog, table, owners)
    candidates = count(f"SELECT count(*) FROM ({rows})")
    counts += count_left_out(count, registering.catalog, table, rows, candidates, kept)
    done = _finish_table(registering, table, counts)
    if table.max_rows is None or done.counts[-1][1] > table.max_rows:
        raise RegistrationError(
            f"{table.name}: more rows than max_rows {table.max_rows} are left after the limits. "
            "Nothing was registered: raise max_rows in the catalog, to a round number that leaves "
            "room and does not follow the data"
        )
    return done


def _write_rows(
    registering: _Registering, table: Table, choose_rows: Callable[..., str], rows: str
) -> None:
    """Write the rows of the copy that `choose_rows` keeps of `rows`, those of an owner together."""
    rows_by_prefix = choose_rows(registering.catalog, table, rows, registering.facts)
    described = registering.connection.execute(f"DESCRIBE {rows_by_prefix}").fetchall()
    columns = [(str(row[0]), str(row[1])) for row in described]
    registering.run(create_copy_table(table, columns, has_runs=choose_rows is keep_rows_sql))
    with registering.without_optimizers(_REORDERING):
        try:
            registering.run(f"INSERT INTO {name(table.name)} {rows_by_prefix}")
        except duckdb.InvalidInputException as error:
            if TIE not in str(error):
                raise
            rows_by_digest = choose_rows(
                registering.catalog, table, rows, registering.facts, by_prefix=False
            )
            registering.run(f"INSERT INTO {name(table.name)} {rows_by_digest}")


def _finish_table(registering: _Registering, table: Table, counts: Counts) -> Repairs:
    registering.connection.execute("DROP TABLE dither_repaired")
    kept = registering.count(f"SELECT count(*) FROM {name(table.name)}")
    return Repairs(table.name, (*counts, ("rows registered", kept)))


def _repair(registering: _Registering, table: Table) -> Counts:
    """The temporary table `dither_repaired`: registered values, the owner, whether the row goes;
    and what was done."""
    registering.stage(name_steps(registering.catalog, table)[0])
    if registering.catalog.source.engine == "csv":
        unread = _repair_lines(registering, table)
    else:
        unread = 0
        types = NO_TYPES
        if registering.tables is None:
            whole_types = list_whole_types(
                registering.connection, registering.catalog.source, registering.folder, table
            )
            types = list_typed(registering.catalog, table, whole_types)
        registering.read(table, partial(_make_repaired, registering, table, types), types)
    registering.stage(name_steps(registering.catalog, table)[1])
    _, counted = _write_repaired(registering, table, "raw")
    tests = ", ".join(["count(*)", *(f"count_if({test})" for test in counted.values())])
    (row,) = registering.connection.execute(f"SELECT {tests} FROM dither_repaired").fetchall()
    words = ("rows read", *counted)
    counts = [(what, int(count or 0)) for what, count in zip(words, row, strict=True)]
    return [("lines that could not be read", unread), *counts]


def _make_repaired(
    registering: _Registering, table: Table, types: Mapping[str, str], rows: str
) -> None:
    """Make `dither_repaired` of the rows of a source.

    The least and largest values that a Parquet file names leave out its NaN, and may be wrong: an
    optimizer that trusts them leaves repairs out, by other people's rows.
    """
    sql, _ = _write_repaired(registering, table, rows, types)
    if table.kind == "private" and registering.catalog.unit.kind != "row":
        sql = order_by_owner(sql)
    with registering.without_optimizers(_TRUSTING):
        registering.run(f"CREATE OR REPLACE TEMP TABLE dither_repaired AS {sql}")


def _write_repaired(
    registering: _Registering, table: Table, rows: str, types: Mapping[str, str] = NO_TYPES
) -> tuple[str, dict[str, str]]:
    """Write the SELECT of `dither_repaired`, and what to count of it, as conditions by words."""
    sql, counted = repaired_rows_sql(registering.catalog, table, rows, registering.facts, types)
    no_owner, *flags = counted.values()
    sql, conditions = pack_flags(sql, flags)
    return sql, {what: conditions.get(test, no_owner) for what, test in counted.items()}


def _repair_lines(registering: _Registering, table: Table) -> int:
    """Make `dither_repaired` of a CSV file; return how many lines were no CSV.

    A file without quotes is read by all threads. Unless every line then gave a row, and for all
    other files, lines are read by one thread and repaired by all.
    """
    source = registering.catalog.source
    lines = check_lines(source, registering.folder, table)
    fields = len(read_header(registering.folder / table.source_name, source))
    if lines.is_plain and source.delimiter.isascii():
        rows = registering.read_rows_sql(table, by_all_threads=True)
        with suppress(duckdb.InvalidInputException):
            _make_repaired(registering, table, NO_TYPES, rows)
            rows_read = registering.count("SELECT count(*) FROM dither_repaired")
            if rows_read == lines.count_rows(fields):
                return 0
    rows = registering.read_rows_sql(table)
    registering.run(f"CREATE TEMP TABLE dither_raw AS SELECT * FROM {rows}")
    _make_repaired(registering, table, NO_TYPES, "dither_raw")
    registering.connection.execute("DROP TABLE dither_raw")
    rows_read = registering.count("SELECT count(*) FROM dither_repaired")
    return count_unread(registering.connection, source, registering.folder, table, lines, rows_read)
