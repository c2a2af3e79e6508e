"""What a plan of steps fixed in advance costs: its privacy curve, bounded closely from above.

Gaussian noise, Poisson samples of it under add/remove, and events that are (epsilon, delta)-DP by
themselves, in any numbers. The privacy loss of every event is put on a grid and all are composed in
exact integers (`loss_grid.py`), for a unit that leaves and for one that comes. Other events have no
such law here. Proof: docs/proofs/fixed-plans.md.

>>> plan = losses.PoissonSampled("0.01", losses.RoundedGaussian("1.1", 1)) * 100
>>> round(float(find_planned_epsilon(plan, Fraction(1, 10**5), lambda event: None)), 3)
0.55
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import NamedTuple

from dither.privacy import losses
from dither.privacy.charges.gaussian_curve import (
    SMALLEST_DELTA,
    find_gaussian_epsilon,
    root_up,
    times_exponential,
)
from dither.privacy.charges.logarithms import log_down, log_up
from dither.privacy.charges.loss_grid import (
    LONGEST,
    LossLaw,
    convolve,
    find_epsilon,
    repeat,
    shorten,
)
from dither.privacy.charges.normal import BITS, normal_below
from dither.privacy.charges.sampled import amplified
from dither.privacy.losses import Loss
from dither.privacy.noise.enclosure import Enclosure, ceil_shift, exp_minus, fixed

Pair = tuple[Fraction, Fraction]
_WHOLE = 1 << BITS
_MOST_KINDS = 8
_MOST_DIGITS = 50
_LARGEST_SQUARE = 4096
_LARGEST_EPSILON = 1000
_EDGE_BITS = 128
_FINENESS = 32
_BELOW_ALL = Fraction(-64)


@dataclass(frozen=True)
class SampledNormal:
    """Gaussian noise on a sample: `square` is (sensitivity / sigma)^2.

    No tuple: a `KnownPair` of the same two numbers would be equal to it, and pay its price.
    """

    rate: Fraction
    square: Fraction


@dataclass(frozen=True)
class KnownPair:
    """An event that is (epsilon, delta)-DP."""

    epsilon: Fraction
    delta: Fraction


Kind = SampledNormal | KnownPair
_NOTHING = KnownPair(Fraction(0), Fraction(0))


class Scale(NamedTuple):
    """In which units masses are counted, and how much of them may be moved at once."""

    digits: int
    spare: int

    def down(self, value: int) -> int:
        """A number in units of 2**-224, in units of masses, rounded down."""
        return int(value * 10**self.digits >> BITS)

    def up(self, value: int) -> int:
        return ceil_shift(value * 10**self.digits, BITS)


def find_planned_epsilon(
    plan: Loss, delta: Fraction, known_pair: Callable[[Loss], Pair | None]
) -> Fraction | None:
    """The epsilon of a plan at `delta`, rounded up; None where some event has no law here.

    `known_pair` gives (epsilon, delta) of an event that has them by itself.
    """
    counts: Counter[Kind] = Counter()
    square = Fraction(0)
    for event, count in _count_events(plan, 1):
        kind = _read_event(event, known_pair)
        if kind is None:
            return None
        if isinstance(kind, SampledNormal) and kind.rate == 1:
            square += count * kind.square  # Gaussians compose to one Gaussian, exactly
        else:
            counts[kind] += count
    is_noise_alone = isinstance(plan, losses.FixedNoise) and counts.keys() <= {_NOTHING}
    if square and is_noise_alone and delta >= SMALLEST_DELTA:
        return find_gaussian_epsilon(square, delta)
    if square:
        counts[SampledNormal(Fraction(1), square)] = 1
    if not counts or len(counts) > _MOST_KINDS or not all(map(_is_moderate, counts)):
        return None
    return _compose(tuple(sorted(counts.items(), key=_order_kinds)), delta)


def _order_kinds(counted: tuple[Kind, int]) -> tuple[bool, tuple[Fraction, ...]]:
    """Known pairs first, each kind by its numbers: the last digits of a charge depend on the order,
    and so on nothing that may be renamed."""
    kind, _ = counted
    return isinstance(kind, SampledNormal), astuple(kind)


def _is_moderate(kind: Kind) -> bool:
    """Whether a grid of this module is good for an event: no other is worth the time."""
    if isinstance(kind, KnownPair):
        return kind.epsilon <= _LARGEST_EPSILON
    return kind.square <= _LARGEST_SQUARE


def _count_events(loss: Loss, count: int) -> Iterator[tuple[Loss, int]]:
    """The events of a plan, each with how often it happens."""
    if isinstance(loss, losses.Repeated):
        yield from _count_events(loss.loss, count * loss.count)
    elif isinstance(loss, losses.Composed):
        for inner in loss.losses:
            yield from _count_events(inner, count)
    else:
        yield loss, count


def _read_event(event: Loss, known_pair: Callable[[Loss], Pair | None]) -> Kind | None:
    """What an event is to this module, or None."""
    if (pair := known_pair(event)) is not None:
        return KnownPair(*pair)
    if not isinstance(event, losses.PoissonSampled):
        return _read_gaussian(event, Fraction(1))
    if event.neighbours != "add_remove":
        return None
    return _read_gaussian(event.loss, event.q)


def _read_gaussian(event: Loss, rate: Fraction) -> SampledNormal | None:
    """Noise whose law is at most that of continuous Gaussian noise, also on samples."""
    match event:
        case losses.Gaussian():
            return SampledNormal(rate, (event.sensitivity / event.sigma) ** 2)
        case losses.RoundedGaussian():
            return SampledNormal(rate, event.l2_squared / event.sigma**2)
        case losses.GaussianSum() if event.neighbours == "add_remove":
            return SampledNormal(rate, (event.clip_norm / event.sigma) ** 2)
    return None


@lru_cache(maxsize=256)
def _compose(counts: tuple[tuple[Kind, int], ...], delta: Fraction) -> Fraction | None:
    """The larger epsilon of both directions."""
    steps = sum(count for _, count in counts)
    digits = 16 + len(str(int(1 / delta))) + len(str(steps))
    if digits > _MOST_DIGITS:
        return None
    scale = Scale(digits, int(delta * 10**digits / (4096 * steps)))
    directions: list[LossLaw] = []
    for kind, count in counts:
        laws = _list_laws(kind, scale)
        repeated = [repeat(law, count, *scale) for law in laws]
        directions = (
            [convolve(a, b, *scale) for a, b in zip(directions, repeated, strict=True)]
            if directions
            else repeated
        )
    epsilons = [find_epsilon(law, delta, digits) for law in directions]
    return None if None in epsilons else max(epsilon for epsilon in epsilons if epsilon is not None)


def _list_laws(kind: Kind, scale: Scale) -> tuple[LossLaw, LossLaw]:
    """The laws of the loss for a unit that leaves and for one that comes."""
    if isinstance(kind, KnownPair):
        law = _build_known(kind, scale)
        return law, law
    return _build_gauss(kind, scale)


def _build_known(kind: KnownPair, scale: Scale) -> LossLaw:
    """Randomised response at epsilon, with `delta` at infinity: every such event is at most it."""
    fine = 20
    while kind.epsilon * Fraction(2) ** fine > _FINENESS**2:
        fine -= 1
    truth, lie = _split_response(kind.epsilon)
    low = int(kind.epsilon * Fraction(2) ** fine)
    spread = Spread(fine, scale)
    spread.add(low, low + 1, truth, lie)
    spread.add(-low - 1, -low, lie, truth)
    return spread.finish(scale.up(fixed(kind.delta, BITS).high))


def _split_response(epsilon: Fraction) -> tuple[Enclosure, Enclosure]:
    """e^epsilon / (1 + e^epsilon) and 1 / (1 + e^epsilon)."""
    low, high = exp_minus(epsilon, BITS)
    lie = Enclosure((low << BITS) // (_WHOLE + low), -(-(high << BITS) // (_WHOLE + high)))
    return Enclosure(_WHOLE - lie.high, _WHOLE - lie.low), lie


class Spread:
    """A law of losses that is built cell by cell."""

    def __init__(self, fine: int, scale: Scale) -> None:
        self.fine = fine
        self.scale = scale
        self.masses: Counter[int] = Counter()

    def add(self, low: int, high: int, mass: Enclosure, other: Enclosure) -> None:
        """Split the mass of outcomes whose losses lie between two points of the grid.

        `mass` is under the hypothesis in which losses are counted, `other` under the other one. The
        lower point gets (other e^low - mass e^-(high - low)) / (1 - e^-(high - low)), which keeps
        both, rounded down.
        """
        step = Fraction(2) ** -self.fine
        decay = exp_minus((high - low) * step, BITS)
        scaled = times_exponential(other.low, low * step)
        share = (scaled << BITS) - mass.high * decay.high
        total = self.scale.up(mass.high)
        lower = min(total, max(0, self.scale.down(share // (_WHOLE - decay.low))))
        self.masses[low] += lower
        self.masses[high] += total - lower

    def finish(self, infinite: int) -> LossLaw:
        first = min(self.masses)
        listed = [self.masses[point] for point in range(first, max(self.masses) + 1)]
        return shorten(LossLaw(self.fine, first, listed, infinite), self.scale.spare)


def _build_gauss(kind: SampledNormal, scale: Scale) -> tuple[LossLaw, LossLaw]:
    """The loss of (1-q) N(0,1) + q N(mean,1) towards N(0,1), and the other way round.

    It grows with the outcome x. Cells end where it is a point of the grid: every point around 0,
    and then ever fewer, each cell at most a 32nd part of its loss wide. Outcomes beyond the last
    cell have an infinite loss for a unit that leaves, and that of its end for one that comes; those
    before the first one, if there are any, the other way round.
    """
    mean = root_up(kind.square)
    fine = _choose_fine(kind, mean)
    leaving = Spread(fine, scale)
    coming = Spread(fine, scale)
    low, has_outcomes_below = _find_lowest(kind.rate, mean, fine)
    before = NOTHING
    infinite = 0
    if has_outcomes_below:
        before = _enclose_below(kind.rate, mean, low, fine)
        leaving.masses[low] += scale.up(before.mixed.high)
        infinite = scale.up(before.plain.high)
    while True:
        high = low + max(1, abs(low) // _FINENESS)
        below = _enclose_below(kind.rate, mean, high, fine)
        cell = below.subtract(before)
        leaving.add(low, high, cell.mixed, cell.plain)
        coming.add(-high, -low, cell.plain, cell.mixed)
        beyond = ALL.subtract(below)
        far = scale.up(beyond.mixed.high)
        if far <= scale.spare or high > 64 * LONGEST:
            break
        low, before = high, below
    coming.masses[-high] += scale.up(beyond.plain.high)
    return leaving.finish(far), coming.finish(infinite)


class Masses(NamedTuple):
    """The masses of some outcomes under N(0,1) and under the mixture."""

    plain: Enclosure
    mixed: Enclosure

    def subtract(self, other: Masses) -> Masses:
        """The masses of the outcomes that are not among `other`, all of which are among these."""
        return Masses(*(_subtract(a, b) for a, b in zip(self, other, strict=True)))


NOTHING = Masses(Enclosure(0, 0), Enclosure(0, 0))
ALL = Masses(Enclosure(_WHOLE, _WHOLE), Enclosure(_WHOLE, _WHOLE))


def _choose_fine(kind: SampledNormal, mean: Fraction) -> int:
    """A grid whose step is at most a 32nd part of the deviation of the loss, roughly.

    The deviation is about the least of mean and rate * sqrt(e^square - 1). The step is larger where
    else the losses up to nine deviations were too many. Any grid is sound.
    """
    variance = mean * mean
    if kind.square < 16:
        growth = Fraction(_WHOLE, exp_minus(kind.square, BITS).high) - 1
        variance = min(variance, kind.rate**2 * growth)
    largest = amplified(9 * mean + mean * mean / 2, kind.rate)
    fine = 0
    while variance * 4**fine < _FINENESS**2 and largest * 2 ** (fine + 1) <= 4 * LONGEST:
        fine += 1
    return fine


def _find_lowest(rate: Fraction, mean: Fraction, fine: int) -> tuple[int, bool]:
    """The point of the grid at which the first cell begins, and whether outcomes lie below it.

    That is a point below all losses, log(1 - rate), or the loss at the outcome -13, below which
    next to no mass lies.
    """
    exponent = 13 * mean + mean * mean / 2
    scale = Fraction(2) ** fine
    if rate == 1:
        return floor(-exponent * scale), True
    least = floor(-log_up(1 / (1 - rate)) * scale)
    at_13 = 1 - rate + rate * Fraction(exp_minus(exponent, BITS).low, _WHOLE)
    start = floor(-log_up(1 / at_13) * scale)
    return (start, True) if start > least + 1 else (least, False)


def _enclose_edge(rate: Fraction, mean: Fraction, loss: Fraction) -> tuple[Fraction, Fraction]:
    """The outcome whose loss is `loss`: (log((e^loss - 1 + rate) / rate) + mean^2 / 2) / mean.

    Where none may have so little, any number so low that the mass below it may be 0 will do.
    """
    if rate == 1:
        exact = (loss + mean * mean / 2) / mean
        return exact, exact
    power = exp_minus(abs(loss), BITS)
    low, high = (Fraction(end, _WHOLE) for end in power)
    rest = 1 - rate
    # above 0: e^loss is taken out, so that no power grows
    ends = (1 - rest * high, 1 - rest * low) if loss > 0 else (low - rest, high - rest)
    start = max(loss, Fraction(0)) + mean * mean / 2
    first, last = (end / rate for end in ends)
    edge = (start + _log_of(last, log_up, log_down)) / mean if last > 0 else _BELOW_ALL
    if first > 0:
        return (start + _log_of(first, log_down, log_up)) / mean, edge
    return min(edge, _BELOW_ALL), edge


def _log_of(
    x: Fraction, of_large: Callable[[Fraction], Fraction], of_small: Callable[[Fraction], Fraction]
) -> Fraction:
    """The logarithm of x > 0, rounded as `of_large` does; `of_small` rounds the other way."""
    return of_large(x) if x >= 1 else -of_small(1 / x)


def _enclose_below(rate: Fraction, mean: Fraction, point: int, fine: int) -> Masses:
    """The masses of the outcomes whose loss is at most that of a point of the grid.

    The outcome there lies between two fractions; densities are below 1.
    """
    low, high = _enclose_edge(rate, mean, point * Fraction(2) ** -fine)
    start = Fraction(floor(low * 2**_EDGE_BITS), 2**_EDGE_BITS)
    width = fixed(high - start, BITS).high
    plain, shifted = (
        Enclosure(below.low, below.high + width)
        for below in (normal_below(start), normal_below(start - mean))
    )
    return Masses(plain, _mix(rate, plain, shifted))


def _subtract(a: Enclosure, b: Enclosure) -> Enclosure:
    return Enclosure(max(0, a.low - b.high), a.high - b.low)


def _mix(rate: Fraction, a: Enclosure, b: Enclosure) -> Enclosure:
    """(1 - rate) a + rate b."""
    whole = rate.denominator
    part = rate.numerator
    return Enclosure(
        ((whole - part) * a.low + part * b.low) // whole,
        -(-((whole - part) * a.high + part * b.high) // whole),
    )
