"""Weighted sums of products over slots in integers, for layers with many positions on CUDA.

Guarantee: every slot's operands are rounded to integers that depend on that slot alone, and the sum
of their products is exact. A slot's rounded products differ from its weight times its exact ones by
at most `float_error.bound_roundings`. Proof: docs/proofs/deep-learning.md#integer-sums.

Integers have 24 bits: three digits to the base 256, whose products the device takes as int8.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec

import torch
from torch import Tensor

from dither.learn.deep.float_error import find_step_bits

DIGITS = 3
_MOST_ROWS = 1 << 16
"""Products of digits are at most 2**14: so many add up to less than 2**31."""
MOST_UNITS = 1 << 18
"""The products of one unit add up to less than 2**45, so that those of so many are below 2**63."""
_MULTIPLE = 16
"""Sizes of matrices of int8 that devices multiply."""
Lengths = tuple[Tensor, Tensor]
"""Upper bounds of squared lengths of inputs and of gradients, (units, positions), in float64."""


def find_factors(lengths: Lengths, weights: Tensor, step_bits: int) -> Tensor:
    """What inputs (first) and gradients of every position are multiplied by: for gradients their
    unit's weight, and powers of two by which both are about equally long, in steps. 0 for units of
    weight 0 and positions of length 0."""
    weighed = lengths[1] * weights[:, None] * weights[:, None]
    is_there = (lengths[0] > 0) & (weighed > 0)
    balance = (_read_exponents(weighed) - _read_exponents(lengths[0]) + 2) >> 2
    balance = balance * is_there
    for_inputs = _make_powers(step_bits + balance)
    for_gradients = weights[:, None] * _make_powers(step_bits - balance)
    return (torch.stack([for_inputs, for_gradients]) * is_there).flatten(1)


def _read_exponents(numbers: Tensor) -> Tensor:
    return (numbers.contiguous().view(torch.int64) >> 52) & 2047


def _make_powers(exponents: Tensor) -> Tensor:
    return ((exponents + 1023) << 52).view(torch.float64)


def split_twin(values: Tensor, factors: Tensor, planes: Tensor) -> None:
    """Fill planes (3, padded width, padded rows) with the digits of values (rows, width) times
    factors: rounded, lowest digit first. Where a factor is 0, so are digits."""
    scales = factors[:, None]
    scaled = torch.where(scales != 0, values.double() * scales, torch.zeros_like(scales))
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
    inputs: Tensor, gradients: Tensor, lengths: Lengths, weights: Tensor, limit: float
) -> Tensor:
    """The sum over units and positions of weight g a', as float64 of an exact sum of integers.

    No unit's weight times the summed lengths of its products may be above `limit`.
    """
    step_bits = find_step_bits(limit)
    units, positions, width = inputs.shape
    shape = (gradients.shape[2], width)
    totals = torch.zeros(shape, dtype=torch.int64, device=inputs.device)
    factors = _load_factors(lengths, weights, step_bits)
    flat_inputs = inputs.reshape(units * positions, -1)
    flat_gradients = gradients.reshape(units * positions, -1)
    for start in range(0, units * positions, _MOST_ROWS):
        rows = slice(start, start + _MOST_ROWS)
        of_inputs = _split(flat_inputs[rows], factors[0][rows])
        of_gradients = _split(flat_gradients[rows], factors[1][rows])
        products = torch._int_mm(of_gradients, of_inputs.t())
        if products.is_cuda:
            from dither.learn.deep.triton_sums import launch_combine

            launch_combine(products, totals)
        else:
            combine_twin(products, totals)
    return totals.to(torch.float64).mul_(4.0**-step_bits)


def _load_factors(lengths: Lengths, weights: Tensor, step_bits: int) -> Tensor:
    """The factors of all positions, on CUDA in one launch."""
    if not weights.is_cuda:
        return find_factors(lengths, weights, step_bits)
    from dither.learn.deep.triton_sums import launch_factors

    factors = torch.empty((2, lengths[0].numel()), dtype=torch.float64, device=weights.device)
    both = (lengths[0].contiguous(), lengths[1].contiguous())
    launch_factors(both, weights, step_bits, factors)
    return factors


def _split(values: Tensor, factors: Tensor) -> Tensor:
    """Digits of values (rows, width) as a matrix (3 padded widths, padded rows)."""
    sizes = (len(values), max(32, values.shape[1]))
    rows, width = (-(-size // _MULTIPLE) * _MULTIPLE for size in sizes)
    planes = torch.empty((DIGITS, width, rows), dtype=torch.int8, device=values.device)
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
        moved = [values.to(device) for values in (inputs, gradients, *lengths, weights)]
        ours = add_products(moved[0], moved[1], (moved[2], moved[3]), moved[4], limit)
        return bool(torch.equal(ours.cpu(), expected))
    except Exception:  # a device or compiler that the kernels are not for: float64 is used there
        return False
