"""Registration of private tables in Spark: rows are repaired, ranked and limited where they lie.

The steps and their SQL are registration's own (`register/`), written in Spark's dialect; the limits
are in `limits.py`. Public tables are small and were registered before, with the facts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from dither.catalog import Catalog, Table
from dither.data.engines.spark.dialect import SPARK
from dither.data.lower.columns import OWNER
from dither.data.lower.dialect import writing_in
from dither.data.quoting import name
from dither.data.register.left_out import count_left_out, count_spellings
from dither.data.register.owners import (
    FIRST,
    LAST,
    RegistrationError,
    map_name,
    owner_map_sql,
    refuse_two_owners,
)
from dither.data.register.repaired_rows import GONE, repaired_rows_sql
from dither.data.register.spark.limits import KEY, limit_rows_sql
from dither.data.register.spark.source import SparkSource
from dither.data.register.stages import list_owner_maps, name_map_step, name_steps
from dither.plan.facts import Facts

Counts = tuple[tuple[str, int], ...]


def register_private(
    catalog: Catalog,
    source: SparkSource,
    key: bytes,
    target: Path,
    facts: Facts,
    stage: Callable[[str], None],
) -> dict[str, Counts]:
    """Write the private tables of a catalog as Parquet into `target`; return what was done.

    Raises RegistrationError; the folder is then of no use.
    """
    session = source.session
    session.sql(f"DECLARE OR REPLACE VARIABLE {KEY} STRING")
    session.sql(f"SET VAR {KEY} = :key", args={"key": key.hex()})
    target.mkdir(mode=0o700)
    try:
        with writing_in(SPARK):
            for parent, columns in list_owner_maps(catalog):
                stage(name_map_step(parent, columns))
                _make_owner_map(session, catalog, parent, columns, source)
            return {
                table.name: _write_table(session, catalog, table, source, target, facts, stage)
                for table in catalog.private_tables
            }
    finally:
        source.drop_views()
        session.sql(f"DROP TEMPORARY VARIABLE IF EXISTS {KEY}")


def _make_owner_map(
    session: Any, catalog: Catalog, parent: Table, key: tuple[str, ...], source: SparkSource
) -> None:
    """Make a view from a parent's key to its owner, kept for the tables that refer to it.

    Raises where a key has two.
    """
    owner_map = map_name(parent, key)
    sql = owner_map_sql(catalog, parent, key, source.make_view(parent))
    source.keep_view(sql, owner_map)
    refuse_two_owners(
        parent, key, _count(session, f"SELECT count(*) FROM {owner_map} WHERE {FIRST} <> {LAST}")
    )


def _write_table(
    session: Any,
    catalog: Catalog,
    table: Table,
    source: SparkSource,
    target: Path,
    facts: Facts,
    stage: Callable[[str], None],
) -> Counts:
    """Repair, limit and write the rows of a table; return the counts for the steward."""
    reading, repairing, limiting = name_steps(catalog, table)
    stage(reading)
    raw = source.make_view(table)
    stage(repairing)
    sql, counted = repaired_rows_sql(catalog, table, raw, facts)
    repaired = name(f"dither_repaired_{table.name}")
    source.keep_view(sql, repaired)
    is_candidate = f"{OWNER} IS NOT NULL AND NOT {GONE}"
    tests = ", ".join(f"count_if({test})" for test in [*counted.values(), is_candidate])
    *row, candidates = session.sql(f"SELECT count(*), {tests} FROM {repaired}").collect()[0]
    stage(limiting)
    rows = f"SELECT * FROM {repaired} WHERE {is_candidate}"
    folder = target / table.name
    session.sql(limit_rows_sql(catalog, table, rows, facts)).write.parquet(str(folder))
    written = f"dither_written_{table.name}"
    session.read.parquet(str(folder)).createOrReplaceTempView(written)
    count = partial(_count, session)
    kept = count(f"SELECT count(*) FROM {name(written)}")
    if table.max_rows is None or kept > table.max_rows:
        raise RegistrationError(
            f"{table.name}: more rows than max_rows {table.max_rows} are left after the limits. "
            "Nothing was registered: raise max_rows in the catalog, to a round number that leaves "
            "room and does not follow the data"
        )
    words = ("rows read", *counted)
    counts = [(what, int(count)) for what, count in zip(words, row, strict=True)]
    owners = f"SELECT DISTINCT {OWNER} FROM {name(written)}"
    counts += count_spellings(count, catalog, table, owners)
    counts += count_left_out(count, catalog, table, rows, int(candidates), kept)
    session.catalog.dropTempView(written)
    source.drop_view(repaired)
    return (*counts, ("rows registered", kept))


def _count(session: Any, sql: str) -> int:
    return int(session.sql(sql).collect()[0][0])
