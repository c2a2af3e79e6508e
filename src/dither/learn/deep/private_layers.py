"""Layers with which private training often loses less: bounded activations, standardised weights.

They compute on every example by itself, and cost nothing. Means of parameters over steps are free
as well, as post-processing: `torch.optim.swa_utils.AveragedModel` does that.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_LEAST_VARIANCE = 1e-5


class TemperedSigmoid(nn.Module):
    """scale * sigmoid(temperature * x) - offset (Papernot and others 2021); tanh by default."""

    def __init__(self, scale: float = 2.0, temperature: float = 2.0, offset: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.temperature = temperature
        self.offset = offset

    def forward(self, x: Tensor) -> Tensor:
        """The activation of each number."""
        return self.scale * torch.sigmoid(self.temperature * x) - self.offset


class StandardisedConv2d(nn.Conv2d):
    """A convolution whose weights have mean 0 and variance 1 / inputs for each output channel (De
    and others 2022). The trainer differentiates it by vmap, with all layers of its model."""

    def forward(self, input: Tensor) -> Tensor:
        """The convolution with standardised weights."""
        axes = (1, 2, 3)
        centred = self.weight - self.weight.mean(axes, keepdim=True)
        variance = centred.square().mean(axes, keepdim=True)
        inputs = self.weight[0].numel()
        weight = centred * torch.rsqrt(inputs * (variance + _LEAST_VARIANCE / inputs))
        return self._conv_forward(input, weight, self.bias)
