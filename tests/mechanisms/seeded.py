"""Words from a seeded generator: for tests alone, outside the wheel."""

import numpy as np

from dither.privacy.noise import Words


class Seeded(Words):
    __test__ = False

    def __init__(self, seed: int = 1) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def words(self, count: int, width: int = 64):
        drawn = self._generator.integers(0, 2**64, count, dtype=np.uint64)
        return drawn if width == 64 else drawn >> np.uint64(64 - width)
