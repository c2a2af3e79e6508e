"""Plans of training with correlated noise (DP-FTRL): who takes part when, and what it costs.

Every unit draws one of `separation` groups, uniformly and by itself, and takes part in the steps of
its group: each `separation`-th step. There is no other sampling, so there is no amplification: the
whole run is one Gaussian mechanism on the rows of an integer factor.
Proof: docs/proofs/correlated-noise.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dither.accounting import calibrate
from dither.accounting import epsilon as find_epsilon
from dither.canonical import Number, positive
from dither.errors import ParameterError
from dither.given_numbers import whole_number
from dither.learn.deep.factors import (
    BandedFactor,
    StepFactor,
    TreeFactor,
    choose_bands,
    square_banded,
    square_tree,
)
from dither.learn.deep.plan import SamplePlan
from dither.learn.deep.sampling import Integers, fill_slots
from dither.learn.guarantees import read_budget, read_delta, read_people
from dither.privacy.losses import GaussianSum, Loss
from dither.privacy.noise import Words

_OVERFLOW_SHARE = Fraction(1, 1000)
"""The share of delta for groups that are larger than the slots."""
_MOST_STEPS = 10**6
_MOST_BANDS = 64
_ROOT_BITS = 40


@dataclass(frozen=True)
class CorrelatedPlan(SamplePlan):
    """A plan whose noise is correlated. `rate` is 1 / `separation`; coefficients are those of a
    banded factor, empty for the tree."""

    separation: int = 1
    coefficients: tuple[int, ...] = ()

    def square(self, steps: int) -> int:
        """The squared sensitivity of the rows of the first steps, in squares of that of a step."""
        if self.coefficients:
            return square_banded(self.coefficients, steps, self.separation)
        return square_tree(steps, self.separation)

    @property
    def overflow_delta(self) -> Fraction:
        """What of delta is for groups that are larger than the slots."""
        return Fraction(0) if self.separation == 1 else self.delta * _OVERFLOW_SHARE

    @property
    def row_multiplier(self) -> Fraction:
        """Noise on a row over the sensitivity of a step, rounded up."""
        return round_root_up(self.square(self.steps) * self.noise_multiplier**2)

    def run_loss(self, steps: int, sigma: Fraction | int, clip_norm: int) -> Loss:
        """The loss of the whole run: all its rows are one release."""
        moved = clip_norm * round_root_up(Fraction(self.square(self.steps)))
        return GaussianSum(sigma, moved, unit=self.unit)

    def find_spent(self, steps: int) -> float:
        if steps == 0:
            return 0.0
        moved = round_root_up(Fraction(self.square(min(steps, self.steps))))
        return find_epsilon(GaussianSum(self.row_multiplier, moved), self.loss_delta).upper

    def make_factor(self) -> StepFactor:
        """A fresh factor, for one run."""
        return BandedFactor(self.coefficients) if self.coefficients else TreeFactor()


def round_root_up(square: Fraction) -> Fraction:
    """The root of a number, rounded up to a multiple of 2**-40.

    >>> round_root_up(Fraction(2)) ** 2 >= 2, float(round_root_up(Fraction(2)))
    (True, 1.4142135623733338)
    """
    return Fraction(math.isqrt(math.floor(square * (1 << 2 * _ROOT_BITS))) + 1, 1 << _ROOT_BITS)


def plan_correlated(
    *,
    noise: str,
    bands: int | None,
    n: int,
    batch: int,
    epochs: Number,
    epsilon: Number,
    delta: Number | None,
    unit: str,
) -> CorrelatedPlan:
    """Plan a run from declared numbers; the number of rows enters nowhere."""
    people = read_people(n)
    size = whole_number(batch, "batch")
    if size > people:
        raise ParameterError(f"batch must not exceed n, got {size:,} of {people:,}")
    separation = people // size
    steps = math.ceil(positive(epochs, "epochs") * separation)
    if steps > _MOST_STEPS:
        raise ParameterError(f"{steps:,} steps are too many: choose fewer epochs")
    coefficients: tuple[int, ...] = ()
    if noise == "banded":
        count = min(separation, steps, 16) if bands is None else whole_number(bands, "bands")
        if count > _MOST_BANDS:
            raise ParameterError(f"at most {_MOST_BANDS} bands, got {count:,}: each keeps a sum")
        coefficients = choose_bands(steps, count)
    elif bands is not None:
        raise ParameterError("bands are for noise='banded'")
    budget = read_budget(epsilon)
    chosen_delta = read_delta(delta, people)
    return _plan(people, size, separation, steps, budget, chosen_delta, unit, coefficients)


@lru_cache(maxsize=64)
def _plan(
    n: int,
    batch: int,
    separation: int,
    steps: int,
    epsilon: Fraction,
    delta: Fraction,
    unit: str,
    coefficients: tuple[int, ...],
) -> CorrelatedPlan:
    plan = CorrelatedPlan(
        n,
        batch,
        Fraction(1, separation),
        steps,
        find_slots(n, separation, epsilon, delta * _OVERFLOW_SHARE),
        epsilon,
        delta,
        Fraction(1),
        unit,
        separation,
        coefficients,
    )
    plan.square(steps)  # refuses too many bands
    noise = calibrate(epsilon=epsilon, delta=plan.loss_delta, q=1, steps=1).sigma
    return CorrelatedPlan(**vars(plan) | {"noise_multiplier": noise})


def find_slots(n: int, groups: int, epsilon: Fraction, failure: Fraction) -> int:
    """The least multiple of 8 slots that all groups fit into but with chance `failure` over
    1 + e^epsilon, by Chernoff's bound of the binomial tail.

    >>> find_slots(60_000, 1, Fraction(1), Fraction(1, 10**8))
    60000
    """
    if groups == 1:
        return n
    goal = math.log(failure) - math.log1p(math.exp(float(epsilon))) - math.log(groups) - 1e-6
    slots = -(-n // groups // 8) * 8 + 8
    while slots < n and -n * _divergence((slots + 1) / n, 1 / groups) > goal:
        slots += 8
    return min(n, slots)


def _divergence(first: float, second: float) -> float:
    """Relative entropy of two coins."""
    if first >= 1:
        return math.inf if second < 1 else 0.0
    return first * math.log(first / second) + (1 - first) * math.log((1 - first) / (1 - second))


def draw_groups(units: int, groups: int, source: Words) -> Integers:
    """A uniform group for every unit, by itself: words beyond the last whole multiple of `groups`
    are drawn again."""
    limit = (1 << 64) // groups * groups
    drawn = source.words(units)
    while True:
        is_beyond = drawn > np.uint64(limit - 1)
        if not is_beyond.any():
            return (drawn % np.uint64(groups)).astype(np.int64)
        drawn[is_beyond] = source.words(int(is_beyond.sum()))


class GroupDrawer:
    """The slots of each step: the units of its group, the same ones every `separation` steps."""

    def __init__(self, units: int, plan: CorrelatedPlan, slots: int, source: Words) -> None:
        self._plan = plan
        self._slots = slots
        self._source = source
        self._groups = draw_groups(units, plan.separation, source)
        self._step = 0

    def draw(self, *, is_last: bool) -> Integers:
        """The unit in each slot of one step, or EMPTY."""
        members = np.flatnonzero(self._groups == self._step % self._plan.separation)
        self._step += 1
        return fill_slots(members, self._plan.capacity, self._slots, self._source)

    def close(self) -> None:
        """Nothing was drawn ahead."""
