"""The statistical tester: does any event of two neighbours break P1(S) <= e^epsilon P2(S) + delta?

Runs are split before they are looked at: the first part chooses events, the second decides, once,
at a sample size fixed in advance. Every event tested has two Clopper-Pearson ends in each
direction, all sharing `alpha` by the union bound: a mechanism that keeps its claim is accused with
probability at most alpha. One event bounds delta at every epsilon at once (the ends do not depend
on epsilon), so the whole profile is tested and not one point. docs/proofs/audit.md#the-tester. A
test gives lower bounds: "not refuted" is no proof of privacy.

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
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from dither.accounting.curves import delta as claimed_delta
from dither.accounting.curves import epsilon as claimed_epsilon
from dither.audit.confidence import ceiling, check_alpha, log_ratio, lower, upper
from dither.audit.events import Event, choose_views, count_cells, search_events
from dither.audit.outputs import Batch, Raised, Reader, View, draw, is_vectorised
from dither.errors import ParameterError
from dither.privacy.losses import Loss

Outcome = Literal["violated", "not refuted", "inconclusive"]
LIMITS = (
    "A test gives a lower bound on the loss, never a proof: 'not refuted' means that these events "
    "on this pair of "
    "neighbours did not show a violation.",
    "Other neighbours, other events, timing and memory were not tested.",
    "Above the ceiling nothing can be shown with this many runs.",
)
_CHUNK = 1_000_000
_STEP = 5_000
_MOST_CHOOSING = 200_000
_EVENTS = 5  # that the search may hand on, in each direction
_CURVE = 50_000


@dataclass(frozen=True)
class Budget:
    """How much may be spent: `runs` on each of the two inputs, fixed in advance, and the rate of
    false alarms."""

    runs: int = 100_000
    alpha: float = 1e-6

    def __post_init__(self) -> None:
        check_alpha(self.alpha)
        if isinstance(self.runs, bool) or not isinstance(self.runs, int) or self.runs < 20:
            raise ParameterError(f"runs must be an integer of at least 20, got {self.runs!r}")

    @property
    def choosing(self) -> int:
        """Runs that choose events; the others test them."""
        return min(self.runs // 2, _MOST_CHOOSING)

    @property
    def testing(self) -> int:
        return self.runs - self.choosing


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
        likely_side, rare_side = (
            ("first", "second") if self.direction == "d1 over d2" else ("second", "first")
        )
        return (
            f"'{self.event}' has probability above {self.low:.6g} on the {likely_side} input and "
            f"below {self.high:.6g} on the {rare_side} ({self.hits[0]:,} and {self.hits[1]:,} of "
            f"{self.runs:,} runs)"
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
    certificate: Evidence | None
    evidence: tuple[Evidence, ...]
    runs: int
    choosing: int
    alpha: float
    profile: tuple[tuple[float, float, float], ...] = field(repr=False)
    roc: tuple[tuple[float, float], ...] = field(repr=False)
    limits: tuple[str, ...] = field(default=LIMITS, repr=False)

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
        claim = f"claimed epsilon {self.epsilon:.6g}, delta {self.delta:.3g}"
        if self.certificate is not None and self.violated:
            return (
                f"{self.name}: violated. {claim}; but {self.certificate}, so epsilon >= "
                f"{self.epsilon_lower:.4g} at "
                f"that delta; confidence 1 - {self.alpha:g}"
            )
        reach = (
            f"largest epsilon shown {self.epsilon_lower:.4g}, ceiling of {self.runs:,} "
            f"runs {self.ceiling:.4g}"
        )
        return f"{self.name}: {self.outcome}. {claim}; {reach}"

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
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
        plain["profile"] = [list(row) for row in self.profile]
        plain["roc"] = [list(row) for row in self.roc]
        plain["limits"] = list(self.limits)
        return plain


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
    many at once. `events` are tested whatever the search finds.
    """
    spend = budget or Budget()
    if claim is not None and epsilon is None:
        epsilon = claimed_epsilon(claim, delta).upper
    if epsilon is None or not math.isfinite(epsilon) or epsilon < 0 or not 0 <= delta < 1:
        raise ParameterError(
            "a claim needs a finite epsilon >= 0 and a delta in [0, 1), or claim=a loss with an "
            "epsilon"
        )
    many = is_vectorised(mechanism) if vectorised is None else vectorised
    title = name or str(getattr(mechanism, "__name__", type(mechanism).__name__))
    with _ProgressBar(progress, title, 2 * spend.runs) as tick:
        raw = [_draw_outputs(mechanism, data, spend.choosing, many, tick) for data in (d1, d2)]
        _refuse_all_raised(raw)
        read = Reader.of(*raw)
        first = [read(outputs) for outputs in raw]
        del raw
        share = spend.alpha / (2 * 2 * (_EVENTS + len(events)))  # two directions, two ends each
        searched_views = choose_views(*first)
        chosen = []
        for direction, side in (("d1 over d2", 0), ("d2 over d1", 1)):
            found_events = search_events(
                searched_views,
                first[side],
                first[1 - side],
                epsilon,
                delta,
                spend.testing,
                share,
                _EVENTS,
            )
            chosen.append((direction, side, [*found_events, *events]))
        every = {id(event): event for _, _, group in chosen for event in group}
        hits, kept = _count_hits(
            mechanism, (d1, d2), read, list(every.values()), spend.testing, many, tick
        )
    evidence = []
    for direction, side, group in chosen:
        for event in group:
            pair = (hits[id(event)][side], hits[id(event)][1 - side])
            low, high = lower(pair[0], spend.testing, share), upper(pair[1], spend.testing, share)
            evidence.append(Evidence(event.text, direction, pair, spend.testing, low, high))
    return _judge_evidence(
        title,
        epsilon,
        delta,
        claim,
        spend,
        share,
        evidence,
        _compute_roc(searched_views[0], first, kept),
    )


