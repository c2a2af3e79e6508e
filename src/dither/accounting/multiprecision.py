"""Exact fractions as numbers of mpmath, and back."""

from __future__ import annotations

from fractions import Fraction

import mpmath


def read_fraction(value: Fraction) -> mpmath.mpf:
    """The fraction at the working precision."""
    return mpmath.mpf(value.numerator) / value.denominator


def write_fraction(value: mpmath.mpf) -> Fraction:
    """The fraction that the number is, exactly."""
    numerator, denominator = mpmath.libmp.to_rational(value._mpf_)
    return Fraction(int(numerator), int(denominator))
