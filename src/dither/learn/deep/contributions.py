"""What every unit adds to the gradient of a parameter, in the form that is cheapest to add up.

Guarantee: `lengths` are upper bounds of the L2 norm of each unit's vector that cannot cancel, from
the same numbers that `add_weighted` multiplies. Both use a unit's own operands alone.
Proof: docs/proofs/deep-learning.md#norms.

A contribution has units in its first dimension. `positions` are all products of one unit: rows of
the unit times places of a sequence or an image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from dither.learn.deep.float_error import LARGEST_NORM, SumShape, bound_relative_error
from dither.learn.deep.gram_sums import ROUND_UP, find_terms, reduce_products
from dither.learn.deep.integer_sums import MOST_UNITS, add_products, can_add_integers
from dither.learn.deep.precision import exact_products, find_widest

DOUBLE = torch.float64
_GROUP = 64
_WIDE = 128
"""Inputs and outputs of layers whose Gram forms are taken in float32 on CUDA."""
CANCELLATION = 8
"""How much longer, in clip norms, the products of a unit may be together than its clip norm where
its vector is never formed."""
_MOST_FORMED = 1 << 28
"""Numbers of formed vectors that are kept at a time: above, the Gram form is used."""
_MOST_WRITTEN = 1 << 25
"""Numbers of formed vectors that cost a CUDA device little to write down."""


@dataclass(frozen=True)
class Lengths:
    """For every unit: an upper bound of the squared norm, the square of the summed lengths of its
    products, and whether its operands are numbers of a sane size."""

    squares: Tensor
    spread_squares: Tensor
    is_sane: Tensor


class Contribution(Protocol):
    """The vectors of all units for one parameter."""

    def lengths(self) -> Lengths:
        """Upper bounds of norms."""

    def add_weighted(self, weights: Tensor, is_sane: Tensor, block: int) -> Tensor:
        """The sum over units of weight times vector, of the shape of the parameter: blocks of so
        many units, then blocks one after the other. Units that are not sane are zeros."""

    def shape_of_sum(self, block: int, blocks: int) -> SumShape:
        """How the sum is computed, for the bound of its float error."""


def add_blocks(add_block: Callable[[slice], Tensor], units: int, block: int) -> Tensor:
    """The sum over blocks of units, one after the other: fewer terms in a row, smaller errors."""
    total = add_block(slice(0, block))
    for start in range(block, units, block):
        total += add_block(slice(start, start + block))
    return total


def squared_norms(values: Tensor) -> Tensor:
    """Squared norms over the last dimension, rounded up, in float64.

    Float32 numbers are added up 64 at a time in float32, which is off by less than 2**-17 of their
    sum and, where squares vanish, by less than 2**-120 for each; one that overflows is not sane.
    The rest, and everything on CUDA, is added up in float64.
    """
    width = values.shape[-1]
    is_grouped = values.dtype == torch.float32 and not values.is_cuda
    whole = width - width % _GROUP if is_grouped else 0
    squares = torch.linalg.vector_norm(values[..., whole:], dim=-1, dtype=DOUBLE).square()
    if whole:
        groups = values[..., :whole].unflatten(-1, (whole // _GROUP, _GROUP))
        of_groups = torch.linalg.vector_norm(groups, dim=-1).to(DOUBLE).square().sum(-1)
        squares = squares + of_groups * (1 + 2.0**-17) + whole * 2.0**-120
    return squares * ROUND_UP


def are_sane(squares: Tensor) -> Tensor:
    """Whether squared norms are numbers, and at most 2**120."""
    return squares <= LARGEST_NORM**2  # false for NaN


def keep(values: Tensor, is_kept: Tensor) -> Tensor:
    """Zeros in place of units that are not kept: 0 times infinity is no number."""
    if not is_kept.is_cuda and bool(is_kept.all()):  # a device would wait for the answer
        return values
    kept = is_kept.reshape(-1, *[1] * (values.dim() - 1))
    return torch.where(kept, values, torch.zeros((), dtype=values.dtype, device=values.device))


@dataclass(frozen=True)
class Formed:
    """Vectors that are written out, one for each unit: of the parameter's shape, once dimensions
    are taken in the order of `axes`, where that is given."""

    values: Tensor
    axes: tuple[int, ...] | None = None

    def lengths(self) -> Lengths:
        squares = squared_norms(self.values.flatten(1))
        return Lengths(squares, squares, are_sane(squares))

    def add_weighted(self, weights: Tensor, is_sane: Tensor, block: int) -> Tensor:
        flat = keep(self.values, is_sane).flatten(1)
        if find_widest() is not None:
            few = max(1, _MOST_WRITTEN // flat.shape[1])
            scales = weights.to(DOUBLE)
            total = add_blocks(
                lambda units: flat[units].to(DOUBLE).t() @ scales[units], len(flat), few
            )
            return order_axes(total.reshape(self.values.shape[1:]), self.axes)
        scale = weights.to(flat.dtype)

        def add_block(units: slice) -> Tensor:
            with exact_products():
                return torch.mv(flat[units].t(), scale[units])

        total = add_blocks(add_block, len(flat), block).reshape(self.values.shape[1:])
        return order_axes(total, self.axes)

    def shape_of_sum(self, block: int, blocks: int) -> SumShape:
        return SumShape(block, blocks, 1, _name_dtype(self.values), 1)


def has_short_products(inputs: Tensor, widths: int) -> bool:
    """Whether inner products of a Gram form are taken in float32: for wide layers on CUDA."""
    return bool(inputs.is_cuda) and widths >= _WIDE


@dataclass(frozen=True)
class OuterProducts:
    """Sums over positions of products g a': `inputs` a (units, positions, in) and `gradients` g
    (units, positions, out) for a parameter of shape (out, in), reshaped to `shape`; dimensions are
    then taken in the order of `axes`, where that is given."""

    inputs: Tensor
    gradients: Tensor
    shape: tuple[int, ...]
    axes: tuple[int, ...] | None = None

    @property
    def positions(self) -> int:
        return int(self.inputs.shape[1])

    def lengths(self) -> Lengths:
        if self.positions == 1:
            of_inputs, of_gradients = self.squared_lengths
            squares = (of_inputs * of_gradients)[:, 0] * ROUND_UP
            return Lengths(
                squares, squares, are_sane(of_inputs)[:, 0] & are_sane(of_gradients)[:, 0]
            )
        if self._is_short:
            return self._find_short_lengths()
        of_inputs, of_gradients = self.squared_lengths
        spread = (of_inputs * of_gradients).sqrt().sum(1).square() * ROUND_UP
        is_sane = are_sane(of_inputs).all(1) & are_sane(of_gradients).all(1)
        return Lengths(self._gram(spread), spread, is_sane)

    @property
    def _is_short(self) -> bool:
        """Whether inner products of positions are taken in float32."""
        widths = self.inputs.shape[2] + self.gradients.shape[2]
        return self.inputs.dtype == torch.float32 and has_short_products(self.inputs, widths)

    @cached_property
    def squared_lengths(self) -> tuple[Tensor, Tensor]:
        """Upper bounds of the squared lengths of inputs and gradients of every position."""
        return squared_norms(self.inputs), squared_norms(self.gradients)

    def _find_short_lengths(self) -> Lengths:
        """Lengths from inner products in float32, whose diagonals are the squared lengths of
        positions: operands are read once."""
        with exact_products():
            of_inputs = torch.bmm(self.inputs, self.inputs.mT)
            of_gradients = torch.bmm(self.gradients, self.gradients.mT)
        terms = find_terms(self.inputs.shape[2], self.gradients.shape[2], self.positions)
        sums = reduce_products(of_inputs, of_gradients, terms)
        self.__dict__["squared_lengths"] = (sums.input_squares, sums.gradient_squares)
        return Lengths(sums.squares, sums.spread_squares, sums.insane == 0)

    def _gram(self, spread: Tensor) -> Tensor:
        """Squared norms from inner products of positions in float64, plus the most that they can be
        off: they cancel."""
        inputs = self.inputs.to(DOUBLE)
        gradients = self.gradients.to(DOUBLE)
        products = torch.bmm(inputs, inputs.mT) * torch.bmm(gradients, gradients.mT)
        squares = products.sum((1, 2)).clamp(min=0)
        widths = inputs.shape[2] + gradients.shape[2]
        roundings = bound_relative_error(widths + 8, "float64")
        error = float(roundings + 2 * bound_relative_error(self.positions**2, "float64"))
        return torch.minimum(squares + error * ROUND_UP * spread, spread) * ROUND_UP

    def add_weighted(self, weights: Tensor, is_sane: Tensor, block: int) -> Tensor:
        total = self._add_products(weights, is_sane, block).reshape(self.shape)
        return order_axes(total, self.axes)

    def _add_products(self, weights: Tensor, is_sane: Tensor, block: int) -> Tensor:
        limit = find_widest()
        if limit is not None and self._adds_integers:
            return add_products(
                self.inputs, self.gradients, self.squared_lengths, weights * is_sane, limit
            )
        if limit is None and self.positions == 1 and not self.inputs.is_cuda:
            return self._add_weighted_units(weights * is_sane, block)
        inputs = keep(self.inputs, is_sane)
        gradients = keep(self.gradients, is_sane)
        if limit is not None:
            scaled = gradients.to(DOUBLE).mul_(weights[:, None, None]).flatten(0, 1)
            return torch.mm(scaled.t(), inputs.to(DOUBLE).flatten(0, 1))
        scaled = gradients * weights.to(gradients.dtype)[:, None, None]

        def add_block(units: slice) -> Tensor:
            return torch.mm(scaled[units].flatten(0, 1).t(), inputs[units].flatten(0, 1))

        with exact_products():
            return add_blocks(add_block, len(inputs), block)

    def _add_weighted_units(self, weights: Tensor, block: int) -> Tensor:
        """Add up the products of units whose weight is not 0.

        Empty slots, and units that are not sane, would add exact zeros. Leaving them out changes
        nothing but the rounding of the sum.
        """
        units = weights.nonzero()[:, 0]
        inputs = self.inputs[:, 0].index_select(0, units)
        scales = weights[units].to(self.gradients.dtype)
        scaled = self.gradients[:, 0].index_select(0, units).mul_(scales[:, None])

        def add_block(rows: slice) -> Tensor:
            return torch.mm(scaled[rows].t(), inputs[rows])

        with exact_products():
            return add_blocks(add_block, len(units), block)

    @property
    def _adds_integers(self) -> bool:
        """Whether a wide sum is taken in integers: on CUDA, where operands are float32 and units
        few enough for int64."""
        is_many = self.positions > 1 and self.inputs.dtype == torch.float32
        has_room = len(self.inputs) <= MOST_UNITS
        return is_many and has_room and can_add_integers(self.inputs.device)

    def shape_of_sum(self, block: int, blocks: int) -> SumShape:
        cancellation = 1 if self.positions == 1 else CANCELLATION
        widths = self.inputs.shape[2] + self.gradients.shape[2]
        return SumShape(
            block,
            blocks,
            self.positions,
            _name_dtype(self.inputs),
            cancellation,
            rounded=self.positions * widths if self._adds_integers else 0,
        )

    def form(self) -> Formed:
        """The vectors, written out."""
        with exact_products():
            products = torch.bmm(self.gradients.mT, self.inputs)
        return Formed(products.reshape(-1, *self.shape), self.axes)

    def choose(self, is_formed: bool | None = None) -> Contribution:
        """The form that was measured as the cheaper one; else by formula: forming costs out * in
        numbers a unit, the Gram form positions**2 products of (in + out)"""
        units, positions, width = self.inputs.shape
        out = self.gradients.shape[2]
        if positions == 1:
            return self
        if is_formed is not None:
            return self.form() if is_formed and can_form(self) else self
        gram = positions * positions * (width + out)
        is_gram_cheaper = gram < width * out
        if self.inputs.is_cuda:  # where writing numbers down costs more than multiplying them
            is_gram_cheaper = units * width * out > _MOST_WRITTEN and gram < 64 * width * out
        return self.form() if can_form(self) and not is_gram_cheaper else self


def can_form(outer: OuterProducts) -> bool:
    """Whether vectors are few enough to be written out."""
    numbers = len(outer.inputs) * outer.inputs.shape[2] * outer.gradients.shape[2]
    return bool(numbers <= _MOST_FORMED)


@dataclass(frozen=True)
class EmbeddingRows:
    """Rows of a table of embeddings: `gradients` (units, positions, width) at `places` (units,
    positions); equal places of one unit are added up first, so that its vector is formed."""

    places: Tensor
    gradients: Tensor
    shape: tuple[int, ...]

    def merge(self) -> EmbeddingRows:
        """The same with each place at most once in a unit: the rest are rows of zeros.

        On CUDA by products of matrices: `scatter_add_` there adds in an order of its own, and a
        unit's floats would not be the same bits in every run.
        """
        if self.places.is_cuda:
            return self._merge_by_products()
        order = torch.argsort(self.places, dim=1, stable=True)
        places = torch.gather(self.places, 1, order)
        gradients = torch.gather(self.gradients, 1, order[..., None].expand_as(self.gradients))
        begins = torch.ones_like(places, dtype=torch.bool)
        begins[:, 1:] = places[:, 1:] != places[:, :-1]
        group = begins.cumsum(1) - 1
        merged = torch.zeros_like(gradients)
        merged.scatter_add_(1, group[..., None].expand_as(gradients), gradients)
        first = torch.zeros_like(places).scatter_(1, group, places)
        return EmbeddingRows(first, merged, self.shape)

    def _merge_by_products(self) -> EmbeddingRows:
        """Every position that is the first of its place gets the sum over all equal places."""
        is_equal = self.places[:, :, None] == self.places[:, None, :]
        is_first = ~is_equal.tril(-1).any(2)
        chosen = (is_equal & is_first[..., None]).to(self.gradients.dtype)
        with exact_products():
            merged = torch.bmm(chosen, self.gradients)
        return EmbeddingRows(self.places * is_first, merged, self.shape)

    def lengths(self) -> Lengths:
        squares = squared_norms(self.gradients)
        total = squares.sum(1) * ROUND_UP
        return Lengths(total, total, are_sane(squares).all(1))

    def add_weighted(self, weights: Tensor, is_sane: Tensor, block: int) -> Tensor:
        kind = self.gradients.dtype if find_widest() is None else DOUBLE
        gradients = keep(self.gradients, is_sane).to(kind)
        scaled = gradients * weights.to(kind)[:, None, None]

        def add_block(units: slice) -> Tensor:
            total = torch.zeros(self.shape, dtype=kind, device=gradients.device)
            return total.index_add_(0, self.places[units].flatten(), scaled[units].flatten(0, 1))

        return add_blocks(add_block, len(gradients), block)

    def shape_of_sum(self, block: int, blocks: int) -> SumShape:
        return SumShape(block, blocks, 1, _name_dtype(self.gradients), 1)

    def form(self) -> Formed:
        """The vectors, written out as whole tables."""
        units = len(self.places)
        tables = self.gradients.new_zeros(units, *self.shape)
        places = self.places[..., None].expand_as(self.gradients)
        return Formed(tables.scatter_add_(1, places, self.gradients))


def join(
    contributions: list[OuterProducts | EmbeddingRows | Formed], is_formed: bool | None = None
) -> Contribution:
    """One contribution for a parameter that is used several times: vectors are added up before
    norms are taken (summed norms would be wrong). Formed where it says so, else by formula."""
    if len(contributions) == 1:
        first = contributions[0]
        return first.choose(is_formed) if isinstance(first, OuterProducts) else first
    outers = [use for use in contributions if isinstance(use, OuterProducts)]
    if len(outers) == len(contributions) and len({use.axes for use in outers}) == 1:
        inputs = torch.cat([use.inputs for use in outers], 1)
        gradients = torch.cat([use.gradients for use in outers], 1)
        return OuterProducts(inputs, gradients, outers[0].shape, outers[0].axes).choose(is_formed)
    formed = [use if isinstance(use, Formed) else use.form() for use in contributions]
    total = order_units(formed[0])
    for use in formed[1:]:
        total = total + order_units(use)
    return Formed(total)


def order_axes(total: Tensor, axes: tuple[int, ...] | None) -> Tensor:
    """A sum with its dimensions in the parameter's order."""
    return total if axes is None else total.permute(axes).contiguous()


def order_units(formed: Formed) -> Tensor:
    """Vectors of units with their dimensions in the parameter's order."""
    if formed.axes is None:
        return formed.values
    return formed.values.permute(0, *(axis + 1 for axis in formed.axes))


def _name_dtype(values: Tensor) -> str:
    return str(values.dtype).removeprefix("torch.")
