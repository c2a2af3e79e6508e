"""A catalog of every kind of column, one function of each class, and random requests."""

from __future__ import annotations

import random
from fractions import Fraction as F

from dither.audit.naive_vectors import Row
from dither.plan import vector_functions as functions
from dither.plan.algebra import Scan, UnitVectors
from dither.plan.encodings import Binned, Feature, Intercept, OneHot, Scaled
from dither.plan.network_functions import ACTIVATIONS, NetworkGradient, NetworkLayer
from dither.plan.tree_functions import ScoredTree, TreeCounts, TreeGradient
from tests.datasets.catalog_texts import write_head, write_private_head

ROWS = Scan("t")
FEATURES: tuple[Feature, ...] = (
    Intercept(),
    Scaled("x"),
    OneHot("b"),
    Binned("a", (F(1), F(5, 2))),
)
WIDTHS = (1, 1, 4, 4)
THETA = (20_000, -90_000, 5, 130_000, -700, 0, 65_536, -65_536, 32_000, 1)
SPLITS = ((6, 8), (1, 2), (2, 4))
"""By bins of a, then by the sign of x, or by a value of b."""
FOREST = (
    ScoredTree(SPLITS, (70_000, -3, 0, -200_000)),
    ScoredTree((), (1000,)),
    ScoredTree(((0, 0), (9, 10), (0, 1)), (1, 2**20, -(2**20), 4)),
)
LAYERS = (
    NetworkLayer((THETA, THETA[::-1], (7, 90_000) * 5, (-40_000,) * 10), "tanh", True),
    NetworkLayer(((9_000, 70_000, -30_000, 5, 99_999), (0, 1, 2, 3, 4)), "relu", False),
    NetworkLayer(((0, 100_000, 1), (50, -100_000, 70_000), (1, 2, 3)), "none", False),
)
FUNCTIONS: dict[str, functions.VectorFunction] = {
    "features": functions.FeatureSums(),
    "moments": functions.SecondMoments("x"),
    "logistic": functions.LogisticGradient("b", 1, THETA),
    "huber": functions.HuberGradient("b", 0, THETA),
    "multinomial": functions.MultinomialGradient("b", (THETA, THETA[::-1], (0,) * 10)),
    "squared": functions.SquaredGradient("y", THETA),
    "poisson": functions.PoissonGradient("y", THETA),
    "coordinates": functions.CoordinateGradient("y", THETA),
    "nearest": functions.NearestSums((THETA, THETA[::-1], (0,) * 10)),
    "histograms": TreeCounts("b", 3, SPLITS, False),
    "leaves": TreeCounts("b", 3, SPLITS, True),
    "boosting": TreeGradient("b", 1, FOREST, SPLITS),
    "network": NetworkGradient("b", LAYERS),
}


def write_catalog(rows: int = 3, neighbours: str = "add_remove") -> str:
    return (
        write_head("tiny", "tiny", "pid: {protected: true}", neighbours=neighbours)
        + write_private_head("t", "{column: pid}", rows)
        + """\
      pid: {type: id}
      a: {type: integer, bounds: [0, 3], nulls: keep, provenance: test}
      b: {type: category, values: [u, v, w], other: drop, nulls: keep}
      x: {type: decimal, bounds: [-2, 5], resolution: 0.1, nulls: keep, provenance: test}
      y: {type: integer, bounds: [0, 9], nulls: keep, provenance: test}
      long: {type: integer, bounds: [0, 99999999999999999], nulls: keep, provenance: test}
      word: {type: category, values: undeclared, width: 8, nulls: keep}
"""
    )


def draw_row(draws: random.Random) -> Row:
    """The values of one row, as integers of their grids."""
    return {
        "a": draws.choice([None, 0, 1, 2, 3]),
        "b": draws.choice([None, 0, 1, 2]),
        "x": draws.choice([None, -20, 50, draws.randint(-20, 50)]),
        "y": draws.choice([None, 0, 9, draws.randint(0, 9)]),
    }


def draw_splits(draws: random.Random, width: int) -> tuple[tuple[int, int], ...]:
    """A complete tree of up to three levels, by random ranges of features."""
    ranges = [sorted(draws.choices(range(width + 1), k=2)) for _ in range(2 ** draws.randint(0, 3))]
    return tuple((first, stop) for first, stop in ranges[1:])


def draw_tree(draws: random.Random, width: int) -> ScoredTree:
    """A tree with random scores."""
    splits = draw_splits(draws, width)
    return ScoredTree(splits, tuple(draws.randint(-(2**20), 2**20) for _ in range(len(splits) + 1)))


def draw_layers(draws: random.Random, width: int) -> tuple[NetworkLayer, ...]:
    """A network of up to three layers for three classes."""
    layers = []
    widths = [draws.randint(1, 4) for _ in range(draws.randint(0, 2))]
    size = 2 ** draws.randint(0, 20)
    for count in (*widths, 3):
        weights = tuple(
            tuple(draws.randint(-size, size) for _ in range(width)) for _ in range(count)
        )
        is_last = len(layers) == len(widths)
        activation = "none" if is_last else draws.choice(ACTIVATIONS)
        layers.append(NetworkLayer(weights, activation, not is_last and draws.random() < 0.5))
        width = count + 1
    return tuple(layers)


def draw_vectors(draws: random.Random) -> UnitVectors:
    """A request with random features, function, theta, clip and resolution."""
    positions = draws.sample(range(4), draws.randint(1, 4))
    width = sum(WIDTHS[position] for position in positions)
    size = 2 ** draws.randint(0, 24)

    def theta() -> tuple[int, ...]:
        return tuple(draws.randint(-size, size) for _ in range(width))

    function = draws.choice(
        [
            functions.FeatureSums(),
            functions.SecondMoments(draws.choice("ax")),
            functions.LogisticGradient("b", draws.randrange(3), theta()),
            functions.HuberGradient("b", draws.randrange(3), theta()),
            functions.MultinomialGradient("b", (theta(), theta(), theta())),
            functions.SquaredGradient(draws.choice("axy"), theta()),
            functions.PoissonGradient(draws.choice("axy"), theta()),
            functions.CoordinateGradient(draws.choice("axy"), theta()),
            functions.NearestSums((theta(), theta())),
            TreeCounts("b", 3, draw_splits(draws, width), draws.random() < 0.5),
            TreeGradient("b", 2, (draw_tree(draws, width),), draw_splits(draws, width)),
        ]
    )
    if isinstance(function, functions.NearestSums) and size >= 1 << 12:
        function = NetworkGradient("b", draw_layers(random.Random(size * width), width))
    resolution = F(1, draws.randint(1, 5000))
    clip = resolution * draws.choice([1, 2, F(7, 3), draws.randint(1, 1000), 10**6])
    features = tuple(FEATURES[position] for position in positions)
    return UnitVectors(ROWS, features, function, clip, resolution)
