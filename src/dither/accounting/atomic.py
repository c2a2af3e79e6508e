"""Finitely many atoms, summed outright: the exact binomial of Kairouz, Oh and Viswanath and small
products of such.

delta(eps) = sum of mass * (1 - e^{eps - loss}) over the atoms above eps: no term is negative, so
floats keep full relative accuracy at any delta. Used while the number of atoms of the composition
stays below two million.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dither.accounting.bounds import Bounds
from dither.accounting.sampled import OutOfReach
from dither.accounting.transforms import LIBM, UNIT, AtomsFactor, Real, pairwise

_MOST = 2_100_000
_WINDOW = 390.0  # binomials are cut where Hoeffding leaves 2 e^{-2 * 390}


@dataclass(frozen=True)
class Atoms:
    """A whole composition: places (each within `place_error`), masses (relative error `relative`),
    mass left out."""

    losses: Real
    place_error: Real
    masses: Real
    relative: Real
    missing: float

    def delta(self, epsilon: float) -> Bounds:
        """Bracket delta at epsilon: the sum of mass * (1 - e^(epsilon - loss)) over larger
        losses."""
        gap = epsilon - self.losses
        blur = self.place_error + UNIT * 2 * (abs(epsilon) + np.abs(self.losses))
        high = self.masses * np.maximum(-np.expm1(np.minimum(gap - blur, 0.0)), 0.0)
        low = self.masses * np.maximum(-np.expm1(np.minimum(gap + blur, 0.0)), 0.0)
        slack = self.relative + 2 * LIBM + UNIT * (8 + math.ceil(math.log2(len(high) + 1)))
        upper = float(pairwise(high * (1 + slack))) + self.missing
        return Bounds(
            float(pairwise(low * (1 - np.minimum(slack, 1.0)))),
            min(1.0, upper * (1 + 4 * UNIT) + 5e-324),
        )


def _binomial(factor: AtomsFactor) -> Atoms:
    """Compose `count` copies of a law with two atoms.

    The masses come by ratios outward from the mode, normalised at the end. Raises OutOfReach where
    they are too many.
    """
    low, high = factor.losses
    p_low, p_high = factor.masses
    count = factor.count
    window = math.ceil(math.sqrt(count * _WINDOW)) + 2
    mode = min(count, int((count + 1) * p_high))
    first = max(0, mode - window)
    last = min(count, mode + window)
    if last - first > _MOST:
        raise OutOfReach
    ups = np.arange(first, last + 1)
    odds = p_high / p_low if p_low > 0 else math.inf
    right = (count - ups[:-1]) / (ups[:-1] + 1) * odds
    centre = mode - first
    weights = np.ones(len(ups))
    weights[centre + 1 :] = np.cumprod(right[centre:])
    weights[:centre] = np.cumprod(1 / right[:centre][::-1])[::-1]
    total = float(pairwise(weights))
    ratio_error = 4 * UNIT + np.max(factor.relative) * 2
    steps = np.abs(ups - mode)
    relative = (
        steps * ratio_error + 2 * float(np.sum(weights * steps)) / total * ratio_error + UNIT * 64
    )
    # the binomial of p_high = e^{loss} p_low; a relative error of the odds is one of each ratio
    losses = ups * high + (count - ups) * low
    loss_errors = (ups * abs(high) + (count - ups) * abs(low)) * (
        np.max(factor.loss_relative) + 2 * UNIT
    )
    cut = 0.0 if (first, last) == (0, count) else 4 * math.exp(-2 * (window - 2) ** 2 / count)
    return Atoms(losses, loss_errors, weights / total, relative, cut + count * factor.missing)


def _product(first: Atoms, second: Atoms) -> Atoms:
    """Compose two finite laws: losses add, masses multiply.

    Raises OutOfReach where that is too large.
    """
    if len(first.losses) * len(second.losses) > _MOST:
        raise OutOfReach
    return Atoms(
        np.add.outer(first.losses, second.losses).ravel(),
        np.add.outer(first.place_error, second.place_error).ravel() + UNIT * 2,
        np.multiply.outer(first.masses, second.masses).ravel(),
        np.add.outer(first.relative, second.relative).ravel() + 2 * UNIT,
        first.missing + second.missing,
    )


def atomic(factors: Sequence[AtomsFactor], most: int = _MOST) -> Atoms:
    """Compose laws of two atoms (any count) and other finite laws (count one).

    Raises OutOfReach where the result has more than `most` atoms.
    """
    size = 1
    for factor in factors:
        two = len(factor.losses) == 2
        size *= (
            min(factor.count, 2 * math.isqrt(factor.count * 390) + 8) + 1
            if two
            else len(factor.losses)
        )
        # one homogeneous binomial is always summed: it is exact and needs no transform
        if (not two and factor.count > 1) or size > (_MOST if len(factors) == 1 else most):
            raise OutOfReach
    composed: Atoms | None = None
    for factor in factors:
        if len(factor.losses) == 2:
            atoms = _binomial(factor)
        else:
            zero = np.zeros(len(factor.losses))
            error = np.abs(factor.losses) * factor.loss_relative
            atoms = Atoms(
                factor.losses, error, factor.masses, zero + factor.relative, factor.missing
            )
        composed = atoms if composed is None else _product(composed, atoms)
    assert composed is not None
    return composed
