"""One sampled Gaussian with its far tail faded out, and bounds of its transform on shifted lines.

Far out a sampled Gaussian is heavy: for the tilts that small deltas need, the moment-generating
function is ruled by noise that never happens. So a smooth weight W(y) between 0 and 1 takes that
noise out: what is taken out counts as a loss of infinity above the truth, and as nothing below it.
The weight is Phi((top - y)/fade), and for a jump also Phi((y - bottom)/fade): analytic, so the
trapezoid rule keeps its speed. Proofs: docs/proofs/few-steps.md, (W1) to (W4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.special import log_ndtr, ndtr

from dither.accounting.sampled import stack_layers
from dither.accounting.transforms import Real
from dither.accounting.trapezoid import log_ratio

Direction = Literal["remove", "add"]
_ANGLES = 8
_MORE_ANGLES = 5
FAR = 14.0
_GROWTH = 1.05


@dataclass(frozen=True)
class FadedStep:
    """A direction of one sampled Gaussian, tilted by c, with a weight that fades out above `top`
    (and below `bottom`)."""

    direction: Direction
    q: float
    sigma: float
    c: float
    top: float
    fade: float
    bottom: float = -math.inf
    end: float = math.inf
    """Where the weight is cut off: so far above `top` that next to nothing is lost (W6)."""
    more_tops: tuple[float, ...] = ()
    more_bottoms: tuple[float, ...] = ()

    @property
    def variance(self) -> float:
        return self.sigma * self.sigma

    @property
    def power(self) -> float:
        """The power of r in the tilted density."""
        return self.c + 1 if self.direction == "remove" else -self.c

    @property
    def fades(self) -> int:
        """How many factors the weight has."""
        return len(self.tops) + len(self.bottoms)

    @property
    def tops(self) -> tuple[float, ...]:
        """Where the decreasing factors of the weight are one half."""
        return tuple(top for top in (self.top, *self.more_tops) if top < math.inf)

    @property
    def bottoms(self) -> tuple[float, ...]:
        """Where the increasing factors of the weight are one half."""
        bottoms = (self.bottom, *self.more_bottoms)
        return tuple(bottom for bottom in bottoms if bottom > -math.inf)

    def at_tilt(self, c: float) -> FadedStep:
        """The same step under another tilt."""
        return replace(self, c=c)

    def log_top_weight(self, y: Real) -> Real:
        """The logarithm of the weight's decreasing factor."""
        logs = np.zeros_like(y)
        for top in self.tops:
            logs += log_ndtr((top - y) / self.fade)
        return logs

    def log_bottom_weight(self, y: Real) -> Real:
        """The logarithm of the weight's increasing factor."""
        logs = np.zeros_like(y)
        for bottom in self.bottoms:
            logs += log_ndtr((y - bottom) / self.fade)
        return logs

    def cut(self, positions: Sequence[float]) -> list[FadedStep]:
        """Cut a step into steps whose weights add up to its own.

        They lie below, between and above the positions (W5).
        """
        pieces = []
        rest = self
        for position in positions:
            pieces.append(replace(rest, more_tops=(*rest.more_tops, position)))
            rest = replace(rest, more_bottoms=(*rest.more_bottoms, position))
        return [*pieces, rest]

    def faded_mass(self, mean: float) -> float:
        """The mass of N(mean, sigma^2) that the lowest decreasing factor takes out."""
        lowest = min(self.tops, default=math.inf)
        return float(ndtr((mean - lowest) / math.hypot(self.sigma, self.fade)))

    @property
    def overlap(self) -> float:
        """A bound of the mass that the other decreasing factors take out of the lowest one (W5)."""
        if len(self.tops) < 2:
            return 0.0
        lowest, second, *_ = sorted(self.tops)
        return float(len(self.tops) * ndtr((lowest - second) / (2 * self.fade)))

    def grow_weight(self, angles: Real) -> Real:
        """log of the growth of one factor of the weight on the lines Im y = theta sigma^2, at most:
        (theta sigma^2 / fade)^2 / 2 (W2)."""
        return np.asarray((angles * self.variance / self.fade) ** 2 / 2)

    @cached_property
    def line_cost(self) -> float:
        """log of the growth of density and weight on the line Im y = theta sigma^2, at most, per
        theta^2."""
        variance = self.variance
        more = self.fades * (variance / self.fade) ** 2 if self.fades else 0.0
        return (variance + more) / 2

    @cached_property
    def angles(self) -> Real:
        """The lines that are tried, as multiples theta of sigma^2."""
        cheap = min(math.pi / 2, 11.0 / math.sqrt(2 * self.line_cost))
        largest = min(math.pi / 2, 11.0 / self.sigma)
        more = min(math.ceil(math.log(largest / cheap) / math.log(1.8)), _MORE_ANGLES)
        return np.geomspace(cheap / 64, largest, _ANGLES + more)

    def turn_end(self, blur: float) -> float:
        """A bound of arg r / theta within `blur` of the end: min(1, q e^x / (1 - q)) (W6)."""
        x = (2 * (self.end + blur) - 1) / (2 * self.variance)
        return min(1.0, math.exp(min(x, 700.0)) * self.q / (1 - self.q) * (1 + 1e-9))

    def log_end(self, blur: float) -> float:
        """log of a bound of density * weight * max(1, r^power) on the real axis within `blur` of
        the end (W6)."""
        if self.end == math.inf:
            return -math.inf
        before = np.array([self.end - blur])
        after = np.array([(2 * (self.end + blur) - 1) / (2 * self.variance)])
        density = -(float(before[0]) ** 2) / (2 * self.variance)
        density -= math.log(self.sigma * math.sqrt(2 * math.pi))
        log_weight = float(self.log_top_weight(before)[0])
        tilt = self.power * float(log_ratio(self.q, after)[0][0])
        return density + log_weight + max(0.0, tilt) * (1 + 1e-12) + 1e-9


