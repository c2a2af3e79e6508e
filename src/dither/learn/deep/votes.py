"""PATE: teachers that were trained on disjoint rows vote on labels of public inputs; noisy winners
teach a student.

Guarantee: a person is in the rows of one teacher alone, so that adding, removing or replacing one
changes one vote: two counts by 1 each. *LNMax* adds Laplace noise to every count and releases the
largest: epsilon = 2 / scale, pure, for each query. *GNMax* adds Gaussian noise: sensitivity sqrt(2)
in L2. *Confident* GNMax first compares the largest count with a threshold, with noise of its own
(sensitivity 1), and answers where it is above: both are paid for every query, whether it is
answered or not. All queries are charged, by the accountant, before a vote is counted. The price
never depends on votes: data-dependent figures are private themselves and are not given. Proof:
docs/proofs/deep-learning.md#votes.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dither.accounting import calibrate
from dither.accounting import epsilon as find_epsilon
from dither.canonical import Number, positive
from dither.errors import ParameterError
from dither.given_numbers import whole_number
from dither.learn.guarantees import LIBRARY, ModelGuarantee, read_budget
from dither.privacy.losses import DiscreteLaplace, Loss, Repeated, RoundedGaussian, compose
from dither.privacy.noise import discrete_laplace
from dither.privacy.noise.rounded import rounded_gaussian

NO_ANSWER = -1
Integers = NDArray[np.int64]
_SCALE = 1 << 10
"""Votes are counted in steps of 1 / 1024, so that integer noise is fine enough."""


@dataclass(frozen=True)
class VotePlan:
    """How many queries are answered, and with which noise, in steps of 1 / 1024 of a vote.

    `threshold` is that of confident answers, in votes; None where every query is answered.
    """

    queries: int
    classes: int
    noise: str
    scale: int
    threshold: float | None
    check_scale: int
    epsilon: Fraction
    delta: Fraction
    unit: str

    def loss(self) -> Loss:
        """The loss of all queries, answered or not."""
        step: Loss
        if self.noise == "laplace":
            step = DiscreteLaplace(self.scale, 2 * _SCALE, neighbours="replace", unit=self.unit)
        else:
            step = RoundedGaussian(self.scale, 2 * _SCALE**2, neighbours="replace", unit=self.unit)
        if self.threshold is None:
            return Repeated(step, self.queries)
        check = RoundedGaussian(self.check_scale, _SCALE**2, neighbours="replace", unit=self.unit)
        return compose(Repeated(step, self.queries), Repeated(check, self.queries))


def plan_votes(
    *,
    queries: int,
    classes: int,
    epsilon: Number,
    delta: Number = 0,
    noise: str = "gaussian",
    threshold: float | None = None,
    unit: str = "example",
) -> VotePlan:
    """The least noise for so many queries. With a threshold half of the squared budget goes to the
    comparison, whose sensitivity is half as large in squares."""
    budget = read_budget(epsilon)
    count = whole_number(queries, "queries")
    labels = whole_number(classes, "classes")
    if labels < 2:
        raise ParameterError("classes must be at least 2")
    if threshold is not None and not (math.isfinite(threshold) and abs(threshold) < 2**31):
        raise ParameterError("threshold is a number of votes, such as 200")
    if noise == "laplace":
        if threshold is not None:
            raise ParameterError("confident answers have Gaussian noise: use noise='gaussian'")
        scale = math.ceil(2 * _SCALE * count / budget)
        return VotePlan(count, labels, noise, scale, None, 0, budget, Fraction(0), unit)
    if noise != "gaussian":
        raise ParameterError("noise is 'laplace' (LNMax) or 'gaussian' (GNMax)")
    chosen_delta = positive(delta, "delta")
    steps = count if threshold is None else 2 * count
    sigma = calibrate(epsilon=budget, delta=chosen_delta, steps=steps).sigma
    scale = math.ceil(sigma * _SCALE * Fraction(math.isqrt(2 << 60) + 1, 1 << 30))
    check_scale = math.ceil(sigma * _SCALE) if threshold is not None else 0
    return VotePlan(count, labels, noise, scale, threshold, check_scale, budget, chosen_delta, unit)


class VoteAggregator:
    """Answers queries by noisy votes, as many as were planned; what was not asked is lost."""

    def __init__(self, plan: VotePlan) -> None:
        self.plan = plan
        self._left = plan.queries
        self._process = os.getpid()

    def answer(self, votes: Any) -> Integers:
        """Labels of queries from votes (teachers, queries) in 0 .. classes - 1; -1 where confident
        voting declines. Other votes count for nothing."""
        if os.getpid() != self._process:
            raise ParameterError("another process began these votes: they are answered there")
        ballots = np.asarray(votes)
        if ballots.ndim != 2:
            raise ParameterError("votes are an array (teachers, queries)")
        if ballots.shape[1] > self._left:
            raise ParameterError(f"{self._left:,} queries are left of the plan")
        self._left -= ballots.shape[1]
        counts = count_votes(ballots, self.plan.classes) * _SCALE
        labels: Integers = np.argmax(counts + self._draw(counts.shape), axis=1)
        if self.plan.threshold is None:
            return labels
        largest = counts.max(axis=1)
        noisy = largest + rounded_gaussian(self.plan.check_scale, largest.shape)
        return np.where(noisy >= round(self.plan.threshold * _SCALE), labels, NO_ANSWER)

    def _never(self, *_: Any) -> NoReturn:
        raise TypeError("an aggregator cannot be copied or pickled: each copy would answer anew")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _never

    def _draw(self, shape: tuple[int, ...]) -> Integers:
        sampler = discrete_laplace if self.plan.noise == "laplace" else rounded_gaussian
        noise: Integers = np.asarray(sampler(self.plan.scale, shape), np.int64)
        return noise

    @property
    def guarantee(self) -> ModelGuarantee:
        """What all planned queries promise; a student is post-processing of the answers."""
        loss = self.plan.loss()
        return ModelGuarantee(
            epsilon=find_epsilon(loss, self.plan.delta).upper,
            delta=float(self.plan.delta),
            unit=self.plan.unit,
            neighbours="replace",
            trust=LIBRARY,
            releases=self.plan.queries,
            loss=loss.to_json(),
            public={"inputs of queries": "public", "teachers": "trained on disjoint units"},
        )


def count_votes(ballots: NDArray[Any], classes: int) -> Integers:
    """Votes for every class (queries, classes).

    >>> count_votes(np.array([[0, 2], [0, 1], [7, 1]]), 3).tolist()
    [[2, 0, 0], [0, 2, 1]]
    """
    return np.stack([(ballots == label).sum(axis=0) for label in range(classes)], axis=1)
