"""What vectors of units mean, row by row in Python numbers: the oracle of the blocked sums.

Values are integers of a column's grid, null is None. It shares the words of requests and domains
with `data/vectors`, and no arithmetic.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction

from dither.plan import vector_functions as functions
from dither.plan.algebra import UnitVectors
from dither.plan.domain import Columns, Domain
from dither.plan.encodings import Binned, Feature, Intercept, OneHot, Scaled
from dither.plan.network_functions import NetworkGradient, NetworkLayer
from dither.plan.tree_functions import TreeCounts, TreeGradient

Row = dict[str, int | None]
STEPS = 4096
"""Of the feature 1."""
ONE = 65536
"""Steps of the residual 1, and of the weight 1."""
FINE = 1 << 24
"""Above so many steps to the clip, the factors of a row are rounded, not its vector."""


def add_vectors(query: UnitVectors, rows: Iterable[tuple[str, Row]], columns: Columns) -> list[int]:
    """The sum over all owners of their clipped vectors."""
    by_owner: dict[str, list[Row]] = defaultdict(list)
    for owner, row in rows:
        by_owner[owner].append(row)
    vectors = [make_unit_vector(query, owned, columns) for owned in by_owner.values()]
    length = len(make_unit_vector(query, [], columns))
    return [sum(vector[i] for vector in vectors) for i in range(length)]


def make_unit_vector(query: UnitVectors, rows: list[Row], columns: Columns) -> list[int]:
    """The vector of one unit, by the words of the request: rows first, then clip, then truncate."""
    largest = math.floor(query.clip / query.resolution)
    if largest > FINE and rows:
        (row,) = rows
        return make_fine_vector(query, row, columns, largest)
    features = sum(_count_features(feature, columns) for feature in query.features)
    total = [0] * functions.vector_length(query.function, features)
    for row in rows:
        vector = make_row_vector(query, row, columns)
        total = [a + b for a, b in zip(total, vector, strict=True)]
    return clip(total, query)


def make_fine_vector(query: UnitVectors, row: Row, columns: Columns, largest: int) -> list[int]:
    """The vector of a unit of one row where steps are fine: factors are shrunk and truncated, and
    multiplied by the features."""
    x = [number for feature in query.features for number in encode(feature, row, columns)]
    vector = make_row_vector(query, row, columns)
    place = next((j for j, number in enumerate(x) if number), None)
    if place is None:
        return [0] * len(vector)
    factors = [vector[start + place] // x[place] for start in range(0, len(vector), len(x))]
    per_step = float(1 / (functions.vector_scale(query.function) * query.resolution))
    squares = sum(number * number for number in x)
    sizes = 0.0
    for factor in factors:
        sizes += float(factor) * float(factor)
    length = math.sqrt(sizes) * math.sqrt(squares)
    scale = per_step if length == 0 else min(per_step, largest * (1 - 2.0**-30) / length)
    whole = [math.trunc(factor * scale) for factor in factors]
    if sum(number * number for number in whole) * squares > largest**2:
        return [0] * len(vector)
    return [factor * number for factor in whole for number in x]


def clip(vector: list[int], query: UnitVectors) -> list[int]:
    """Steps of the resolution, shrunk to the clip where longer, truncated towards zero."""
    per_step = float(1 / (functions.vector_scale(query.function) * query.resolution))
    largest = math.floor(query.clip / query.resolution)
    if isinstance(query.function, functions.CoordinateGradient):
        steps = [math.trunc(number * per_step) for number in vector]
        return [max(-largest, min(largest, step)) for step in steps]
    squares = 0.0
    for number in vector:
        squares += float(number) * float(number)
    norm = math.sqrt(squares)
    factor = per_step
    if norm * per_step > largest:
        factor = min(per_step, largest * (1 - 2.0**-30) / norm)
    steps = [math.trunc(number * factor) for number in vector]
    return steps if sum(step * step for step in steps) <= largest**2 else [0] * len(steps)


def make_row_vector(query: UnitVectors, row: Row, columns: Columns) -> list[int]:
    """The vector of one row, in steps of the function's own scale."""
    function = query.function
    x = [number for feature in query.features for number in encode(feature, row, columns)]
    if isinstance(function, functions.FeatureSums):
        return x
    if isinstance(function, functions.NearestSums):
        scores = [sum(a * b for a, b in zip(theta, x, strict=True)) for theta in function.theta]
        nearest = scores.index(max(scores))
        return [number * (k == nearest) for k in range(len(scores)) for number in x]
    label = row[function.label]
    if isinstance(function, (TreeCounts, TreeGradient)):
        code = None if label is None else label - columns[function.label].listed[0]
        return make_tree_vector(function, x, code)
    if isinstance(function, functions.SecondMoments):
        y = _scale(label, columns[function.label])
        z = [*x, y] if label is not None else [0] * (len(x) + 1)
        return [z[i] * z[j] for i in range(len(z)) for j in range(i, len(z))]
    if isinstance(function, NetworkGradient):
        return make_network_vector(function, x, label, columns[function.label])
    thetas = functions.list_thetas(function)
    margins = [sum(a * b for a, b in zip(theta, x, strict=True)) for theta in thetas]
    residuals = [0] * len(thetas)
    if label is not None:
        residuals = find_residuals(function, margins, label, columns[function.label])
    return [residual * number for residual in residuals for number in x]


