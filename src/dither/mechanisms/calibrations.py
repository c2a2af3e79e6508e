"""Noise for a wanted guarantee or interval, for those who build on dither in Python.

The kernel calibrates by epsilon or rho alone, so these are no part of it. Proof:
docs/proofs/integer-noise.md.

>>> float(fit_gaussian(1, 1e-5, Sensitivity.of(largest=1)).sigma) > 3.73063
True
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from dither.accounting.lattice import delta_discrete_gaussian
from dither.canonical import Number, positive
from dither.errors import ParameterError
from dither.laws import find_error_law
from dither.plan.norms import Sensitivity
from dither.privacy.charges.conversions import rho_for
from dither.privacy.losses import ADD_REMOVE, Adjacency
from dither.privacy.mechanisms.additive import round_bits, round_up
from dither.privacy.mechanisms.delta import small_delta
from dither.privacy.mechanisms.gaussian import IntegerGaussian
from dither.privacy.mechanisms.gaussian_keys import GaussianKeys
from dither.privacy.mechanisms.laplace import IntegerLaplace
from dither.privacy.noise.samplers import LARGEST, SMALLEST

Mechanism = TypeVar("Mechanism", IntegerGaussian, IntegerLaplace)


def fit_gaussian(
    epsilon: Number,
    delta: Number,
    sensitivity: Sensitivity,
    *,
    public_size: int | None = None,
    adjacency: Adjacency = ADD_REMOVE,
) -> IntegerGaussian:
    """Find the least noise that meets (epsilon, delta).

    It is by the lattice law for one cell, by tight zCDP for a vector.
    """
    price = positive(epsilon, "epsilon")
    allowed = small_delta(delta, public_size)
    safe = IntegerGaussian.for_rho(rho_for(price, allowed), sensitivity, adjacency)
    if sensitivity.l0 != 1:
        return safe
    low = SMALLEST
    high = safe.sigma
    while high - low > high / 2**18:
        middle = round_up((low + high) / 2)
        if middle in (low, high):
            break
        is_enough = delta_discrete_gaussian(middle, sensitivity.linf, price).upper <= allowed
        low, high = (low, middle) if is_enough else (middle, high)
    return IntegerGaussian(high, sensitivity, *adjacency)


def fit_gaussian_keys(
    epsilon: Number,
    delta: Number,
    *,
    groups: int,
    public_size: int | None = None,
    adjacency: Adjacency = ADD_REMOVE,
) -> GaussianKeys:
    """Make a key selection at (epsilon, delta).

    Half of delta is for the conversion from zCDP, half for lone owners.
    """
    allowed = small_delta(delta, public_size)
    return GaussianKeys.for_rho(
        rho_for(epsilon, allowed / 2), allowed / 2, groups=groups, adjacency=adjacency
    )


def fit_gaussian_interval(
    half_width: int,
    confidence: Number,
    sensitivity: Sensitivity,
    adjacency: Adjacency = ADD_REMOVE,
) -> IntegerGaussian:
    """The most noise (least loss) whose interval is narrow enough.

    At `confidence` it is no wider than `half_width` to each side.
    """
    return _fit_interval(
        half_width, confidence, lambda sigma: IntegerGaussian(sigma, sensitivity, *adjacency)
    )


def fit_laplace_interval(
    half_width: int,
    confidence: Number,
    sensitivity: Sensitivity,
    adjacency: Adjacency = ADD_REMOVE,
) -> IntegerLaplace:
    """The most noise (least loss) whose interval is narrow enough.

    At `confidence` it is no wider than `half_width` to each side.
    """
    return _fit_interval(
        half_width, confidence, lambda scale: IntegerLaplace(scale, sensitivity, *adjacency)
    )


def _fit_interval(
    half_width: int, confidence: Number, build: Callable[[Fraction], Mechanism]
) -> Mechanism:
    """Search the largest scale, by bisection, whose interval is within `half_width`."""
    largest = positive(half_width, "half_width")
    low = SMALLEST
    high = LARGEST
    if find_error_law(build(low)).interval(confidence) > largest:
        raise ParameterError(f"no noise gives an interval of {half_width}: allow a wider one")
    while high - low > low / 2**19:
        middle = round_bits((low + high) / 2, up=False)
        if middle in (low, high):
            break
        is_narrow = find_error_law(build(middle)).interval(confidence) <= largest
        low, high = (middle, high) if is_narrow else (low, middle)
    return build(low)
