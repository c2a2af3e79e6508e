"""Whole curves: the privacy profile delta(epsilon) and the trade-off function of hypothesis tests
(f-DP).

Both are read at points of a grid and hold everywhere between them: the profile because delta never
increases with epsilon, the trade-off because each point of the profile is a line below it (Neyman
and Pearson).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dither.accounting.bounds import Bounds
from dither.accounting.curves import delta, epsilon
from dither.canonical import Number
from dither.errors import ParameterError
from dither.given_numbers import as_float
from dither.privacy import losses as ls
from dither.privacy.numbers import refuse_beyond_floats

_DELTAS = tuple(10.0**-k for k in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15))


@dataclass(frozen=True)
class Profile:
    """delta(epsilon) of a loss at increasing epsilons, each a bracket; for a plan fixed in
    advance."""

    loss: ls.Loss
    epsilons: tuple[float, ...]
    deltas: tuple[Bounds, ...]

    def __call__(self, epsilon: Number) -> Bounds:
        """Bracket delta at any epsilon from the stored points alone.

        The curve does not increase, so that is sound; it is not tight.
        """
        goal = as_float(epsilon, "epsilon")
        lower, upper = 0.0, 1.0
        for point, bounds in zip(self.epsilons, self.deltas, strict=True):
            if point <= goal:
                upper = bounds.upper
            if point >= goal:
                lower = bounds.lower
                break
        return Bounds(min(lower, upper), upper)

    def rows(self) -> list[tuple[float, float, float]]:
        """(epsilon, lower, upper) for tables and plots."""
        return [
            (point, b.lower, b.upper) for point, b in zip(self.epsilons, self.deltas, strict=True)
        ]


@refuse_beyond_floats
def profile(loss: ls.Loss, epsilons: Sequence[Number] | None = None) -> Profile:
    """Compute the curve at `epsilons`, or at points chosen from delta = 0.1 down to 1e-15.

    >>> from dither.privacy.losses import Gaussian
    >>> curve = profile(Gaussian(1), [0, 1, 2])
    >>> [round(d.upper, 6) for d in curve.deltas]
    [0.382925, 0.126937, 0.020924]
    """
    if epsilons is None:
        points = {0.0}
        for target in _DELTAS:
            upper = epsilon(loss, target).upper
            if math.isfinite(upper):
                points.add(float(f"{upper:.6g}"))
        chosen = sorted(points)
    else:
        chosen = sorted({as_float(point, "epsilon") for point in epsilons})
    return Profile(loss, tuple(chosen), tuple(delta(loss, point) for point in chosen))


@dataclass(frozen=True)
class TradeOff:
    """The least false-negative rate of any test at given false-positive rates, as brackets; the
    attack advantage."""

    false_positive: tuple[float, ...]
    false_negative: tuple[Bounds, ...]
    total_variation: Bounds

    @property
    def accuracy(self) -> Bounds:
        """Best accuracy of an attacker who guesses between two equally likely neighbours."""
        return Bounds(
            0.5 + self.total_variation.lower / 2, min(1.0, 0.5 + self.total_variation.upper / 2)
        )


@refuse_beyond_floats
def tradeoff(
    loss: ls.Loss, false_positive: Sequence[Number] | None = None, *, points: int = 40
) -> TradeOff:
    """f(alpha) = sup over eps of max(1 - delta - e^eps alpha, e^-eps (1 - delta - alpha)), for both
    directions.

    >>> from dither.privacy.losses import Gaussian
    >>> test = tradeoff(Gaussian(1), [0.05])
    >>> bounds = test.false_negative[0]     # Phi(Phi^-1(0.95) - 1) = 0.7405
    >>> bounds.lower < 0.7405 < bounds.upper
    True
    """
    rates = (
        [i / 20 for i in range(21)]
        if false_positive is None
        else [as_float(a, "rate") for a in false_positive]
    )
    if any(not 0 <= rate <= 1 for rate in rates):
        raise ParameterError("false-positive rates lie in [0, 1]")
    last = epsilon(loss, 1e-6).upper
    grid = (
        [min(last, 60.0) * (i / points) ** 1.5 for i in range(points + 1)]
        if math.isfinite(last)
        else [0.0, 60.0]
    )
    deltas = [delta(loss, point) for point in grid]
    false_negatives = []
    for rate in rates:
        lower = upper = 0.0
        for point, bounds in zip(grid, deltas, strict=True):
            lower = max(lower, _line(rate, point, bounds.upper))
        # between two points: the smaller epsilon's slope with the larger epsilon's delta; beyond
        # the last: delta >= 0
        for i, point in enumerate(grid):
            least = deltas[i + 1].lower if i + 1 < len(grid) else 0.0
            upper = max(
                upper,
                1 - least - math.exp(point) * rate,
                math.exp(-point) * max(0.0, 1 - least - rate),
            )
        false_negatives.append(
            Bounds(
                max(0.0, min(lower, upper) - 1e-15),
                min(1 - rate, upper + 1e-15) if rate < 1 else 0.0,
            )
        )
    return TradeOff(tuple(rates), tuple(false_negatives), deltas[0])


def _line(rate: float, point: float, delta_upper: float) -> float:
    return max(
        1 - delta_upper - math.exp(point) * rate, math.exp(-point) * (1 - delta_upper - rate)
    )
