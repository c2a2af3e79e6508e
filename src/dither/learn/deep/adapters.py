"""Fine-tuning of few parameters: low-rank adapters beside frozen linear layers, or the last layers.

Fewer trained numbers mean less noise in all. The weights that a model comes with are public facts:
say in the card where they are from.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from dither.errors import ParameterError
from dither.given_numbers import whole_number


class AdaptedLinear(nn.Module):
    """A frozen linear layer plus a trained one of low rank, which is zero at the start."""

    def __init__(self, layer: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.frozen = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        self.scale = scale
        nn.init.zeros_(self.up.weight)
        self.to(layer.weight.device, layer.weight.dtype)

    def forward(self, values: Tensor) -> Tensor:
        """What the frozen layer says, and the correction."""
        return self.frozen(values) + self.scale * self.up(self.down(values))

    def merge(self) -> nn.Linear:
        """One linear layer that computes the same."""
        merged = copy.deepcopy(self.frozen)
        with torch.no_grad():
            merged.weight += self.scale * self.up.weight @ self.down.weight
        return merged


def freeze_all_but(model: nn.Module, *prefixes: str) -> nn.Module:
    """Freeze every parameter whose name begins with none of these: training of last layers."""
    names = [name for name, _ in model.named_parameters()]
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in names):
            raise ParameterError(f"no parameter's name begins with {prefix!r}")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(prefixes))
    return model


def add_adapters(model: nn.Module, rank: int, *, scale: float = 1.0) -> nn.Module:
    """A copy of a model, frozen, with trained adapters of a rank beside all its linear layers.

    Repair attention first (`repair_model`), so that its projections are linear layers.
    """
    width = whole_number(rank, "rank")
    adapted = copy.deepcopy(model)
    for parameter in adapted.parameters():
        parameter.requires_grad_(False)
    count = 0
    for parent in list(adapted.modules()):
        for name, layer in list(parent.named_children()):
            if type(layer) is nn.Linear:
                setattr(parent, name, AdaptedLinear(layer, width, scale))
                count += 1
    if not count:
        raise ParameterError("the model has no linear layer: repair_model makes them of attention")
    return adapted
