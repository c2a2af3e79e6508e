"""Weighted sums of products over slots in integers, for layers with many positions on CUDA.

Guarantee: every slot's operands are rounded to integers that depend on that slot alone, and the sum
of their products is exact. A slot's rounded products differ from its weight times its exact ones by
at most `bound_roundings`. Proof: docs/proofs/deep-learning.md#integer-sums.

Integers have 24 bits: three digits to the base 256, whose products the device takes as int8.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor

DIGITS = 3
_LARGEST_ROWS = 1 << 16
"""Products of digits are at most 2**14: so many add up to less than 2**31."""
_MULTIPLE = 16
"""Sizes of matrices of int8 that devices multiply."""
_STEP_BITS = 22


def find_step(limit: float) -> float:
    """The step of operands, a power of two, where products of a unit are at most `limit` long
    together: operands are then at most sqrt(2 limit) < 0.71 * 2**23 steps.

    >>> find_step(1.0) == 2.0**-22, find_step(8.0) == 2.0**-20
    (True, True)
    """
    return 2.0 ** (math.ceil(math.log2(limit) / 2) - _STEP_BITS)


def bound_roundings(numbers: list[int], cancellation: int) -> Fraction:
    """How far rounding of operands moves a unit's vector, in clip norms. `numbers` are those of its
    operands for each parameter, positions * (inputs + outputs).

    >>> float(bound_roundings([49 * 1920], 8)) < 0.0012
    True
    """
    together = math.isqrt(sum(count * count for count in numbers)) + 1
    first = Fraction(math.isqrt(together) + 1, 1 << (_STEP_BITS - 1))
    return cancellation * (first + Fraction(together, 1 << (2 * _STEP_BITS + 1)))


def find_factors(
    of_inputs: Tensor, of_gradients: Tensor, weights: Tensor, step: float
) -> tuple[Tensor, Tensor]:
    """What inputs and gradients of every position are multiplied by: weights included, such that
    both are about equally long, in steps. 0 for units of weight 0 and positions of length 0."""
    weighed = of_gradients * weights.square()[:, None]
    is_there = (of_inputs > 0) & (weighed > 0)
    ratios = torch.where(is_there, weighed / of_inputs, 1.0)
    balance = torch.exp2(torch.round(torch.log2(ratios) / 4))
    zero = torch.zeros_like(balance)
    for_inputs = torch.where(is_there, balance / step, zero)
    for_gradients = torch.where(is_there, weights[:, None] / (balance * step), zero)
    return for_inputs.flatten(), for_gradients.flatten()


def split_twin(values: Tensor, factors: Tensor, planes: Tensor) -> None:
    """Fill planes (3, padded width, padded rows) with the digits of values (rows, width) times
    factors: rounded, lowest digit first. Rows of factor 0 are zeros, whatever they hold."""
    scaled = values.double() * factors[:, None]
    scaled = torch.where((factors != 0)[:, None], scaled, torch.zeros_like(scaled))
    whole = torch.floor(scaled + 0.5).to(torch.int32)
    planes.zero_()
    rows, width = values.shape
    for digit in range(DIGITS):
        low = ((whole + 128) & 255) - 128 if digit < DIGITS - 1 else whole
        planes[digit, :width, :rows] = low.to(torch.int8).t()
        whole = (whole - low) >> 8


def combine_twin(products: Tensor, totals: Tensor) -> None:
    """Add products of digits (3 out, 3 width), at their powers of 256, to totals (out, width)."""
    out, width = totals.shape
    padded_out, padded_width = (size // DIGITS for size in products.shape)
    split = products.reshape(DIGITS, padded_out, DIGITS, padded_width)
    for first in range(DIGITS):
        for second in range(DIGITS):
            product = split[first, :out, second, :width].to(torch.int64)
            totals += product << (8 * (first + second))


def add_products(
    inputs: Tensor, gradients: Tensor, lengths: tuple[Tensor, Tensor], weights: Tensor, limit: float
) -> Tensor:
    """The sum over units and positions of weight g a', as float32 of an exact sum of integers.

    `lengths` are upper bounds of the squared lengths of positions, and no unit's weight times the
    summed lengths of its products is above `limit`.
    """
    step = find_step(limit)
    units, positions, width = inputs.shape
    out = gradients.shape[2]
    factors = find_factors(lengths[0], lengths[1], weights, step)
    totals = torch.zeros((out, width), dtype=torch.int64, device=inputs.device)
    rows = max(1, _LARGEST_ROWS // positions) * positions
    flat_inputs = inputs.reshape(units * positions, width)
    flat_gradients = gradients.reshape(units * positions, out)
    for start in range(0, units * positions, rows):
        chosen = slice(start, start + rows)
        of_inputs = _split(flat_inputs[chosen], factors[0][chosen])
        of_gradients = _split(flat_gradients[chosen], factors[1][chosen])
        products = torch._int_mm(of_gradients, of_inputs.t())
        if products.is_cuda:
            from dither.learn.deep.triton_sums import launch_combine

            launch_combine(products, totals)
        else:
            combine_twin(products, totals)
    return totals.to(torch.float64).mul_(step * step).to(torch.float32)


def _split(values: Tensor, factors: Tensor) -> Tensor:
    """Digits of values (rows, width) as a matrix (3 padded widths, padded rows)."""
    rows, width = (-(-size // _MULTIPLE) * _MULTIPLE for size in values.shape)
    planes = torch.empty((DIGITS, max(width, 32), rows), dtype=torch.int8, device=values.device)
    if values.is_cuda:
        from dither.learn.deep.triton_sums import launch_split

        launch_split(values.contiguous(), factors, planes)
    else:
        split_twin(values, factors, planes)
    return planes.flatten(0, 1)


@lru_cache(maxsize=8)
def can_add_integers(device: torch.device) -> bool:
    """Whether a device has the kernels, and gives the twin's numbers on invented ones."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn((9, 7, 40), generator=generator)
    gradients = torch.randn((9, 7, 70), generator=generator)
    lengths = (inputs.double().square().sum(2), gradients.double().square().sum(2))
    weights = torch.rand(9, generator=generator).double()
    limit = float((lengths[0] * lengths[1]).sqrt().sum(1).max())
    expected = add_products(inputs, gradients, lengths, weights, limit)
    try:
        moved = (values.to(device) for values in (inputs, gradients, *lengths, weights))
        ours = add_products(
            next(moved), next(moved), (next(moved), next(moved)), next(moved), limit
        )
        return bool(torch.equal(ours.cpu(), expected))
    except Exception:  # a device or compiler that the kernels are not for: float64 is used there
        return False
