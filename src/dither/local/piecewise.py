"""The piecewise mechanism (Wang et al. 2019) on a public grid, and the hybrid of it with one bit.

Outputs are `cells` cells; the window of weight R has round(cells / (e**(epsilon/2) + 1)) of them
and moves from the first cell to the last with the value. Unbiased exactly; the variance is an exact
sum, which differs from the printed r**2 / (s - 1) + (s + 3) / (3 (s - 1)**2), s = e**(epsilon/2),
by a relative `grid_error` at r = 1. Payload: the cell, W(cells - 1) bytes. `Hybrid` answers by
piecewise with probability 1 - e**(-epsilon/2) (never below epsilon = 0.61), else by one bit; its
payload is the cell, or `cells` + the bit.

>>> round(float(Piecewise(1).worst_variance), 3), round(float(OneBit(1).worst_variance), 3)
(5.221, 4.683)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.estimate import Estimate
from dither.local.mean import GRID_BITS, Mean, round_at_random
from dither.local.odds import odds
from dither.local.onebit import OneBit
from dither.local.protocol import is_exact
from dither.local.window import Window
from dither.local.wire import Payloads, get_int, int_width, put_int
from dither.privacy.noise import Words, bernoulli
from dither.stored import stored


@stored(cells="cells")
@dataclass(frozen=True)
class Piecewise(Mean):
    """The piecewise mechanism on `cells` output cells."""

    type = "piecewise"
    cells: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 4 <= self.cells <= 1 << 20:
            raise ParameterError("cells must be an integer between 4 and 2**20")

    @property
    def width(self) -> int:
        """Cells of the window: the printed share 1 / (s + 1) of all, rounded."""
        return min(self.cells - 1, max(1, round(self.cells / (odds(self.epsilon / 2) + 1))))

    @property
    def window(self) -> Window:
        return Window(self.odds, self.cells, self.width)

    @property
    def positions(self) -> int:
        """Window starts are 0..positions."""
        return self.cells - self.width

    @property
    def rounding(self) -> Fraction:
        return Fraction(1, self.positions**2)

    @property
    def payload_bytes(self) -> int:
        return int_width(self.cells - 1)

    def derived(self) -> dict[str, Any]:
        return {"inside": self.window.inside, "width": self.width, "grid_bits": GRID_BITS}

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        start = round_at_random(self.grid(values), self.positions, source)
        return put_int(self.window.draw(start, source), self.payload_bytes)

    def _starts(self, share: Fraction) -> list[tuple[int, Fraction]]:
        position = share * self.positions
        down = min(int(position), self.positions - 1)
        return [(down, 1 - (position - down)), (down + 1, position - down)]

    def law(self, value: Any) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        The value is rounded at random to one of two window positions; the window has the
        likelier cells.
        """
        starts = self._starts(self.share(value))
        return {
            y.to_bytes(self.payload_bytes, "little"): sum(
                (chance * self.window.weight(start, y) for start, chance in starts), Fraction(0)
            )
            for y in range(self.cells)
        }

    def coefficients(self) -> tuple[Fraction, Fraction]:
        """(a, b): a report y estimates r by a (y + 1/2) + b."""
        first = self.window.mean(0)
        last = self.window.mean(self.positions)
        slope = 2 / (last - first)
        return slope, -1 - slope * first

    @property
    def tally_size(self) -> int:
        return 1

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        return get_int(payloads) < self.cells

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        return np.array([get_int(payloads).sum()], np.int64)

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        a, b = self.coefficients()
        if is_exact(tally):
            return np.array([a * (tally[0] + Fraction(reports, 2)) + b * reports], object)
        return float(a) * (tally + reports / 2) + float(b) * reports

    def second_moment(self, share: Fraction) -> Fraction:
        """Compute E[(estimate from one report)**2] exactly for a value at `share` of the range."""
        a, b = self.coefficients()
        return sum(
            (
                chance
                * (a * a * self.window.square(start) + 2 * a * b * self.window.mean(start) + b * b)
                for start, chance in self._starts(share)
            ),
            Fraction(0),
        )

    @property
    def largest_move(self) -> Fraction:
        a, b = self.coefficients()
        return a * (self.cells - Fraction(1, 2)) + b

    # --- the variance that the reports themselves show
    @property
    def keeps_squares(self) -> bool:
        return True

    def sum_squares(self, payloads: Payloads) -> int:
        cells = get_int(payloads)
        return int((cells * cells).sum())

    @property
    def moment_curve(self) -> tuple[Fraction, Fraction]:
        """Compute (A, C): a report has the second moment A r**2 + C for a value r at a window's
        start."""
        at_end = self.second_moment(Fraction(0))
        if self.positions == 1:
            return Fraction(0), at_end
        near = Fraction(1, self.positions)
        curve = (at_end - self.second_moment(near)) / (1 - (2 * near - 1) ** 2)
        return curve, at_end - curve

    def estimate_variance(self, cell_sum: int, squares: int, reports: int) -> Fraction:
        """Estimate the mean variance of the reports' estimates of r, unbiased up to `rounding`.

        docs/proofs/local-intervals.md, theorem 2. It stays between the least and the largest
        variance that any values have.
        """
        a, b = self.coefficients()
        curve, constant = self.moment_curve
        if curve <= 0:
            return self.worst_variance
        halves = squares + cell_sum + Fraction(reports, 4)
        moment = (a * a * halves + 2 * a * b * (cell_sum + Fraction(reports, 2))) / reports + b * b
        mean_square = (moment - constant) / curve
        least = min(constant, curve + constant - 1)
        variance = max(moment - mean_square, least) + self.rounding
        return min(variance, self.worst_variance)

    def estimate_from(
        self, tally: NDArray[np.int64], reports: int, squares: int | None
    ) -> Estimate:
        """Estimate the mean, with the variance that the squared answers show if they are kept."""
        estimate = self.estimate(tally, reports)
        if squares is None or reports == 0:
            return estimate
        variance = self.estimate_variance(int(tally[0]), squares, reports)
        half = float(self.high - self.low) / 2
        return replace(estimate, variances=np.full(1, half**2 * float(variance) / reports))

    @property
    def grid_error(self) -> float:
        """Relative excess of the variance at r = 1 over the continuous mechanism's."""
        s = exp(float(self.epsilon) / 2)
        continuous = 1 / (s - 1) + (s + 3) / (3 * (s - 1) ** 2)
        return float(self.second_moment(Fraction(1)) - 1) / continuous - 1


