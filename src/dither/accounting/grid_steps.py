"""How fine a grid must be for the laws at hand; it proves nothing, any step is sound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dither.accounting.bounded_range import BoundedRangeFactor
from dither.accounting.gaussian_mixtures import GaussianMixtureLaw
from dither.accounting.grid import GridLaw
from dither.accounting.laws import LaplaceLaw
from dither.accounting.mixtures import GridMixture
from dither.accounting.transforms import AtomsFactor


def _deviation(law: GridLaw) -> float:
    """Estimate the standard deviation of one copy of the loss.

    It chooses the grid and proves nothing.
    """
    if isinstance(law, AtomsFactor):
        mean = float(np.sum(law.masses * law.losses))
        return math.sqrt(max(float(np.sum(law.masses * (law.losses - mean) ** 2)), 1e-12))
    if isinstance(law, BoundedRangeFactor):
        return float(law.epsilon) / 2
    if isinstance(law, GridMixture):
        return _deviation(law.components[0])
    if isinstance(law, GaussianMixtureLaw):
        return math.sqrt(math.log1p(_square_moment(law)))
    q = float(law.q)
    if isinstance(law, LaplaceLaw):
        return min(1.0, q * 2) * float(law.epsilon)
    power = min(1 / float(law.sigma) ** 2, 50.0)
    if law.kind == "plain":
        return math.sqrt(power)
    return math.sqrt(math.log1p(q * q * math.expm1(power)))


def _square_moment(law: GaussianMixtureLaw) -> float:
    """Compute E[(P/Q)^2] - 1 under Q, with the exponents bounded."""
    variance = float(law.sigma) ** 2
    return math.fsum(
        float(first_weight * second_weight)
        * math.expm1(min(float(first * second) / variance, 50.0))
        for first, first_weight in law.pairs
        for second, second_weight in law.pairs
    )


def _span(law: GridLaw) -> float:
    """Estimate the range of losses that one copy puts on the grid."""
    if isinstance(law, AtomsFactor):
        return float(np.ptp(law.losses)) / 64
    if isinstance(law, (LaplaceLaw, BoundedRangeFactor)):
        return 2 * float(law.epsilon)
    if isinstance(law, GridMixture):
        return max(map(_span, law.components))
    if isinstance(law, GaussianMixtureLaw):
        return 10 * float(law.pairs[-1][0] / law.sigma) if law.kind == "remove" else 0.0
    return 10 / float(law.sigma) if law.kind != "add" else 0.0


def grid_step(laws: Sequence[GridLaw], resolution: int) -> Fraction:
    """Choose a step of a small fraction of the smallest deviation.

    It divides the one epsilon of atoms and Laplaces, where there is only one.
    """
    total = math.sqrt(sum(law.count * _deviation(law) ** 2 for law in laws))
    span = max(_span(law) for law in laws)
    step = max(
        min(_deviation(law) for law in laws) * 16 / resolution,
        total / resolution,
        span / 8 / resolution,
        1e-7,
    )
    lattice_steps = {
        law.epsilon
        for law in laws
        if isinstance(law, LaplaceLaw) and law.kind in ("plain", "drawn")
    }
    lattice_steps |= {
        law.lattice[1] for law in laws if isinstance(law, AtomsFactor) and law.lattice is not None
    }
    if len(lattice_steps) == 1:
        (lattice_step,) = lattice_steps
        return lattice_step / math.ceil(float(lattice_step) / step)
    return Fraction(step)
