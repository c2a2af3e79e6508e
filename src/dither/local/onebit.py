"""One bit for a mean: Duchi, Jordan and Wainwright 2013; the same law is Microsoft's 1BitMean.

The value is rounded to 0 or 1 at random, then answered truthfully with probability R / (R + 1). The
estimate of r is (R + 1) / (R - 1) or its negative; variance ((R + 1) / (R - 1))**2 - r**2.
docs/proofs/local.md, theorem 8. Payload: one byte, 0 or 1.

`RepeatedOneBit` is for daily collection (Ding, Kulkarni, Yekhanin 2017): the device draws one
offset for life, rounds its value to a multiple of `step` with it, and memoises one bit for each
multiple it ever rounds to. A value that stays between two multiples costs at most 2 epsilon for
ever; `most_keys` is the worst case. `flip` randomises every report again, so that a changed bit is
not proof of a changed value.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import exact
from dither.errors import ParameterError
from dither.local.coins import Chance, Coins, chance
from dither.local.mean import GRID_BITS, Mean, round_at_random
from dither.local.odds import log_above
from dither.local.protocol import is_exact
from dither.local.values import saturate_integers
from dither.local.wire import Payloads, put_int
from dither.privacy.noise import Words, bernoulli, uniform_below
from dither.stored import stored


def _write_law(zero: Fraction) -> dict[bytes, Fraction]:
    return {b"\0": zero, b"\1": 1 - zero}


@stored()
@dataclass(frozen=True)
class OneBit(Mean):
    """One randomised bit of a number in [low, high].

    >>> float(OneBit(1).worst_variance)
    4.6826...
    """

    type = "one_bit"

    @property
    def payload_bytes(self) -> int:
        return 1

    @property
    def p(self) -> Fraction:
        """Probability that the rounded bit is told truthfully."""
        return self.odds / (self.odds + 1)

    @property
    def heard(self) -> Fraction:
        """Probability that the rounded bit arrives as it was rounded."""
        return self.p

    def derived(self) -> dict[str, Any]:
        return {"p": self.p, "grid_bits": 32}

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Round each value at random to low (0) or high (1), then flip the bit at times.

        The bit stays with probability p.
        """
        bit = round_at_random(self.grid(values), 1, source)
        bit ^= ~bernoulli(self.p, len(bit), source=source)
        return put_int(bit, 1)

    @cached_property
    def _truth(self) -> Chance:
        return chance(self.p)

    def permanent_one(self, value: Any, coins: Coins, device: int = 0) -> bytes:
        bit = coins.below(1 << GRID_BITS) < self.grid_one(value)
        return b"\1" if bit == coins.coin(self._truth) else b"\0"

    def law(self, value: Any) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        The value is rounded at random to 0 or 1, and the bit is then kept with probability
        p.
        """
        share = self.share(value)
        return _write_law(share * (1 - self.p) + (1 - share) * self.p)

    @property
    def tally_size(self) -> int:
        return 1

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        return payloads[:, 0] < 2

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        one_count: NDArray[np.int64] = payloads.sum(axis=0, dtype=np.int64)
        return one_count

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        gain = self.largest_move if is_exact(tally) else float(self.largest_move)
        total: NDArray[Any] = (2 * tally - reports) * gain
        return total

    def second_moment(self, share: Fraction) -> Fraction:
        return self.largest_move**2

    @property
    def largest_move(self) -> Fraction:
        return 1 / (2 * self.heard - 1)


@stored(step="step", flip="flip")
@dataclass(frozen=True)
class RepeatedOneBit(OneBit):
    """1BitMean for repeated collection of an integer in [low, high]: rounding with one offset, a
    bit per multiple.

    >>> counter = RepeatedOneBit(1, 0, 100, step=25, flip="1/5")
    >>> counter.most_keys
    5
    """

    type = "repeated_one_bit"
    step: int = 1
    flip: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        """Check that the bounds are integers, that step divides their range, and the flip rate."""
        super().__post_init__()
        object.__setattr__(self, "flip", exact(self.flip, "flip"))
        if self.low.denominator != 1 or self.high.denominator != 1:
            raise ParameterError("repeated collection needs integer bounds")
        if self.step < 1 or int(self.high - self.low) % self.step:
            raise ParameterError("step must be a positive integer that divides high - low")
        if not 0 <= self.flip < Fraction(1, 2):
            raise ParameterError("flip must lie in [0, 1/2)")

    @property
    def most_keys(self) -> int:
        """How many bits a device can ever come to memoise; the lifetime loss is at most this times
        epsilon."""
        return int(self.high - self.low) // self.step + 1

    @property
    def heard(self) -> Fraction:
        return self.p * (1 - self.flip) + (1 - self.p) * self.flip

    @property
    def epsilon_one(self) -> Fraction:
        """Loss of one report seen alone."""
        return log_above(self.heard / (1 - self.heard))

    def derived(self) -> dict[str, Any]:
        return {"p": self.p}

    def whole(self, values: Any) -> NDArray[np.int64]:
        """Read values as integers above `low`, clamped to the bounds."""
        is_fast = isinstance(values, np.ndarray) and values.dtype.kind == "i"
        integers = values if is_fast else saturate_integers(values)
        if integers.ndim != 1:
            raise ParameterError("values must be a list of integers")
        return np.clip(integers.astype(np.int64), int(self.low), int(self.high)) - int(self.low)

    def share(self, value: Any) -> Fraction:
        return Fraction(int(self.whole([value])[0]), int(self.high - self.low))

    def inputs(self) -> list[Any]:
        return list(range(int(self.low), int(self.high) + 1))[:64]

    def enrol(self, source: Words) -> int:
        return int(uniform_below(self.step, source=source))

    def endpoint(self, values: Any, devices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which multiple of `step` each value is rounded to with its device's offset."""
        return (self.whole(values) + devices) // self.step

    def memo_key(self, value: Any, device: int) -> str:
        return str(int(self.endpoint([value], np.array([device]))[0]))

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Round each value to a multiple of step by the device's offset, then send one noisy bit.

        The bit is 1 with the multiple's share of the range as probability, then flipped
        with probability 1 - p. `devices` has the offsets; without it they are drawn here.
        """
        drawn = uniform_below(self.step, len(values), source=source) if devices is None else devices
        multiple = self.endpoint(values, drawn)
        last_multiple = self.most_keys - 1
        bit = (uniform_below(last_multiple, len(multiple), source=source) < multiple).astype(
            np.int64
        )
        bit ^= ~bernoulli(self.p, len(bit), source=source)
        return put_int(bit, 1)

    def permanent_one(self, value: Any, coins: Coins, device: int = 0) -> bytes:
        multiple = int(self.endpoint([value], np.array([device]))[0])
        bit = coins.below(self.most_keys - 1) < multiple
        return b"\1" if bit == coins.coin(self._truth) else b"\0"

    def instant(self, memos: Payloads, source: Words) -> Payloads:
        flips: Payloads = bernoulli(self.flip, (len(memos), 1), source=source).astype(np.uint8)
        return memos ^ flips

    def report_law(self, value: Any) -> dict[bytes, Fraction]:
        """The law of one report, both steps together."""
        share = self.share(value)
        return _write_law(share * (1 - self.heard) + (1 - share) * self.heard)
