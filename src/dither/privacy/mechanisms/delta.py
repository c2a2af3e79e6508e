"""Checks of delta, the chance of failing outright.

At 1 / number of people it allows a mechanism to publish whole rows.
"""

from __future__ import annotations

import warnings
from fractions import Fraction

from dither.canonical import Number, exact, number_text
from dither.errors import ParameterError, PrivacyWarning

_LEAST = 10**400
"""1 / the smallest delta: below it a table of probabilities would have thousands of digits in every
row."""


def small_delta(delta: Number, public_size: int | None = None) -> Fraction:
    """Read `delta` as an exact number in (0, 1); warn if it is at or above 1 / public_size.

    Publishing every row with probability delta is (0, delta)-DP; of 10^6 rows at 1e-6 some row
    leaks with probability 0.632. Only a *public* number of people may be compared with.

    >>> small_delta(1e-6)
    Fraction(1, 1000000)
    """
    number = exact(delta, "delta")
    if not 0 < number < 1 or number * _LEAST < 1:
        raise ParameterError(
            f"delta must lie in (0, 1), got {number_text(number)}: choose e.g. 1e-6, far below 1 / "
            f"number of people"
        )
    if public_size is not None and number * public_size >= 1:
        warnings.warn(
            f"delta {number_text(number)} is not below 1 / {public_size}: it allows whole rows to "
            f"be published. "
            f"Choose one far below {1 / public_size:g}",
            PrivacyWarning,
            stacklevel=3,
        )
    return number
