"""Columns of registered integers as features: one row of an array for each feature.

Every operation is elementwise, so that what a row becomes does not depend on where it stands or on
what stands beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.plan.encodings import FEATURE_SCALE, ResolvedFeature

Array = NDArray[Any]


def encode_features(
    features: tuple[ResolvedFeature, ...], columns: dict[str, Array], rows: int
) -> NDArray[np.int16]:
    """The features of all rows, in steps from -4096 to 4096."""
    encoded = np.empty((sum(feature.width for feature in features), rows), np.int16)
    first = 0
    for feature in features:
        fill_feature(feature, columns, encoded[first : first + feature.width])
        first += feature.width
    return encoded


def fill_feature(feature: ResolvedFeature, columns: dict[str, Array], encoded: Array) -> None:
    """Write the numbers of one feature, a row of `encoded` for each."""
    if feature.column is None:
        encoded[0] = FEATURE_SCALE
        return
    values = columns[feature.column]
    if feature.edges is None:
        encoded[0] = scale_values(feature, values)
        return
    codes = find_codes(feature, values)
    for code in range(feature.width):
        np.multiply(codes == code, FEATURE_SCALE, out=encoded[code], casting="unsafe")


def scale_values(feature: ResolvedFeature, values: Array) -> Array:
    """Values from [low, high] as steps from -4096 to 4096, rounded down; null as 0."""
    span = feature.high - feature.low
    scaled = values.astype(float)
    scaled -= feature.low
    scaled *= 2 * FEATURE_SCALE / span if span else 0.0
    np.floor(scaled, out=scaled)
    scaled -= FEATURE_SCALE
    np.clip(scaled, -FEATURE_SCALE, FEATURE_SCALE, out=scaled)
    if feature.null is not None:
        scaled[values == feature.null] = 0
    return scaled


def find_codes(feature: ResolvedFeature, values: Array) -> Array:
    """The number of the bin or listed value of every row; null has the last one."""
    edges = feature.edges
    assert edges is not None
    if edges and edges == tuple(range(edges[0], edges[0] + len(edges))):
        codes = np.clip(values.astype(np.int64) - (edges[0] - 1), 0, len(edges))
    else:
        codes = np.searchsorted(np.array(edges, np.int64), values, side="right")
    if feature.null is not None:
        codes[values == feature.null] = feature.width - 1
    return codes
