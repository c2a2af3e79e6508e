"""A sample by unit.

A universal hash of the owner's own hash, by a key that the kernel drew for this release.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction

from dither.data.lower.columns import HASH_A, HASH_B, PRIME, list_carried, list_names
from dither.plan.algebra import SampleUnits, plan_hash
from dither.plan.analyse import Analysed


def sample_sql(plan: SampleUnits, source: str, here: Analysed, key: bytes) -> str:
    """Write the SELECT of a sample of units.

    The same node draws the same units wherever it stands in the plan.
    """
    digest = hashlib.sha256(key + bytes.fromhex(plan_hash(plan))).digest()
    x, y, z = (int.from_bytes(digest[start : start + 8], "big") % PRIME for start in (0, 8, 16))
    drawn = (
        f"(({x} * CAST({HASH_A} AS BIGINT)) % {PRIME} + ({y} * CAST({HASH_B} AS "
        f"BIGINT)) % {PRIME} + {z}) % {PRIME}"
    )
    below = int(Fraction(PRIME) * plan.rate)
    return (
        f"SELECT {list_names(list_carried(here.node, here.columns))} FROM ({source}) "
        f"WHERE {drawn} < {below}"
    )
