"""Which rows of an owner stay, in Spark's words: the same digests, hence the same rows.

What is hashed is said in `register/limits.py`, and `docs/proofs/stability.md#registration` has the
proof; this file writes it for Spark, without a function of Python. A test compares every row, rank
and number of both. The owner's number is a digest of the owner: numbering people one after the
other would need them all in one place.
"""

from __future__ import annotations

from dither.catalog import Catalog, Column, Table
from dither.data.engines.spark.dialect import SPARK
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
from dither.data.quoting import name
from dither.data.register.limits import stored_columns
from dither.data.register.repair import is_text, storage_type
from dither.plan.domain import declared_domain
from dither.plan.facts import Facts

KEY = "dither_key"
"""The session's variable that holds the installation's key in hex digits."""
_DIGEST = "dither_digest"
_ORDINAL = "dither_n"


def limit_rows_sql(catalog: Catalog, table: Table, source: str, facts: Facts) -> str:
    """Write the SELECT of repaired rows, unique for each owner and cut at the owner's limit."""
    columns = stored_columns(catalog, table)
    names = [OWNER, *(name(column.name) for column in columns)]
    listed = ", ".join(names)
    if catalog.unit.kind != "row":
        # rows of an owner meet once: all windows below and the files of the copy lie within owners
        source = f"SELECT {listed} FROM ({source}) DISTRIBUTE BY {OWNER}"
    # equal rows are alike in every way, so their order is nothing
    ordinal = f"row_number() OVER (PARTITION BY {listed} ORDER BY {OWNER})"
    sql = f"SELECT {listed}, {ordinal} AS {_ORDINAL} FROM ({source})"
    sql = f"SELECT *, {_digest(columns)} AS {_DIGEST} FROM ({sql})"
    if catalog.unit.kind == "row":  # each row is a unit, named by its content
        own = f"sha2(concat({_field(SPARK.text(table.name))}, {_DIGEST}), 256)"
        rest = ", ".join(names[1:])
        sql = f"SELECT {own} AS {OWNER}, {rest}, 1 AS {RANK} FROM ({sql})"
    else:
        order = f"{_DIGEST}, {listed}, {_ORDINAL}"
        for unique in table.unique:
            keys = {name(key) for key in unique if key != catalog.owner_column(table)}
            ranked = _rank_rows(sql, sorted({OWNER, *keys}), order)
            sql = f"SELECT * EXCEPT ({RANK}) FROM ({ranked}) WHERE {RANK} = 1"
        ranked = _rank_rows(sql, [OWNER], order)
        sql = f"SELECT * FROM ({ranked}) WHERE {RANK} <= {table.rows_per_unit}"
    hashed = f"SELECT *, {_hash_owner()} AS dither_hashed FROM ({sql})"
    return f"SELECT {_list_copy_columns(columns, table, facts)} FROM ({hashed})"


def _rank_rows(rows: str, partition: list[str], order: str) -> str:
    """Write rows with their rank within each partition."""
    window = f"(PARTITION BY {', '.join(partition)} ORDER BY {order})"
    return f"SELECT *, row_number() OVER {window} AS {RANK} FROM ({rows})"


def _digest(columns: list[Column]) -> str:
    """Write sha256 over key, owner, every declared column and the ordinal, as `length:bytes`."""
    fields = [f"'64:', {KEY}", _field(OWNER)]
    fields += [_field(f"CAST({name(column.name)} AS STRING)") for column in columns]
    fields.append(_field(f"CAST({_ORDINAL} AS STRING)"))
    return f"sha2(concat({', '.join(fields)}), 256)"


def _hash_owner() -> str:
    return f"sha2(concat('64:', {KEY}, {_field(OWNER)}), 256)"


def _field(value: str) -> str:
    """Write one field of a digest; `concat` is null where an argument is, so none may be."""
    length = f"CAST(octet_length({value}) AS STRING)"
    return f"coalesce(concat({length}, ':', {value}), '-')"


def _list_copy_columns(columns: list[Column], table: Table, facts: Facts) -> str:
    """Write the columns of the copy, with nulls of integers as the integer that stands for them."""
    outputs = [
        OWNER,
        f"dither_hashed AS {UNIT}",
        f"CAST({RANK} AS INT) AS {RANK}",
        f"{_read_hash(1)} AS {HASH_A}",
        f"{_read_hash(9)} AS {HASH_B}",
    ]
    for column in columns:
        domain = declared_domain(column, table, facts)
        value = name(column.name)
        if holds_null(domain):
            kind = SPARK.type_name(storage_type(column, domain.labels))
            value = f"CAST(coalesce({value}, {null_code(domain)}) AS {kind}) AS {value}"
        outputs.append(value)
    outputs += [
        f"{_key_index(name(column.name))} AS {name(index_column(column.name))}"
        for column in columns
        if column.type == "category" and is_text(column)
    ]
    return ", ".join(outputs)


def _read_hash(start: int) -> str:
    """Write a number from 1 to p - 1 from eight hex digits of the owner's digest."""
    return f"CAST({_read_hex(f'substr(dither_hashed, {start}, 8)')} % {PRIME - 1} + 1 AS INT)"


def _read_hex(digits: str) -> str:
    return f"CAST(conv({digits}, 16, 10) AS BIGINT)"


def _key_index(value: str) -> str:
    """Write the low 31 bits of sha256 of a text, null for null."""
    return f"CAST({_read_hex(f'right(sha2({value}, 256), 8)')} & 2147483647 AS INT)"