def make_network_vector(
    function: NetworkGradient, x: list[int], label: int | None, domain: Domain
) -> list[int]:
    """The gradient of one row by all weights of a network, in Python integers."""
    inputs = [x]
    normal: list[list[int]] = []
    scales: list[float] = []
    for layer in function.layers[:-1]:
        raw = [
            sum(w * v for w, v in zip(row, inputs[-1], strict=True)) >> 16 for row in layer.weights
        ]
        scale = 0.0
        if layer.is_normalised:
            raw = [max(-(2**20), min(2**20, number)) for number in raw]
            mean = sum(raw) // len(raw)
            centred = [number - mean for number in raw]
            scale = STEPS * math.sqrt(len(raw))
            scale /= math.sqrt(sum(number**2 for number in centred) + 16 * len(raw))
            raw = [math.floor(number * scale) for number in centred]
        normal.append([max(-(2**16), min(2**16, number)) for number in raw])
        scales.append(scale)
        inputs.append([STEPS, *(_bend(layer.activation, number) for number in normal[-1])])
    last = function.layers[-1]
    margins = [sum(w * v for w, v in zip(row, inputs[-1], strict=True)) for row in last.weights]
    slopes = [0] * len(margins)
    if label is not None:
        weights = [_exponential(margin - max(margins)) for margin in margins]
        code = label - domain.listed[0]
        slopes = [
            math.floor(weight * ONE / sum(weights)) - ONE * (code == number)
            for number, weight in enumerate(weights)
        ]
    gradients = [[slope * number for slope in slopes for number in inputs[-1]]]
    for position in range(len(normal) - 1, -1, -1):
        above = function.layers[position + 1].weights
        back = [
            sum(row[place + 1] * slope for row, slope in zip(above, slopes, strict=True)) >> 16
            for place in range(len(normal[position]))
        ]
        back = [max(-(2**24), min(2**24, slope)) for slope in back]
        slopes = _unbend(function.layers[position], normal[position], inputs[position + 1], back)
        if function.layers[position].is_normalised:
            slopes = _unnormalise(slopes, normal[position], scales[position])
        gradients.append([slope * number for slope in slopes for number in inputs[position]])
    return [number for gradient in gradients[::-1] for number in gradient]


def _bend(activation: str, number: int) -> int:
    if activation == "relu":
        return max(0, number)
    if activation == "tanh":
        entry = max(-8 * 1024, min(8 * 1024 - 1, number >> 2))
        return math.floor(STEPS * math.tanh((entry + 0.5) / 1024) + 0.5)
    return number


def _unbend(
    layer: NetworkLayer, normal: list[int], outputs: list[int], back: list[int]
) -> list[int]:
    """Slopes before the bend; the first output is the constant."""
    if layer.activation == "relu":
        return [slope * (number > 0) for slope, number in zip(back, normal, strict=True)]
    if layer.activation == "tanh":
        return [
            (slope * (STEPS**2 - number**2)) >> 24
            for slope, number in zip(back, outputs[1:], strict=True)
        ]
    return back


def _unnormalise(slopes: list[int], normal: list[int], scale: float) -> list[int]:
    width = len(slopes)
    aligned = sum(a * b for a, b in zip(slopes, normal, strict=True)) / (width * float(STEPS**2))
    mean = sum(slopes) / width
    moved = [
        math.floor((slope - mean - number * aligned) * scale)
        for slope, number in zip(slopes, normal, strict=True)
    ]
    return [max(-(2**24), min(2**24, number)) for number in moved]


