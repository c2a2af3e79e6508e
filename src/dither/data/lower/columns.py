"""What a lowered node carries.

The owner with its hash, the columns, and what travels beside some of them.

Integers are never null in the engine: a null is the integer after the last one of its column's
domain. So the same arithmetic runs whatever the data: with the engine's own nulls, a column half
null took up to three times as long as one without. Texts are as the engine has them.
"""

from __future__ import annotations

from dither.data.lower.dialect import dialect
from dither.data.quoting import name
from dither.plan.domain import Columns, Domain, is_stored
from dither.plan.stability import Node, Owned, Public

OWNER = "dither_owner"
RANK = "dither_rank"
UNIT = "dither_unit"
"""The owner's number, the same in all tables of a copy.

It says who is who; nothing else may depend on it.
"""
HASH_A = "dither_a"
HASH_B = "dither_b"
PRIME = 2**31 - 1


def index_column(column: str) -> str:
    """The stored key index of an undeclared label."""
    return f"dither_index_{column}"


def code_column(column: str) -> str:
    """The position of a public text in its key list."""
    return f"dither_code_{column}"


def companion(column: str, domain: Domain) -> str | None:
    """What travels beside a column, if anything."""
    if domain.undeclared:
        return index_column(column)
    return code_column(column) if domain.kind == "text" and domain.labels else None


def list_carried(node: Node, columns: Columns) -> list[str]:
    """List the names of a node's SQL columns, in order. Rows without an owner carry values only."""
    names = [UNIT, HASH_A, HASH_B] if isinstance(node, Owned) else []
    names += list(columns)
    if isinstance(node, (Owned, Public)):
        names += [
            beside for column, domain in columns.items() if (beside := companion(column, domain))
        ]
    return names


def list_names(names: list[str], table: str = "") -> str:
    """SQL: names, quoted, perhaps of a table."""
    return ", ".join(f"{table}{name(column)}" for column in names)


def integer(sql: str, domain: Domain) -> str:
    """SQL: a stored value in a type wide enough to compute with."""
    return f"CAST({sql} AS {dialect().integer_type(domain.largest)})"


def holds_null(domain: Domain) -> bool:
    """Whether a column's nulls are integers."""
    return domain.nullable and is_stored(domain)


def null_code(domain: Domain) -> int:
    """The integer that stands for null: the first one above the domain.

    A WHERE that narrows a domain lets no null through, so this may move with it.

    >>> null_code(Domain("number", True, 0, 99))
    100
    """
    return domain.high + 1


def null_flag(sql: str, domain: Domain) -> str:
    """SQL: 1 where a column is null, else 0."""
    return dialect().truth(f"{sql} = {null_code(domain)}", dialect().flag_type)


def encode_null(sql: str, flag: str, domain: Domain) -> str:
    """SQL: a value and whether it is null as one integer, by arithmetic: no row takes another path
    than its neighbours.

    >>> encode_null("v", "n", Domain("number", True, 0, 99))
    '(CAST(v AS BIGINT) + n * (100 - CAST(v AS BIGINT)))'
    """
    value = integer(sql, domain)
    return f"({value} + {flag} * ({null_code(domain)} - {value}))"


def recode_null(sql: str, domain: Domain, null: int) -> str:
    """Write the SQL of a column, wide enough to compute with, in which `null` stands for null."""
    value = integer(sql, domain)
    if not holds_null(domain) or null == null_code(domain):
        return value
    moved = null - null_code(domain)
    wide = dialect().integer_type(max(domain.largest, abs(moved)))
    return f"({value} + {null_flag(sql, domain)} * CAST({moved} AS {wide}))"


def engine_null(sql: str, domain: Domain) -> str:
    """SQL: a column in which null is the engine's own."""
    return f"NULLIF({sql}, {null_code(domain)})" if holds_null(domain) else sql


def from_engine_null(sql: str, domain: Domain) -> str:
    """SQL: a column in which the engine's null has become the integer that stands for it."""
    return f"coalesce({sql}, {null_code(domain)})" if holds_null(domain) else sql
