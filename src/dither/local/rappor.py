"""RAPPOR (Erlingsson, Pihur, Korolova 2014): a permanent answer kept on the device, and a fresh one
for each report.

Permanent: each bit is set to 1 with probability f/2, to 0 with f/2, else left; memoised per value.
Instantaneous: a 1 is reported as 1 with probability q, a 0 with p. The lifetime loss of a value is
that of its permanent answer, 2h ln((1 - f/2) / (f/2)), however often it is reported; each *other*
value the user ever has costs as much again. One report alone loses `epsilon_one`.
docs/proofs/local.md, theorem 7.

>>> protocol = basic_rappor(8, f=0.5, p=0.5, q=0.75)
>>> round(float(protocol.epsilon), 4), round(float(protocol.epsilon_one), 4)
(2.1972, 0.5371)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, exact
from dither.errors import ParameterError
from dither.local.bits import count_ones, random_rows
from dither.local.odds import log_above
from dither.local.support import SupportOracle
from dither.local.unary import spare_bits_clear, unary_law
from dither.local.values import read_values
from dither.local.wire import Payloads
from dither.privacy.noise import Words
from dither.stored import stored


@dataclass(frozen=True)
class Steps:
    """The two randomisations of a bit, f, p and q."""

    f: Fraction
    p: Fraction
    q: Fraction

    @classmethod
    def read(cls, f: Number, p: Number, q: Number) -> Steps:
        steps = cls(exact(f, "f"), exact(p, "p"), exact(q, "q"))
        if not 0 < steps.f < 1 or not 0 <= steps.p < steps.q <= 1:
            raise ParameterError("RAPPOR needs 0 < f < 1 and 0 <= p < q <= 1")
        return steps

    @property
    def reported_one(self) -> Fraction:
        """q*: probability that a true 1 is reported as 1."""
        return self.f * (self.p + self.q) / 2 + (1 - self.f) * self.q

    @property
    def reported_zero(self) -> Fraction:
        """p*: probability that a true 0 is reported as 1."""
        return self.f * (self.p + self.q) / 2 + (1 - self.f) * self.p

    def lifetime(self, hashes: int) -> Fraction:
        """2 h ln((1 - f/2) / (f/2)), rounded up."""
        return log_above(((1 - self.f / 2) / (self.f / 2)) ** (2 * hashes))

    def one_report(self, hashes: int) -> Fraction:
        """Compute the loss of one report: h ln(q*(1 - p*) / (p*(1 - q*))), rounded up."""
        one_chance = self.reported_one
        zero_chance = self.reported_zero
        return log_above(
            (one_chance * (1 - zero_chance) / (zero_chance * (1 - one_chance))) ** hashes
        )

    def remember(self, truth: Payloads, width: int, source: Words) -> Payloads:
        """Draw the permanent answer to each packed row of true bits."""
        noisy = random_rows(self.f, len(truth), width, source)
        coins = random_rows(Fraction(1, 2), len(truth), width, source)
        return (truth & ~noisy) | (coins & noisy)

    def speak(self, memos: Payloads, width: int, source: Words) -> Payloads:
        """Draw what is reported this time from each packed row of permanent answers."""
        ones = random_rows(self.q, len(memos), width, source)
        zeros = random_rows(self.p, len(memos), width, source)
        return (memos & ones) | (~memos & zeros)


@stored(f="f", irr_p="irr_p", irr_q="irr_q")
@dataclass(frozen=True)
class BasicRappor(SupportOracle):
    """One bit for each value of a known domain. Payload as in unary encoding."""

    type = "basic_rappor"
    f: Fraction = Fraction(1, 2)
    irr_p: Fraction = Fraction(1, 2)
    irr_q: Fraction = Fraction(3, 4)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in zip(("f", "irr_p", "irr_q"), read_steps(self, 1), strict=True):
            object.__setattr__(self, name, value)

    @property
    def steps(self) -> Steps:
        return Steps(self.f, self.irr_p, self.irr_q)

    @property
    def epsilon_one(self) -> Fraction:
        """Loss of one report seen alone."""
        return self.steps.one_report(1)

    @property
    def payload_bytes(self) -> int:
        return -(-self.domain // 8)

    @property
    def p(self) -> Fraction:
        return self.steps.reported_one

    @property
    def q(self) -> Fraction:
        return self.steps.reported_zero

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Write each value as one set bit out of `domain`, and randomise every bit once."""
        held = read_values(values, self.domain)
        truth = np.zeros((len(held), self.payload_bytes), np.uint8)
        truth[np.arange(len(held)), held >> 3] = np.uint8(1) << (held & 7).astype(np.uint8)
        return self.steps.remember(truth, self.domain, source)

    def instant(self, memos: Payloads, source: Words) -> Payloads:
        return self.steps.speak(memos, self.domain, source)

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        Every bit is independent: it is flipped with probability f / 2.
        """
        return unary_law([1 - self.f / 2 if v == value else self.f / 2 for v in range(self.domain)])

    def report_law(self, value: int) -> dict[bytes, Fraction]:
        """The law of one report, both steps together."""
        return unary_law([self.p if v == value else self.q for v in range(self.domain)])

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        return spare_bits_clear(payloads, self.domain)

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        return count_ones(payloads, self.domain)


def read_steps(protocol: Any, hashes: int) -> tuple[Fraction, Fraction, Fraction]:
    """Read f, p and q of a protocol.

    Raises ParameterError unless its epsilon is the lifetime loss they imply.
    """
    steps = Steps.read(protocol.f, protocol.irr_p, protocol.irr_q)
    if protocol.epsilon != steps.lifetime(hashes):
        raise ParameterError(
            f"these f, p, q have the lifetime loss {float(steps.lifetime(hashes)):.4f}, not the "
            f"stated"
        )
    return steps.f, steps.p, steps.q


def basic_rappor(domain: int, *, f: Number, p: Number, q: Number) -> BasicRappor:
    """Basic RAPPOR with the loss that its parameters imply."""
    steps = Steps.read(f, p, q)
    return BasicRappor(steps.lifetime(1), domain, steps.f, steps.p, steps.q)
