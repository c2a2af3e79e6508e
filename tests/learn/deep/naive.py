"""The oracle of clipped sums: one example at a time, in a loop, by autograd alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dither.learn.deep.gradients import list_trained
from dither.learn.deep.losses import read_loss


def clip_one_by_one(
    model: nn.Module,
    loss,
    inputs: Tensor,
    targets: Tensor,
    weights: Tensor,
    units: int,
    clip: float,
) -> tuple[dict[str, Tensor], Tensor]:
    """The sum of clipped gradients of units, and their norms."""
    measure = read_loss(loss)
    trained = list_trained(model)
    sums = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in trained.items()}
    norms = []
    rows = len(inputs) // units
    for unit in range(units):
        own = slice(unit * rows, (unit + 1) * rows)
        total = (measure(model(inputs[own]), targets[own]) * weights[own]).sum()
        gradients = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
        vectors = {
            name: torch.zeros_like(p) if gradient is None else gradient.double()
            for (name, p), gradient in zip(trained.items(), gradients, strict=True)
        }
        norm = torch.sqrt(sum(v.double().square().sum() for v in vectors.values()))
        norms.append(norm)
        for name, vector in vectors.items():
            sums[name] += vector.double() * min(1.0, clip / float(norm) if norm else 1.0)
    return sums, torch.stack(norms)
