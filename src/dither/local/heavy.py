"""Heavy hitters over a huge domain: the prefix extending method (Wang, Li, Jha 2021; PEM).

Values are integers of `bits` bits. Every user reports *one* prefix (its group's length, drawn uniformly and public) by
local hashing at full epsilon. The collector starts with all prefixes of the first length, keeps the `keep` best,
extends each by all continuations to the next length, and so on; the last length are whole values. Counts are scaled by
the number of groups. What is searched is a function of reports, so it costs no privacy, whatever is tried.
docs/proofs/local.md, theorem 13. Payload: the group (1 byte), then that group's local-hash payload, padded with zeros.

>>> PrefixSearch(4, bits=30, first=10, step=10).lengths
(10, 20, 30)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.estimate import Estimate
from dither.local.hashing import PRIME_BITS
from dither.local.localhash import LocalHash
from dither.local.odds import read_epsilon
from dither.local.protocol import Protocol, read_values
from dither.local.wire import Payloads
from dither.privacy.noise import Words, uniform_below


@dataclass(frozen=True)
class PrefixSearch(Protocol):
    """Reports on prefixes of `first`, `first` + `step`, ..., `bits` bits."""

    type = "prefix_search"
    bits: int = 32
    first: int = 8
    step: int = 8
    prime_bits: int = PRIME_BITS

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", read_epsilon(self.epsilon))
        if not 1 <= self.first <= self.bits <= 60 or not 1 <= self.step <= 16 or self.first > 20:
            raise ParameterError("need 1 <= first <= bits <= 60, first <= 20 and 1 <= step <= 16")

    @property
    def lengths(self) -> tuple[int, ...]:
        """The prefix length of every group."""
        inner = range(self.first, self.bits, self.step)
        return (*inner, self.bits)

    @cached_property
    def oracles(self) -> tuple[LocalHash, ...]:
        return tuple(LocalHash(self.epsilon, 1 << n, prime_bits=self.prime_bits) for n in self.lengths)

    @property
    def payload_bytes(self) -> int:
        return 1 + max(oracle.payload_bytes for oracle in self.oracles)

    def derived(self) -> dict[str, Any]:
        return {"groups": [oracle.to_json() for oracle in self.oracles], "lengths": self.lengths}

    def inputs(self) -> list[int]:
        return list(range(1 << min(self.bits, 3)))

    def permanent(self, values: Any, source: Words, devices: NDArray[np.int64] | None = None) -> Payloads:
        held = read_values(values, 1 << self.bits)
        group = uniform_below(len(self.lengths), len(held), source=source)
        found = np.zeros((len(held), self.payload_bytes), np.uint8)
        found[:, 0] = group
        for number, (length, oracle) in enumerate(zip(self.lengths, self.oracles, strict=True)):
            here = np.flatnonzero(group == number)
            answer = oracle.permanent(held[here] >> (self.bits - length), source)
            found[here[:, None], 1 + np.arange(oracle.payload_bytes)] = answer
        return found

    def law(self, value: int) -> dict[bytes, Fraction]:
        found = {}
        for number, (length, oracle) in enumerate(zip(self.lengths, self.oracles, strict=True)):
            for answer, weight in oracle.law(value >> (self.bits - length)).items():
                found[bytes([number]) + answer.ljust(self.payload_bytes - 1, b"\0")] = weight / len(self.lengths)
        return found

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        good = np.zeros(len(payloads), np.bool_)
        for number, oracle in enumerate(self.oracles):
            end = 1 + oracle.payload_bytes
            padded = (payloads[:, end:] == 0).all(axis=1)
            good |= (payloads[:, 0] == number) & padded & oracle.valid(payloads[:, 1:end])
        return good

    @property
    def keeps_reports(self) -> bool:
        return True

    @property
    def tally_size(self) -> int:
        return 0

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        raise ParameterError("a prefix search keeps its reports: collect payloads and call find(payloads)")

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        raise ParameterError("a prefix search keeps its reports: collect payloads and call find(payloads)")

    def user_variance(self, value: Any) -> NDArray[Any]:
        raise ParameterError("a prefix search keeps its reports: collect payloads and call find(payloads)")

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        raise ParameterError("a prefix search keeps its reports: collect payloads and call find(payloads)")

    def noise(self, reports: int) -> float:
        """Standard error of the count of a value that nobody holds."""
        groups = len(self.lengths)
        return sqrt(groups * reports * self.oracles[-1].noise_variance)

    def find(self, payloads: Payloads, *, keep: int = 32, level: float = 0.95) -> tuple[NDArray[np.int64], Estimate]:
        """(values found, their counts), largest first; only counts above zero at `level` over all probes survive."""
        good = payloads[self.valid(payloads)]
        reports, groups = len(good), len(self.lengths)
        candidates, estimate = np.arange(1 << self.first, dtype=np.int64), None
        before = self.first
        for number, (length, oracle) in enumerate(zip(self.lengths, self.oracles, strict=True)):
            if length > before:
                more = np.arange(1 << (length - before), dtype=np.int64)
                candidates = ((candidates[:, None] << (length - before)) | more[None, :]).ravel()
                before = length
            mine = np.ascontiguousarray(good[good[:, 0] == number, 1 : 1 + oracle.payload_bytes])
            counts = oracle.debias(oracle.support(mine, candidates), len(mine))
            spread = oracle.variances(np.clip(counts, 0, len(mine)), len(mine))
            scaled = groups**2 * spread + (groups - 1) * np.clip(groups * counts, 0, reports)
            estimate = Estimate(groups * counts, scaled, reports, groups * float(oracle.largest_move))
            chosen = np.flatnonzero(estimate.significant(level)) if length == self.bits else np.arange(len(counts))
            chosen = chosen[np.argsort(estimate.values[chosen])[::-1][:keep]]
            candidates = candidates[chosen]
            estimate = Estimate(estimate.values[chosen], estimate.variances[chosen], reports, estimate.largest_move)
        assert estimate is not None
        return candidates, estimate