def make_tree_vector(
    function: TreeCounts | TreeGradient, x: list[int], code: int | None
) -> list[int]:
    """What one row adds to the leaves of a tree; nothing where it has no label."""
    leaf = find_leaf(function.splits, x)
    leaves = range(len(function.splits) + 1)
    if isinstance(function, TreeCounts):
        numbers = [STEPS] if function.is_leaf else x
        cells = [(k, c) for k in leaves for c in range(function.classes)]
        return [number * (cell == (leaf, code)) for cell in cells for number in numbers]
    margin = sum(tree.scores[find_leaf(tree.splits, x)] for tree in function.forest)
    t = (_cut((margin * STEPS) >> 18, 16) + 0.5) / 1024
    chance = math.floor(ONE / (1 + math.exp(-t)) + 0.5)
    slope = chance - ONE * (code == function.positive)
    is_labelled = code is not None
    slopes = [slope * (k == leaf) * is_labelled for k in leaves]
    return slopes + [chance * (ONE - chance) // ONE * (k == leaf) * is_labelled for k in leaves]


def find_leaf(splits: tuple[tuple[int, int], ...], x: list[int]) -> int:
    """Walk down from the root."""
    node = 0
    while node < len(splits):
        first, stop = splits[node]
        node = 2 * node + (2 if sum(x[first:stop]) > 0 else 1)
    return node - len(splits)


def find_residuals(
    function: functions.VectorFunction, margins: list[int], label: int, domain: Domain
) -> list[int]:
    """The residual of each class, or of the one margin."""
    code = label - domain.listed[0]
    if isinstance(function, functions.MultinomialGradient):
        weights = [_exponential(margin - max(margins)) for margin in margins]
        return [
            math.floor(weight * ONE / sum(weights)) - ONE * (code == number)
            for number, weight in enumerate(weights)
        ]
    (margin,) = margins
    if isinstance(function, functions.LogisticGradient):
        t = (_cut(margin >> 18, 16) + 0.5) / 1024
        residual = math.floor(ONE / (1 + math.exp(-t)) + 0.5) - ONE * (code == function.positive)
    elif isinstance(function, functions.HuberGradient):
        sign = 1 if code == function.positive else -1
        residual = -sign * max(0, min(ONE, 3 * ONE // 2 - sign * (margin >> 12)))
    elif isinstance(function, (functions.SquaredGradient, functions.CoordinateGradient)):
        residual = (margin >> 12) - 16 * _scale(label, domain)
    else:
        residual = _exponential(margin) - math.floor(label * domain.step * ONE)
    return [max(-(2**28), min(2**28, residual))]


def _exponential(margin: int) -> int:
    t = (_cut(margin >> 18, 8) + 0.5) / 1024
    return max(1, math.floor(ONE * math.exp(t) + 0.5))


def _cut(entry: int, reach: int) -> int:
    return max(-16 * 1024, min(reach * 1024 - 1, entry))


def encode(feature: Feature, row: Row, columns: Columns) -> list[int]:
    """The numbers of one feature in one row, in steps."""
    if isinstance(feature, Intercept):
        return [STEPS]
    domain = columns[feature.column]
    value = row[feature.column]
    if isinstance(feature, Scaled):
        return [_scale(value, domain)]
    size = _count_features(feature, columns)
    if value is None:
        code = size - 1
    elif isinstance(feature, OneHot):
        code = value - domain.listed[0]
    else:
        code = sum(value * domain.step >= edge for edge in feature.edges)
    return [STEPS * (code == number) for number in range(size)]


def _count_features(feature: Feature, columns: Columns) -> int:
    if isinstance(feature, (Intercept, Scaled)):
        return 1
    domain = columns[feature.column]
    if isinstance(feature, Binned):
        return len(feature.edges) + 1 + domain.nullable
    first, last = domain.listed
    return last - first + 1 + domain.nullable


def _scale(value: int | None, domain: Domain) -> int:
    if value is None:
        return 0
    span = domain.high - domain.low
    per_step = 2 * STEPS / span if span else 0.0
    return math.floor(float(value - domain.low) * per_step) - STEPS


def norm_squared(vector: list[int]) -> Fraction:
    """The exact squared L2 norm."""
    return Fraction(sum(number * number for number in vector))
