"""What a test of a claim may spend, and what it says: budget, evidence, verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from dither.audit.confidence import check_alpha, log_ratio
from dither.audit.guessing import Guesses
from dither.errors import ParameterError
from dither.figures import write_bound

Outcome = Literal["violated", "not refuted", "inconclusive"]
LIMITS = (
    "A test gives a lower bound on the loss, never a proof: 'not refuted' means that these events "
    "on this pair of "
    "neighbours did not show a violation.",
    "Other neighbours, other events, timing, memory, what the mechanism prints or writes and what "
    "it keeps from one run to the next were not tested.",
    "Above the ceiling nothing can be shown with this many runs.",
)
_FEWEST_CHOOSING = 20_000
_MOST_CHOOSING = 200_000
SEARCHED_EVENTS = 5  # that the search may hand on, in each direction
_EVENTS_PART = 0.5  # of alpha; the guessing test has the rest


@dataclass(frozen=True)
class Budget:
    """How much may be spent: `runs` on each of the two inputs, fixed in advance, and the rate of
    false alarms."""

    runs: int = 200_000
    alpha: float = 1e-6

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if isinstance(self.runs, bool) or not isinstance(self.runs, int) or self.runs < 20:
            raise ParameterError(f"runs must be an integer of at least 20, got {self.runs!r}")

    @property
    def choosing(self) -> int:
        """Runs that choose events and the guesser; the others test them."""
        few = max(_FEWEST_CHOOSING, self.runs // 4)
        return min(self.runs // 2, few, _MOST_CHOOSING)

    @property
    def testing(self) -> int:
        return self.runs - self.choosing

    @property
    def guess_alpha(self) -> float:
        """The share of alpha that the guessing test spends."""
        return (1 - _EVENTS_PART) * self.alpha

    def end_alpha(self, own_events: int) -> float:
        """The share of each confidence end: events of the search and one's own, each in two
        directions with two ends."""
        return _EVENTS_PART * self.alpha / (2 * 2 * (SEARCHED_EVENTS + own_events))


@dataclass(frozen=True)
class Evidence:
    """One event in one direction: its hits on both sides, and confidence ends of its probabilities.

    All ends of a test hold together with probability 1 - alpha.
    """

    event: str
    direction: str
    hits: tuple[int, int]
    runs: int
    low: float
    high: float

    def __str__(self) -> str:
        """Say the bounds of the event's probability on both inputs, and the counts behind them."""
        likely_side, rare_side = (
            ("first", "second") if self.direction == "d1 over d2" else ("second", "first")
        )
        return (
            f"'{self.event}' has probability above {write_bound(self.low)} on the {likely_side} "
            f"input and below {write_bound(self.high, up=True)} on the {rare_side} "
            f"({self.hits[0]:,} and {self.hits[1]:,} of {self.runs:,} runs)"
        )

    def delta(self, epsilon: float) -> float:
        """A lower bound on delta at this epsilon, by the event or by its complement the other way
        round."""
        scale = math.exp(min(700.0, epsilon))
        return max(0.0, self.low - scale * self.high, (1 - self.high) - scale * (1 - self.low))

    def epsilon(self, delta: float) -> float:
        """A lower bound on epsilon at this delta."""
        return max(
            log_ratio(self.low, self.high, delta), log_ratio(1 - self.high, 1 - self.low, delta)
        )

    def to_json(self) -> dict[str, Any]:
        names = ("event", "direction", "hits", "runs", "low", "high")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Verdict:
    """What the runs showed about a claim."""

    name: str
    outcome: Outcome
    epsilon: float
    delta: float
    epsilon_lower: float
    ceiling: float
    certificate: Evidence | Guesses | None
    evidence: tuple[Evidence, ...]
    runs: int
    choosing: int
    alpha: float
    profile: tuple[tuple[float, float, float], ...] = field(repr=False)
    roc: tuple[tuple[float, float], ...] = field(repr=False)
    limits: tuple[str, ...] = field(default=LIMITS, repr=False)
    guesses: Guesses | None = None
    unexamined: tuple[str, ...] = ()

    @property
    def violated(self) -> bool:
        return self.outcome == "violated"

    @property
    def area(self) -> float:
        """Area under the measured ROC curve; guessing has 0.5."""
        x = np.array([p[0] for p in self.roc])
        y = np.array([p[1] for p in self.roc])
        return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2)) if len(x) > 1 else 0.5

    def __str__(self) -> str:
        """Say the outcome in one line: the claim, and the evidence or the reach of the test."""
        epsilon = write_bound(self.epsilon, up=True)
        claim = f"claimed epsilon {epsilon}, delta {write_bound(self.delta, up=True)}"
        if self.certificate is not None and self.violated:
            least = f", so epsilon >= {write_bound(self.epsilon_lower)} at that delta"
            shown = least if self.epsilon_lower > self.epsilon else ", against the claimed curve"
            confidence = f"confidence 1 - {write_bound(self.alpha, up=True)}"
            return f"{self.name}: violated. {claim}; but {self.certificate}{shown}; {confidence}"
        reach = (
            f"largest epsilon shown {write_bound(self.epsilon_lower)}, ceiling of {self.runs:,} "
            f"runs {write_bound(self.ceiling, up=True)}"
        )
        missing = f"; not examined: {'; '.join(self.unexamined)}" if self.unexamined else ""
        return f"{self.name}: {self.outcome}. {claim}; {reach}{missing}"

    def to_json(self) -> dict[str, Any]:
        """Write everything as plain data."""
        plain = {
            name: getattr(self, name)
            for name in ("name", "outcome", "epsilon", "delta", "epsilon_lower", "ceiling")
        }
        plain |= {
            "runs": self.runs,
            "choosing": self.choosing,
            "alpha": self.alpha,
            "roc_area": self.area,
        }
        plain["certificate"] = None if self.certificate is None else self.certificate.to_json()
        plain["evidence"] = [entry.to_json() for entry in self.evidence]
        plain["guesses"] = None if self.guesses is None else self.guesses.to_json()
        plain["unexamined"] = list(self.unexamined)
        plain["profile"] = [list(row) for row in self.profile]
        plain["roc"] = [list(row) for row in self.roc]
        plain["limits"] = list(self.limits)
        return plain
