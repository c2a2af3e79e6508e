"""Sparse vector (AboveThreshold): which of many adaptive queries exceed a public threshold, paying
for c hits only.

The noisy threshold is drawn once and kept; every query gets fresh noise of scale 2 c D / epsilon_2
(c D / epsilon_2 if the queries are monotone), D the sensitivity; the run ends with the c-th hit.
Any number of misses is free. Guarantee: Pure(epsilon_1 + epsilon_2), from the rounded scales (Lyu,
Su, Li 2017, algorithm 1 and theorem 4). With `value_scale` each hit is also answered, with noise of
its own: the noise of the comparison must never be shown. A miss is then None, since a noisy value
may be 0, and 0 == False. Proof: docs/proofs/sparse-vector.md#above-threshold.

>>> alarms = SparseVector.for_epsilon(1, hits=2)
>>> alarms.release([0, 10_000, 0, 10_000, 10_000], thresholds=5_000)
[False, True, False, True]
>>> alarms.loss().epsilon <= 1
True
>>> levels = SparseVector.for_epsilon(1, hits=1, values=True).release([0, 10_000], thresholds=5_000)
>>> levels[0] is None, 9_000 < levels[1] < 11_000
(True, True)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from typing import Any

from dither.canonical import Number, exact, number_text, positive, quote
from dither.errors import ParameterError
from dither.laws import LaplaceErrorLaw
from dither.privacy.losses import (
    ADD_REMOVE,
    Adjacency,
    DiscreteLaplace,
    Loss,
    Neighbours,
    Pure,
)
from dither.privacy.mechanisms.additive import exact_integers, round_up
from dither.privacy.noise import Words, discrete_laplace
from dither.privacy.noise.samplers import LARGEST, SMALLEST
from dither.privacy.noise.source import check_source
from dither.privacy.numbers import refuse_beyond_floats

Answer = bool | int | None
"""A miss or a hit: False or True; with values None, or the noisy value."""


@dataclass(frozen=True)
class SparseVectorErrorLaw:
    """Noise on the threshold and on each query: a miss or hit is right up to the sum of both."""

    threshold: LaplaceErrorLaw
    query: LaplaceErrorLaw

    def margin(self, queries: int, confidence: Number) -> int:
        """How far from their threshold values must be for all answers to be right.

        It holds for `queries` answers at once, with this confidence.
        """
        doubt = (1 - exact(confidence, "confidence")) / 2
        return self.threshold.interval(1 - doubt) + self.query.interval(1 - doubt / queries)


@dataclass(frozen=True)
class SparseVector:
    """The parameters of a run: scales, hits, and how far one unit moves a query."""

    threshold_scale: Fraction
    query_scale: Fraction
    hits: int
    sensitivity: int = 1
    monotone: bool = False
    value_scale: Fraction | None = None
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make the scales exact, and check scales, hits, sensitivity and monotone."""
        for name in ("threshold_scale", "query_scale", "value_scale"):
            setting = getattr(self, name)
            if setting is None and name == "value_scale":
                continue
            scale = positive(setting, name)
            if not SMALLEST <= scale <= LARGEST:
                raise ParameterError(
                    f"{name} must lie between 1/1000 and 2**60, got {number_text(scale)}"
                )
            object.__setattr__(self, name, scale)
        for name in ("hits", "sensitivity"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ParameterError(f"{name} must be a positive integer, got {quote(value)}")
        if self.monotone and self.neighbours == "replace":
            raise ParameterError(
                "queries are monotone under add_remove only: under replace leave monotone=False"
            )
        self.loss()

    @classmethod
    @refuse_beyond_floats
    def for_epsilon(
        cls,
        epsilon: Number,
        *,
        hits: int,
        sensitivity: int = 1,
        monotone: bool = False,
        values: bool = False,
        adjacency: Adjacency = ADD_REMOVE,
    ) -> SparseVector:
        """Split one price as 1 : (2 c)^(2/3) between threshold and queries (c^(2/3) if monotone).

        With `values` half the price goes to the answers of the hits.
        """
        price = positive(epsilon, "epsilon", "choose e.g. epsilon=0.5") / (2 if values else 1)
        for name, value in (("hits", hits), ("sensitivity", sensitivity)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ParameterError(f"{name} must be a positive integer, got {quote(value)}")
        factor = hits if monotone else 2 * hits
        first = price / (1 + Fraction(round(100 * factor ** (2 / 3)), 100))
        threshold = max(SMALLEST, round_up(sensitivity / first))
        query = max(SMALLEST, round_up(factor * sensitivity / (price - first)))
        answer = max(SMALLEST, round_up(hits * sensitivity / price)) if values else None
        return cls(threshold, query, hits, sensitivity, monotone, answer, *adjacency)

    def loss(self) -> Loss:
        """State what a whole run costs, however many queries it asks."""
        total_change = (1 if self.monotone else 2) * self.hits * self.sensitivity
        comparison_loss = Pure(
            self.sensitivity / self.threshold_scale + total_change / self.query_scale,
            neighbours=self.neighbours,
            unit=self.unit,
        )
        if self.value_scale is None:
            return comparison_loss
        value_loss = DiscreteLaplace(
            self.value_scale, self.sensitivity, neighbours=self.neighbours, unit=self.unit
        )
        return comparison_loss + (value_loss if self.hits == 1 else value_loss * self.hits)

    def error(self) -> SparseVectorErrorLaw:
        """How far from its threshold a value must be for its answer to be right."""
        return SparseVectorErrorLaw(
            LaplaceErrorLaw(self.threshold_scale), LaplaceErrorLaw(self.query_scale)
        )

    def start(self, *, source: Words | None = None) -> SparseVectorRun:
        """A run, in which each query may depend on the answers before it."""
        return SparseVectorRun(self, check_source(source))

    def release(
        self,
        values: Sequence[int] | Any,
        thresholds: Sequence[int] | int = 0,
        *,
        source: Words | None = None,
    ) -> list[Answer]:
        """Answer a list of queries, up to and including the last hit.

        Each answer is as `SparseVectorRun.ask` says.
        """
        run = self.start(source=source)
        exact_values = exact_integers(values).tolist()
        levels = repeat(thresholds) if isinstance(thresholds, int) else list(thresholds)
        if isinstance(levels, list) and len(levels) != len(exact_values):
            raise ParameterError(
                f"{len(exact_values)} values need as many thresholds, got {len(levels)}"
            )
        answers: list[Answer] = []
        for value, threshold in zip(exact_values, levels, strict=False):
            if run.hits_left:
                answers.append(run.ask(value, threshold))
        return answers


class SparseVectorRun:
    """A run in progress: one noisy threshold, and the hits that are left."""

    def __init__(self, rule: SparseVector, source: Words) -> None:
        """Start a run: draw the noise of its threshold, once for all queries."""
        self._rule = rule
        self._source = source
        self.hits_left = rule.hits
        self._shift = discrete_laplace(rule.threshold_scale, source=source)

    def ask(self, value: int, threshold: int = 0) -> Answer:
        """Answer one query: False for a miss and True for a hit.

        If the rule pays for values: None for a miss, the noisy value of a hit. A noisy value is an
        int and never a bool, so that `answer is None` tells a miss from a hit whose value is 0.
        Raises ParameterError once the hits are used up.
        """
        if not self.hits_left:
            raise ParameterError("the run is over: its hits are used up; start and pay for another")
        for name, number in (("value", value), ("threshold", threshold)):
            if isinstance(number, bool) or not isinstance(number, int):
                raise ParameterError(f"{name} must be an exact integer, got {quote(number)}")
        has_values = self._rule.value_scale is not None
        noise = discrete_laplace(self._rule.query_scale, source=self._source)
        if value + noise < threshold + self._shift:
            return None if has_values else False
        self.hits_left -= 1
        if self._rule.value_scale is None:
            return True
        return int(value + discrete_laplace(self._rule.value_scale, source=self._source))
