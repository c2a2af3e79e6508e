"""Moment-generating functions of privacy losses on a vertical line, each with a proved error and a
proved decay.

A `Factor` is one direction of one event, repeated `count` times. With Z its privacy loss and M(s) =
E exp(sZ),

* `log_mgf(c, y)` gives count * log M(c + iy) and a bound on the absolute error of each value;
* `decay(c, y)` gives a proved upper bound on count * log(|M(c + iy')| / M(c)) for *every* y' >= y.

All bounds are derived in docs/proofs/contour-accounting.md; the letters (Q1), (D2), ... point
there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]
Array = TypeVar("Array", bound=NDArray[Any])
Complex = NDArray[np.complex128]
UNIT = 2.0**-53
LIBM = 8 * UNIT
"""Assumption (A1): an elementary function of NumPy or libm is within 8 units of roundoff (4
ulp)."""


class Factor(Protocol):
    """One direction of one event, `count` times."""

    @property
    def count(self) -> int: ...

    def log_mgf(self, c: float, y: Real, tolerance: float) -> tuple[Complex, Real]:
        """(count * log M(c+iy), bound on its absolute error)."""

    def decay(self, c: float, y: float) -> float:
        """Upper bound on count * log(|M(c+iy')|/M(c)) over all y' >= y; never positive."""

    def largest(self) -> float:
        """A bound on the loss of all copies together, or infinity."""


def expm1_complex(value: NDArray[Any]) -> NDArray[Any]:
    """Compute e^value - 1 without cancellation near zero."""
    real = value.real
    imaginary = value.imag
    return np.asarray(
        np.expm1(real)
        - 2 * np.exp(real) * np.sin(imaginary / 2) ** 2
        + 1j * np.exp(real) * np.sin(imaginary)
    )


def log1p_complex(value: Complex) -> Complex:
    """Compute log(1 + value) to full relative accuracy near zero (numpy's own complex log1p is
    not)."""
    a = value.real
    b = value.imag
    one_plus = 1 + a
    logs = np.empty(value.shape, complex)
    logs.real = 0.5 * np.log1p(np.maximum(2 * a + a * a + b * b, -0.75))
    logs.imag = np.arctan2(b, one_plus)
    size = np.hypot(one_plus, b)
    if size.min(initial=1.0) < 0.5:
        logs.real = np.where(size < 0.5, np.log(np.maximum(size, 1e-300)), logs.real)
    return logs


def rounded_one(size: Real) -> Real:
    """The roundoff of 1 + value where log1p_complex has to form it: only below modulus one half."""
    return np.where(size < 0.5, 4 * UNIT, 0.0)


def pairwise(values: Array) -> Array:
    """Sum over the last axis by halving, whose roundoff is at most ceil(log2 n) * UNIT * sum
    |values|."""
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        folded = values[..., :half] + values[..., half : 2 * half]
        rest = values[..., 2 * half :]
        values = np.concatenate([folded, rest], axis=-1) if rest.shape[-1] else folded  # type: ignore[assignment]
    return values[..., 0]  # type: ignore[return-value]


def log_error(absolute: float | Real, size: Real) -> Real:
    """The error of a logarithm whose argument has modulus `size` known to `absolute`; infinite if
    that is too much."""
    share = np.minimum(np.asarray(absolute) / np.maximum(size, 1e-300), 1.0)
    return np.where(share < 0.5, -np.log1p(-np.minimum(share, 0.5)) * (1 + 1e-12), np.inf)


def sinc_envelope_gap(x: Real) -> Real:
    """A lower bound of 1 - sup over x' >= x of |sin x' / x'| (D1)."""
    safe = np.maximum(x, 1e-9)
    near = np.where(safe < 0.2, safe * safe / 6 * (1 - safe * safe / 20), 1 - np.sin(safe) / safe)
    gap = np.where(safe < math.pi, np.minimum(near, 1 - 0.2173), 1 - np.minimum(0.2173, 1 / safe))
    return np.asarray(gap * (1 - 1e-12))


@dataclass(frozen=True)
class GaussianFactor:
    """All continuous Gaussians folded: M(s) = exp(rho s(s+1))."""

    rho: Fraction
    count: int = 1

    @cached_property
    def strength(self) -> float:
        return float(self.rho)

    def log_mgf(self, c: float, y: Real, tolerance: float) -> tuple[Complex, Real]:
        square = self.strength * (y * y)
        turn = (self.strength * (2 * c + 1)) * y
        level = self.strength * c * (c + 1)
        return level - square + 1j * turn, 8 * UNIT * (level + square + np.abs(turn))

    def decay(self, c: float, y: float) -> float:
        return -self.strength * y * y * (1 - 1e-12)

    def level_bound(self, c: float) -> float:
        """An upper bound of log M(c)."""
        return self.strength * c * (c + 1) * (1 + 1e-14)

    def largest(self) -> float:
        return math.inf


@dataclass(frozen=True)
class LaplaceFactor:
    """Continuous Laplace mechanisms, possibly all different: epsilons[i] = sensitivity/scale,
    counts[i] times.

    M(s) = ((s+1) e^{s eps} + s e^{-(s+1) eps}) / (2s+1).
    """

    epsilons: tuple[Fraction, ...]
    counts: tuple[int, ...]

    @property
    def count(self) -> int:
        return sum(self.counts)

    @cached_property
    def _arrays(self) -> tuple[Real, Real]:
        return np.array([float(e) for e in self.epsilons])[:, None], np.array(self.counts, float)[
            :, None
        ]

    def log_mgf(self, c: float, y: Real, tolerance: float) -> tuple[Complex, Real]:
        """Compute log M(c + iy) and a bound of its error, for all Laplace queries together."""
        eps, counts = self._arrays
        s = (c + 1j * y)[None, :]
        # e^{-s eps} M(s) - 1 = s (e^{-(2s+1) eps} - 1) / (2s+1): exact algebra, no cancellation for
        # small eps
        shrunk = -(2 * s + 1) * eps
        grown = expm1_complex(shrunk)
        offset = s / (2 * s + 1) * grown
        logs = s * eps + log1p_complex(offset)
        # (L1) relative errors of eps, of the phase and of each elementary function, through log1p's
        # derivative
        phase = np.abs(shrunk) + 1
        size = np.abs(offset)
        reach = np.abs(1 + offset)
        absolute = 2 * LIBM * size + UNIT * 8 * np.abs(s) / np.abs(2 * s + 1) * np.minimum(
            np.abs(shrunk), phase
        )
        error = log_error(absolute + rounded_one(reach), reach) + 8 * UNIT * (
            np.abs(s) * eps + np.abs(logs)
        )
        spread = (
            2
            * (2 + math.ceil(math.log2(len(self.epsilons))))
            * UNIT
            * np.sum(counts * np.abs(logs), axis=0)
        )
        return pairwise((counts * logs).T), np.asarray(np.sum(counts * error, axis=0) + spread)

    def decay(self, c: float, y: float) -> float:
        """Bound log |M(c+iy)| / M(c) from above.

        By layers of the exponential density (D2), or the triangle inequality on the closed form
        (D3).
        """
        eps, counts = self._arrays
        # tilted law: density proportional to e^{kappa z} on (-eps, eps), kappa = c + 1/2, plus two
        # atoms
        kappa = c + 0.5
        log_m = np.log1p((c / (2 * c + 1)) * np.expm1(-(2 * c + 1) * eps))  # log of e^{-c eps} M(c)
        lengths = 2 * eps * np.linspace(0, 1, 33)[None, 1:]
        # height e^{-kappa (eps - z)}/4 at distance `length` from the top; layers between successive
        # heights
        heights = np.exp(-kappa * lengths) / 4
        drops = heights - np.concatenate([heights[:, 1:], np.zeros_like(heights[:, :1])], axis=1)
        mass = drops * lengths * np.exp(-log_m)
        gap = np.sum(mass * sinc_envelope_gap(y * lengths / 2), axis=1, keepdims=True) * (1 - 1e-10)
        triangle = (
            np.hypot(c + 1, y) / np.hypot(2 * c + 1, 2 * y) + 0.5 * np.exp(-(2 * c + 1) * eps)
        ) * np.exp(-log_m)
        bound = np.minimum(np.log1p(-np.minimum(gap, 1 - 1e-16)), np.log(triangle * (1 + 1e-12)))
        return float(np.sum(counts * np.minimum(bound, 0.0))) * (1 - 1e-10)

    def level_bound(self, c: float) -> float:
        """An upper bound of log M(c), of all copies."""
        logs, error = self.log_mgf(c, np.zeros(1), 1e-12)
        return float(logs[0].real) + float(error[0])

    def largest(self) -> float:
        return math.fsum(float(e) * k for e, k in zip(self.epsilons, self.counts, strict=True)) * (
            1 + 1e-14
        )


@dataclass(frozen=True, eq=False)
class AtomsFactor:
    """A loss with finitely many values: losses[i] with probability masses[i], relative error
    `relative` each.

    `missing` and `missing_q` bound the P- and Q-mass that the list leaves out (truncated tails):
    `count * missing` is added to every upper bound. No decay is claimed: |M(c+iy)| <= M(c).
    """

    losses: Real
    masses: Real
    count: int
    relative: float | Real = 4 * UNIT
    missing: float = 0.0
    missing_q: float = 0.0
    lattice: tuple[Fraction, Fraction, tuple[int, ...]] | None = None
    """offset, step, indices with losses[i] = offset + step * indices[i] exactly, where the losses
    are rational."""
    loss_relative: float | Real = 4 * UNIT

    def log_mgf(self, c: float, y: Real, tolerance: float) -> tuple[Complex, Real]:
        """Compute log M(c + iy) and a bound of its error, for a finite law."""
        exponent = c * self.losses
        top = float(np.max(exponent))
        weight = self.masses * np.exp(exponent - top)
        plane = float(pairwise(weight))
        phase = np.outer(y, self.losses)
        real = plane - 2 * pairwise(np.sin(phase / 2) ** 2 * weight)
        imaginary = pairwise(np.sin(phase) * weight)
        value = real + 1j * imaginary
        # (M1) the missing tail belongs to the truth when it is counted apart, hence no error here
        turn = (abs(c) + np.max(np.abs(y), initial=0.0)) * np.abs(self.losses)
        reach = turn * (self.loss_relative + 4 * UNIT) + 4 * UNIT * abs(top)
        depth = 4 * (2 + math.ceil(math.log2(len(weight) + 1)))
        absolute = (
            float(np.sum(weight * (self.relative + 4 * LIBM + reach))) * 1.01 + depth * UNIT * plane
        )
        size = np.abs(value)
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(size, 1e-300)) + top + 1j * np.angle(value)
            error = log_error(absolute, size)
        return self.count * logs, self.count * (error + 4 * UNIT * np.abs(logs))

    def decay(self, c: float, y: float) -> float:
        return 0.0

    def largest(self) -> float:
        if self.missing:
            return math.inf
        top = self.losses * self.count
        return float(np.max(top + np.abs(top) * (self.loss_relative + 1e-14)))
