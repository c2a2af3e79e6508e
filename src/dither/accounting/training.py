"""Training runs as losses, from the numbers that a training script has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from dither.accounting.arguments import check_loss
from dither.accounting.bounds import Bounds
from dither.accounting.curves import epsilon
from dither.accounting.gaussian import log_delta
from dither.canonical import Number, exact, positive
from dither.errors import ParameterError
from dither.given_numbers import as_float, whole_number
from dither.privacy import losses as ls
from dither.privacy.numbers import refuse_beyond_floats


def dpsgd(
    *,
    n: int,
    batch: int,
    epochs: Number,
    sigma: Number,
    clip_norm: Number = 1,
    unit: str = "unit",
) -> ls.Loss:
    """Make the loss of DP-SGD with Poisson samples of `batch` out of `n` examples on average.

    Neighbours are add/remove. `sigma` is the noise multiplier: the noise on the sum of clipped
    gradients, over the clip norm. The number of steps is rounded up.

    >>> dpsgd(n=60_000, batch=256, epochs=60, sigma=1.1)
    Repeated(loss=PoissonSampled(q=8/1875, loss=GaussianSum(sigma=11/10, clip_norm=1)),
             count=14063, ...)
    """
    rate = Fraction(whole_number(batch, "batch"), whole_number(n, "n"))
    if rate > 1:
        raise ParameterError(f"batch must not exceed n, got {batch} of {n}: choose a smaller batch")
    steps = math.ceil(positive(epochs, "epochs") / rate)
    norm = positive(clip_norm, "clip_norm")
    step = ls.GaussianSum(positive(sigma, "sigma") * norm, norm, unit=unit)
    return ls.Repeated(ls.PoissonSampled(rate, step), steps)


def banded_matrix(
    *,
    n: int,
    batch: int,
    steps: int,
    bands: int,
    sigma: Number,
    column_norm: Number = 1,
    unit: str = "unit",
) -> ls.Loss:
    """A matrix mechanism with a banded lower-triangular encoder and cyclic Poisson samples.

    The examples are divided into `bands` parts, publicly and for good; step t samples from part t
    mod `bands`, `batch` of them on average. An example then meets every column once in `bands`
    steps, and no two of the columns that it meets overlap (Choquette-Choo and others 2023; proof:
    docs/proofs/training-losses.md, section 5). `sigma` is the noise over the clip norm,
    `column_norm` the largest L2 norm of a column of the encoder.

    >>> banded_matrix(n=60_000, batch=256, steps=2_000, bands=8, sigma=2).count
    250
    """
    rate = Fraction(
        whole_number(batch, "batch") * whole_number(bands, "bands"), whole_number(n, "n")
    )
    if rate > 1:
        raise ParameterError(
            f"a part holds n/bands = {n / bands:g} examples, fewer than the batch of {batch}: "
            f"choose fewer bands or a smaller batch"
        )
    rounds = -(-whole_number(steps, "steps") // bands)
    norm = positive(column_norm, "column_norm")
    step = ls.GaussianSum(positive(sigma, "sigma"), norm, unit=unit)
    return ls.Repeated(ls.PoissonSampled(rate, step), rounds)


@refuse_beyond_floats
def epsilon_curve(step: ls.Loss, counts: Sequence[int], delta: Number) -> tuple[Bounds, ...]:
    """Brackets of epsilon after so many repetitions of a step, such as the end of each epoch.

    >>> [round(b.upper, 3) for b in epsilon_curve(ls.Gaussian(10), [1, 10, 100], 1e-6)]
    [0.397, 1.368, 4.887]
    """
    check_loss(step)
    return tuple(epsilon(step * whole_number(count, "count"), delta) for count in counts)


@refuse_beyond_floats
def estimate_gdp(loss: ls.Loss, delta: Number = "1e-5") -> float:
    """Estimate the mu of the Gaussian mechanism that has the same epsilon at this delta.

    For comparing runs, and no guarantee: at other deltas the loss may lie above that curve.

    >>> round(estimate_gdp(ls.Gaussian(2)), 9)
    0.5
    """
    target = as_float(positive(delta, "delta"), "delta")
    goal = epsilon(loss, exact(delta, "delta")).upper
    if not 0 < goal < math.inf:
        raise ParameterError("no positive and finite epsilon at this delta: choose another delta")
    low = 1e-12
    high = 1.0
    while log_delta(high, goal) < math.log(target):
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if log_delta(middle, goal) < math.log(target) else (low, middle)
    return high
