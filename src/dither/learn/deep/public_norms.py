"""Norms of gradients on public rows, to choose a clip norm before anything private is read.

Norms and clipped shares of private rows are private themselves and were not paid for; the trainer
shows none (rule P29 of the review). Rows that are given here must be public: of another dataset,
or invented. Nothing is charged, and the model is not trained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.deep.clipping import add_lengths
from dither.learn.deep.gradients import choose_method
from dither.learn.deep.losses import read_loss
from dither.learn.deep.plan import read_clip
from dither.learn.deep.refusals import check_model

_BLOCK = 256


@dataclass(frozen=True, eq=False)
class PublicNorms:
    """The norm of every row's gradient: of `whole` gradients, and of layers by name."""

    whole: NDArray[np.float64]
    layers: dict[str, NDArray[np.float64]]

    def find_clipped_share(self, clip: Number) -> float:
        """The share of rows that `clipping="flat"` would shorten."""
        return float(np.mean(self.whole > float(read_clip(clip))))

    def find_layer_shares(self, clip: Number) -> dict[str, float]:
        """By layer, the share of rows that `clipping="per_layer"` would shorten."""
        share = float(read_clip(clip)) / math.sqrt(len(self.layers))
        return {name: float(np.mean(norms > share)) for name, norms in self.layers.items()}


def measure_public_norms(
    model: nn.Module, loss: Any, public_rows: tuple[Tensor, Tensor]
) -> PublicNorms:
    """Measure the gradients of public rows (inputs, targets), each by itself."""
    check_model(model)
    inputs, targets = public_rows
    if len(inputs) != len(targets) or len(inputs) == 0:
        raise ParameterError("public rows are a pair (inputs, targets) of equal length, not empty")
    method = choose_method(model, read_loss(loss))
    blocks: list[dict[str, Tensor]] = []
    for start in range(0, len(inputs), _BLOCK):
        own = slice(start, start + _BLOCK)
        weights = torch.ones(len(targets[own]), device=inputs.device)
        contributions = method.find(inputs[own], targets[own], weights, len(weights))
        layers: dict[str, list[Any]] = {}
        for name, contribution in contributions.items():
            layers.setdefault(name.rpartition(".")[0], []).append(contribution)
        with torch.no_grad():
            blocks.append({name: add_lengths(layers[name]).squares.cpu() for name in layers})
    squares = {
        name: torch.cat([block[name] for block in blocks]).double().numpy() for name in blocks[0]
    }
    whole = np.sqrt(np.sum(list(squares.values()), axis=0))
    return PublicNorms(whole, {name: np.sqrt(values) for name, values in squares.items()})
