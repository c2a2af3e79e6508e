"""The sampler of the data room and the mechanism for samples, audited together: the law of a noisy
sum over a secret sample never shows more than its loss claims."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction as F
from typing import Any

import numpy as np
import pytest

from dither import accounting
from dither.audit.black_box import test as audit
from dither.audit.verdict import Budget
from dither.data.vectors.sample import draw_units
from dither.plan.norms import Sensitivity
from dither.privacy.mechanisms.rounded_gaussian import SampledRoundedGaussian
from dither.privacy.noise.source import fresh_bytes

RATE = F(1, 4)
MECHANISM = SampledRoundedGaussian(F(1), Sensitivity.of(largest=2), rate=RATE, unit="unit")
NEIGHBOURS = ([2, 2, 2], [2, 2])
RUNS = 300_000
Sampler = Callable[[np.ndarray[Any, Any], bytes], Any]


def draw_as_shipped(units: np.ndarray[Any, Any], key: bytes) -> Any:
    return draw_units(units, RATE, key, "ab" * 32)


def draw_all(units: np.ndarray[Any, Any], key: bytes) -> Any:
    """Planted bug: the sample is priced and not drawn."""
    return np.ones(len(units), bool)


def draw_too_often(units: np.ndarray[Any, Any], key: bytes) -> Any:
    """Planted bug: twice the rate that is priced."""
    return draw_units(units, 2 * RATE, key, "ab" * 32)


def draw_together(units: np.ndarray[Any, Any], key: bytes) -> Any:
    """Planted bug: the coin of the first of three units, as an affine hash may have it."""
    return draw_units(units - units % 3, RATE, key, "ab" * 32)


def audit_sums(draw: Sampler) -> Any:
    """All copies under one key: different numbers of units are different coins."""

    def run(values: list[int], size: int) -> Any:
        numbers = (3 * np.arange(size)[:, None] + np.arange(len(values))).ravel()
        is_in_sample = draw(numbers, fresh_bytes(32)).reshape(size, len(values))
        return MECHANISM.release(is_in_sample @ np.array(values, np.int64)).astype(np.int64)

    return audit(
        run,
        *NEIGHBOURS,
        None,
        1e-3,
        claim=MECHANISM.loss(),
        budget=Budget(RUNS, 1e-9),
        name="sampled sums",
        vectorised=True,
        progress=False,
    )


def test_sums_over_the_shipped_sample_show_no_more_than_their_loss() -> None:
    assert not audit_sums(draw_as_shipped).violated


@pytest.mark.parametrize("draw", [draw_all, draw_too_often, draw_together])
def test_a_planted_bug_is_accused(draw: Sampler) -> None:
    assert audit_sums(draw).violated


def test_the_claim_is_amplified() -> None:
    """Without the sample the same noise has several times the epsilon."""
    whole = accounting.epsilon(MECHANISM.loss().loss, 1e-3).upper  # type: ignore[attr-defined]
    assert accounting.epsilon(MECHANISM.loss(), 1e-3).upper < whole / F("1.4")
