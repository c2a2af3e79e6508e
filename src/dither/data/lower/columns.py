"""What a lowered node carries: the owner with its hash, the columns, and what travels beside some of them."""

from __future__ import annotations

from dither.data.engines.duckdb import name
from dither.plan.domain import Columns, Domain
from dither.plan.functions.table import WIDE
from dither.plan.stability import Node, Owned, Public

OWNER, RANK = "dither_owner", "dither_rank"
HASH_A, HASH_B = "dither_a", "dither_b"
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


def carried(node: Node, columns: Columns) -> list[str]:
    """The names of a node's SQL columns, in order. Rows without an owner carry values only."""
    names = [OWNER, HASH_A, HASH_B] if isinstance(node, Owned) else []
    names += list(columns)
    if isinstance(node, (Owned, Public)):
        names += [beside for column, domain in columns.items() if (beside := companion(column, domain))]
    return names


def listed(names: list[str], table: str = "") -> str:
    """SQL: names, quoted, perhaps of a table."""
    return ", ".join(f"{table}{name(each)}" for each in names)


def integer(sql: str, domain: Domain) -> str:
    """SQL: a stored value in a type wide enough to compute with."""
    return f"CAST({sql} AS {'BIGINT' if domain.largest < WIDE else 'HUGEINT'})"
