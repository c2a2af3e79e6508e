"""The statistical tester: does any event of two neighbours break P1(S) <= e^epsilon P2(S) + delta?

Runs are split before they are looked at: the first part chooses events and a guesser, the second
decides, once, at a sample size fixed in advance. Every event has two Clopper-Pearson ends in each
direction, which share half of `alpha` by the union bound; the guesser has the other half, in one
exact test. So a mechanism that keeps its claim is accused with probability at most alpha. One event
bounds delta at every epsilon at once (the ends do not depend on epsilon), so the whole profile is
tested and not one point. docs/proofs/audit.md#the-tester. A test gives lower bounds: "not refuted"
is no proof of privacy.

>>> from dither.privacy.noise import discrete_laplace
>>> def half_noise(count, size):
...     return count + discrete_laplace(1, size)  # epsilon is 1, not 1/2
>>> verdict = test(half_noise, 10, 11, epsilon=0.5, budget=Budget(runs=20_000))
>>> verdict.outcome, 0.5 < verdict.epsilon_lower <= 1, verdict.ceiling > 5
('violated', True, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dither.accounting.curves import delta as claimed_delta
from dither.accounting.curves import epsilon as claimed_epsilon
from dither.audit.canonical_outputs import Raised
from dither.audit.confidence import ceiling, lower, upper
from dither.audit.events import Event, choose_views, count_cells, search_events
from dither.audit.guess_tail import LEVELS, guess_ceiling
from dither.audit.guessing import (
    Guesser,
    Guesses,
    choose_guesser,
    count_guesses,
    count_trials,
    flip_coins,
    judge_guesses,
)
from dither.audit.outputs import Batch, Reader
from dither.audit.runs import draw, is_vectorised
from dither.audit.verdict import (
    LIMITS,
    SEARCHED_EVENTS,
    Budget,
    Evidence,
    Outcome,
    Verdict,
)
from dither.audit.views import View
from dither.errors import ParameterError
from dither.privacy.losses import Loss

_CHUNK = 1_000_000
_STEP = 5_000
_CURVE = 50_000
_DIRECTIONS = (("d1 over d2", 0), ("d2 over d1", 1))
Tick = Callable[[int], None]


@dataclass(frozen=True)
class _Claim:
    """What is tested: a point, and the curve of a loss where one is claimed."""

    epsilon: float
    delta: float
    loss: Loss | None

    def allows(self, epsilon: float) -> float:
        """The delta that the claim allows at this epsilon; NaN where it says nothing."""
        if self.loss is not None:
            return float(claimed_delta(self.loss, epsilon).upper)
        return self.delta if epsilon >= self.epsilon else math.nan

    def list_points(self) -> list[tuple[float, float]]:
        """Points that the guessing test may choose from: that of the claim, and some of its
        curve."""
        points = [(self.epsilon, self.delta)]
        if self.loss is not None:
            points = [(e, self.allows(e)) for e in (self.epsilon * i / 4 for i in range(1, 7))]
        return [(e, delta) for e, delta in points if delta < 1]


@dataclass(frozen=True)
class _Pair:
    """A mechanism and the two inputs on which it is run."""

    mechanism: Callable[..., Any]
    inputs: tuple[Any, Any]
    vectorised: bool


@dataclass(frozen=True)
class _Chosen:
    """What the first part of the runs chose."""

    read: Reader
    first: list[Batch]
    views: list[View]
    events: tuple[list[Event], list[Event]]
    guesser: Guesser | None


@dataclass
class _Counts:
    """What the second part of the runs gave."""

    hits: dict[int, list[int]]
    right: NDArray[np.int64] = field(default_factory=lambda: np.zeros(LEVELS, np.int64))
    wrong: NDArray[np.int64] = field(default_factory=lambda: np.zeros(LEVELS, np.int64))
    kept: list[Batch] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)


def test(
    mechanism: Callable[..., Any],
    d1: Any,
    d2: Any,
    epsilon: float | None = None,
    delta: float = 0.0,
    *,
    claim: Loss | None = None,
    budget: Budget | None = None,
    events: Sequence[Event] = (),
    name: str | None = None,
    progress: bool = False,
    vectorised: bool | None = None,
) -> Verdict:
    """Try to refute that `mechanism` is (epsilon, delta)-DP (or has the whole curve of `claim`) on
    neighbours d1, d2.

    `mechanism(data)` gives one output of any kind; a mechanism with a parameter `size` is asked for
    many at once. Every call gets a copy of its input. `events` are tested whatever the search
    finds.
    """
    spend = budget or Budget()
    if claim is not None and epsilon is None:
        epsilon = claimed_epsilon(claim, delta).upper
    if epsilon is None or not math.isfinite(epsilon) or epsilon < 0 or not 0 <= delta < 1:
        raise ParameterError(
            "a claim needs a finite epsilon >= 0 and a delta in [0, 1), or claim=a loss with an "
            "epsilon"
        )
    stated = _Claim(float(epsilon), float(delta), claim)
    many = is_vectorised(mechanism) if vectorised is None else vectorised
    pair = _Pair(mechanism, (d1, d2), many)
    title = name or str(getattr(mechanism, "__name__", type(mechanism).__name__))
    with _ProgressBar(progress, title, 2 * spend.runs) as tick:
        chosen = _choose(pair, stated, spend, events, tick)
        coins = flip_coins(spend.testing)
        counts = _count_hits(pair, chosen, spend.testing, coins, tick)
    guesses = None
    if chosen.guesser is not None and coins is not None:
        guesses = judge_guesses(
            chosen.guesser, counts.right, counts.wrong, sum(coins), spend.guess_alpha
        )
    evidence = _list_evidence(chosen, counts, spend, len(events))
    return _judge(title, stated, spend, len(events), evidence, guesses, chosen, counts)


def _choose(
    pair: _Pair, claim: _Claim, spend: Budget, own_events: Sequence[Event], tick: Tick
) -> _Chosen:
    """Learn from the first part of the runs: how to read outputs, events, and a guesser."""
    raw = [_draw_outputs(pair, data, spend.choosing, tick) for data in pair.inputs]
    _refuse_all_raised(raw)
    read = Reader.of(*raw)
    first = [read(outputs) for outputs in raw]
    del raw
    views = choose_views(*first)
    end_alpha = spend.end_alpha(len(own_events))
    groups = []
    for _, input_index in _DIRECTIONS:
        searched = search_events(
            views,
            first[input_index],
            first[1 - input_index],
            claim.epsilon,
            claim.delta,
            spend.testing,
            end_alpha,
            SEARCHED_EVENTS,
        )
        groups.append([*searched, *own_events])
    guesser = choose_guesser(
        views, first[0], first[1], claim.list_points(), spend.testing, spend.guess_alpha
    )
    return _Chosen(read, first, views, (groups[0], groups[1]), guesser)


def _refuse_all_raised(raw: list[Any]) -> None:
    """Refuse a mechanism that raised in every run: it would look innocent.

    Most likely it was called wrongly.
    """
    if all(isinstance(output, Raised) for outputs in raw for output in outputs):
        first = raw[0][0]
        raise ParameterError(
            f"the mechanism raised in every run ({first.kind}: {first.message}): nothing was tested"
        )


def _draw_outputs(pair: _Pair, data: Any, runs: int, tick: Tick) -> Any:
    """Draw the raw outputs of the runs that choose events."""
    if pair.vectorised:
        batch = draw(pair.mechanism, data, runs, vectorised=True)
        tick(runs)
        return batch
    outputs: list[Any] = []
    while len(outputs) < runs:
        chunk = draw(pair.mechanism, data, min(_STEP, runs - len(outputs)), vectorised=False)
        outputs += chunk
        tick(len(chunk))
    return outputs


def _count_hits(
    pair: _Pair, chosen: _Chosen, runs: int, coins: tuple[int, int] | None, tick: Tick
) -> _Counts:
    """Hits of every event and guesses on both sides, chunk by chunk; the first chunk is kept for
    the ROC curve."""
    events = {id(event): event for group in chosen.events for event in group}
    counts = _Counts({key: [0, 0] for key in events})
    for batch in chosen.first:
        counts.unread |= batch.unread
    for input_index, data in enumerate(pair.inputs):
        done = 0
        while done < runs:
            step = min(_CHUNK if pair.vectorised else _STEP, runs - done)
            chunk = chosen.read(draw(pair.mechanism, data, step, vectorised=pair.vectorised))
            counts.unread |= chunk.unread
            for key, event in events.items():
                counts.hits[key][input_index] += int(np.count_nonzero(event.holds(chunk)))
            if chosen.guesser is not None and coins is not None and done < coins[input_index]:
                guessed = chunk.take(slice(0, coins[input_index] - done))
                signed = chosen.guesser.guess(guessed)
                right, wrong = count_guesses(signed, first=input_index == 0)
                counts.right += right
                counts.wrong += wrong
            if not done:
                counts.kept.append(chunk.take(slice(0, _CURVE)))
            done += step
            tick(step)
    return counts


def _list_evidence(
    chosen: _Chosen, counts: _Counts, spend: Budget, own_events: int
) -> list[Evidence]:
    """Bound the probabilities of each chosen event on both inputs, from the testing runs."""
    alpha = spend.end_alpha(own_events)
    evidence = []
    for (direction, input_index), group in zip(_DIRECTIONS, chosen.events, strict=True):
        for event in group:
            hits = counts.hits[id(event)]
            pair = (hits[input_index], hits[1 - input_index])
            low = lower(pair[0], spend.testing, alpha)
            high = upper(pair[1], spend.testing, alpha)
            evidence.append(Evidence(event.text, direction, pair, spend.testing, low, high))
    return evidence


def _judge(
    name: str,
    claim: _Claim,
    spend: Budget,
    own_events: int,
    evidence: list[Evidence],
    guesses: Guesses | None,
    chosen: _Chosen,
    counts: _Counts,
) -> Verdict:
    """The verdict: what was shown, whether it breaks the claim, and what was not looked at."""
    best = max(evidence, key=lambda entry: entry.epsilon(claim.delta), default=None)
    shown = best.epsilon(claim.delta) if best else 0.0
    certificate: Evidence | Guesses | None = best
    if guesses is not None and guesses.delta >= claim.delta and guesses.epsilon_lower > shown:
        shown = guesses.epsilon_lower
        certificate = guesses
    profile = _measure_profile(claim, shown, evidence)
    broken = next((row[0] for row in profile if row[2] > row[1]), None)  # never true of NaN
    refuted = broken is not None or (guesses is not None and guesses.refuted)
    if broken is not None:
        certificate = max(evidence, key=lambda entry: entry.delta(broken))
    elif refuted:
        certificate = guesses
    top = _find_ceiling(spend, own_events, claim.delta)
    unexamined = tuple(f"{kind} in the outputs" for kind in sorted(counts.unread))
    looked = top > claim.epsilon and not unexamined
    outcome: Outcome = "violated" if refuted else "not refuted" if looked else "inconclusive"
    return Verdict(
        name=name,
        outcome=outcome,
        epsilon=claim.epsilon,
        delta=claim.delta,
        epsilon_lower=shown,
        ceiling=top,
        certificate=certificate,
        evidence=tuple(evidence),
        runs=spend.runs,
        choosing=spend.choosing,
        alpha=spend.alpha,
        profile=profile,
        roc=_compute_roc(chosen.views[0], chosen.first, counts.kept),
        limits=(*LIMITS, *_list_limits(chosen.read, unexamined)),
        guesses=guesses,
        unexamined=unexamined,
    )


def _measure_profile(
    claim: _Claim, bound: float, evidence: list[Evidence]
) -> tuple[tuple[float, float, float], ...]:
    """List (epsilon, delta allowed, delta shown) on a grid that has `bound`, the epsilon shown."""
    epsilon = claim.epsilon
    grid = sorted(
        {0.0, epsilon, *(epsilon * i / 8 for i in range(1, 17)), *([bound] * (bound > 0))}
    )
    return tuple(
        (e, claim.allows(e), max((entry.delta(e) for entry in evidence), default=0.0)) for e in grid
    )


def _find_ceiling(spend: Budget, own_events: int, delta: float) -> float:
    by_event = ceiling(spend.testing, spend.end_alpha(own_events), delta)
    return max(by_event, guess_ceiling(count_trials(spend.testing), delta, spend.guess_alpha))


def _list_limits(read: Reader, unexamined: tuple[str, ...]) -> list[str]:
    """List sentences about what these outputs left unexamined."""
    sentences = []
    if read.left_out:
        sentences.append(
            f"{read.left_out:,} more columns were compared on the choosing runs and differ less "
            "than those that were searched; they were tested in the hash of the whole output, and "
            "numbers in a weighted sum, not one by one."
        )
    if unexamined:
        sentences.append(
            f"Not examined, as it cannot be opened: {'; '.join(unexamined)}. Return numbers, "
            "texts, lists, dicts, tables or dataclasses."
        )
    return sentences


def _compute_roc(
    view: View, first: list[Batch], kept: list[Batch]
) -> tuple[tuple[float, float], ...]:
    """Estimate false against true positives of an attacker who learned from the first part.

    It is one who learned likelihood ratios; `kept` are the runs that are judged.
    """
    score = view.of
    values, p, q = count_cells(score(first[0]), score(first[1]), exact=True)
    if len(values) < 2:
        return ((0.0, 0.0), (1.0, 1.0))
    order = np.argsort(-(p + 1e-9) / (q + 1e-9), kind="stable")
    ranks = np.empty(len(values), np.int64)
    ranks[order] = np.arange(len(values))
    curves: list[NDArray[np.float64]] = []
    for batch in kept:
        scores = np.asarray(score(batch))
        positions = np.clip(np.searchsorted(values, scores), 0, len(values) - 1)
        curves.append(np.cumsum(np.bincount(ranks[positions], minlength=len(values))) / len(scores))
    fpr = np.concatenate([[0.0], curves[1]])
    tpr = np.concatenate([[0.0], curves[0]])
    curve_points = np.unique(np.linspace(0, len(fpr) - 1, 100).astype(int))
    return tuple((float(fpr[i]), float(tpr[i])) for i in curve_points)


class _ProgressBar:
    """A progress bar that is drawn only if `shown`."""

    def __init__(self, shown: bool, name: str, total: int) -> None:
        """Prepare a bar for `total` steps; `shown` says whether it appears at all."""
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), transient=True
        )
        self._shown = shown
        self._name = name
        self._total = total

    def __enter__(self) -> Callable[[int], None]:
        """Start the bar, and return the function that advances it."""
        if not self._shown:
            return lambda _: None
        self._bar.start()
        task = self._bar.add_task(self._name, total=self._total)
        return lambda done: self._bar.advance(task, done)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._bar.stop()