@stored(cells="cells")
@dataclass(frozen=True)
class Hybrid(Mean):
    """Piecewise or one bit, whichever a public coin says: no worse than either for any value."""

    type = "hybrid"
    cells: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "cells", self.piecewise.cells)

    @property
    def piecewise(self) -> Piecewise:
        return Piecewise(self.epsilon, self.low, self.high, self.cells)

    @property
    def one_bit(self) -> OneBit:
        return OneBit(self.epsilon, self.low, self.high)

    @property
    def mix(self) -> Fraction:
        """Probability of the piecewise answer."""
        if self.epsilon <= Fraction(61, 100):
            return Fraction(0)
        return Fraction(round((1 - 1 / odds(self.epsilon / 2)) * 2**20), 2**20)

    @property
    def rounding(self) -> Fraction:
        return self.piecewise.rounding if self.mix else Fraction(0)

    @property
    def grid_error(self) -> float:
        """Return the grid error of the piecewise answer; one bit has no grid of outputs."""
        return self.piecewise.grid_error if self.mix else 0.0

    @property
    def payload_bytes(self) -> int:
        return int_width(self.cells + 1)

    def derived(self) -> dict[str, Any]:
        return {"mix": self.mix, "p": self.one_bit.p} | self.piecewise.derived()

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw both a piecewise cell and one bit for each value, and send one of the two.

        The cell is sent with probability `mix`; a bit b is written as the number `cells` +
        b.
        """
        cell = get_int(self.piecewise.permanent(values, source))
        bit = self.one_bit.permanent(values, source)[:, 0].astype(np.int64)
        chosen = bernoulli(self.mix, len(cell), source=source)
        return put_int(np.where(chosen, cell, self.cells + bit), self.payload_bytes)

    def law(self, value: Any) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        It mixes the law of the piecewise cell (weight `mix`) with the law of one bit.
        """
        law = {}
        if self.mix:
            for y, weight in self.piecewise.law(value).items():
                law[int.from_bytes(y, "little").to_bytes(self.payload_bytes, "little")] = (
                    self.mix * weight
                )
        for bit, weight in self.one_bit.law(value).items():
            law[(self.cells + bit[0]).to_bytes(self.payload_bytes, "little")] = (
                1 - self.mix
            ) * weight
        return law

    @property
    def tally_size(self) -> int:
        return 4

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        return get_int(payloads) < self.cells + 2

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        """(sum of cells, number of cells, sum of bits, number of bits)."""
        answer = get_int(payloads)
        cells = answer[answer < self.cells]
        bits = answer[answer >= self.cells] - self.cells
        return np.array([cells.sum(), len(cells), bits.sum(), len(bits)], np.int64)

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        total: NDArray[Any] = self.piecewise.debias(tally[:1], tally[1]) + self.one_bit.debias(
            tally[2:3], tally[3]
        )
        return total

    def second_moment(self, share: Fraction) -> Fraction:
        return self.mix * self.piecewise.second_moment(share) + (
            1 - self.mix
        ) * self.one_bit.second_moment(share)

    @property
    def largest_move(self) -> Fraction:
        bit = self.one_bit.largest_move
        return max(bit, self.piecewise.largest_move) if self.mix else bit


def best_mean(epsilon: Any, low: Any = -1, high: Any = 1) -> Mean:
    """Choose the numeric protocol with the least worst-case variance, exact figures compared.

    >>> best_mean("0.5").type, best_mean(3).type
    ('one_bit', 'hybrid')
    """
    choices: list[Mean] = [
        OneBit(epsilon, low, high),
        Piecewise(epsilon, low, high),
        Hybrid(epsilon, low, high),
    ]
    return min(choices, key=lambda protocol: protocol.worst_variance)
