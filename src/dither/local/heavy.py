"""Heavy hitters over a huge domain: the prefix extending method (Wang, Li, Jha 2021; PEM).

Values are integers of `bits` bits. Every user reports *one* prefix (its group's length, drawn
uniformly and public) by local hashing at full epsilon. The collector starts with all prefixes of
the first length, keeps the `beam` best, extends each by all continuations to the next length, and
so on; the last length are whole values, of which those are told that are above zero at `level` over
all that were tried. Counts are scaled by the number of groups. What is searched is a function of
reports, so it costs no privacy, whatever is tried. docs/proofs/local.md, theorem 13. Rare values
are lost in the noise: `smallest_count` says how many users a value needs, and `best_search` picks
the lengths that need the fewest. Payload: the group (1 byte), then that group's local-hash payload,
padded with zeros.

>>> PrefixSearch(4, bits=30, first=10, step=10).lengths
(10, 20, 30)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number
from dither.errors import ParameterError
from dither.given_numbers import whole_number
from dither.local.estimate import Estimate
from dither.local.hashing import PRIME_BITS
from dither.local.kept import Search, chance_support, keep_largest, scale_estimate
from dither.local.localhash import LocalHash, extend_prefixes
from dither.local.odds import read_epsilon
from dither.local.wire import Payloads
from dither.stored import stored

BEAM = 64
_NORMAL = NormalDist()


@stored(first="first", step="step", prime_bits="prime_bits")
@dataclass(frozen=True)
class PrefixSearch(Search):
    """Reports on prefixes of `first`, `first` + `step`, ..., `bits` bits."""

    type = "prefix_search"
    first: int = 8
    step: int = 8
    prime_bits: int = PRIME_BITS

    def __post_init__(self) -> None:
        """Check the lengths of the prefixes, and build the oracles, which check the rest."""
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

    def smallest_count(
        self, users: int, *, level: float = 0.95, beam: int = BEAM, power: float = 0.9
    ) -> float:
        """Compute how many of `users` must hold a value so that it is found with probability
        `power`.

        By the normal approximation: it must stay among the `beam` best of every length and be
        significant at the last (docs/proofs/local-intervals.md, theorem 8).

        >>> round(PrefixSearch(2, bits=30, first=10, step=10).smallest_count(300_000))
        4923
        """
        thresholds = self._score_thresholds(level, beam)
        low = 0.0
        high = 100.0
        for _ in range(50):
            score = (low + high) / 2
            chance = prod(_NORMAL.cdf(score - threshold) for threshold in thresholds)
            low, high = (score, high) if chance < power else (low, score)
        return high * self.noise(users)

    def _candidate_counts(self, beam: int) -> list[int]:
        """How many prefixes are tried at every length."""
        counts = [1 << self.first]
        for before, length in pairwise(self.lengths):
            counts.append(min(counts[-1], beam) << (length - before))
        return counts

    def _score_thresholds(self, level: float, beam: int) -> list[float]:
        """Compute the scores above which prefixes are kept, then the one for final values."""
        *inner, last = self._candidate_counts(beam)
        kept = [_NORMAL.inv_cdf(1 - beam / count) for count in inner if count > beam]
        return [*kept, _NORMAL.inv_cdf(1 - (1 - level) / last)]

    def server_steps(self, users: int, beam: int = BEAM) -> int:
        """How many (report, candidate) pairs `find` looks at: about two nanoseconds each."""
        return users // len(self.lengths) * sum(self._candidate_counts(beam))

    def find(
        self, payloads: Payloads, *, keep: int = 32, level: float = 0.95, beam: int = BEAM
    ) -> tuple[NDArray[np.int64], Estimate]:
        """Find frequent values: return (values, their counts), largest first.

        Only counts above zero at `level` over all values tried survive.
        """
        good = payloads[self.valid(payloads)]
        prefixes = np.zeros(1, np.int64)
        before = 0
        for number, (length, oracle) in enumerate(zip(self.lengths, self.oracles, strict=True)):
            answers = self.answers(good, number)
            support = oracle.support_extensions(answers, prefixes, length - before).ravel()
            counts = oracle.debias(support, len(answers))
            candidates = extend_prefixes(prefixes, length - before)
            prefixes = candidates[np.argsort(counts)[::-1][: max(beam, keep)]]
            before = length
        threshold = chance_support(oracle, len(answers), len(candidates), level)
        estimate = scale_estimate(oracle, counts, len(answers), len(good), len(self.lengths))
        order, kept = keep_largest(estimate, np.flatnonzero(support > threshold), keep)
        return candidates[order], kept


def best_search(
    epsilon: Number, bits: int, users: int, *, server_steps: int = 20_000_000_000
) -> PrefixSearch:
    """Choose the prefix search that finds the rarest values with at most `server_steps` pairs.

    Raises ParameterError where none has so few.

    >>> search = best_search(2, 30, 300_000)
    >>> search.lengths, round(search.smallest_count(300_000))
    ((16, 27, 30), 4246)
    """
    whole_number(users, "users")
    make: Any = PrefixSearch
    best: PrefixSearch | None = None
    for first in range(1, min(bits, 18) + 1):
        for step in range(2, 15):
            search: PrefixSearch = make(epsilon, bits, first, step)
            if search.server_steps(users) <= server_steps and (
                best is None or search.smallest_count(users) < best.smallest_count(users)
            ):
                best = search
    if best is None:
        raise ParameterError("no prefix search has so few server steps: allow more of them")
    return best
