"""Weights that bring every unit's gradient to the clip norm, and the weighted sums.

Guarantee: with weights of `clip_flat` the vectors of one unit, over all parameters together, have
an L2 norm of at most `clip` (and products of at most CANCELLATION times that together); with
`clip_layers` so do those of each layer for its share of the clip norm. A unit that is absent or not
sane adds exact zeros. Proof: docs/proofs/deep-learning.md#clipping.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from dither.learn.deep.contributions import (
    CANCELLATION,
    Contribution,
    Formed,
    Lengths,
    are_sane,
    order_axes,
)
from dither.learn.deep.gradients import Contributions

_ROUND_DOWN = 1 - 2.0**-22
"""More than the rounding of a weight and of an operand to float32."""
_SHORT = 1 << 12
"""Numbers of a formed vector that is joined with others."""
_SHORTS = ""
"""The name of joined vectors, which no parameter has."""


@dataclass(frozen=True)
class ClippedSum:
    """The sum over units for every parameter, and the balance of units within the clip norm: +1 for
    each that was short enough, -1 for each that was clipped, 0 for absent ones. Both are secret."""

    sums: dict[str, Tensor]
    balance: Tensor


def clip_flat(
    contributions: Contributions, clip: float, is_present: Tensor, block: int
) -> ClippedSum:
    """Clip all parameters together."""
    joined = join_short(contributions)
    lengths = add_lengths(joined.values())
    weights = find_weights(lengths, clip) * is_present
    sums = _add_up(joined, weights, lengths.is_sane, block)
    return ClippedSum(split_short(sums, contributions), count_balance(lengths, clip, is_present))


def join_short(contributions: Contributions) -> Contributions:
    """The same vectors with short formed ones (biases, scales) side by side as one: a layer's own
    would cost more to launch than to compute."""
    shorts = _list_shorts(contributions)
    if len(shorts) < 2:
        return contributions
    joined = {name: kept for name, kept in contributions.items() if name not in shorts}
    values = torch.cat([formed.values.flatten(1) for formed in shorts.values()], 1)
    return joined | {_SHORTS: Formed(values)}


def split_short(sums: dict[str, Tensor], contributions: Contributions) -> dict[str, Tensor]:
    """Sums of `join_short` by parameter."""
    if _SHORTS not in sums:
        return sums
    shorts = _list_shorts(contributions)
    pieces = sums[_SHORTS].split([formed.values[0].numel() for formed in shorts.values()])
    split = {
        name: order_axes(piece.view(formed.values.shape[1:]), formed.axes)
        for (name, formed), piece in zip(shorts.items(), pieces, strict=True)
    }
    return {name: split[name] if name in split else sums[name] for name in contributions}


def _list_shorts(contributions: Contributions) -> dict[str, Formed]:
    """Short formed vectors of the first one's type."""
    shorts = {
        name: formed
        for name, formed in contributions.items()
        if isinstance(formed, Formed) and formed.values[0].numel() <= _SHORT
    }
    kinds = {formed.values.dtype for formed in shorts.values()}
    return shorts if len(kinds) == 1 else {}


def clip_layers(
    contributions: Contributions, clip: float, is_present: Tensor, block: int
) -> ClippedSum:
    """Clip every layer by itself, to equal shares: clip / sqrt(number of layers).

    The balance is that of whole gradients, so that it moves by 1 for a unit.
    """
    layers: dict[str, list[str]] = {}
    for name in contributions:
        layers.setdefault(name.rpartition(".")[0], []).append(name)
    share = clip / math.sqrt(len(layers)) * (1 - 2.0**-40)
    measured = {name: contribution.lengths() for name, contribution in contributions.items()}
    everything = sum_lengths(measured.values())
    sums: dict[str, Tensor] = {}
    for names in layers.values():
        lengths = sum_lengths(measured[name] for name in names)
        weights = find_weights(lengths, share) * is_present * everything.is_sane
        chosen = {name: contributions[name] for name in names}
        sums |= _add_up(chosen, weights, everything.is_sane, block)
    return ClippedSum(sums, count_balance(everything, clip, is_present))


def add_lengths(contributions: Iterable[Contribution]) -> Lengths:
    """Lengths of whole gradients."""
    return sum_lengths(contribution.lengths() for contribution in contributions)


def sum_lengths(several: Iterable[Lengths]) -> Lengths:
    """Squared norms of parameters add up; all must be sane."""
    everything = list(several)
    return Lengths(
        torch.stack([lengths.squares for lengths in everything]).sum(0),
        torch.stack([lengths.spread_squares for lengths in everything]).sum(0),
        torch.stack([lengths.is_sane for lengths in everything]).all(0),
    )


def find_weights(lengths: Lengths, clip: float) -> Tensor:
    """min(1, clip / norm, CANCELLATION clip / spread), rounded down; 0 where not sane, or where
    products are so long that a weight would have few bits in float32."""
    goal = clip * _ROUND_DOWN
    norms = lengths.squares.sqrt()
    spreads = lengths.spread_squares.sqrt() / CANCELLATION
    longest = torch.maximum(norms, spreads)
    weights = torch.where(longest > goal, goal / longest, torch.ones_like(longest))
    is_sane = lengths.is_sane & are_sane(lengths.spread_squares) & are_sane(lengths.squares)
    return torch.where(is_sane, weights, torch.zeros_like(weights))


def count_balance(lengths: Lengths, clip: float, is_present: Tensor) -> Tensor:
    """How many more units were within the clip norm than were clipped, among those present."""
    is_short = (lengths.squares <= clip * clip) & lengths.is_sane
    signs = torch.where(is_short, 1, -1)
    return (signs * is_present.to(signs.dtype)).sum()


def _add_up(
    contributions: Contributions, weights: Tensor, is_sane: Tensor, block: int
) -> dict[str, Tensor]:
    return {
        name: contribution.add_weighted(weights, is_sane, block)
        for name, contribution in contributions.items()
    }
