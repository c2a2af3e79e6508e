"""Running sums of a stream: noise on dyadic blocks of 1..n, each drawn once.

A prefix is a few blocks.

A step lies in at most levels = n.bit_length() released blocks (not ceil(log2 n): that is one too
few for every power of two), so the blocks are a vector of which a unit that appears in at most
`steps_per_unit` steps, in each by at most `largest`, moves levels * steps_per_unit * largest in L1;
twice that if it is replaced. Several of its steps may lie in one block, which moves by all of them.
Guarantee: that of integer Laplace or Gaussian noise towards this sensitivity. The prefix up to t
carries popcount(t) noises. Proof: docs/proofs/tree-counter.md#levels.

>>> counter = TreeCounter.for_epsilon(1, steps=1000)
>>> counter.levels, counter.noise.scale, counter.loss().epsilon
(10, Fraction(10, 1), Fraction(1, 1))
>>> len(counter.release([1] * 1000)), counter.error(7).noises
(1000, 3)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, exact, quote
from dither.errors import ParameterError
from dither.laws import AdditiveErrorLaw, find_error_law
from dither.plan.norms import Sensitivity
from dither.privacy.losses import ADD_REMOVE, Adjacency, Loss
from dither.privacy.mechanisms.additive import add, exact_integers
from dither.privacy.mechanisms.gaussian import IntegerGaussian
from dither.privacy.mechanisms.laplace import IntegerLaplace
from dither.privacy.noise import Words
from dither.privacy.noise.source import check_source


def tree_sensitivity(steps: int, largest: int, steps_per_unit: int, neighbours: str) -> Sensitivity:
    """Bound how far one unit moves the vector of all block sums.

    One unit is in at most `steps_per_unit` steps and changes each by at most `largest`. One step
    is in one block of each of steps.bit_length() levels, at most; a block of level l holds up to
    2**l steps of the unit, which then move it together. A replaced unit changes its old steps and
    its new ones.
    """
    for name, value in (("steps", steps), ("largest", largest), ("steps_per_unit", steps_per_unit)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(f"{name} must be a positive integer, got {quote(value)}")
    levels = steps.bit_length()
    times = 2 if neighbours == "replace" else 1
    moved_steps = times * steps_per_unit
    in_one_block = [times * min(steps_per_unit, 1 << level) for level in range(levels)]
    return Sensitivity(
        l0=levels * moved_steps,
        l1=levels * moved_steps * largest,
        l2_squared=moved_steps * sum(in_one_block) * largest**2,
        linf=in_one_block[-1] * largest,
    )


@dataclass(frozen=True)
class PrefixErrorLaw:
    """The error of one prefix: the sum of `noises` independent draws of one law."""

    noises: int
    block_law: AdditiveErrorLaw

    @property
    def variance(self) -> float:
        return self.noises * self.block_law.variance

    def interval(self, confidence: Number) -> int:
        """A half-width that covers with at least this confidence: a union bound over the noises."""
        share = (1 - exact(confidence, "confidence")) / self.noises
        return self.noises * self.block_law.interval(1 - share)


@dataclass(frozen=True)
class TreeCounter:
    """All running sums of `steps` integers, at the price of one noise on every block."""

    steps: int
    noise: IntegerLaplace | IntegerGaussian

    def __post_init__(self) -> None:
        """Check that the noise is for at least as many blocks as one unit in one step moves."""
        least = tree_sensitivity(self.steps, 1, 1, self.noise.neighbours)
        if self.noise.sensitivity.l0 < least.l0:
            raise ParameterError(
                f"{self.steps} steps have {self.steps.bit_length()} levels, so one unit moves at "
                f"least {least.l0} blocks, but the noise is for {self.noise.sensitivity.l0}: build "
                "it by for_epsilon or for_rho"
            )

    @classmethod
    def for_epsilon(
        cls,
        epsilon: Number,
        *,
        steps: int,
        largest: int = 1,
        steps_per_unit: int = 1,
        adjacency: Adjacency = ADD_REMOVE,
    ) -> TreeCounter:
        """A tree counter whose blocks have integer Laplace noise.

        Its scale is levels * steps_per_unit * largest / epsilon.
        """
        moved = tree_sensitivity(steps, largest, steps_per_unit, adjacency.neighbours)
        return cls(steps, IntegerLaplace.for_epsilon(epsilon, moved, adjacency))

    @classmethod
    def for_rho(
        cls,
        rho: Number,
        *,
        steps: int,
        largest: int = 1,
        steps_per_unit: int = 1,
        adjacency: Adjacency = ADD_REMOVE,
    ) -> TreeCounter:
        """Integer Gaussian noise on every block."""
        moved = tree_sensitivity(steps, largest, steps_per_unit, adjacency.neighbours)
        return cls(steps, IntegerGaussian.for_rho(rho, moved, adjacency))

    @property
    def levels(self) -> int:
        """How many released blocks hold one step, at most."""
        return self.steps.bit_length()

    def loss(self) -> Loss:
        """What all running sums cost."""
        return self.noise.loss()

    def error(self, step: int) -> PrefixErrorLaw:
        """The error of the running sum up to `step` (1 to steps)."""
        if not 1 <= step <= self.steps:
            raise ParameterError(f"step must lie between 1 and {self.steps}, got {quote(step)}")
        return PrefixErrorLaw(step.bit_count(), find_error_law(self.noise))

    def release(self, values: Any, *, source: Words | None = None) -> NDArray[Any]:
        """Release the noisy running sums after step 1, 2, ..., steps."""
        step_values = exact_integers(values)
        if step_values.shape != (self.steps,):
            raise ParameterError(
                f"the counter was made for {self.steps} steps, got {step_values.shape}"
            )
        supply = check_source(source)
        wide = (
            step_values.dtype == object
            or float(np.abs(step_values.astype(np.float64)).sum()) >= 2.0**62
        )
        upto = np.concatenate([[0], np.cumsum(step_values.astype(object) if wide else step_values)])
        total: NDArray[Any] = np.zeros(self.steps + 1, np.int64)
        # t = odd * 2^level: its last block on top of the prefix before it.
        for level in reversed(range(self.levels)):
            size = 1 << level
            ends = np.arange(size, self.steps + 1, 2 * size)
            blocks = self.noise.release(upto[ends] - upto[ends - size], source=supply)
            sums = add(total[ends - size], blocks)
            total = total.astype(object) if sums.dtype == object else total
            total[ends] = sums
        return total[1:]

    def start(self, *, source: Words | None = None) -> RunningCounter:
        """The same counter for a stream whose next value may depend on the sums already seen."""
        return RunningCounter(self, check_source(source))


class RunningCounter:
    """A tree counter in progress.

    It keeps the one open block of each level, and adds its noise once when the block closes.
    """

    def __init__(self, counter: TreeCounter, source: Words) -> None:
        """Start before the first step, with all blocks empty."""
        self._counter = counter
        self._source = source
        self._step = 0
        self._open: list[int] = [0] * counter.levels
        self._closed: list[int] = [0] * counter.levels

    def add(self, value: int) -> int:
        """Count one more value, and return the noisy running sum.

        Raises ParameterError after the last step.
        """
        if self._step == self._counter.steps:
            raise ParameterError(
                f"the counter was made for {self._counter.steps} steps, and they are used up"
            )
        amount = int(exact_integers(value)[0])
        self._step += 1
        for level in range(self._counter.levels):
            self._open[level] += amount
            if self._step % (1 << level) == 0:
                if self._step >> level & 1:  # an even block is in no prefix: the block above it is
                    self._closed[level] = int(
                        self._counter.noise.release(self._open[level], source=self._source)[0]
                    )
                self._open[level] = 0
        return sum(
            self._closed[level] for level in range(self._counter.levels) if self._step >> level & 1
        )


def quantiles_from_sums(
    sums: Sequence[int] | NDArray[Any], shares: Sequence[Fraction]
) -> list[int]:
    """Quantiles read off the running sums of a histogram.

    This is postprocessing: any number of them, at no further price.

    The sums are made increasing first; the answer to q is the first cell whose sum reaches q times
    the last.

    >>> quantiles_from_sums([0, 5, 4, 10], [Fraction(1, 2), Fraction(9, 10)])
    [1, 3]
    """
    rising = np.maximum(np.maximum.accumulate(np.asarray(sums)), 0)
    last = int(rising[-1])
    return [int(np.searchsorted(rising, math.ceil(share * last), "left")) for share in shares]
