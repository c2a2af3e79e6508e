"""Networks on registered tables: layers of a closed list, built and differentiated by the curator.

A model is *data* here: widths, activations and weights, which are public. No code of the caller
runs where rows are. Every step is one release of a clipped gradient, under
a lease that was charged before the first. For any other model see `dither.learn.deep`, a library
guarantee.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt
from typing import Any, Protocol

import numpy as np

from dither.canonical import Number, quote
from dither.errors import ParameterError
from dither.learn.columns import FEATURE_SCALE, ColumnFacts
from dither.learn.linear_classifiers import PrivateClassifier
from dither.learn.sums import Array, ReleasePlan
from dither.plan.network_functions import ACTIVATIONS, MOST_LAYERS, MOST_WEIGHT, MOST_WIDTH
from dither.plan.vector_functions import THETA_SCALE
from dither.privacy.noise import SystemSource

MOMENTUM = 0.9
_KEYS = {"width", "activation", "normalise"}
_LARGEST_WEIGHT = MOST_WEIGHT / THETA_SCALE
_SMOOTHING = 16.0
_STEPS = 150


@dataclass(frozen=True)
class LayerShape:
    """One hidden layer: so many outputs, how they are bent, and whether they are normalised."""

    width: int
    activation: str
    is_normalised: bool


@dataclass(frozen=True)
class NetworkPlan(ReleasePlan):
    """The settings of one run, all public: one release for each step."""

    learning_rate: float
    clip: float
    people: int
    hidden: tuple[LayerShape, ...]


class NetworkSums(Protocol):
    """Noisy sums of gradients of networks."""

    @property
    def width(self) -> int:
        """How many features a row has."""

    def release_network(
        self, hidden: Sequence[LayerShape], weights: Sequence[Array], clip: float
    ) -> list[Array]:
        """The sum of clipped gradients at public weights, of the shapes of the weights."""


def read_layers(layers: Any) -> tuple[LayerShape, ...]:
    """Read hidden layers from plain values; refuses what is not on the list.

    >>> read_layers([{"width": 8, "activation": "relu"}])
    (LayerShape(width=8, activation='relu', is_normalised=False),)
    """
    if not isinstance(layers, (list, tuple)) or len(layers) >= MOST_LAYERS:
        raise ParameterError(f"layers is a list of up to {MOST_LAYERS - 1} dicts, {_example()}")
    return tuple(map(_read_layer, layers))


def _read_layer(layer: Any) -> LayerShape:
    if not isinstance(layer, dict) or "width" not in layer or not set(layer) <= _KEYS:
        raise ParameterError(
            f"a layer is a dict with width, activation and normalise, {_example()}: through a "
            f"curator a model is data, and code of your own trains with dither.learn.deep on rows "
            f"that you hold"
        )
    width, activation = layer["width"], layer.get("activation", "tanh")
    is_normalised = layer.get("normalise", False)
    if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width <= MOST_WIDTH:
        raise ParameterError(f"the width of a layer is a number from 1 to {MOST_WIDTH}")
    if activation not in ACTIVATIONS:
        raise ParameterError(
            f"activation is one of {', '.join(ACTIVATIONS)}, got {quote(activation)}"
        )
    if not isinstance(is_normalised, bool):
        raise ParameterError("normalise is True or False")
    return LayerShape(width, activation, is_normalised)


def _example() -> str:
    return 'such as {"width": 16, "activation": "tanh", "normalise": False}'


class NetworkClassifier(PrivateClassifier):
    """A private network for classes, on a registered table: `fit_table` alone.

    `layers` are hidden layers, `{"width": 16, "activation": "tanh", "normalise": False}`; the last
    layer, a score for each class, is added. On listed values and bins the first layer is an
    embedding of each column.
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        *,
        delta: Number | None = None,
        n: int | None = None,
        layers: Any = ({"width": 16, "activation": "tanh"},),
        bounds: Any = None,
        categories: Any = None,
        classes: Any = None,
        bins: Any = None,
        neighbours: str = "add_remove",
        clip: float = 1.0,
        steps: int = _STEPS,
        learning_rate: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.n = n
        self.layers = layers
        self.bounds = bounds
        self.categories = categories
        self.classes = classes
        self.bins = bins
        self.neighbours = neighbours
        self.clip = clip
        self.steps = steps
        self.learning_rate = learning_rate

    def fit(self, X: Any, y: Any) -> Any:
        """Refused: rows that the caller holds are trained by `dither.learn.deep`."""
        raise ParameterError(
            "NetworkClassifier trains registered tables: call fit_table, or train any model on "
            "arrays with dither.learn.deep.PrivateTrainer"
        )

    def _plan_releases(self, rho: Fraction, people: int, facts: ColumnFacts) -> NetworkPlan:
        hidden = read_layers(self.layers)
        steps, clip = self.steps, self.clip
        if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= 100_000:
            raise ParameterError("steps is a number from 1 to 100,000")
        if not 0 < clip < inf:
            raise ParameterError("clip is a positive number: the largest gradient of one person")
        rate = self.learning_rate
        if rate is None:
            rate = _choose_rate(rho, people, steps, clip)
        if not 0 < rate < inf:
            raise ParameterError("learning_rate is a positive number")
        return NetworkPlan(rho, steps, float(rate), float(clip), people, hidden)

    def _learn(self, sums: Any, plan: NetworkPlan) -> None:
        released: NetworkSums = sums
        self.network_ = descend_network(released, len(self.classes_), plan)
        self.hidden_ = plan.hidden
        self.n_iter_ = plan.releases

    def decision_function(self, X: Any) -> Array:
        """A score for each class; for two classes, how much higher the second is."""
        rows = self._encode(X)
        values = rows.expand().T
        for shape, weights in zip(self.hidden_, self.network_, strict=False):
            outputs = run_layer(shape, weights @ values)
            values = np.concatenate([np.ones((1, outputs.shape[1])), outputs])
        scores: Array = (self.network_[-1] @ values).T
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores


