"""The factors of every row: residuals of a public model in steps of 2**-16.

Margins are exact: sums of integers below 2**53, which floats hold in whatever order they are added.
Links are tables of integers. All else is elementwise.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.data.vectors.encode import find_codes, scale_values
from dither.data.vectors.network import find_network_vectors
from dither.data.vectors.trees import (
    add_scores,
    count_in_leaves,
    find_leaves,
    spread_over_leaves,
)
from dither.plan.domain import Columns
from dither.plan.encodings import (
    FEATURE_SCALE,
    OneHot,
    ResolvedFeature,
    Scaled,
    find_values,
    resolve_feature,
)
from dither.plan.network_functions import NetworkGradient
from dither.plan.tree_functions import TreeCounts, TreeGradient, count_leaves
from dither.plan.vector_functions import (
    FACTOR_SCALE,
    MOST_FACTOR,
    THETA_SCALE,
    CoordinateGradient,
    FeatureSums,
    HuberGradient,
    LogisticGradient,
    MultinomialGradient,
    NearestSums,
    PoissonGradient,
    SecondMoments,
    SquaredGradient,
    VectorFunction,
    has_factors,
    list_thetas,
)

Array = NDArray[Any]
STEPS_PER_ONE = 1 << 10
"""Entries of a table of links for each unit of the margin."""
REACH = 16
"""Margins are cut off there."""
REACH_OF_EXPONENTS = 8
_FACTOR_STEPS = THETA_SCALE * FEATURE_SCALE // FACTOR_SCALE
_TABLE_STEPS = THETA_SCALE * FEATURE_SCALE // STEPS_PER_ONE
_OF_CLASSES = (
    LogisticGradient,
    HuberGradient,
    MultinomialGradient,
    TreeCounts,
    TreeGradient,
    NetworkGradient,
)


def resolve_label(function: VectorFunction, columns: Columns) -> ResolvedFeature | None:
    """The label of a checked function with the facts of its column; None where it has none."""
    if isinstance(function, (FeatureSums, NearestSums)):
        return None
    kind = OneHot if isinstance(function, _OF_CLASSES) else Scaled
    return resolve_feature(kind(function.label), columns)


def make_vectors(
    function: VectorFunction,
    label: ResolvedFeature | None,
    columns: Columns,
    features: Array,
    values: Array | None,
) -> Array:
    """The vector of every row, one column each, in steps of the function's own scale."""
    if has_factors(function):
        factors = make_row_factors(function, label, columns, features, values)
        if len(factors) == 1:
            features *= factors[0]
            return features
        return _multiply_all(factors, features)
    assert label is not None and values is not None
    if isinstance(function, SecondMoments):
        products = _multiply_pairs(features, scale_values(label, values))
        return _clear_unlabelled(products, label, values)
    if isinstance(function, TreeCounts):
        counts = count_in_leaves(function, features, find_codes(label, values))
        return _clear_unlabelled(counts, label, values)
    if isinstance(function, TreeGradient):
        slopes = _find_slopes(function, find_codes(label, values), features)
        return _clear_unlabelled(slopes, label, values)
    if isinstance(function, NetworkGradient):
        return find_network_vectors(
            function, features, lambda scores: _find_class_slopes(scores, label, values)
        )
    assert isinstance(function, CoordinateGradient)
    features *= _make_labelled_factors(function, label, columns, features, values)[0]
    return features


def make_row_factors(
    function: VectorFunction,
    label: ResolvedFeature | None,
    columns: Columns,
    features: Array,
    values: Array | None,
) -> Array:
    """The factors of every row, by which its features are multiplied: a row of integers each."""
    if isinstance(function, FeatureSums):
        return np.ones((1, features.shape[1]))
    if isinstance(function, NearestSums):
        nearest = (np.array(function.theta, float) @ features).argmax(axis=0)
        is_nearest: Array = np.arange(len(function.theta))[:, None] == nearest
        return is_nearest.astype(float)
    assert label is not None and values is not None
    return _make_labelled_factors(function, label, columns, features, values)


def _make_labelled_factors(
    function: VectorFunction,
    label: ResolvedFeature,
    columns: Columns,
    features: Array,
    values: Array,
) -> Array:
    margins = np.array(list_thetas(function), float) @ features
    return _clear_unlabelled(make_factors(function, label, columns, margins, values), label, values)


def _multiply_all(factors: Array, features: Array) -> Array:
    """All products of a factor and a feature, factor by factor."""
    products: Array = factors[:, None, :] * features[None, :, :]
    return products.reshape(-1, features.shape[1])


