"""At most so many groups per owner: those with the least (a*x + b) mod p.

Here x indexes the key, and a and b are the owner's.
"""

from __future__ import annotations

from dither.data.lower.columns import (
    HASH_A,
    HASH_B,
    PRIME,
    UNIT,
    holds_null,
    index_column,
    integer,
    list_carried,
    list_names,
    null_flag,
)
from dither.data.quoting import name
from dither.plan.algebra import LimitGroups
from dither.plan.analyse import Analysed
from dither.plan.domain import Domain

MULTIPLIER = 48_271


def limit_sql(plan: LimitGroups, source: str, here: Analysed) -> str:
    """Keep at most so many groups of each owner.

    Ties are broken by the keys themselves, so that the choice is a function of the owner's own
    rows.

    The place in the order is computed before the rows are ranked: the window then sorts one small
    integer per row and carries no hash. A key that is its own index has no ties, since a is not 0
    mod p.
    """
    order, order_by = write_order(plan.keys, here)
    outputs = list_names(list_carried(here.node, here.columns))
    placed = f"SELECT {outputs}, {order} AS dither_order FROM ({source})"
    window = f"(PARTITION BY {UNIT} ORDER BY {order_by})"
    ranked = f"SELECT *, dense_rank() OVER {window} AS dither_place FROM ({placed})"
    return f"SELECT {outputs} FROM ({ranked}) WHERE dither_place <= {plan.groups}"


def write_order(keys: tuple[str, ...], here: Analysed) -> tuple[str, str]:
    """Write the SQL of the order of an owner's groups, as two texts.

    The first is the hash of the keys, which the caller names dither_order. The second is for ORDER
    BY: dither_order, and the keys themselves, which break ties.
    """
    indices = [_index(key, here.columns[key]) for key in keys]
    mixed = indices[0]
    if len(indices) > 1:
        scaled = (
            f"({index} * {pow(MULTIPLIER, position, PRIME)}) % {PRIME}"
            for position, index in enumerate(indices)
        )
        mixed = f"(({' + '.join(scaled)}) % {PRIME})"
    order = (
        f"CAST((CAST({HASH_A} AS BIGINT) * {mixed} + CAST({HASH_B} AS BIGINT)) % "
        f"{PRIME} AS INTEGER)"
    )
    ties = [] if _is_own_index(keys, here) else [f"{name(key)} NULLS LAST" for key in keys]
    return order, ", ".join(["dither_order", *ties])


def _is_own_index(keys: tuple[str, ...], here: Analysed) -> bool:
    """Whether there is one key, whose values can be hashed as they stand.

    They and null are then different integers from 0 to p - 1.
    """
    domain = here.columns[keys[0]]
    return (
        len(keys) == 1 and _is_index(domain) and (domain.high < PRIME - 1 or not holds_null(domain))
    )


def _is_index(domain: Domain) -> bool:
    """Whether all values of a key, and all that a declaration lists, are their own index."""
    first, last = domain.listed
    return not domain.undeclared and min(first, domain.low) >= 0 and max(last, domain.high) < PRIME


def _index(key: str, domain: Domain) -> str:
    """Write the SQL of a key's index, from 0 to p - 1; null has p - 1."""
    value = name(index_column(key)) if domain.undeclared else name(key)
    if _is_index(domain):
        index = f"CAST({value} AS BIGINT)"  # most keys are their own index
    else:
        whole = f"CAST({value} AS BIGINT)" if domain.undeclared else integer(value, domain)
        index = f"CAST(({whole} % {PRIME} + {PRIME}) % {PRIME} AS BIGINT)"
    if domain.undeclared:
        return f"coalesce({index}, {PRIME - 1})"
    return (
        f"({index} + {null_flag(value, domain)} * ({PRIME - 1} - {index}))"
        if holds_null(domain)
        else index
    )
