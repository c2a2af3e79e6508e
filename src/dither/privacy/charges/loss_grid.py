"""Privacy losses on a grid, composed in exact integers and rounded against us.

The law of a privacy loss is kept as integer masses in units of 10**-digits, one for each point of a
grid, and a mass at infinity. Three things may be done to it that only raise every delta: a mass is
rounded up, moved to a larger loss, or split between two points with its masses under both
hypotheses kept. Nothing else is done. Proof: docs/proofs/fixed-plans.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import MAX_EMAX, MAX_PREC, Context, Decimal, Inexact, InvalidOperation, Rounded
from fractions import Fraction
from itertools import accumulate
from typing import NamedTuple

from dither.privacy.charges.logarithms import log_up, on_grain
from dither.privacy.noise.enclosure import exp_minus

LONGEST = 8192
_BITS = 224
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, traps=[Inexact, Rounded, InvalidOperation])


class LossLaw(NamedTuple):
    """Masses of the losses (first + i) * 2**-fine, and of an infinite one; together at least 1."""

    fine: int
    first: int
    masses: list[int]
    infinite: int

    @property
    def step(self) -> Fraction:
        """What two neighbouring losses differ by."""
        return Fraction(2) ** -self.fine

    @property
    def total(self) -> int:
        """All mass."""
        return sum(self.masses) + self.infinite


def coarsen(law: LossLaw) -> LossLaw:
    """The law on every second point.

    A mass between two points that stay is split: of e^-loss times it nothing is lost if the lower
    one gets 1 / (1 + e^step) of it. That share is rounded down, the rest is the upper one's.
    """
    masses = [0] * (law.first % 2) + law.masses
    masses += [0] * (1 - len(masses) % 2)
    first = law.first - law.first % 2
    share = _lower_share(law.step)
    lower = [mass * share >> _BITS for mass in masses[1::2]]
    kept = masses[::2]
    for index, odd_mass in enumerate(masses[1::2]):
        kept[index] += lower[index]
        kept[index + 1] += odd_mass - lower[index]
    return LossLaw(law.fine - 1, first // 2, kept, law.infinite)


def _lower_share(step: Fraction) -> int:
    """2**224 / (1 + e^step), rounded down: e^-step / (1 + e^-step), which grows with e^-step."""
    low = exp_minus(step, _BITS).low
    return (low << _BITS) // ((1 << _BITS) + low)


def trim(law: LossLaw, spare: int) -> LossLaw:
    """The law without its ends of mass up to `spare`: the upper one is moved to infinity, the lower
    one to the least loss that stays."""
    above = _count_spare(law.masses[::-1], spare)
    kept = law.masses[: len(law.masses) - above]
    below = min(_count_spare(kept, spare), len(kept) - 1)
    moved = sum(law.masses[len(kept) :])
    kept = [sum(kept[: below + 1]), *kept[below + 1 :]]
    return LossLaw(law.fine, law.first + below, kept, law.infinite + moved)


def _count_spare(masses: Sequence[int], spare: int) -> int:
    """How many of the first masses are together at most `spare`; never all."""
    count = sum(1 for total in accumulate(masses) if total <= spare)
    return min(count, len(masses) - 1)


def shorten(law: LossLaw, spare: int) -> LossLaw:
    """The law trimmed, and coarsened until it is short enough to go on with."""
    law = trim(law, spare)
    while len(law.masses) > LONGEST:
        law = coarsen(law)
    return law


def convolve(a: LossLaw, b: LossLaw, digits: int, spare: int) -> LossLaw:
    """The law of the sum of two independent losses, from above: masses are rounded up to units of
    10**-digits, and up to `spare` of them is moved at either end (`trim`)."""
    while a.fine > b.fine:
        a = coarsen(a)
    while b.fine > a.fine:
        b = coarsen(b)
    unit = 10**digits
    masses = [-(-mass // unit) for mass in multiply(a.masses, b.masses)]
    infinite = -(-(a.infinite * b.total + a.total * b.infinite) // unit)
    return shorten(LossLaw(a.fine, a.first + b.first, masses, infinite), spare)


def multiply(a: list[int], b: list[int]) -> list[int]:
    """The coefficients of the product of two polynomials with coefficients >= 0, exactly.

    Written into two long decimal numbers, with room between the coefficients: one product of long
    numbers, which Python's decimal numbers multiply fast, has them all.

    >>> multiply([1, 2], [3, 4])
    [3, 10, 8]
    """
    room = len(str(max(a) * max(b) * min(len(a), len(b))))
    first, second = (
        Decimal("".join(f"{value:0{room}d}" for value in reversed(values))) for values in (a, b)
    )
    length = len(a) + len(b) - 1
    digits = f"{_EXACT.multiply(first, second):f}".zfill(room * length)
    starts = range(len(digits) - room, len(digits) - room * (length + 1), -room)
    return [int(digits[start : start + room]) for start in starts]


def repeat(law: LossLaw, count: int, digits: int, spare: int) -> LossLaw:
    """The law of the sum of `count` independent losses of one law, from above; see `convolve`."""
    power = law
    for bit in f"{count:b}"[1:]:
        power = convolve(power, power, digits, spare)
        if bit == "1":
            power = convolve(power, law, digits, spare)
    return power


def _gain(excess: int, weighed: int, step: Fraction) -> Fraction:
    """How far below a point of the grid delta is still met: at log(excess / weighed) above the next
    lower one, rounded down."""
    if not weighed:
        return Fraction(0)
    return max(Fraction(0), step - log_up(max(Fraction(1), Fraction(excess, weighed))))


def find_epsilon(law: LossLaw, delta: Fraction, digits: int) -> Fraction | None:
    """The least epsilon >= 0 for which the law's delta is at most `delta`, rounded up.

    delta(epsilon) is the mass at infinity plus the sum over losses z > epsilon of their mass times
    1 - e^(epsilon - z). From the largest loss down, `weighed` is that sum of mass times
    e^(epsilon - z), rounded down, at the next point of the grid.
    """
    allowed = delta.numerator * 10**digits // delta.denominator
    if law.infinite > allowed:
        return None
    decay = exp_minus(law.step, _BITS).low
    above = law.infinite
    weighed = 0
    point = law.first + len(law.masses) - 1
    for mass in reversed(law.masses):
        if point <= 0:
            break
        higher = above + mass
        lower_weighed = (weighed + mass) * decay >> _BITS
        if higher - lower_weighed > allowed:
            return on_grain(point * law.step - _gain(higher - allowed, lower_weighed, law.step))
        above = higher
        weighed = lower_weighed
        point -= 1
    return on_grain(max(point, 0) * law.step)
