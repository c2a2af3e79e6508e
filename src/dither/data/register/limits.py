"""Limits: which rows of an owner stay, by content alone.

The order of an owner's rows is the digest of (installation key, owner, every declared column in
catalog order, ordinal among identical rows) and nothing else: never rowid, file position or another
owner's rows (rule rank-by-content). Proof: docs/proofs/stability.md#registration.
"""

from __future__ import annotations

from dither.catalog import Catalog, Column, Table
from dither.data.lower.columns import (
    HASH_A,
    HASH_B,
    OWNER,
    PRIME,
    RANK,
    UNIT,
    holds_null,
    index_column,
    null_code,
)
from dither.data.quoting import name, text
from dither.data.register.repair import is_text, storage_type
from dither.plan.domain import declared_domain
from dither.plan.facts import NO_FACTS, Facts

KEY = "concat('64:', getvariable('dither_key'))"
PREFIX = "CAST(concat('0x', left(dither_digest, 16)) AS UBIGINT)"
UNITS = "dither_units"
"""Every owner with number and hash, while registration runs: the copy has no column of owners."""
COUNTED = "dither_counted"
RANKED = "dither_ranked"
UNRANKED = 0
"""The rank of a row that stays whatever the order of its owner's rows."""
TIE = "dither: two rows share the prefix of their digests"


def stored_columns(catalog: Catalog, table: Table) -> list[Column]:
    """The columns of the copy beside the owner, in catalog order."""
    owner = catalog.owner_column(table) if table.kind == "private" else None
    return [column for column in table.columns if column.name != owner]


def limit_rows_sql(
    catalog: Catalog, table: Table, source: str, facts: Facts = NO_FACTS, *, by_prefix: bool = True
) -> str:
    """SQL: repaired rows, unique for each owner and cut at the owner's limit.

    Rows are ranked by their content within the owner.

    Rows are ordered by digest, then by the columns. Sorting by the first 64 bits of the digest
    gives that order unless two rows of an owner share them; then the statement fails (`TIE`) and
    must be asked for again, not `by_prefix`.
    """
    columns = stored_columns(catalog, table)
    names = ", ".join([OWNER, *(name(column.name) for column in columns)])
    sql = f"SELECT {names}, row_number() OVER (PARTITION BY {names}) AS dither_n FROM ({source})"
    written = ", ".join(
        f"CAST({name(column.name)} AS VARCHAR) AS {_name_text(column)}" for column in columns
    )
    sql = (
        f"SELECT *, {written or 'NULL AS dither_none'}, CAST(dither_n AS VARCHAR) AS "
        f"dither_ordinal FROM ({sql})"
    )
    sql = f"SELECT {names}, dither_n, {digest(columns)} AS dither_digest FROM ({sql})"
    if catalog.unit.kind == "row":  # each row is a unit, named by its content
        # equal rows of two tables are two units
        own = f"sha256(concat({field(text(table.name))}, dither_digest))"
        sql = f"SELECT * REPLACE ({own} AS {OWNER}), 1 AS {RANK} FROM ({sql})"
        return (
            f"SELECT {_list_copy_columns(columns, table, facts)} FROM "
            f"({_number_units(_add_hash(sql))})"
        )
    order = f"dither_digest, {names}, dither_n"
    if by_prefix:
        sql = f"SELECT {names}, {PREFIX} AS dither_prefix FROM ({sql})"
        order = "dither_prefix"
    for unique in table.unique:
        ranked = _rank_rows(sql, _list_key(catalog, table, unique), order)
        sql = f"SELECT * EXCLUDE ({RANK}) FROM ({ranked}) WHERE {RANK} = 1"
    kept = f"SELECT * FROM ({_rank_rows(sql, OWNER, order)}) WHERE {RANK} <= {table.rows_per_unit}"
    owners = f"SELECT * FROM {UNITS} SEMI JOIN {RANKED} USING ({OWNER})"
    return _join_units(kept, owners, _list_copy_columns(columns, table, facts))


