"""Events, and the search for the best ones: half-lines, intervals, points, histogram cells, tails
of a learned score.

The search sees the first part of the runs only; what it finds is then tested on the others, so it
may look at as much as it likes. For one view of the outputs, cells are counted on both sides.
Half-lines are cumulative sums; the best interval for P1 - e^eps P2 is the maximal run of that
difference (Kadane); the best set of cells is a tail of their smoothed likelihood ratio; a logistic
classifier (as in DP-Sniper, Bichsel et al. 2021) turns vectors into one score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dither.audit.outputs import Batch, Numbers
from dither.audit.views import View, list_views

_BINS = 400
_MOST_CELLS = 200_000
_FEW_OUTPUTS = 300
_TRAIN = 20_000
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Event:
    """A set of outputs: a view of the output that is at most, at least, between, or among given
    numbers."""

    view: View
    kind: Literal["at_most", "at_least", "between", "among", "holds"]
    numbers: tuple[float, ...] = field(compare=False)
    text: str

    def holds(self, batch: Batch) -> NDArray[np.bool_]:
        """Return, for every output, True where it lies in the event."""
        value = self.view.of(batch)
        if self.kind == "holds":
            return np.asarray(value, np.bool_)
        if self.kind == "at_most":
            return np.asarray(value <= self.numbers[0])
        if self.kind == "at_least":
            return np.asarray(value >= self.numbers[0])
        if self.kind == "between":
            return np.asarray((value >= self.numbers[0]) & (value <= self.numbers[1]))
        members = np.array(self.numbers, value.dtype if value.dtype.kind == "i" else np.float64)
        return np.asarray(
            members[np.minimum(np.searchsorted(members, value), len(members) - 1)] == value
        )


def event(name: str, holds: Callable[[Any], Any]) -> Event:
    """Make an event of one's own: `holds(outputs)` gets the outputs and marks some with True.

    The outputs are an array where they are numbers. The event is tested whatever the search finds,
    so its power can be computed in advance.
    """
    return Event(
        View(name, lambda batch: np.asarray(holds(_read_outputs(batch)), np.bool_)),
        "holds",
        (),
        name,
    )


def _read_outputs(batch: Batch) -> Any:
    if batch.shown:
        return [batch.shown[int(key)] for key in batch.whole]
    return batch.full[:, 0] if batch.names == ("value",) else batch.full


@dataclass(frozen=True)
class CandidateEvent:
    """A candidate of the search: its shares among the choosing runs of both sides.

    `make` builds the event; it is called for the chosen candidates alone.
    """

    make: Callable[[], Event]
    left_share: float
    right_share: float


def choose_views(left: Batch, right: Batch) -> list[View]:
    """The views to search.

    If few outputs are possible, the whole output alone: its likelihood ratio is the best test.
    """
    whole, *others = list_views(left, right)
    if len(np.unique(np.concatenate([left.whole[:20_000], right.whole[:20_000]]))) > _FEW_OUTPUTS:
        return [*learn_score(left, right), whole, *others]
    return [whole, *([] if left.rows.dtype.kind == "i" else others)]


def search_events(
    searched_views: Sequence[View],
    left: Batch,
    right: Batch,
    epsilon: float,
    delta: float,
    runs: int,
    alpha: float,
    most: int = 5,
) -> list[Event]:
    """Find the events that promise to break the claim most clearly in `runs` more runs.

    They are scored at the claimed epsilon and at some other points of the privacy profile;
    `alpha` is the rate of false alarms.
    """
    candidates: list[CandidateEvent] = []
    for view in searched_views:
        candidates += _list_candidates(view, left, right, epsilon)
    if not candidates:
        return []
    p = np.array([candidate.left_share for candidate in candidates])
    q = np.array([candidate.right_share for candidate in candidates])
    z = math.sqrt(2 * math.log(1 / alpha))
    n = float(len(left))
    spare = 1 / n  # nothing seen in n runs is not nothing
    low = p - z * np.sqrt(np.maximum(p * (1 - p), spare) / runs) - np.sqrt(np.maximum(p, spare) / n)
    high = (
        np.maximum(q, spare)
        + z * np.sqrt(np.maximum(q, spare) / runs)
        + z * z / (2 * runs)
        + np.sqrt(np.maximum(q, spare) / n)
    )
    chosen: dict[str, Event] = {}
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(low > delta, np.log(np.maximum(low - delta, 1e-300) / high), -np.inf)
    scores = [low - math.exp(epsilon) * high - delta, ratio]
    scores += [
        low - math.exp(profile_epsilon) * high
        for profile_epsilon in (0.0, epsilon / 2, 1.5 * epsilon + 0.1)
    ]
    for score in scores[:most]:
        best = candidates[int(np.argmax(score))].make()
        chosen.setdefault(best.text, best)
    return list(chosen.values())


def _list_candidates(
    view: View, left: Batch, right: Batch, epsilon: float
) -> Iterator[CandidateEvent]:
    """List the events of one view that may tell the two samples apart, with their frequencies.

    For ordered numbers these are half-lines and the intervals where left most exceeds e^epsilon
    times right, at three epsilons; for whole numbers also sets of points.
    """
    a = view.of(left)
    b = view.of(right)
    whole = a.dtype.kind in "bi"
    if view.ordered:
        values, p, q = count_cells(a, b, exact=whole)
        if len(values) < 2:
            return
        below_p = np.cumsum(p)
        below_q = np.cumsum(q)
        for i in _spread_indices(len(values) - 1):
            top = float(values[i])
            start = float(values[i + 1]) if whole else float(np.nextafter(top, np.inf))
            yield CandidateEvent(
                partial(_make_half_line, view, "at_most", top), below_p[i], below_q[i]
            )
            yield CandidateEvent(
                partial(_make_half_line, view, "at_least", start), 1 - below_p[i], 1 - below_q[i]
            )
        for profile_epsilon in (0.0, epsilon, 1.5 * epsilon):
            i, j = _find_best_run(p - math.exp(profile_epsilon) * q)
            before = -math.inf if i == 0 else float(np.nextafter(values[i - 1], np.inf))
            first = float(values[i]) if whole else before
            yield CandidateEvent(
                partial(_make_interval, view, first, float(values[j])),
                p[i : j + 1].sum(),
                q[i : j + 1].sum(),
            )
    if whole:
        yield from _list_sets(view, left, a, b)


def _make_half_line(view: View, kind: Literal["at_most", "at_least"], number: float) -> Event:
    return Event(
        view, kind, (number,), f"{view.name} {'<=' if kind == 'at_most' else '>='} {number:.12g}"
    )


def _make_interval(view: View, first: float, last: float) -> Event:
    return Event(
        view, "between", (first, last), f"{view.name} between {first:.12g} and {last:.12g}"
    )


def _make_set(view: View, numbers: Numbers, value_count: int) -> Event:
    """Make the event that a view takes one of these values.

    Few values are listed, unless they are hashes.
    """
    kept = tuple(np.sort(numbers).tolist())
    if view.name != "whole output" and 1 < len(kept) <= 12:
        return Event(view, "among", kept, f"{view.name} is one of {', '.join(map(str, kept))}")
    text = (
        f"{view.name} is among the {len(kept)} of {value_count} values with the largest "
        "likelihood ratio"
    )
    return Event(view, "among", kept, text)


def _make_point(view: View, sample: Batch, cell: Any) -> Event:
    """Make the event that a view has exactly this value, with a text that a reader knows it by.

    The whole output is viewed through a hash, so its text is looked up in the sample.
    """
    value_text = sample.shown.get(int(cell), str(cell))
    if view.name == "whole output" and not sample.shown:
        rows_with_cell = np.flatnonzero(sample.whole == cell)
        value_text = (
            str(sample.rows[rows_with_cell[0]].tolist())
            if len(rows_with_cell)
            else "an output of the other side alone"
        )
    return Event(view, "among", (int(cell),), f"{view.name} is {value_text}")


def _list_sets(view: View, sample: Batch, a: Numbers, b: Numbers) -> Iterator[CandidateEvent]:
    """Yield single cells, and unions of those of largest likelihood ratio, as events.

    They are ranked on every other run and weighed on the rest. Ranked and weighed on the same runs,
    a set of outputs that came once would always look best.
    """
    values, p, q = count_cells(a[::2], b[::2], exact=True)
    if len(values) < 2 or values.dtype.kind == "f":
        return
    rest = np.concatenate([a[1::2], b[1::2]])
    positions = np.searchsorted(values, rest)
    positions = np.where(
        values[np.minimum(positions, len(values) - 1)] == rest, positions, len(values)
    )
    left_shares = np.bincount(positions[: len(a) // 2], minlength=len(values) + 1)[:-1] / max(
        1, len(a) // 2
    )
    right_shares = np.bincount(positions[len(a) // 2 :], minlength=len(values) + 1)[:-1] / max(
        1, len(b) // 2
    )
    for i in np.argsort(-p)[:40]:
        yield CandidateEvent(
            partial(_make_point, view, sample, values[i]), left_shares[i], right_shares[i]
        )
    order = np.argsort(-(p + 0.5 / len(a)) / (q + 1 / len(a)), kind="stable")
    left_sums = np.cumsum(left_shares[order])
    right_sums = np.cumsum(right_shares[order])
    for k in _spread_indices(len(order) - 1)[1:]:
        yield CandidateEvent(
            partial(_make_set, view, values[order[: k + 1]], len(values)),
            left_sums[k],
            right_sums[k],
        )


def count_cells(a: Numbers, b: Numbers, *, exact: bool) -> tuple[Numbers, Floats, Floats]:
    """List values (or upper ends of bins) in order, with their shares on both sides."""
    if exact and a.dtype.kind in "bi":
        values, positions = np.unique(np.concatenate([a, b]), return_inverse=True)
        if len(values) <= _MOST_CELLS:
            p = np.bincount(positions[: len(a)], minlength=len(values)) / len(a)
            q = np.bincount(positions[len(a) :], minlength=len(values)) / len(b)
            return values, p, q
    both = np.concatenate([a[:100_000], b[:100_000]]).astype(np.float64)
    both = both[~np.isnan(both)]
    if not len(both):
        return np.array([]), np.array([]), np.array([])
    few = np.unique(both)
    if len(few) > _BINS:
        few = np.unique(np.quantile(both, np.linspace(0, 1, _BINS), method="nearest"))
        tails = np.sort(both)
        few = np.unique(np.concatenate([few, tails[:20], tails[-20:]]))
    top = np.append(few[:-1], np.inf)
    p = np.bincount(
        np.searchsorted(top, a[~np.isnan(a)].astype(np.float64)), minlength=len(top)
    ) / len(a)
    q = np.bincount(
        np.searchsorted(top, b[~np.isnan(b)].astype(np.float64)), minlength=len(top)
    ) / len(b)
    return top, p, q


def _spread_indices(count: int, most: int = 250) -> list[int]:
    """List all indices up to `count`, or some of them, dense at both ends."""
    if count <= most:
        return list(range(count))
    ends = [*range(40), *range(count - 40, count)]
    return sorted({*ends, *np.linspace(0, count - 1, most - 80).astype(int).tolist()})


def _find_best_run(gain: Floats) -> tuple[int, int]:
    """The run i..j of cells with the largest sum (Kadane)."""
    total = np.concatenate([[0.0], np.cumsum(gain)])
    lowest = np.minimum.accumulate(total)
    j = int(np.argmax(total[1:] - lowest[:-1]))
    return int(np.argmin(total[: j + 1])), j


def learn_score(left: Batch, right: Batch) -> Sequence[View]:
    """Fit a logistic classifier between the two sides on some of the runs; return its score as a
    view.

    The list is empty where there is too little to learn from.
    """
    if left.rows.shape[1] < 2 or min(len(left), len(right)) < 200:
        return []
    half = min(len(left), len(right), _TRAIN) // 2
    features = _make_features(left.rows[:half])
    width = left.rows.shape[1]
    x = np.vstack([features(left.rows[:half]), features(right.rows[:half])])
    keep = x.std(axis=0) > 1e-12
    middle = x[:, keep].mean(axis=0)
    spread = x[:, keep].std(axis=0)
    weights = _fit_logistic((x[:, keep] - middle) / spread, np.repeat([1.0, 0.0], half))
    if weights is None:
        return []

    def score(batch: Batch) -> Numbers:
        rows = batch.rows if batch.rows.shape[1] == width else np.zeros((len(batch), width))
        return np.asarray(((features(rows)[:, keep] - middle) / spread) @ weights)

    return [View("learned score", score)]


def _make_features(sample: NDArray[Any]) -> Callable[[NDArray[Any]], Floats]:
    """Make the function that computes features of rows for a classifier.

    They are the columns, which entries are missing, distances from the medians and from one to
    either side of them, differences of neighbouring columns, and which column is the largest.
    """
    columns = min(sample.shape[1], 40)
    with np.errstate(invalid="ignore"):
        finite = np.where(np.isfinite(sample[:, :columns]), sample[:, :columns], 0).astype(
            np.float64
        )
    centre = np.median(finite, axis=0)
    cut = np.quantile(np.abs(finite), 0.999, axis=0) + 1e-9

    def compute_features(rows: NDArray[Any]) -> Floats:
        """Compute the features of each row, after clipping its columns at `cut`."""
        raw = rows[:, :columns].astype(np.float64)
        x = np.clip(np.where(np.isfinite(raw), raw, 0), -cut, cut)
        away = np.abs(x - centre)
        blocks = [
            x,
            np.isnan(raw).astype(np.float64),
            away,
            np.abs(x - centre - 1),
            np.abs(x - centre + 1),
        ]
        if columns > 1:
            blocks += [np.abs(np.diff(x, axis=1)), (x.max(axis=1) == x.T).T.astype(np.float64)]
        return np.hstack(blocks)

    return compute_features


def _fit_logistic(x: Floats, y: Floats, steps: int = 8, ridge: float = 1e-3) -> Floats | None:
    """Fit a logistic regression by Newton's method; None where it fails.

    A little ridge keeps separable data finite.
    """
    x = np.hstack([x, np.ones((len(x), 1))])
    weights = np.zeros(x.shape[1])
    for _ in range(steps):
        chance = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
        slope = x.T @ (y - chance) / len(x) - ridge * weights
        curve = (x * (chance * (1 - chance))[:, None]).T @ x / len(x) + ridge * np.eye(x.shape[1])
        try:
            weights = weights + np.linalg.solve(curve, slope)
        except np.linalg.LinAlgError:
            return None
    return np.asarray(weights[:-1]) if np.isfinite(weights).all() else None
