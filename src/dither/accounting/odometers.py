"""Odometers: a reading of what was spent so far that may be taken at any time, also one chosen from
the answers.

A filter promises its cap. An odometer has none: with probability 1 - delta over the answers, under
every neighbour, the privacy loss so far is at most the reading *at all times at once*. So whenever
one stops, by whatever rule, and the reading is below some epsilon fixed in advance, the interaction
was (epsilon, delta)-DP. The price is a larger reading than a filter's cap at the same sum. Proof:
docs/proofs/filters.md, odometers.

>>> from dither.privacy.losses import DiscreteGaussian
>>> meter = ZcdpOdometer(delta=Fraction(1, 10**6))
>>> for _ in range(20):
...     meter = meter.add(DiscreteGaussian(10, 1))
>>> meter.rho, round(float(meter.reading().epsilon), 3)
(Fraction(1, 10), 2.807)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

from dither.canonical import number_text
from dither.errors import BudgetError, ParameterError
from dither.privacy import losses as ls
from dither.privacy.charges import measures as charges
from dither.privacy.charges.logarithms import log_up, on_grain

_RUNGS = 48


class Meter(NamedTuple):
    """(epsilon, delta) for whoever stops now, at whatever moment that is; exact, rounded up."""

    epsilon: Fraction
    delta: Fraction


def _check(delta: Fraction, delta_selection: Fraction) -> None:
    """Raise ParameterError unless delta lies in (0, 1) and the cap on selection deltas below 1."""
    if not 0 < delta < 1 or not 0 <= delta_selection < 1:
        raise ParameterError(
            "an odometer fixes its delta in (0, 1), and a cap on the sum of selection deltas below "
            "1"
        )


def _more(spent: Fraction, gained: Fraction, cap: Fraction) -> Fraction:
    """Add a delta to what was spent. Raises BudgetError above the cap that was fixed at opening."""
    if spent + gained > cap:
        raise BudgetError(
            f"the sum of deltas would exceed {number_text(cap)}, fixed when the odometer was "
            f"opened: ask for losses "
            "without a delta of their own"
        )
    return spent + gained


@dataclass(frozen=True)
class ZcdpOdometer:
    """Time-uniform reading of approximate zCDP: a union of lines, one tuned to each doubling of
    `first`."""

    delta: Fraction
    delta_selection: Fraction = Fraction(0)
    first: Fraction = Fraction(1, 1024)
    rho: Fraction = Fraction(0)
    spent_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        _check(self.delta, self.delta_selection)
        if self.first <= 0:
            raise ParameterError("the first rung of an odometer is a positive rho")

    def add(self, loss: ls.Loss) -> ZcdpOdometer:
        """Return the odometer after one more answer, its price chosen after seeing the earlier
        ones.

        Raises BudgetError where the deltas pass their cap.
        """
        rho, delta = charges.zcdp(loss)
        return replace(
            self,
            rho=self.rho + rho,
            spent_delta=_more(self.spent_delta, delta, self.delta_selection),
        )

    def reading(self) -> Meter:
        """min over rungs k of (t_k + 1) rho + log(1/delta_k) / t_k; t_k and delta_k were fixed at
        opening."""
        if self.rho == 0:
            return Meter(Fraction(0), self.delta + self.delta_selection)
        best = min((t + 1) * self.rho + log / t for t, log in _lines(self.delta, self.first))
        return Meter(on_grain(best), self.delta + self.delta_selection)


def _lines(delta: Fraction, first: Fraction) -> list[tuple[Fraction, Fraction]]:
    """List (t_k, log(1/delta_k)) with delta_k = delta / ((k+1)(k+2)), which sum to less than
    delta."""
    lines = []
    for k in range(_RUNGS):
        log = log_up((k + 1) * (k + 2) / delta)
        best = math.sqrt(float(log) / (float(first) * 2.0**k))
        lines.append((Fraction(best).limit_denominator(10**6) or Fraction(1, 10**6), log))
    return lines


@dataclass(frozen=True)
class RenyiOdometer:
    """Time-uniform reading at the one order alpha: the sum of D_alpha, plus log(1/delta) / (alpha -
    1)."""

    alpha: Fraction
    delta: Fraction
    delta_selection: Fraction = Fraction(0)
    renyi: Fraction = Fraction(0)
    spent_delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        _check(self.delta, self.delta_selection)
        if self.alpha <= 1:
            raise ParameterError("an odometer of Renyi divergence fixes one order above 1")

    def add(self, loss: ls.Loss) -> RenyiOdometer:
        """Return the odometer after one more answer, its price chosen after seeing the earlier
        ones.

        Raises BudgetError where the deltas pass their cap.
        """
        renyi, delta = charges.rdp(loss, self.alpha)
        return replace(
            self,
            renyi=self.renyi + renyi,
            spent_delta=_more(self.spent_delta, delta, self.delta_selection),
        )

    def reading(self) -> Meter:
        return Meter(
            on_grain(self.renyi + log_up(1 / self.delta) / (self.alpha - 1)),
            self.delta + self.delta_selection,
        )
