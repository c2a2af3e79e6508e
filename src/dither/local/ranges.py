"""Range counts, prefixes and quantiles over an ordered domain, by a hierarchy of oracles.

Each user reports on *one* level at full epsilon (split users, not budget): its node there, by the
best oracle with a cheap server; consistency makes the tree add up. Cormode, Kulkarni, Srivastava
2019; docs/proofs/local.md, theorem 11. Payload: the level (1 byte; the root's children are level
1), then the oracle's payload, padded with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.local.choose import choose
from dither.local.estimate import Estimate
from dither.local.linear import Contributions, contribute_flat
from dither.local.ordered import Ordered
from dither.local.postprocess import consistent_tree, weigh_raw_nodes
from dither.local.support import Oracle
from dither.local.values import read_values
from dither.local.wire import Payloads
from dither.privacy.noise import Words, uniform_below
from dither.stored import stored

Floats = NDArray[np.float64]


@stored(branching="branching")
@dataclass(frozen=True)
class Hierarchy(Oracle):
    """A tree over 0..domain-1 with `branching` children a node; domain is a power of branching."""

    type = "hierarchy"
    branching: int = 4

    def __post_init__(self) -> None:
        """Check that the domain is a power of `branching`, so that the tree is complete."""
        super().__post_init__()
        if self.branching < 2 or self.branching**self.levels != self.domain:
            raise ParameterError(
                "domain must be a power of branching (pad the domain: unused values cost nothing)"
            )

    @property
    def levels(self) -> int:
        """Count the levels of the tree below its root."""
        height = 0
        size = 1
        while size < self.domain:
            height += 1
            size *= max(2, self.branching)
        return height

    @cached_property
    def oracles(self) -> tuple[Oracle, ...]:
        """The oracle of every level, the root's children first; one server step a report."""
        sizes = [self.branching**level for level in range(1, self.levels + 1)]
        return tuple(choose(self.epsilon, size, server_steps=1).oracle for size in sizes)

    @property
    def payload_bytes(self) -> int:
        return 1 + max(oracle.payload_bytes for oracle in self.oracles)

    def derived(self) -> dict[str, Any]:
        return {"levels": [oracle.to_json() for oracle in self.oracles]}

    def _node(self, values: Any, level: int) -> Any:
        return values // self.branching ** (self.levels - level)

    def permanent(
        self, values: Any, source: Words, devices: NDArray[np.int64] | None = None
    ) -> Payloads:
        """Draw a level for each value, and report its node there by the level's oracle.

        A payload is the level (one byte) and the oracle's payload, padded with zeros.
        """
        held = read_values(values, self.domain)
        level = 1 + uniform_below(self.levels, len(held), source=source)
        payloads = np.zeros((len(held), self.payload_bytes), np.uint8)
        payloads[:, 0] = level
        for number, oracle in enumerate(self.oracles, 1):
            here = np.flatnonzero(level == number)
            answer = oracle.permanent(self._node(held[here], number), source)
            payloads[here[:, None], 1 + np.arange(oracle.payload_bytes)] = answer
        return payloads

    def law(self, value: int) -> dict[bytes, Fraction]:
        """Compute the exact probability of every payload that a device holding `value` may send.

        Levels are equally likely; the level's oracle reports the node that holds the value.
        """
        law = {}
        for number, oracle in enumerate(self.oracles, 1):
            for answer, weight in oracle.law(self._node(value, number)).items():
                law[bytes([number]) + answer.ljust(self.payload_bytes - 1, b"\0")] = (
                    weight / self.levels
                )
        return law

    def valid(self, payloads: Payloads) -> NDArray[np.bool_]:
        """Return a mask of the payloads that are a level, a report that this level allows, and
        zeros."""
        good = np.zeros(len(payloads), np.bool_)
        for level, oracle in enumerate(self.oracles, 1):
            end = 1 + oracle.payload_bytes
            at_level = payloads[:, 0] == level
            good |= (
                at_level & oracle.valid(payloads[:, 1:end]) & (payloads[:, end:] == 0).all(axis=1)
            )
        return good

    @property
    def tally_size(self) -> int:
        return sum(oracle.tally_size + 1 for oracle in self.oracles)

    def tally(self, payloads: Payloads) -> NDArray[np.int64]:
        """Join the tallies of all levels, each followed by the number of its reports."""
        tallies: list[NDArray[np.int64]] = []
        for number, oracle in enumerate(self.oracles, 1):
            here = payloads[payloads[:, 0] == number, 1 : 1 + oracle.payload_bytes]
            tallies += [oracle.tally(here), np.array([len(here)])]
        return np.concatenate(tallies)

    def _split_tally(self, tally: NDArray[Any]) -> list[tuple[NDArray[Any], Any]]:
        """Split a tally by level into pairs (tally of the level's oracle, number of reports)."""
        level_tallies = []
        start = 0
        for oracle in self.oracles:
            end = start + oracle.tally_size
            level_tallies.append((tally[start:end], tally[end]))
            start = end + 1
        return level_tallies

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        """Estimate counts of all nodes, level after level, scaled up from the users of the
        level."""
        level_counts = [
            o.debias(t, n) * self.levels
            for o, (t, n) in zip(self.oracles, self._split_tally(tally), strict=True)
        ]
        return np.concatenate(level_counts)

    def target(self, value: int) -> NDArray[Any]:
        return np.concatenate(
            [o.target(self._node(value, i)) for i, o in enumerate(self.oracles, 1)]
        )

    def user_variance(self, value: int) -> NDArray[Any]:
        """Compute the exact variance of every node's count from one report of `value`.

        A level is drawn with probability 1 / levels and its answer scaled by `levels`,
        which adds to the variance of the level's oracle.
        """
        level_variances = []
        for number, oracle in enumerate(self.oracles, 1):
            node = self._node(value, number)
            mean = oracle.target(node)
            level_variances.append(
                self.levels * (oracle.user_variance(node) + mean * mean) - mean * mean
            )
        return np.concatenate(level_variances)

    @property
    def noise_variance(self) -> Fraction:
        return self.levels * self.oracles[-1].noise_variance

    def variances(self, counts: Floats, reports: int) -> Floats:
        """Compute the variances of the leaf counts as the lowest level alone estimates them."""
        inner = self.oracles[-1].variances(counts / self.levels, max(1, reports // self.levels))
        leaf_variances: Floats = self.levels**2 * inner + counts * (self.levels - 1)
        return leaf_variances

    @property
    def largest_move(self) -> Fraction:
        return self.levels * max(oracle.largest_move for oracle in self.oracles)

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        counts = self.ordered(tally, reports).counts
        spread = self.variances(np.clip(counts, 0, reports), reports)
        notes = ("made consistent: the variances are those before, an upper bound in the mean",)
        return Estimate(counts, spread, reports, float(self.largest_move), notes=notes)

    def ordered(self, tally: NDArray[np.int64], reports: int) -> Ordered:
        """Compute leaf counts from all levels, so that every parent is the sum of its children."""
        raw = self.debias(tally, reports).astype(np.float64)
        levels = [np.array([float(reports)])]
        start = 0
        for oracle in self.oracles:
            levels.append(raw[start : start + oracle.domain])
            start += oracle.domain
        spread = [
            0.0,
            *(float(oracle.noise_variance) * self.levels * reports for oracle in self.oracles),
        ]
        counts = consistent_tree(levels, spread, self.branching)[-1]
        return Ordered(counts, reports, self.contribute)

    def level_weights(self, weights: Floats) -> list[Floats]:
        """The weights of the raw node estimates, level after level, in weighted sums of the leaves
        after consistency: the transpose of `consistent_tree`."""
        spread = [0.0, *(float(oracle.noise_variance) for oracle in self.oracles)]
        return weigh_raw_nodes(weights, spread, self.branching)[1:]

    def contribute(self, weights: Floats) -> tuple[Contributions, Floats]:
        """Compute one report's contributions to weighted sums of the leaves, and their means.

        `weights` has a row for each sum. The level is drawn uniformly and its estimates are scaled
        by the number of levels.
        """
        moments = np.zeros_like(weights)
        means = np.zeros_like(weights)
        largest = np.zeros(len(weights))
        for oracle, node_weights in zip(self.oracles, self.level_weights(weights), strict=True):
            leaves = self.domain // oracle.domain
            here = contribute_flat(oracle, node_weights)
            moments += self.levels * np.repeat(here.second_moments, leaves, axis=1)
            means += np.repeat(node_weights, leaves, axis=1)
            largest = np.maximum(largest, self.levels * here.largest)
        return Contributions(moments, largest), means

    def range_variance(self, start: int, end: int, reports: int) -> float:
        """The largest variance of a range: as if every user held the value that varies most."""
        weights = np.zeros((1, self.domain))
        weights[0, start:end] = 1.0
        contributions, means = self.contribute(weights)
        return reports * float((contributions.second_moments - means**2).max())