@dataclass(frozen=True)
class LineBound:
    """Upper bounds of the integral of |integrand| over lines in the complex plane (W2).

    Cells cut the real line; in each, every factor of the integrand takes its largest value, which
    is at an end because every factor is monotone.
    """

    step: FadedStep
    reach: float
    """The largest |Im s| for which the bounds are asked."""
    stride: int = 1
    """Of the lines, every so many."""

    @cached_property
    def angles(self) -> Real:
        return self.step.angles[:: -self.stride][::-1]

    def with_reach(self, reach: float) -> LineBound:
        """The bounds for another |Im s|; a weight that ends has the same cells for all."""
        return self if self.step.direction == "remove" else replace(self, reach=reach)

    @cached_property
    def bounds(self) -> Real:
        """Choose the ends of the cells: fine where the weight fades, coarse elsewhere."""
        step = self.step
        sigma = step.sigma
        coarse = sigma / 20
        fine = min(coarse, step.fade / 4)
        edges = (*step.tops, *step.bottoms)
        fades = [(edge - 12 * step.fade, edge + 12 * step.fade) for edge in edges]
        if step.direction == "add":
            room = self.reach * float(self.angles[-1])
            near = cut_line(-FAR * sigma - self._shift_left, FAR * sigma, coarse, fades, fine)
            last = sigma * math.sqrt(2 * (100.0 + room))
        else:
            near = cut_line(-FAR * sigma, max(step.tops) + 10 * step.fade, coarse, fades, fine)
            last = step.end
        gap = max(last - float(near[-1]), fine)
        count = math.ceil(math.log1p(gap * (_GROWTH - 1) / fine) / math.log(_GROWTH))
        shares = np.expm1(np.arange(1, count) * math.log(_GROWTH)) / (_GROWTH**count - 1)
        return np.concatenate([near, near[-1] + gap * shares, [near[-1] + gap]])

    @cached_property
    def _shift_left(self) -> float:
        """How far the tilt moves the density to the left, at most: its slope at zero."""
        x = -1 / (2 * self.step.variance)
        ratio = self.step.q * math.exp(max(x, -700.0))
        return self.step.c * ratio / (1 - self.step.q + ratio)

    @cached_property
    def _log_ratios(self) -> Real:
        return log_ratio(self.step.q, (2 * self.bounds - 1) / (2 * self.step.variance))[0]

    @cached_property
    def _odds(self) -> Real:
        """q e^x / (1 - q)."""
        x = (2 * self.bounds - 1) / (2 * self.step.variance)
        log_odds = math.log(self.step.q) - math.log1p(-self.step.q)
        return np.exp(np.clip(x + log_odds, -700.0, 300.0))

    @cached_property
    def _log_density(self) -> Real:
        """Compute log of width * density, at its largest, cell by cell."""
        y = self.bounds
        step = self.step
        nearest = np.where(y[:-1] >= 0, y[:-1], np.where(y[1:] <= 0, y[1:], 0.0))
        log_density = -nearest * nearest / (2 * step.variance)
        log_density = log_density - math.log(step.sigma * math.sqrt(2 * math.pi))
        return np.asarray(log_density + np.log(np.diff(y)))

    @cached_property
    def _base(self) -> Real:
        """log of width * density * weight on the real axis, at their largest, cell by cell."""
        y = self.bounds
        weight = self.step.log_top_weight(y[:-1]) + self.step.log_bottom_weight(y[1:])
        return np.asarray(self._log_density + weight)

    @cached_property
    def _weights(self) -> Real:
        """log of a bound of |weight| on each line, cell by cell: each factor is at most
        e^{v^2/2} Phi(u) and at most 1 + e^{v^2/2} Phi(-u) (W2)."""
        step = self.step
        y = self.bounds
        growth = step.grow_weight(self.angles)[:, None]
        total = np.zeros((len(self.angles), len(y) - 1))
        for top in step.tops:
            total += _bound_factor(growth, (top - y[:-1]) / step.fade, (top - y[1:]) / step.fade)
        for bottom in step.bottoms:
            total += _bound_factor(
                growth, (y[1:] - bottom) / step.fade, (y[:-1] - bottom) / step.fade
            )
        return total

    @cached_property
    def _moduli(self) -> Real:
        """Compute power * log |r| on each line, at its largest in each cell."""
        odds = self._odds
        share = odds / (1 + odds) ** 2
        bend = np.sin(self.angles / 2)[:, None] ** 2
        logs = self._log_ratios + 0.5 * np.log1p(-4 * share * bend)
        ends = logs[:, 1:] if self.step.direction == "remove" else logs[:, :-1]
        return np.asarray(self.step.power * ends)

    @cached_property
    def _arguments(self) -> Real:
        """arg r on each line, at the ends of the cells: it increases along the line."""
        angles = self.angles[:, None]
        return np.arctan2(self._odds * np.sin(angles), 1 + self._odds * np.cos(angles))

    @cached_property
    def _lines(self) -> Real:
        cost = self.step.variance / 2 * self.angles**2
        return np.asarray(cost[:, None] + self._log_density + self._weights + self._moduli)

    def read(self, y: float, *, rising: bool) -> Real:
        """Compute the log of the bound on each line at Im s = y.

        It is with the argument's help, or with `rising` against it.
        """
        if rising:
            cells = self._lines + y * self._arguments[:, 1:]
        else:
            cells = self._lines - y * self._arguments[:, :-1]
        rest = self._rest(y if rising else 0.0)
        return np.asarray(np.logaddexp(sum_logs(cells), rest) + 1e-9)

    @cached_property
    def _end(self) -> float:
        return self.step.log_end(0.0)

    def _rest(self, y: float) -> Real:
        """Bound the log of what lies beyond the cells, on each line (W3)."""
        step = self.step
        angles = self.angles
        cost = step.variance / 2 * angles**2
        first = float(self.bounds[0])
        last = float(self.bounds[-1])
        log_first = float(self._log_ratios[0])
        turn = y * self._arguments[:, 0]
        if step.direction == "remove":
            log_tail = float(log_ndtr(first / step.sigma)) + step.power * log_first
            left_tail = cost + self._weights[:, 0] + log_tail + turn
            right = step.line_cost * angles**2 + self._end + y * step.turn_end(0.0) * angles
            return np.asarray(np.logaddexp(left_tail, right + np.log(angles * step.variance)))
        slope = step.c * self._odds[0] / (1 + self._odds[0])
        moved = float(log_ndtr((first + slope) / step.sigma))
        # |r| on the line is at least r times its share at the first cell, or cos(theta/2) of it
        modulus = self._moduli[:, 0]
        if self._odds[0] > 1:
            modulus = -step.c * (log_first + np.log(np.cos(angles / 2)))
        left = modulus + (slope * first + slope * slope / 2) / step.variance + moved
        left += self._weights[:, 0]
        right = float(log_ndtr(-last / step.sigma)) + self._moduli[:, -1] + self._weights[:, -1]
        return np.asarray(cost + np.logaddexp(left + turn, right + y * angles))

    @cached_property
    def on_axis(self) -> Real:
        """log of the cells' bounds on the real axis itself."""
        ends = self._log_ratios[1:] if self.step.direction == "remove" else self._log_ratios[:-1]
        return np.asarray(self._base + self.step.power * ends)

    @property
    def log_rest(self) -> float:
        """log of a bound on what lies beyond the cells of the real axis."""
        return float(np.min(self._rest(0.0)))

    def layers(self, level: float) -> tuple[Real, Real]:
        """Compute (mass, length) of uniform layers below the tilted density of the loss (D4, W3).

        `level` is an upper bound of log M(c).
        """
        step = self.step
        y = self.bounds
        smooth = -y * y / (2 * step.variance) - math.log(step.sigma * math.sqrt(2 * math.pi))
        smooth = smooth + step.log_top_weight(y) + step.log_bottom_weight(y)
        tilt = step.power * self._log_ratios
        floor = np.minimum(smooth[:-1], smooth[1:]) + np.minimum(tilt[:-1], tilt[1:])
        steep = (self._odds / (1 + self._odds))[1:] / step.variance
        heights = np.exp(np.clip(floor - level, -690.0, 690.0)) / np.maximum(steep, 1e-300)
        logs = self._log_ratios
        lengths = np.abs(np.diff(logs)) - 1e-15 * (np.abs(logs[1:]) + np.abs(logs[:-1]))
        mass, spans = stack_layers(
            np.minimum(heights, 1e300)[None, :], np.maximum(lengths, 0.0)[None, :]
        )
        return mass[0], spans[0]