def _rank_rows(rows: str, partition: str, order: str) -> str:
    """Write SQL of rows with their rank within each partition; it fails where two rows tie."""
    window = f"(PARTITION BY {partition} ORDER BY {order})"
    both = (
        f"SELECT *, row_number() OVER {window} AS dither_place, rank() OVER {window} AS "
        f"dither_first FROM ({rows})"
    )
    rank = f"CASE WHEN dither_place = dither_first THEN dither_place ELSE error('{TIE}') END"
    return f"SELECT * EXCLUDE (dither_place, dither_first), {rank} AS {RANK} FROM ({both})"


def make_units() -> str:
    """Write SQL that makes the empty table of owners, for all tables of one registration.

    Rows of the copy hold the number of their owner and not the text, because texts take as long to
    write as all other columns together.
    """
    columns = f"{OWNER} VARCHAR, {UNIT} BIGINT, {HASH_A} INTEGER, {HASH_B} INTEGER"
    return f"CREATE TEMP TABLE {UNITS} ({columns})"


def count_rows(source: str) -> str:
    """Write SQL that makes the table of owners of some rows: how many rows each has, and its hash.

    The hashes are computed in this statement because it runs on all threads; owners are numbered on
    one.
    """
    counted = f"SELECT {OWNER}, count(*) AS dither_rows FROM ({source}) GROUP BY {OWNER}"
    return f"CREATE OR REPLACE TEMP TABLE {COUNTED} AS {_add_hash(counted)}"


def add_units() -> str:
    """Write SQL that numbers the owners who were counted, after those that have a number.

    A number only says who is who: it follows from the owner's row in the table of counts, so that
    all threads can write.
    """
    number = f"getvariable('dither_first') + {COUNTED}.rowid + 1"
    return (
        f"INSERT INTO {UNITS} SELECT {OWNER}, {number}, {HASH_A}, {HASH_B} FROM {COUNTED} "
        f"ANTI JOIN {UNITS} USING ({OWNER})"
    )


def find_ranked(catalog: Catalog, table: Table, source: str) -> str:
    """Write SQL that makes the table of owners whose rows must be ranked.

    They have more rows than the limit, or several of one unique key. All rows of the others stay,
    whatever their order; whether an owner is one of them depends on the owner's own rows alone.
    """
    found = [f"SELECT {OWNER} FROM {COUNTED} WHERE dither_rows > {table.rows_per_unit}"]
    for unique in table.unique:
        keys = _list_key(catalog, table, unique)
        found.append(f"SELECT {OWNER} FROM ({source}) GROUP BY {keys} HAVING count(*) > 1")
    return f"CREATE OR REPLACE TEMP TABLE {RANKED} AS {' UNION '.join(found)}"


def keep_rows_sql(
    catalog: Catalog, table: Table, source: str, facts: Facts = NO_FACTS, *, by_prefix: bool = True
) -> str:
    """SQL: the rows of the copy, those of an owner side by side as they are in `source`.

    All rows of owners who need no ranking, with rank 0; and the first rows of the others.
    """
    others = f"SELECT * FROM {UNITS} ANTI JOIN {RANKED} USING ({OWNER})"
    columns = _list_copy_columns(stored_columns(catalog, table), table, facts)
    unranked = _join_units(f"SELECT *, {UNRANKED} AS {RANK} FROM ({source})", others, columns)
    few = limit_rows_sql(
        catalog,
        table,
        f"SELECT * FROM ({source}) SEMI JOIN {RANKED} USING ({OWNER})",
        facts,
        by_prefix=by_prefix,
    )
    return f"{unranked} UNION ALL SELECT * FROM ({few} ORDER BY {UNIT})"


def order_by_owner(rows: str) -> str:
    """Write SQL of rows in an order in which those of an owner lie side by side.

    Whatever is done later by owner then finds its memory in the processor's cache. Only where rows
    lie follows from the order, nothing else. It is one of 48 bits, by which the engine sorts twice
    as fast as by 64: with the mark of a null they fill one word.
    """
    high = f"CAST(hash({OWNER}) >> 48 AS USMALLINT)"
    low = f"CAST(hash({OWNER}) >> 16 & 4294967295 AS UINTEGER)"
    return f"SELECT * FROM ({rows}) ORDER BY {high}, {low}"


