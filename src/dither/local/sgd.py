"""Linear and logistic models learnt from devices: each user answers once, with one private
gradient.

The server sends the model; a user of the current batch computes the gradient of its own example,
clips every entry to [-clip, clip], and reports it as a vector mean at full epsilon (`best_vector`
chooses how many coordinates). The server averages the unbiased reports, steps, and returns the
average of the later models. A user is in one batch only, so the whole training costs each of them
epsilon, replace, unit user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number
from dither.errors import ParameterError
from dither.local.aggregator import Aggregator
from dither.local.vector import VectorMean, best_vector
from dither.privacy.losses import Loss
from dither.privacy.noise import SystemSource, Words

Floats = NDArray[np.float64]
Model = Literal["linear", "logistic"]


def gradient(model: Model, theta: Floats, features: Floats, labels: Floats) -> Floats:
    """Compute each user's gradient; it runs on the device.

    It is that of (x.theta - y)**2 / 2, or of the logistic loss with y in {0, 1}.
    """
    score = features @ theta
    if model == "logistic":
        score = 0.5 * (1 + np.tanh(score / 2))
    gradients: Floats = (score - labels)[:, None] * features
    return gradients


@dataclass
class LocalSGD:
    """`fit` on simulated users; in a deployment `protocol` and `step` are what server and devices
    share.

    >>> LocalSGD("logistic", epsilon=4, dimensions=3).protocol.sampled
    2
    """

    model: Model
    epsilon: Number
    dimensions: int
    clip: float = 1.0
    batches: int = 50
    rate: float = 1.0
    ridge: float = 0.0

    def __post_init__(self) -> None:
        """Check the model, choose the protocol for gradients, and start with all parameters 0."""
        if self.model not in ("linear", "logistic"):
            raise ParameterError("model must be 'linear' or 'logistic'")
        self.protocol: VectorMean = best_vector(
            self.epsilon, self.dimensions, -self.clip, self.clip
        ).protocol
        self.theta: Floats = np.zeros(self.dimensions)
        self.path: list[Floats] = []

    def loss(self) -> Loss:
        """What the whole training costs a user (who is in one batch only)."""
        return self.protocol.loss()

    def step(self, payloads: NDArray[np.uint8]) -> None:
        """Move the model one step, from the reports of one batch."""
        collector = Aggregator(self.protocol)
        collector.add_payloads(payloads)
        mean = collector.estimate().values
        rate = self.rate / (1 + len(self.path)) ** 0.5
        self.theta = self.theta - rate * (mean + self.ridge * self.theta)
        self.path.append(self.theta)

    def fit(self, features: Any, labels: Any, *, source: Words | None = None) -> LocalSGD:
        """Train on users' rows, each used in exactly one batch; the coefficients are the mean of
        the later half.

        Once: a second pass would ask the same users again, and cost them epsilon again.
        """
        if self.path:
            raise ParameterError(
                "this model has been trained: users answer once; make a new one for other users"
            )
        x = np.asarray(features, np.float64)
        y = np.asarray(labels, np.float64)
        if x.ndim != 2 or x.shape[1] != self.dimensions or len(x) != len(y):
            raise ParameterError(
                f"features must be rows of {self.dimensions} numbers, one label each"
            )
        words = source or SystemSource()
        for rows, targets in zip(
            np.array_split(x, self.batches), np.array_split(y, self.batches), strict=True
        ):
            self.step(
                self.protocol.randomise(gradient(self.model, self.theta, rows, targets), words)
            )
        return self

    @property
    def coefficients(self) -> Floats:
        mean_theta: Floats = np.mean(self.path[len(self.path) // 2 :], axis=0)
        return mean_theta
