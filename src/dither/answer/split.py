"""One price over several steps: which family answers each query, and with which share."""

from __future__ import annotations

from fractions import Fraction

from dither.plan.algebra import Query
from dither.privacy.request import Step


def split(queries: tuple[Query, ...]) -> tuple[Step, ...]:
    """Equal weights, integer Laplace noise: every distinct aggregate gets the same share of epsilon."""
    return tuple(Step(query, "laplace", Fraction(1)) for query in queries)
