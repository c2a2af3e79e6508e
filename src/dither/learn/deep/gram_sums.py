"""Norms from inner products of positions that were taken in float32, in one pass over them.

Guarantee: `reduce_products` returns upper bounds of each unit's squared norm and of the squared
sum of its products' lengths, from its own inner products alone. Both come from sums in float64, and
what float32 can have lost is added. Proof: docs/proofs/deep-learning.md#norms.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import NamedTuple

import torch
from torch import Tensor

from dither.learn.deep.float_error import LARGEST_NORM, bound_relative_error

ROUND_UP = 1 + 2.0**-24
"""More than float64 loses in a sum of squares of up to 2**28 float32 numbers."""
_VANISHED = 2.0**-123
"""More than one product of float32 numbers and the sum that it joins lose where they vanish."""


class GramSums(NamedTuple):
    """Squared lengths of inputs and gradients (units, positions); for every unit its squared norm,
    the square of the summed lengths of its products, and a count of positions that are not sane."""

    input_squares: Tensor
    gradient_squares: Tensor
    squares: Tensor
    spread_squares: Tensor
    insane: Tensor


class GramTerms(NamedTuple):
    """What float32 can have lost, for inputs and gradients of a width: factors and summands."""

    input_factor: float
    input_summand: float
    gradient_factor: float
    gradient_summand: float
    largest: float
    error: float
    vanished: float
    round_up: float


def find_terms(input_width: int, gradient_width: int, positions: int) -> GramTerms:
    """The terms for inner products over so many inputs and outputs."""
    widths = input_width + gradient_width
    roundings = bound_relative_error(widths + 8, "float32")
    error = roundings + 2 * bound_relative_error(positions**2, "float64")
    return GramTerms(
        1 + float(2 * bound_relative_error(input_width + 8, "float32")),
        input_width * _VANISHED,
        1 + float(2 * bound_relative_error(gradient_width + 8, "float32")),
        gradient_width * _VANISHED,
        LARGEST_NORM**2,
        float(error) * ROUND_UP,
        widths * _VANISHED,
        ROUND_UP,
    )


def reduce_products(of_inputs: Tensor, of_gradients: Tensor, terms: GramTerms) -> GramSums:
    """Sums over inner products (units, positions, positions) of inputs and of gradients."""
    if not has_gram_kernel(of_inputs.device):
        return reduce_twin(of_inputs, of_gradients, terms)
    return _reduce_by_kernel(of_inputs, of_gradients, terms)


def _reduce_by_kernel(of_inputs: Tensor, of_gradients: Tensor, terms: GramTerms) -> GramSums:
    from dither.learn.deep.triton_sums import launch_gram

    units, positions, _ = of_inputs.shape
    lengths = torch.empty((2, units, positions), dtype=torch.float64, device=of_inputs.device)
    results = torch.empty((3, units), dtype=torch.float64, device=of_inputs.device)
    launch_gram(of_inputs, of_gradients, lengths, results, _load_terms(terms, of_inputs.device))
    return GramSums(lengths[0], lengths[1], results[0], results[1], results[2])


def reduce_twin(of_inputs: Tensor, of_gradients: Tensor, terms: GramTerms) -> GramSums:
    """The same by operations on whole tensors."""
    products = (of_inputs.double() * of_gradients.double()).sum((1, 2))
    first, second = (
        values.diagonal(dim1=1, dim2=2).double() for values in (of_inputs, of_gradients)
    )
    first = first * terms.input_factor + terms.input_summand
    second = second * terms.gradient_factor + terms.gradient_summand
    is_sane = (first <= terms.largest) & (second <= terms.largest)
    spread = (first.sqrt() * second.sqrt()).sum(1).square() * terms.round_up
    longest = first.sqrt().sum(1).square() + second.sqrt().sum(1).square()
    squares = products.clamp(min=0) + longest * terms.vanished + terms.error * spread
    squares = torch.minimum(squares, spread) * terms.round_up
    return GramSums(first, second, squares, spread, (~is_sane).sum(1).double())


@lru_cache(maxsize=8)
def has_gram_kernel(device: torch.device) -> bool:
    """Whether a device has the kernel, and it gives the twin's numbers on invented ones."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    generator = torch.Generator().manual_seed(1)
    values = torch.randn((2, 5, 49, 20), generator=generator)
    products = [torch.bmm(operand, operand.mT).to(device) for operand in values]
    terms = find_terms(20, 20, 49)
    try:
        ours = _reduce_by_kernel(products[0], products[1], terms)
        theirs = reduce_twin(products[0], products[1], terms)
        return all(torch.allclose(*pair, rtol=1e-12) for pair in zip(ours, theirs, strict=True))
    except Exception:  # a device or compiler that the kernel is not for: the twin runs there
        return False


_terms: dict[tuple[GramTerms, torch.device], Tensor] = {}


def _load_terms(terms: GramTerms, device: torch.device) -> Tensor:
    """Public terms on the device, kept so that a step copies nothing. They are kept to the end of
    the process: a recorded graph reads them where they lie."""
    name = (terms, device)
    if name not in _terms:
        _terms[name] = torch.tensor(terms, dtype=torch.float64, device=device)
    return _terms[name]
