"""At most so many groups per owner: the least (a*x + b) mod p; x indexes the key, a and b are the owner's."""

from __future__ import annotations

from dither.data.engines.duckdb import name
from dither.data.lower.columns import (
    HASH_A,
    HASH_B,
    PRIME,
    UNIT,
    carried,
    holds_null,
    index_column,
    integer,
    listed,
    null_flag,
)
from dither.plan.algebra import LimitGroups
from dither.plan.analyse import Analysed
from dither.plan.domain import Domain

MULTIPLIER = 48_271


def limit_sql(plan: LimitGroups, source: str, here: Analysed) -> str:
    """Ties are broken by the keys themselves, so that the choice is a function of the owner's own rows."""
    parts = [_index(key, here.columns[key]) for key in plan.keys]
    mixed = parts[0]
    if len(parts) > 1:
        scaled = (f"({part} * {pow(MULTIPLIER, place, PRIME)}) % {PRIME}" for place, part in enumerate(parts))
        mixed = f"(({' + '.join(scaled)}) % {PRIME})"
    order = f"(CAST({HASH_A} AS BIGINT) * {mixed} + CAST({HASH_B} AS BIGINT)) % {PRIME}"
    keys = ", ".join(f"{name(key)} NULLS LAST" for key in plan.keys)
    ranked = (
        f"SELECT *, dense_rank() OVER (PARTITION BY {UNIT} ORDER BY {order}, {keys}) AS dither_place FROM ({source})"
    )
    return f"SELECT {listed(carried(here.node, here.columns))} FROM ({ranked}) WHERE dither_place <= {plan.groups}"


def _index(key: str, domain: Domain) -> str:
    """SQL: the index of a key, from 0 to p - 1; null has p - 1."""
    value = name(index_column(key)) if domain.undeclared else name(key)
    first, last = domain.listed
    if not domain.undeclared and min(first, domain.low) >= 0 and max(last, domain.high) < PRIME:
        index = f"CAST({value} AS BIGINT)"  # most keys are their own index
    else:
        whole = f"CAST({value} AS BIGINT)" if domain.undeclared else integer(value, domain)
        index = f"CAST(({whole} % {PRIME} + {PRIME}) % {PRIME} AS BIGINT)"
    if domain.undeclared:
        return f"coalesce({index}, {PRIME - 1})"
    return f"({index} + {null_flag(value, domain)} * ({PRIME - 1} - {index}))" if holds_null(domain) else index
