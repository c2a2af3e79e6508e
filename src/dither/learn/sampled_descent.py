"""Descent on samples of people (DP-SGD): every step reads a secret sample, and costs less for it.

Each person is in the sample of a step by a coin of their own. The noise is calibrated by the
accountant on the exact curve of all steps together; there is no closed form to trust. Steps are
cheaper by the rate; noise beside the mean gradient is larger than that of whole passes, so that
`auto` prefers those. Proof: docs/proofs/private-learning.md#samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dither.accounting import calibrate
from dither.learn.descent import DescentPlan, plan_descent
from dither.learn.sums import STEPS, bound_vectors
from dither.privacy.losses import Adjacency, Loss
from dither.privacy.mechanisms.rounded_gaussian import build_for_sample

SAMPLED_STEPS = 400
_FEWEST_IN_SAMPLE = 2000
_MOST_HALVINGS = 6
_MARGIN = Fraction(99, 100)
"""Pots round the price of a plan up: so much of epsilon is calibrated for."""


@dataclass(frozen=True)
class SampledPlan(DescentPlan):
    """The settings of one run. `rho` is what all steps would cost without samples."""

    rate: Fraction = Fraction(1)

    @property
    def divisor(self) -> float:
        """How many people a sample has, on average."""
        return float(self.people * self.rate)

    def find_loss(self, adjacency: Adjacency, steps: int = STEPS) -> Loss:
        """The privacy loss of one step on a table: vectors are at most `steps` long."""
        bound = bound_vectors(steps**2, steps**2, adjacency)
        return build_for_sample(self.release_rho, bound, self.rate, adjacency.unit).loss()


def choose_rate(people: int) -> Fraction:
    """A power of 1/2, at least 1/64, whose samples have 2,000 people or more where there are.

    >>> choose_rate(1000), choose_rate(30_000), choose_rate(10**6)
    (Fraction(1, 2), Fraction(1, 8), Fraction(1, 64))
    """
    halvings = 1
    while halvings < _MOST_HALVINGS and people >> (halvings + 1) >= _FEWEST_IN_SAMPLE:
        halvings += 1
    return Fraction(1, 1 << halvings)


@lru_cache(maxsize=64)
def find_step_rho(epsilon: Fraction, delta: Fraction, rate: Fraction, steps: int) -> Fraction:
    """The rho of one step without its sample, such that all steps on samples are (epsilon,
    delta)-private."""
    plan = calibrate(epsilon=epsilon * _MARGIN, delta=delta, steps=steps, q=rate)
    sigma = Fraction(plan.sigma)
    return 1 / (2 * sigma**2)


def plan_samples(
    epsilon: Fraction,
    delta: Fraction,
    people: int,
    longest_row: float,
    *,
    steps: int | None,
    learning_rate: float | None,
    clip: float | None,
    penalty: float,
) -> SampledPlan:
    """Choose what is not stated: settings are those of descent with the noise of a mean over a
    sample."""
    count = SAMPLED_STEPS if steps is None else steps
    rate = choose_rate(people)
    step_rho = find_step_rho(epsilon, delta, rate, max(1, count))
    like = plan_descent(
        step_rho * count * rate**2,
        people,
        longest_row,
        steps=count,
        learning_rate=learning_rate,
        clip=clip,
        penalty=penalty,
    )
    return SampledPlan(
        step_rho * count, count, like.learning_rate, like.clip, people, penalty, rate=rate
    )
