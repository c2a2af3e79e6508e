"""Seeded words for tests: deterministic, and outside the wheel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dither.privacy.noise import Words


class SeededWords(Words):
    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def words(self, count: int, width: int = 64) -> NDArray[np.uint64]:
        return self._generator.integers(0, 2**64, count, np.uint64) >> np.uint64(64 - width)
