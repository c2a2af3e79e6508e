"""One price over several steps: which family answers each query, and with which share."""

from __future__ import annotations

from fractions import Fraction

from dither.plan.algebra import Query
from dither.privacy.request import Family, Step


def split(queries: tuple[Query, ...], family: Family = "laplace") -> tuple[Step, ...]:
    """Equal weights: every distinct aggregate gets the same share of the price."""
    return tuple(Step(query, family, Fraction(1)) for query in queries)
