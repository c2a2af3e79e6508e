"""Gradients of networks, a column for every row, in integers that floats hold exactly.

Products with weights are sums of integers below 2**53, exact in whatever order they are added;
bends are comparisons or tables; the rest is elementwise, with operations that IEEE 754 rounds one
by one (+, -, *, /, root, floor). So the gradient of a row depends on that row alone, bit by bit.
Proof: docs/proofs/unit-vectors.md#networks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dither.plan.encodings import FEATURE_SCALE
from dither.plan.network_functions import (
    MOST_ACTIVATION,
    MOST_SLOPE,
    NetworkGradient,
    NetworkLayer,
)

Array = NDArray[Any]
_THETA = float(1 << 16)
_BENDS_PER_ONE = 1 << 10
_REACH = 8
"""tanh is a table from -8 to 8."""
_WIDEST = float(1 << 20)
"""Before it is normalised an output is cut off there: sums of squares stay exact."""
_SMOOTHING = 16.0
"""Added to the variance of a layer, in squares of steps."""


class _Layer(NamedTuple):
    """What a layer computed: its inputs, the scale of its normalisation (or None), the normalised
    outputs, and those after the bend."""

    inputs: Array
    scale: Array | None
    normal: Array
    outputs: Array


def find_network_vectors(
    function: NetworkGradient,
    features: Array,
    find_slopes: Callable[[Array], Array],
) -> Array:
    """The gradient of every row. `find_slopes` makes of scores, in steps of 2**-28, the slopes of
    the loss in steps of 2**-16; rows without a label have slopes of 0."""
    passed = []
    values = features
    for layer in function.layers[:-1]:
        passed.append(_run_layer(layer, values))
        constant = np.full((1, features.shape[1]), float(FEATURE_SCALE))
        values = np.concatenate([constant, passed[-1].outputs])
    slopes = find_slopes(_multiply(function.layers[-1], values))
    gradients = [_multiply_all(slopes, values)]
    for position in range(len(passed) - 1, -1, -1):
        above = np.array(function.layers[position + 1].weights, float)[:, 1:]
        back = _cut_slopes(np.floor((above.T @ slopes) / _THETA))
        slopes = _return_slopes(function.layers[position], passed[position], back)
        gradients.append(_multiply_all(slopes, passed[position].inputs))
    return np.concatenate(gradients[::-1])


def _multiply(layer: NetworkLayer, values: Array) -> Array:
    """Weights times inputs, exactly: steps of 2**-28."""
    products: Array = np.array(layer.weights, float) @ values
    return products


def _multiply_all(slopes: Array, values: Array) -> Array:
    products: Array = slopes[:, None, :] * values[None, :, :]
    return products.reshape(-1, values.shape[1])


def _run_layer(layer: NetworkLayer, values: Array) -> _Layer:
    outputs = np.floor(_multiply(layer, values) / _THETA)
    scale = None
    if layer.is_normalised:
        outputs, scale = normalise(outputs)
    normal = np.clip(outputs, -MOST_ACTIVATION, MOST_ACTIVATION)
    return _Layer(values, scale, normal, bend(layer.activation, normal))


def normalise(outputs: Array) -> tuple[Array, Array]:
    """Outputs with mean 0 and variance 1 over the layer, in steps, and what they were multiplied
    by."""
    width = len(outputs)
    cut = np.clip(outputs, -_WIDEST, _WIDEST)
    centred = cut - np.floor(cut.sum(axis=0) / width)
    squares = (centred * centred).sum(axis=0) + width * _SMOOTHING
    scale = FEATURE_SCALE * math.sqrt(width) / np.sqrt(squares)
    return np.floor(centred * scale), scale


def bend(activation: str, values: Array) -> Array:
    """Outputs after the bend, in steps."""
    if activation == "relu":
        return np.maximum(values, 0)
    if activation == "tanh":
        entries = np.floor(values / (FEATURE_SCALE // _BENDS_PER_ONE))
        reach = _REACH * _BENDS_PER_ONE
        np.clip(entries, -reach, reach - 1, out=entries)
        return list_bends()[entries.astype(np.int64) + reach]
    return values


def _return_slopes(layer: NetworkLayer, passed: _Layer, back: Array) -> Array:
    """Slopes of the outputs of a layer, from those of what it gave on."""
    if layer.activation == "relu":
        back = back * (passed.normal > 0)
    elif layer.activation == "tanh":
        one = float(FEATURE_SCALE**2)
        back = np.floor(back * (one - passed.outputs * passed.outputs) / one)
    if passed.scale is None:
        return back
    width = len(back)
    aligned = (back * passed.normal).sum(axis=0) / (width * float(FEATURE_SCALE**2))
    centred = back - back.sum(axis=0) / width - passed.normal * aligned
    return _cut_slopes(np.floor(centred * passed.scale))


def _cut_slopes(slopes: Array) -> Array:
    cut: Array = np.clip(slopes, -MOST_SLOPE, MOST_SLOPE)
    return cut


@lru_cache(maxsize=1)
def list_bends() -> Array:
    """tanh in steps, at the middle of every entry."""
    reach = _REACH * _BENDS_PER_ONE
    middles = [(entry + 0.5) / _BENDS_PER_ONE for entry in range(-reach, reach)]
    steps = [math.floor(FEATURE_SCALE * math.tanh(middle) + 0.5) for middle in middles]
    return np.array(steps, float)
