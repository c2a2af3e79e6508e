"""How rare a value may be so that any search at all could find it: an information bound.

Users report once, without seeing each other's reports. docs/proofs/local-intervals.md, theorem 9.
"""

from __future__ import annotations

from math import exp, log, sqrt

from dither.canonical import Number
from dither.errors import ParameterError
from dither.given_numbers import whole_number
from dither.local.odds import read_epsilon

GUESSES = 32
"""How many values a search may name: as many as `PrefixSearch.find` keeps."""


def bound_information(epsilon: Number, share: float) -> float:
    """Bound what one report tells about a value that a share of the users hold, in nats.

    share^2 (e^epsilon - 1)^2 / (8 e^epsilon (1 - share)): theorem 9.

    >>> round(bound_information(1, 0.01), 8)
    1.371e-05
    """
    odds = exp(read_epsilon(epsilon))
    return share**2 * (odds - 1) ** 2 / (8 * odds * (1 - share))


def least_possible_count(
    epsilon: Number, bits: int, users: int, *, guesses: int = GUESSES, power: float = 0.9
) -> float:
    """Compute a count below which no protocol finds a value with probability `power`.

    The value is any of 2^bits, one of `guesses` that may be named, and the other users hold values
    at random (theorem 9).

    >>> round(least_possible_count(1, 30, 300_000))
    5753
    """
    whole_number(users, "users")
    whole_number(guesses, "guesses")
    if not 0 < power < 1 or not 1 <= bits <= 60:
        raise ParameterError("power must lie between 0 and 1, and bits between 1 and 60")
    doubt = -power * log(power) - (1 - power) * log(1 - power)
    needed = power * (bits * log(2) - log(guesses)) - doubt
    if needed <= 0:
        return 0.0
    ratio = needed / (users * bound_information(epsilon, 0.5) * 2)  # share^2 / (1 - share)
    return users * (sqrt(ratio**2 + 4 * ratio) - ratio) / 2