def run_layer(shape: LayerShape, outputs: Array) -> Array:
    """Outputs of a layer, as the curator computes them but for rounding."""
    if shape.is_normalised:
        centred = outputs - outputs.mean(axis=0)
        smoothing = _SMOOTHING / FEATURE_SCALE**2
        outputs = centred / np.sqrt((centred**2).mean(axis=0) + smoothing)
    if shape.activation == "relu":
        return np.maximum(outputs, 0)
    return np.tanh(outputs) if shape.activation == "tanh" else outputs


def _choose_rate(rho: Fraction, people: int, steps: int, clip: float) -> float:
    """Noise alone moves a weight by about 0.3 over all steps; at most 1 a step."""
    noise = clip / sqrt(2 * rho / steps) / people
    return min(1.0, 0.3 * (1 - MOMENTUM) / (noise * sqrt(steps)))


def descend_network(sums: NetworkSums, classes: int, plan: NetworkPlan) -> list[Array]:
    """Weights after all steps, averaged over the last quarter of them; begins at random numbers
    that follow from no row. The divisor is the declared number of people."""
    weights = draw_weights(sums.width, [shape.width for shape in plan.hidden], classes)
    velocity = [np.zeros_like(matrix) for matrix in weights]
    total = [np.zeros_like(matrix) for matrix in weights]
    averaged = -(-plan.releases // 4)
    for step in range(plan.releases):
        gradients = sums.release_network(plan.hidden, weights, plan.clip)
        for place, gradient in enumerate(gradients):
            velocity[place] = MOMENTUM * velocity[place] + gradient / plan.people
            moved = weights[place] - plan.learning_rate * velocity[place]
            weights[place] = np.clip(moved, -_LARGEST_WEIGHT, _LARGEST_WEIGHT)
            if step >= plan.releases - averaged:
                total[place] += weights[place]
    return [matrix / averaged for matrix in total]


def draw_weights(features: int, widths: Sequence[int], classes: int) -> list[Array]:
    """First weights, uniform within 1 / sqrt(inputs); those of the last layer are 0."""
    source = SystemSource()
    weights = []
    inputs = features
    for width in widths:
        words = source.words(width * inputs).astype(np.float64) / 2.0**63 - 1
        weights.append(words.reshape(width, inputs) / sqrt(inputs))
        inputs = width + 1
    return [*weights, np.zeros((classes, inputs))]
