"""Heavy hitters over a huge domain: the prefix extending method (Wang, Li, Jha 2021; PEM).

Values are integers of `bits` bits. Every user reports *one* prefix (its group's length, drawn
uniformly and public) by local hashing at full epsilon. The collector starts with all prefixes of
the first length, keeps the `keep` best, extends each by all continuations to the next length, and
so on; the last length are whole values. Counts are scaled by the number of groups. What is searched
is a function of reports, so it costs no privacy, whatever is tried. docs/proofs/local.md, theorem
13. Payload: the group (1 byte), then that group's local-hash payload, padded with zeros.

>>> PrefixSearch(4, bits=30, first=10, step=10).lengths
(10, 20, 30)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.estimate import Estimate
from dither.local.hashing import PRIME_BITS
from dither.local.kept import Search, keep_largest, scale_estimate
from dither.local.localhash import LocalHash
from dither.local.odds import read_epsilon
from dither.local.wire import Payloads
from dither.stored import stored


@stored(first="first", step="step", prime_bits="prime_bits")
@dataclass(frozen=True)
class PrefixSearch(Search):
    """Reports on prefixes of `first`, `first` + `step`, ..., `bits` bits."""

    type = "prefix_search"
    first: int = 8
    step: int = 8
    prime_bits: int = PRIME_BITS

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", read_epsilon(self.epsilon))
        if not 1 <= self.first <= self.bits <= 60 or not 1 <= self.step <= 16 or self.first > 20:
            raise ParameterError("need 1 <= first <= bits <= 60, first <= 20 and 1 <= step <= 16")
        _ = self.oracles

    @property
    def lengths(self) -> tuple[int, ...]:
        """The prefix length of every group."""
        inner = range(self.first, self.bits, self.step)
        return (*inner, self.bits)

    @cached_property
    def oracles(self) -> tuple[LocalHash, ...]:
        return tuple(
            LocalHash(self.epsilon, 1 << n, prime_bits=self.prime_bits) for n in self.lengths
        )

    def derived(self) -> dict[str, Any]:
        return {"groups": [oracle.to_json() for oracle in self.oracles], "lengths": self.lengths}

    def project_values(self, values: NDArray[np.int64], group: int) -> NDArray[np.int64]:
        prefixes: NDArray[np.int64] = values >> (self.bits - self.lengths[group])
        return prefixes

    def noise(self, reports: int) -> float:
        """Standard error of the count of a value that nobody holds."""
        return sqrt(len(self.lengths) * reports * self.oracles[-1].noise_variance)

    def find(
        self, payloads: Payloads, *, keep: int = 32, level: float = 0.95
    ) -> tuple[NDArray[np.int64], Estimate]:
        """(values found, their counts), largest first; only counts above zero at `level` over all
        probes survive."""
        good = payloads[self.valid(payloads)]
        reports = len(good)
        groups = len(self.lengths)
        candidates = np.arange(1 << self.first, dtype=np.int64)
        estimate = None
        before = self.first
        for number, (length, oracle) in enumerate(zip(self.lengths, self.oracles, strict=True)):
            if length > before:
                more = np.arange(1 << (length - before), dtype=np.int64)
                candidates = ((candidates[:, None] << (length - before)) | more[None, :]).ravel()
                before = length
            answers = self.answers(good, number)
            counts = oracle.debias(oracle.support(answers, candidates), len(answers))
            estimate = scale_estimate(oracle, counts, len(answers), reports, groups)
            chosen = (
                np.flatnonzero(estimate.significant(level))
                if length == self.bits
                else np.arange(len(counts))
            )
            order, estimate = keep_largest(estimate, chosen, keep)
            candidates = candidates[order]
        assert estimate is not None
        return candidates, estimate
