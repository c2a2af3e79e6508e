"""Events of training runs in dp-accounting's notation, read as losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from dither.accounting.training_laws import mean_runs
from dither.accounting.training_losses import (
    BestOfNegativeBinomial,
    BestOfPoisson,
    GaussianMixture,
    SampledWithReplacement,
    TruncatedPoissonSampled,
)
from dither.canonical import exact
from dither.errors import RefusedError
from dither.privacy import losses as ls
from dither.rules import PrivacyRule


def read_training_event(
    name: str, event: Any, common: dict[str, Any], inner: Callable[[Any], ls.Loss]
) -> ls.Loss | None:
    """Build the loss of a training event; None for any other event."""
    if name == "MixtureOfGaussiansDpEvent":
        pairs = list(zip(event.sensitivities, event.sampling_probs, strict=True))
        return GaussianMixture(event.standard_deviation, pairs, **common)
    if name == "TruncatedSubsampledGaussianDpEvent":
        step = ls.GaussianSum(event.noise_multiplier, 1, **common)
        return TruncatedPoissonSampled(
            event.sampling_probability, event.truncated_batch_size, event.dataset_size, step
        )
    if name == "SampledWithReplacementDpEvent":
        return _read_with_replacement(event, inner(event.event))
    if name == "SingleEpochTreeAggregationDpEvent":
        return _read_trees(event, common)
    if name == "RepeatAndSelectDpEvent":
        return _read_best_of(event, inner(event.event))
    return None


def _read_with_replacement(event: Any, loss: ls.Loss) -> ls.Loss:
    """Build the loss of samples with replacement.

    Raises RefusedError unless they are of a Gaussian under neighbours='replace'.
    """
    if not isinstance(loss, ls.Gaussian) or loss.neighbours != "replace":
        raise RefusedError(
            "SampledWithReplacementDpEvent is read around a Gaussian under neighbours='replace': "
            "state other mechanisms by SampledWithReplacement",
            rule=PrivacyRule.SAMPLING,
        )
    # the noise multiplier is noise over the replace-sensitivity, which is twice the clip norm
    clipped = ls.GaussianSum(loss.sigma, loss.sensitivity / 2, neighbours="replace", unit=loss.unit)
    return SampledWithReplacement(event.sample_size, event.source_dataset_size, clipped)


def _read_trees(event: Any, common: dict[str, Any]) -> ls.Loss:
    """A record lies in one node of each level of its tree: as many as the bits of its steps."""
    counts = event.step_counts
    steps = [counts] if isinstance(counts, int) else list(counts)
    levels = max(int(count).bit_length() for count in steps)
    return ls.Repeated(ls.Gaussian(event.noise_multiplier, **common), levels)


def _read_best_of(event: Any, loss: ls.Loss) -> ls.Loss:
    """Build the loss of the best of several runs.

    Raises RefusedError unless the mean number of runs is finite and at least 1.
    """
    mean = exact(event.mean, "mean") if event.mean != math.inf else None
    if mean is None or mean < 1:
        raise RefusedError(
            "RepeatAndSelectDpEvent needs a finite mean of at least 1: state the law by "
            "BestOfNegativeBinomial(shape, halting, loss)",
            rule=PrivacyRule.THEOREM,
        )
    if event.shape == math.inf:
        return BestOfPoisson(mean, loss)
    shape = exact(event.shape, "shape")
    if mean == 1:
        return loss
    return BestOfNegativeBinomial(shape, find_halting(shape, mean), loss)


def find_halting(shape: Fraction, mean: Fraction) -> Fraction:
    """Find a halting probability whose mean number of runs is at least `mean`, and hardly more.

    >>> round(float(find_halting(Fraction(1), Fraction(10))), 9)
    0.1
    """
    low = Fraction(1, 2**60)
    high = Fraction(1)
    for _ in range(80):
        middle = (low + high) / 2
        if mean_runs(shape, middle) >= mean * (1 + Fraction(1, 10**11)):
            low = middle
        else:
            high = middle
    return low
