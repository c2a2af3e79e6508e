"""The plan of a training run: every number that follows from what was declared, before data is
read. It is what is charged.

The batch is padded to `capacity` slots; of a larger sample so many units are kept at random. That
is the loss `TruncatedPoissonSampled`, which charges for the rare full batch. Proof:
docs/proofs/deep-learning.md#overflow.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dither.accounting import TruncatedPoissonSampled, calibrate
from dither.accounting import epsilon as find_epsilon
from dither.accounting.planning import find_smallest_below
from dither.canonical import Number, positive
from dither.errors import ParameterError
from dither.given_numbers import whole_number
from dither.learn.deep.sampling import round_rate
from dither.learn.guarantees import read_budget, read_delta, read_people
from dither.privacy.losses import GaussianSum, Loss, Repeated

GRID_BITS = 20
_SLOT_MULTIPLE = 8
_OVERFLOW_SHARE = Fraction(6, 1000)
"""The share of epsilon that full batches may cost: fewer slots are less work."""
_MOST_STEPS = 10**7
_CLIPS = (Fraction(1, 10**6), Fraction(10**6))


@dataclass(frozen=True)
class SamplePlan:
    """How units are sampled, and the noise multiplier that the budget buys: the noise over the
    sensitivity of a step."""

    n: int
    batch: int
    rate: Fraction
    steps: int
    capacity: int
    epsilon: Fraction
    delta: Fraction
    noise_multiplier: Fraction
    unit: str

    def step_loss(self, sigma: Fraction | int | None = None, clip_norm: int = 1) -> Loss:
        """The loss of a step with noise `sigma` on a sum of vectors up to `clip_norm` long.

        Without arguments it is that of the plan's multiplier. Rounded noise costs at most this.
        """
        noise = GaussianSum(self.noise_multiplier if sigma is None else sigma, clip_norm)
        return sample_loss(noise, self.n, self.rate, self.capacity, self.unit)

    @property
    def overflow_delta(self) -> Fraction:
        """What of delta is for samples that are larger than the slots; here the loss has it."""
        return Fraction(0)

    @property
    def loss_delta(self) -> Fraction:
        """What of delta is for the loss."""
        return self.delta - self.overflow_delta

    def run_loss(self, steps: int, sigma: Fraction | int, clip_norm: int) -> Loss:
        """The loss of so many steps."""
        return Repeated(self.step_loss(sigma, clip_norm), steps)

    def find_spent(self, steps: int) -> float:
        """Epsilon after so many steps, at the delta that was stated: the plan's figure."""
        if steps == 0:
            return 0.0
        return find_epsilon(Repeated(self.step_loss(), steps), self.delta).upper


@dataclass(frozen=True)
class GridPlan:
    """The public grid of sums: steps of 2**`exponent`, and noise of `sigma` steps on each number.

    A unit moves the rounded sum by at most `sensitivity` steps.
    """

    exponent: int
    sensitivity: int
    sigma: int


def sample_loss(noise: GaussianSum, n: int, rate: Fraction, capacity: int, unit: str) -> Loss:
    """The loss of a Gaussian sum over a sample of at most `capacity` of `n` units."""
    step = GaussianSum(noise.sigma, noise.clip_norm, unit=unit)
    if rate == 1:
        return step
    return TruncatedPoissonSampled(rate, capacity, n, step, unit=unit)


def plan_sampling(
    *, n: int, batch: int, epochs: Number, epsilon: Number, delta: Number | None, unit: str
) -> SamplePlan:
    """Plan a run from declared numbers; the number of rows enters nowhere."""
    people = read_people(n)
    size = whole_number(batch, "batch")
    if size > people:
        raise ParameterError(f"batch must not exceed n, got {size:,} of {people:,}")
    rate = round_rate(size, people)
    steps = math.ceil(positive(epochs, "epochs") * people / size)
    if steps > _MOST_STEPS:
        raise ParameterError(f"{steps:,} steps are too many: choose fewer epochs")
    budget = read_budget(epsilon)
    return _plan(people, size, rate, steps, budget, read_delta(delta, people), unit)


@lru_cache(maxsize=64)
def _plan(
    n: int, batch: int, rate: Fraction, steps: int, epsilon: Fraction, delta: Fraction, unit: str
) -> SamplePlan:
    """The least capacity whose full batches cost little, then the least noise for the budget."""
    start = calibrate(epsilon=epsilon, delta=delta, q=rate, steps=steps).sigma

    def measure(sigma: Fraction, capacity: int) -> float:
        loss = sample_loss(GaussianSum(sigma, 1), n, rate, capacity, unit)
        return find_epsilon(Repeated(loss, steps), delta).upper

    if rate == 1:
        return SamplePlan(n, batch, rate, steps, n, epsilon, delta, start, unit)
    goal = epsilon * (1 + _OVERFLOW_SHARE)
    capacity = find_capacity(n, rate, lambda slots: measure(start, slots) <= goal)
    noise = find_smallest_below(
        epsilon, lambda sigma: measure(sigma, capacity), start, relative=1e-6
    )
    return SamplePlan(n, batch, rate, steps, capacity, epsilon, delta, noise, unit)


def find_capacity(n: int, rate: Fraction, suffices: Callable[[int], bool]) -> int:
    """The least multiple of 8 slots above the mean, or n, that suffices.

    >>> find_capacity(1_000, Fraction(1, 10), lambda slots: slots >= 123)
    128
    """
    mean = float(n * rate)
    low = math.ceil(mean / _SLOT_MULTIPLE)
    width = max(1, math.ceil(math.sqrt(mean) / _SLOT_MULTIPLE))
    high = low + width
    while high * _SLOT_MULTIPLE < n and not suffices(high * _SLOT_MULTIPLE):
        low = high
        high += width
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle * _SLOT_MULTIPLE) else (middle, high)
    return min(n, high * _SLOT_MULTIPLE)


def read_clip(clip: Number) -> Fraction:
    """The clip norm; refused outside what the proof of floats covers."""
    norm = positive(clip, "clip")
    if not _CLIPS[0] <= norm <= _CLIPS[1]:
        raise ParameterError(f"clip must lie between 1e-6 and 1e6, got {float(norm):g}")
    return norm


def plan_grid(
    clip: Fraction, moved: Fraction, numbers: int, noise_multiplier: Fraction
) -> GridPlan:
    """The grid of sums of vectors of so many numbers: a unit moves floats by `moved` clip norms.

    Steps are the largest power of two that is at most clip * 2**-20. Rounding moves every number
    of either sum by at most half a step.

    >>> plan_grid(Fraction(1), Fraction(1), 100, Fraction(1))
    GridPlan(exponent=-20, sensitivity=1048586, sigma=1048586)
    """
    exponent = -GRID_BITS
    while Fraction(2) ** exponent > clip / 2**GRID_BITS:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= clip / 2**GRID_BITS:
        exponent += 1
    step = Fraction(2) ** exponent
    root = math.isqrt(numbers - 1) + 1 if numbers else 0
    sensitivity = math.ceil(clip * moved / step) + root
    return GridPlan(exponent, sensitivity, math.ceil(noise_multiplier * sensitivity))