def _refuse_all_raised(raw: list[Any]) -> None:
    """Refuse a mechanism that raised in every run: it would look innocent.

    Most likely it was called wrongly.
    """
    if all(isinstance(output, Raised) for outputs in raw for output in outputs):
        first = raw[0][0]
        raise ParameterError(
            f"the mechanism raised in every run ({first.kind}: {first.message}): nothing was tested"
        )


def _draw_outputs(
    mechanism: Callable[..., Any], data: Any, runs: int, many: bool, tick: Callable[[int], None]
) -> Any:
    """Draw the raw outputs of the runs that choose events."""
    if many:
        batch = draw(mechanism, data, runs, vectorised=True)
        tick(runs)
        return batch
    outputs: list[Any] = []
    while len(outputs) < runs:
        chunk = draw(mechanism, data, min(_STEP, runs - len(outputs)), vectorised=False)
        outputs += chunk
        tick(len(chunk))
    return outputs


def _count_hits(
    mechanism: Callable[..., Any],
    pair: tuple[Any, Any],
    read: Reader,
    events: list[Event],
    runs: int,
    many: bool,
    tick: Callable[[int], None],
) -> tuple[dict[int, list[int]], list[Batch]]:
    """Hits of every event on both sides, chunk by chunk; the first chunk is kept for the ROC
    curve."""
    hits = {id(event): [0, 0] for event in events}
    kept: list[Batch] = []
    for side, data in enumerate(pair):
        done = 0
        while done < runs:
            step = min(_CHUNK if many else _STEP, runs - done)
            chunk = read(draw(mechanism, data, step, vectorised=many))
            for event in events:
                hits[id(event)][side] += int(np.count_nonzero(event.holds(chunk)))
            if not done:
                kept.append(chunk.take(slice(0, _CURVE)))
            done += step
            tick(step)
    return hits, kept


def _judge_evidence(
    name: str,
    epsilon: float,
    delta: float,
    claim: Loss | None,
    spend: Budget,
    share: float,
    evidence: list[Evidence],
    roc: tuple[tuple[float, float], ...],
) -> Verdict:
    best = max(evidence, key=lambda entry: entry.epsilon(delta), default=None)
    shown = best.epsilon(delta) if best else 0.0
    top = ceiling(spend.testing, share, delta)
    breaking = max(evidence, key=lambda entry: entry.delta(epsilon), default=None)
    broken = breaking is not None and breaking.delta(epsilon) > delta
    profile = []
    epsilon_grid = sorted(
        {0.0, epsilon, *(epsilon * i / 8 for i in range(1, 17)), *((shown,) if shown else ())}
    )
    for grid_epsilon in epsilon_grid:
        measured = max((entry.delta(grid_epsilon) for entry in evidence), default=0.0)
        promised = (
            claimed_delta(claim, grid_epsilon).upper
            if claim is not None
            else (delta if grid_epsilon >= epsilon else math.nan)
        )
        profile.append((grid_epsilon, promised, measured))
        if measured > promised:  # never true of a promise that is not a number
            broken = True
            breaking = max(evidence, key=lambda entry: entry.delta(grid_epsilon))
    outcome: Outcome = "violated" if broken else "not refuted" if top > epsilon else "inconclusive"
    return Verdict(
        name=name,
        outcome=outcome,
        epsilon=float(epsilon),
        delta=float(delta),
        epsilon_lower=shown,
        ceiling=top,
        certificate=breaking if broken else best,
        evidence=tuple(evidence),
        runs=spend.runs,
        choosing=spend.choosing,
        alpha=spend.alpha,
        profile=tuple(profile),
        roc=roc,
    )


def _compute_roc(
    view: View, first: list[Batch], kept: list[Batch]
) -> tuple[tuple[float, float], ...]:
    """False against true positives of an attacker who learned likelihood ratios from the first
    part: an estimate."""
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
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn(), transient=True
        )
        self._shown = shown
        self._name = name
        self._total = total

    def __enter__(self) -> Callable[[int], None]:
        if not self._shown:
            return lambda _: None
        self._bar.start()
        task = self._bar.add_task(self._name, total=self._total)
        return lambda done: self._bar.advance(task, done)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._bar.stop()
