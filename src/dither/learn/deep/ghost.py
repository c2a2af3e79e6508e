"""Ghost clipping: norms by closed forms, then a second backward pass of weighted losses.

The second pass rounds by itself, so that a unit's gradient in it is not exactly what was measured:
its sensitivity is not proved, and the certificate says so.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dither.learn.deep.clipping import ClippedSum, add_lengths, count_balance, find_weights
from dither.learn.deep.gradients import BookKeeper
from dither.learn.deep.stage import Batch


def clip_ghost(method: BookKeeper, batch: Batch, clip: float, is_present: Tensor) -> ClippedSum:
    """The clipped sum by two backward passes over one graph, so that masks of dropout are the
    same in both."""
    units = len(is_present)
    contributions, losses = method.find_with_losses(*batch, units, keep_graph=True)
    with torch.no_grad():
        lengths = add_lengths(contributions.values())
        weights = find_weights(lengths, clip) * is_present
    by_unit = losses.reshape(units, -1)
    kept = torch.where(weights[:, None] > 0, by_unit, torch.zeros_like(by_unit))
    total = (kept * weights[:, None].to(losses.dtype)).sum()
    trained = method.trained
    gradients = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
    sums = {
        name: gradient
        for name, gradient in zip(trained, gradients, strict=True)
        if gradient is not None
    }
    return ClippedSum(sums, count_balance(lengths, clip, is_present))
