"""Which neighbours to try: a library of extreme pairs, and a search that climbs from them.

Every pair here differs by one unit. Pilot runs rank the pairs; the pair that looks worst is then
tested on fresh runs, so that the choice costs nothing in confidence (rule audits-fixed-in-advance).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dither.audit.black_box import test
from dither.audit.confidence import log_ratio
from dither.audit.events import choose_views, search_events
from dither.audit.guessing import choose_guesser
from dither.audit.outputs import Batch, Reader
from dither.audit.runs import draw, is_vectorised
from dither.audit.verdict import Budget, Verdict
from dither.audit.views import View
from dither.errors import ParameterError
from dither.privacy.noise import uniform_below

Pair = tuple[Any, Any]
_CLEAR_EXCESS = 4.0  # standard deviations


def counts(largest: int = 1) -> list[Pair]:
    """Exact integers that one unit moves by at most `largest`."""
    tops = sorted({0, 1, 10, 1000, largest})
    return [(base, base + move) for base in tops for move in sorted({1, largest})]


def vectors(length: int, move: int = 1) -> list[Pair]:
    """List pairs of answers of `length` queries, each moved by at most `move`.

    They are the patterns of Ding et al. (2018, table 2).
    """
    zero = [0] * length
    lifted = [move] * length
    half = length // 2
    patterns = [
        (zero, [move, *[0] * (length - 1)]),  # one above
        (lifted, [0, *[move] * (length - 1)]),  # one below
        (lifted, [2 * move, *[0] * (length - 1)]),  # one above, the rest below
        (lifted, [0, *[2 * move] * (length - 1)]),  # one below, the rest above
        (lifted, [0] * half + [2 * move] * (length - half)),  # half below, half above
        (lifted, [2 * move] * length),  # all above
        (lifted, zero),  # all below
        ([move] * half + [0] * (length - half), [0] * half + [move] * (length - half)),  # X shape
    ]
    return [pair for i, pair in enumerate(patterns) if pair not in patterns[:i]]


def tables(rows: Sequence[Any], most: int = 3) -> list[Pair]:
    """List small tables, each with itself plus one row: {} / {a}, {a} / {a, b}, ..."""
    pairs: list[Pair] = []
    for size in range(most + 1):
        for row in rows:
            base = [rows[i % len(rows)] for i in range(size)]
            pairs.append((base, [*base, row]))
    return pairs


def climb(pair: Pair, length: int, move: int = 1) -> Iterator[Pair]:
    """Yield pairs near a pair of integer vectors, still neighbours.

    One coordinate of both sides or of one side is changed.
    """
    first = list(pair[0])
    second = list(pair[1])
    for i in range(length):
        for a, b in ((-1, -1), (1, 1), (0, 1), (0, -1), (1, 0), (-1, 0)):
            left = [*first]
            right = [*second]
            left[i] = left[i] + a
            right[i] = right[i] + b
            if abs(left[i] - right[i]) <= move:
                yield left, right


def explore(
    mechanism: Callable[..., Any],
    pairs: Iterable[Pair],
    epsilon: float,
    delta: float = 0.0,
    *,
    budget: Budget | None = None,
    near: Callable[[Pair], Iterable[Pair]] | None = None,
    steps: int = 3,
    **options: Any,
) -> tuple[Verdict, Pair]:
    """Rank pairs by pilot runs, climb from the best by `near`, then test the winner on fresh runs:
    verdict and pair."""
    spend = budget or Budget()
    pilot = max(500, min(20_000, spend.runs // 20))
    candidates = list(pairs)
    if not candidates:
        raise ParameterError("no pair of neighbours to try")
    pilot_runs = _Pilot(mechanism, epsilon, delta, pilot, spend)
    score, index = max((pilot_runs.rate_pair(pair), i) for i, pair in enumerate(candidates))
    best = candidates[index]
    for _ in range(steps if near else 0):
        around = list(near(best)) if near else []
        some = (
            {uniform_below(len(around)) for _ in range(min(12, len(around)))} if around else set()
        )
        tried = [(pilot_runs.rate_pair(around[i]), i) for i in some]
        if not tried or max(tried)[0] <= score:
            break
        score, index = max(tried)
        best = around[index]
    return test(mechanism, best[0], best[1], epsilon, delta, budget=spend, **options), best


@dataclass(frozen=True)
class _Pilot:
    """Pilot runs that rate pairs of neighbours."""

    mechanism: Callable[..., Any]
    epsilon: float
    delta: float
    runs: int
    budget: Budget

    def rate_pair(self, pair: Pair) -> tuple[float, float]:
        """Rate how bad a pair looks.

        It is by how much its guesses would exceed the claim in the full test, if clearly; among
        others, a rough epsilon of the best event.
        """
        many = is_vectorised(self.mechanism)
        raw = [draw(self.mechanism, data, self.runs, vectorised=many) for data in pair]
        read = Reader.of(*raw)
        sides = [read(outputs) for outputs in raw]
        views = choose_views(*sides)
        claim = [(self.epsilon, self.delta)]
        testing = self.budget.testing
        guesser = choose_guesser(views, sides[0], sides[1], claim, testing, self.budget.guess_alpha)
        excess = 0.0 if guesser is None else guesser.excess
        return (excess if excess > _CLEAR_EXCESS else 0.0), self._estimate_epsilon(views, sides)

    def _estimate_epsilon(self, views: list[View], sides: list[Batch]) -> float:
        """Estimate the largest epsilon that an event shows, less three standard errors a side."""
        worst = 0.0
        for a, b in (sides, sides[::-1]):
            events = search_events(views, a, b, self.epsilon, self.delta, self.runs, 0.05)
            for event in events:
                p = event.holds(a).mean()
                q = event.holds(b).mean()
                low = p - 3 * math.sqrt(max(p, 1 / self.runs) / self.runs)
                high = q + 3 * math.sqrt(max(q, 1 / self.runs) / self.runs)
                worst = max(worst, log_ratio(low, high, self.delta))
        return worst
