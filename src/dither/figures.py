"""Numbers as people read them: in decimals, with few digits, and no padded exponent."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from dither.canonical import decimal_text

_SMALLEST = 1e-4
_LARGEST = 1e15


def write_bound(value: float, *, up: bool = False) -> str:
    """Write a bound with at most six digits: cut down, as a lower bound is, or rounded up.

    Claims, ceilings, rates of false alarms and upper bounds are rounded up.

    >>> write_bound(1e-09), write_bound(0.0), write_bound(2.0000001, up=True)
    ('1e-9', '0', '2.00001')
    """
    if not math.isfinite(value):
        return str(float(value))
    return decimal_text(Fraction(repr(float(value))), up=up)


def write_figure(value: float, digits: int = 4) -> str:
    """Write a figure rounded to some digits, with thousands apart.

    >>> write_figure(178912.3), write_figure(0.51234), write_figure(2.0), write_figure(3e-7)
    ('178,900', '0.5123', '2', '3e-7')
    """
    if not math.isfinite(value):
        return str(float(value))
    rounded = Decimal(f"{value:.{digits - 1}e}").normalize()
    if not value or _SMALLEST <= abs(value) < _LARGEST:
        return f"{rounded:,f}"
    lead, _, exponent = f"{rounded:e}".partition("e")
    return f"{lead}e{int(exponent)}"
