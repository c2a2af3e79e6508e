"""Arguments that the race of the exponential mechanism refuses: weights past float64, other
words."""

from __future__ import annotations

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.privacy.noise import argmax_exponential
from tests.sources import TestSource


@pytest.mark.parametrize("weight", [2**64 + 1, 2**1023, 2**1100], ids=["64", "1023", "1100"])
def test_a_weight_whose_float_ends_would_hold_no_key_is_refused(weight: int) -> None:
    """2**1023 had the lower end infinity: a certain winner, whatever the score of the other."""
    with pytest.raises(ParameterError):
        argmax_exponential(
            [0, 10**4], 1, weights=[weight, 1], source=TestSource([2**64 - 2, 5], after=0)
        )
    assert (
        argmax_exponential(
            [0, 10**4], 1, weights=[2**64, 1], source=TestSource([2**64 - 2, 5], after=0)
        )
        == 1
    )


def test_words_that_were_drawn_are_one_for_each_score() -> None:
    for words in (np.zeros(3, np.uint64), np.zeros(2, np.int64)):
        with pytest.raises(ParameterError):
            argmax_exponential([0, 1], 1, words=words)
