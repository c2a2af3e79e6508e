"""The snapping mechanism (Mironov 2012): Laplace noise in floating point, made safe by rounding.
Teaching only.

`python examples/teaching/snapping.py` audits it.

clamp(round_to_L(clamp(f) + sign * scale * ln(U))), with U a uniform float of full precision, ln
rounded correctly and L the least power of two that is at least `scale`. For sensitivity 1 and scale
< bound < 2^46 scale it is (1 + 2^-49 bound) / scale -DP. It costs accuracy (a grid of width L) and
a proof about floats; integer noise needs neither, which is why the kernel has only that. Proof:
docs/proofs/teaching.md#snapping.

>>> teacher = Snapping(scale=10.0, bound=1000.0)
>>> teacher.grid, teacher.release(500.3) % teacher.grid
(16.0, 0.0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import mpmath

from dither.audit.shipped_mechanisms import Subject
from dither.errors import ParameterError
from dither.privacy.losses import Pure
from dither.privacy.noise import Words, bernoulli, uniform_below
from dither.privacy.noise.source import check_source


@dataclass(frozen=True)
class Snapping:
    """For teaching: a real-valued answer of sensitivity 1."""

    scale: float
    bound: float

    def __post_init__(self) -> None:
        if not 0 < self.scale < self.bound < 2.0**46 * self.scale:
            raise ParameterError("snapping needs 0 < scale < bound < 2^46 scale")

    @property
    def grid(self) -> float:
        """The least power of two that is at least `scale`."""
        fraction, exponent = math.frexp(self.scale)
        return math.ldexp(1.0, exponent - 1 if fraction == 0.5 else exponent)

    @property
    def epsilon(self) -> float:
        """(1 + 2^-49 bound) / scale."""
        return (1 + 2.0**-49 * self.bound) / self.scale

    def release(self, value: float, *, source: Words | None = None) -> float:
        """The noisy value, on the grid, inside the bound."""
        supply = check_source(source)
        sign = 1 if bernoulli(0.5, source=supply) else -1
        with mpmath.workprec(200):
            step = self.scale * float(mpmath.log(mpmath.mpf(uniform_float(supply))))
        inside = min(self.bound, max(-self.bound, value))
        return min(self.bound, max(-self.bound, self.round(inside + sign * step)))

    def round(self, value: float) -> float:
        """The nearest multiple of the grid, halves upwards."""
        return math.floor(value / self.grid + 0.5) * self.grid


def uniform_float(source: Words) -> float:
    """Every float in (0, 1) with the probability of the interval below it: a geometric exponent, 52
    uniform bits."""
    exponent = -1
    while bernoulli(0.5, source=source):
        exponent -= 1
    return math.ldexp(1.0 + uniform_below(1 << 52, source=source) * 2.0**-52, exponent)


def make_subject() -> Subject:
    """The mechanism for the auditor, on neighbours one apart."""
    mechanism = Snapping(scale=2.0, bound=64.0)

    def release_value(value: float) -> float:
        return mechanism.release(value)

    return Subject(
        "Snapping", release_value, (0.0, 1.0), Pure(Fraction(mechanism.epsilon)), 0.0, False
    )


if __name__ == "__main__":
    print(make_subject().audit(2_000, 1e-9))