def _find_slopes(function: TreeGradient, codes: Array, features: Array) -> Array:
    """sigmoid - y and sigmoid (1 - sigmoid) of every row, in the leaf where it falls."""
    margins = FEATURE_SCALE * add_scores(function.forest, features)
    chances = list_sigmoids()[_find_entries(margins, REACH)]
    residuals = chances - FACTOR_SCALE * (codes == function.positive)
    curvatures = np.floor(chances * (FACTOR_SCALE - chances) / FACTOR_SCALE)
    leaves = find_leaves(function.splits, features)
    numbers = np.stack([residuals, curvatures])
    return spread_over_leaves(numbers, leaves, count_leaves(function.splits))


def _find_class_slopes(scores: Array, label: ResolvedFeature, values: Array) -> Array:
    """softmax - y of every row; 0 where the label is null."""
    slopes = _soften(scores)
    codes = find_codes(label, values)
    for code in range(len(slopes)):
        slopes[code] -= FACTOR_SCALE * (codes == code)
    return _clear_unlabelled(slopes, label, values)


def _clear_unlabelled(numbers: Array, label: ResolvedFeature, values: Array) -> Array:
    """Make 0 of the columns of rows whose label is null."""
    if label.null is not None:
        numbers[:, values == label.null] = 0
    return numbers


def make_factors(
    function: VectorFunction,
    label: ResolvedFeature,
    columns: Columns,
    margins: Array,
    values: Array,
) -> Array:
    """The residuals of all rows: one row of numbers for each row of theta."""
    if isinstance(function, MultinomialGradient):
        return _find_class_slopes(margins, label, values)
    margin = margins[0]
    if isinstance(function, LogisticGradient):
        is_positive = find_codes(label, values) == function.positive
        residuals = list_sigmoids()[_find_entries(margin, REACH)] - FACTOR_SCALE * is_positive
    elif isinstance(function, HuberGradient):
        signs = 2.0 * (find_codes(label, values) == function.positive) - 1
        distances = np.floor(margin / _FACTOR_STEPS) * signs
        residuals = -signs * np.clip(FACTOR_SCALE * 3 // 2 - distances, 0, FACTOR_SCALE)
    elif isinstance(function, (SquaredGradient, CoordinateGradient)):
        steps = FACTOR_SCALE // FEATURE_SCALE
        residuals = np.floor(margin / _FACTOR_STEPS) - steps * scale_values(label, values)
    else:
        assert isinstance(function, PoissonGradient)
        step = float(find_values(function.label, columns).step)
        counts = np.floor(values.astype(float) * (step * FACTOR_SCALE))
        residuals = list_exponentials()[_find_entries(margin, REACH_OF_EXPONENTS)] - counts
    cut: Array = np.clip(residuals, -MOST_FACTOR, MOST_FACTOR)
    return cut[None, :]


def _multiply_pairs(features: Array, labels: Array) -> Array:
    """All products of two of (x, y), the upper triangle row by row."""
    numbers = np.concatenate([features, labels[None, :]])
    size = len(numbers)
    products = np.empty((size * (size + 1) // 2, numbers.shape[1]))
    first = 0
    for position in range(size):
        np.multiply(
            numbers[position], numbers[position:], out=products[first : first + size - position]
        )
        first += size - position
    return products


def _find_entries(margins: Array, reach: int) -> NDArray[np.int64]:
    """The entry of a table of links for every margin."""
    entries = np.floor(margins / _TABLE_STEPS)
    np.clip(entries, -REACH * STEPS_PER_ONE, reach * STEPS_PER_ONE - 1, out=entries)
    return entries.astype(np.int64) + REACH * STEPS_PER_ONE


def _soften(margins: Array) -> Array:
    """Softmax over the rows, in steps: exponentials of a table over their exact sum."""
    distances = margins - margins.max(axis=0)
    weights = list_exponentials()[_find_entries(distances, REACH_OF_EXPONENTS)]
    total = np.zeros(margins.shape[1])
    for row in weights:
        total += row
    shares: Array = np.floor(weights * FACTOR_SCALE / total)
    return shares


@lru_cache(maxsize=1)
def list_sigmoids() -> Array:
    """1 / (1 + e^-t) in steps, at the middle of every entry."""
    return _list_links(REACH, lambda t: 1 / (1 + math.exp(-t)))


@lru_cache(maxsize=1)
def list_exponentials() -> Array:
    """e^t in steps, at the middle of every entry, and at least 1."""
    return np.maximum(1, _list_links(REACH_OF_EXPONENTS, math.exp))


def _list_links(reach: int, link: Any) -> Array:
    middles = [
        (entry + 0.5) / STEPS_PER_ONE
        for entry in range(-REACH * STEPS_PER_ONE, reach * STEPS_PER_ONE)
    ]
    return np.array([math.floor(FACTOR_SCALE * link(middle) + 0.5) for middle in middles], float)
