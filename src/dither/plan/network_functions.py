"""Networks as data: layers of a closed set, whose gradient is a function of one row.

A layer multiplies a public matrix of integers (steps of 2**-16) with its inputs (steps of 2**-12),
may normalise the result, and bends it. The first layer reads the features of a row: on listed
values and bins it is an embedding of them. Every later one reads the constant 1 and the layer
before. The last gives a score for each listed value of the label, and is neither normalised nor
bent. Proof: docs/proofs/unit-vectors.md#networks.

>>> layer = NetworkLayer(((65536, 0), (0, 65536), (3, -3)), "tanh", False)
>>> last = NetworkLayer(((0, 1, 2, 3), (4, 5, 6, 7)), "none", False)
>>> count_weights((layer, last)), is_network((layer, last))
(14, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dither.stored import stored

ACTIVATIONS = ("none", "relu", "tanh")
MOST_LAYERS = 8
MOST_WIDTH = 256
MOST_WEIGHT = 1 << 20
"""In steps of 2**-16: 16."""
MOST_ACTIVATION = 1 << 16
"""Outputs of layers are cut off there, in steps of 2**-12: 16."""
MOST_SLOPE = 1 << 24
"""Slopes of outputs are cut off there, in steps of 2**-16: 256."""


@stored("networklayer", weights="weights", activation="activation", is_normalised="is_normalised")
@dataclass(frozen=True)
class NetworkLayer:
    """A row of `weights` for each output; `activation` is one of ACTIVATIONS."""

    weights: tuple[tuple[int, ...], ...]
    activation: str
    is_normalised: bool


@stored("networkgradient", label="label", layers="layers")
@dataclass(frozen=True)
class NetworkGradient:
    """The gradient of the cross entropy by all weights, layer by layer and row by row."""

    label: str
    layers: tuple[NetworkLayer, ...]


def count_weights(layers: tuple[NetworkLayer, ...]) -> int:
    """How many weights a network has."""
    return sum(len(layer.weights) * len(layer.weights[0]) for layer in layers)


def is_network(layers: Any) -> bool:
    """Whether these are layers that fit together, with weights whose sums stay exact."""
    if type(layers) is not tuple or not 1 <= len(layers) <= MOST_LAYERS:
        return False
    if not all(type(layer) is NetworkLayer and _is_layer(layer) for layer in layers):
        return False
    widths = [len(layer.weights) for layer in layers]
    inputs = [len(layer.weights[0]) for layer in layers]
    last = layers[-1]
    return (
        all(size == width + 1 for size, width in zip(inputs[1:], widths, strict=False))
        and last.activation == "none"
        and not last.is_normalised
        and widths[-1] >= 2
    )


def _is_layer(layer: NetworkLayer) -> bool:
    weights = layer.weights
    return (
        type(weights) is tuple
        and 1 <= len(weights) <= MOST_WIDTH
        and all(type(row) is tuple and row and len(row) == len(weights[0]) for row in weights)
        and all({*map(type, row)} == {int} for row in weights)
        and all(max(map(abs, row)) <= MOST_WEIGHT for row in weights)
        and type(layer.activation) is str
        and layer.activation in ACTIVATIONS
        and type(layer.is_normalised) is bool
    )
