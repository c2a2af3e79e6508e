"""A sample of units. Proof: docs/proofs/stability.md#sample-units."""

from __future__ import annotations

from fractions import Fraction

from dither.errors import RefusedError
from dither.plan.stability.owned import Node, Owned
from dither.rules import PrivacyRule


def sample_rows(source: Node, rate: Fraction) -> Owned:
    """Check a sample by unit, and return its stability, which is that of the source.

    Nothing is drawn here: `data/lower/sample_units.py` writes the SQL. The kernel's random key of a
    release keeps or drops a unit with all its rows, so that the bounds of the source hold. The
    sample does not lower the price (no amplification is claimed).

    >>> sample_rows(Owned(3), Fraction(1, 10)) == Owned(3)
    True
    """
    if not isinstance(source, Owned):
        raise RefusedError("a sample by unit of rows without an owner", rule=PrivacyRule.LOST_OWNER)
    if not isinstance(rate, Fraction) or not 0 < rate < 1:
        raise RefusedError(
            f"a sampling rate of {rate}: it lies between 0 and 1", rule=PrivacyRule.PARAMETER_RANGES
        )
    return source