def _list_key(catalog: Catalog, table: Table, unique: tuple[str, ...]) -> str:
    """Write the columns in which no two rows of an owner agree, the owner among them."""
    owner = catalog.owner_column(table)
    return ", ".join(sorted({OWNER, *(name(column) for column in unique if column != owner)}))


def _join_units(rows: str, owners: str, columns: str) -> str:
    """Write ranked rows with the numbers and hashes of their owners, as columns of the copy."""
    # a table has a rowid of its own, a query has not
    units = f"SELECT {OWNER}, {UNIT}, {HASH_A}, {HASH_B} FROM ({owners})"
    return f"SELECT {columns} FROM ({rows}) JOIN ({units}) USING ({OWNER})"


def _number_units(rows: str) -> str:
    """SQL: rows with numbers after all that were given; `dither_first` is how many were."""
    return f"SELECT *, getvariable('dither_first') + row_number() OVER () AS {UNIT} FROM ({rows})"


def _add_hash(rows: str) -> str:
    """Write SQL of rows with the two numbers of their owner, from a keyed digest of it."""
    digested = f"SELECT *, sha256(concat({KEY}, {field(OWNER)})) AS dither_hashed FROM ({rows})"
    numbers = ", ".join(
        f"{_hash(start)} AS {column}" for start, column in ((1, HASH_A), (9, HASH_B))
    )
    return f"SELECT * EXCLUDE (dither_hashed), {numbers} FROM ({digested})"


def _name_text(column: Column) -> str:
    return name(f"dither_text_{column.name}")


def _list_copy_columns(columns: list[Column], table: Table, facts: Facts) -> str:
    """Write SQL of the columns of the copy, from ranked rows with numbers and hashes of owners.

    Undeclared labels come with their key index. Nulls of integers become the integer that stands
    for them (lower/columns.py).
    """
    outputs = [UNIT, f"CAST({RANK} AS INTEGER) AS {RANK}", HASH_A, HASH_B]
    for column in columns:
        domain = declared_domain(column, table, facts)
        value = name(column.name)
        if holds_null(domain):
            kind = storage_type(column, domain.labels)
            value = f"CAST(coalesce({value}, {null_code(domain)}) AS {kind}) AS {value}"
        outputs.append(value)
    outputs += [
        f"{key_index(name(column.name))} AS {name(index_column(column.name))}"
        for column in columns
        if column.type == "category" and is_text(column)
    ]
    return ", ".join(outputs)


def _hash(start: int) -> str:
    """SQL: a number from 1 to p - 1 that is the owner's own.

    It is made of eight hex digits of the owner's digest.
    """
    return (
        f"CAST(CAST(concat('0x', substr(dither_hashed, {start}, 8)) AS BIGINT) % "
        f"{PRIME - 1} + 1 AS INTEGER)"
    )


def key_index(value: str) -> str:
    """SQL: the low 31 bits of sha256 of a text, null for null."""
    low = f"CAST(concat('0x', right(sha256({value}), 8)) AS BIGINT) & 2147483647"
    return f"CASE WHEN {value} IS NOT NULL THEN CAST({low} AS INTEGER) END"


def digest(columns: list[Column]) -> str:
    """Write SQL of sha256 over key, owner, every declared column and the ordinal.

    Each goes in as `length:bytes`, null as `-`.
    """
    fields = [
        KEY,
        field(OWNER),
        *(field(_name_text(column)) for column in columns),
        field("dither_ordinal"),
    ]
    return f"sha256(concat({', '.join(fields)}))"


def field(text: str) -> str:
    """SQL: one field of a digest as arguments of concat, which writes nothing for null; the length
    is in bytes."""
    return f"coalesce(CAST(strlen({text}) AS VARCHAR) || ':', '-'), {text}"