def cut_line(
    first: float, last: float, coarse: float, fades: list[tuple[float, float]], fine: float
) -> Real:
    """List the ends of cells from first to last: fine ones in the fades, coarse ones elsewhere."""
    stops = sorted({first, last, *(stop for fade in fades for stop in fade if first < stop < last)})
    pieces = []
    for start, end in pairwise(stops):
        middle = (start + end) / 2
        width = fine if any(low < middle < high for low, high in fades) else coarse
        pieces.append(np.linspace(start, end, math.ceil((end - start) / width) + 1)[:-1])
    return np.append(np.concatenate(pieces), last)


def _bound_factor(growth: Real, largest: Real, smallest: Real) -> Real:
    """log of the bound of |Phi(u + iv)| for u from `smallest` to `largest`; `growth` is v^2/2.

    log(1 + e^t) is at most e^t for t <= 0, and at most 1 + t above.
    """
    beside = growth + log_ndtr(-smallest)
    inside = np.exp(np.minimum(beside, 0.0)) + np.maximum(beside, 0.0)
    return np.asarray(np.minimum(growth + log_ndtr(largest), inside))


def sum_logs(logs: Real) -> Real:
    """log of the sums of e^logs over the last axis; scipy's logsumexp is many times slower."""
    top = logs.max(axis=-1, keepdims=True)
    return np.asarray(top[..., 0] + np.log(np.exp(logs - top).sum(axis=-1)))
