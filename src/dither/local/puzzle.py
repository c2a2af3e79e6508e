"""New words by the sequence fragment puzzle (Apple 2017): fragments that carry a small hash of the
whole word.

A value of `bits` bits is cut into pieces of `step` bits (the last may be shorter). Half of the
users report one piece, its position drawn uniformly and public, together with a public tag of
`tag_bits` bits of the *whole* value; the other half report the whole value. The collector takes the
best pieces of every position and tag, joins pieces of equal tag, throws away words whose own tag is
another, and asks the whole-value reports which of the rest are real. Users are split,
not the budget: every report is at full epsilon (Apple splits it). docs/proofs/local.md, theorem 13.
Against prefix search: one pass over the reports, no wrong turn at a short prefix, but noise on
2**(step + tag_bits) cells. Payload: the group (1 byte; positions first, then as many groups of
whole values), then the payload of `hadamard` (a piece: piece * 2**tag_bits + tag) or of
`local_hash` (the whole value), padded with zeros.

>>> FragmentPuzzle(4, bits=30, step=10).positions
3
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.estimate import Estimate
from dither.local.hadamard import Hadamard
from dither.local.hashing import PRIME_BITS
from dither.local.kept import Search, chance_support, keep_largest, scale_estimate
from dither.local.localhash import LocalHash
from dither.local.odds import read_epsilon
from dither.local.support import Oracle
from dither.local.wire import Payloads
from dither.stored import stored

_PIECES = 48  # tried for one tag and position
_JOINS = 1024  # words tried for one tag


@stored(step="step", tag_bits="tag_bits", name="name", prime_bits="prime_bits")
@dataclass(frozen=True)
class FragmentPuzzle(Search):
    """Pieces of `step` bits of a value of `bits` bits, tagged with `tag_bits` bits of SHA-256."""

    type = "fragment_puzzle"
    step: int = 10
    tag_bits: int = 8
    name: str = "dither"
    prime_bits: int = PRIME_BITS

    def __post_init__(self) -> None:
        """Check the lengths of words, fragments and tags, and build the oracles."""
        super().__post_init__()
        object.__setattr__(self, "epsilon", read_epsilon(self.epsilon))
        if (
            not 1 <= self.step < self.bits <= 60
            or not 1 <= self.tag_bits <= 16
            or self.step + self.tag_bits > 22
        ):
            raise ParameterError(
                "need 1 <= step < bits <= 60, 1 <= tag_bits <= 16 and step + tag_bits <= 22"
            )
        _ = self.oracles

    @property
    def positions(self) -> int:
        return -(-self.bits // self.step)

    def tag(self, value: int) -> int:
        """The public tag of a value: the first `tag_bits` bits (big-endian) of
        sha256("name:value")."""
        digest = hashlib.sha256(f"{self.name}:{value}".encode()).digest()
        return int.from_bytes(digest[:2], "big") >> (16 - self.tag_bits)

    @cached_property
    def oracles(self) -> tuple[Oracle, ...]:
        pieces = Hadamard(self.epsilon, 1 << (self.step + self.tag_bits))
        whole = LocalHash(self.epsilon, 1 << self.bits, prime_bits=self.prime_bits)
        return (pieces,) * self.positions + (whole,) * self.positions

    def derived(self) -> dict[str, Any]:
        """List the documents of the two oracles (fragments, whole words) and the fragment count."""
        return {
            "piece": self.oracles[0].to_json(),
            "whole": self.oracles[-1].to_json(),
            "positions": self.positions,
        }

    def project_values(self, values: NDArray[np.int64], group: int) -> NDArray[np.int64]:
        """Compute what a group reports of each word: its fragment with a tag, or the whole word.

        Group g below `positions` reports the g-th fragment of `step` bits, followed by the
        tag, a small hash of the whole word. The last group reports the word.
        """
        if group >= self.positions:
            return values
        shift = max(0, self.bits - (group + 1) * self.step)
        width = min(self.step, self.bits - group * self.step)
        tags = {int(value): self.tag(int(value)) for value in np.unique(values)}
        tagged = np.array([tags[int(value)] for value in values], np.int64)
        tagged_pieces: NDArray[np.int64] = (
            (values >> shift & ((1 << width) - 1)) << self.tag_bits
        ) | tagged
        return tagged_pieces

    def _score_pieces(self, payloads: Payloads) -> list[NDArray[np.float64]]:
        """Compute for every position the score (in standard errors) of every piece and tag."""
        tables = []
        for group in range(self.positions):
            oracle = self.oracles[group]
            answers = self.answers(payloads, group)
            noise = sqrt(max(1, len(answers)) * float(oracle.noise_variance))
            counts = oracle.debias(oracle.tally(answers), len(answers))
            width = min(self.step, self.bits - group * self.step)
            tables.append((counts / noise).reshape(-1, 1 << self.tag_bits)[: 1 << width])
        return tables

    def candidates(self, payloads: Payloads) -> NDArray[np.int64]:
        """List words that the pieces spell, of every tag those with the best scores.

        A word has a piece for every position, all of its own tag. No piece has to be significant:
        the reports of whole values decide which words are real.
        """
        tables = self._score_pieces(payloads)
        words = []
        for tag in range(1 << self.tag_bits):
            spelt = self._join_pieces([table[:, tag] for table in tables])
            words += [word for word in spelt.tolist() if self.tag(word) == tag]
        return np.array(sorted(words), np.int64)

    def _join_pieces(self, scores: list[NDArray[np.float64]]) -> NDArray[np.int64]:
        """List the `_JOINS` words of one tag whose scores have the largest sum, position by
        position."""
        words = np.zeros(1, np.int64)
        totals = np.zeros(1)
        for column in scores:
            best = np.argsort(column)[::-1][:_PIECES]
            joined = ((words << (len(column).bit_length() - 1))[:, None] | best[None, :]).ravel()
            sums = (totals[:, None] + column[best][None, :]).ravel()
            order = np.argsort(sums)[::-1][:_JOINS]
            words = joined[order]
            totals = sums[order]
        return words

    def find(
        self, payloads: Payloads, *, keep: int = 32, level: float = 0.95
    ) -> tuple[NDArray[np.int64], Estimate]:
        """Find frequent values: return (values, their counts by whole-value reports), largest
        first.

        They are significant at `level` over all.
        """
        good = payloads[self.valid(payloads)]
        words = self.candidates(good)
        oracle = self.oracles[-1]
        assert isinstance(oracle, LocalHash)
        answers = np.concatenate(
            [self.answers(good, self.positions + i) for i in range(self.positions)]
        )
        support = oracle.support(answers, words)
        counts = oracle.debias(support, len(answers))
        estimate = scale_estimate(oracle, counts, len(answers), len(good), 2)
        threshold = chance_support(oracle, len(answers), len(words), level)
        order, kept = keep_largest(estimate, np.flatnonzero(support > threshold), keep)
        return words[order], kept
