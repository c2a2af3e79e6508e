"""Wrong sparse vectors, as printed: noise scales from Lyu, Su and Li 2017 (figure 1), checked
against the code of DP-Sniper (Bichsel et al. 2021) and StatDP (Ding et al. 2018), and from CheckDP
(Wang et al. 2020). Laplace noise is on the integers; sensitivity 1, threshold 0, a hit if query +
noise >= noisy threshold. Every attack fixes one sequence of answers; its exact probability is a sum
over the noise of the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dither.audit.zoo.bug import Bug, Integers, black_box, laplace_pmf, laplace_tail
from dither.privacy.noise import discrete_laplace

OVER = -10_000  # after the run has ended
MISS = -9_999
HIT = 9_999


@dataclass(frozen=True)
class Variant:
    """Scales in units of 1 / epsilon; `hits` None: never stops; `query` None: no noise on the
    queries."""

    threshold: Fraction
    query: Fraction | None
    hits: int | None
    shows_value: bool = False
    renews: bool = False

    def run(self, queries: Sequence[int], size: int) -> Integers:
        """Run the variant `size` times; the answers have one column a query."""
        out = np.full((size, len(queries)), OVER, np.int64)
        hits_left = np.full(size, 10**9 if self.hits is None else self.hits)
        shift = discrete_laplace(self.threshold, size)
        for i, value in enumerate(queries):
            noise = 0 if self.query is None else discrete_laplace(self.query, size)
            hit = value + noise >= shift
            going = hits_left > 0
            answer: Any = value + noise if self.shows_value else HIT
            out[:, i] = np.where(going, np.where(hit, answer, MISS), OVER)
            hits_left = hits_left - (hit & going)
            if self.renews:
                shift = np.where(hit, discrete_laplace(self.threshold, size), shift)
        return out

    def chance(self, queries: Sequence[int], answers: Sequence[int]) -> float:
        """Compute the exact probability of a sequence of answers (MISS, HIT, or the value
        shown)."""
        reach = int(60 * self.threshold) + 60
        r = np.arange(-reach, reach + 1)
        start = laplace_pmf(float(self.threshold), r)
        total = start
        for value, answer in zip(queries, answers, strict=True):
            above = self._above(r - value)
            total = total * (
                1 - above
                if answer == MISS
                else above
                if answer == HIT
                else self._value(answer, value, r)
            )
            if self.renews and answer != MISS:
                total = start * float(total.sum())
        return float(total.sum())

    def _above(self, gap: Any) -> Any:
        """Compute the probability that the noise of a query is at least `gap`."""
        return (
            (gap <= 0).astype(np.float64)
            if self.query is None
            else laplace_tail(float(self.query), gap)
        )

    def _value(self, answer: int, value: int, r: Any) -> Any:
        return laplace_pmf(float(self.query or 1), answer - value) * (answer >= r)


# scales at epsilon = 1
ROTH = Variant(
    Fraction(2), Fraction(2), 1, shows_value=True
)  # algorithm 3: Lap(1/eps1), Lap(c/eps2), c = 1
LEE_CLIFTON = Variant(
    Fraction(4), Fraction(4, 3), 2
)  # algorithm 4: eps1 = eps/4, Lap(1/eps2) whatever c
STODDARD = Variant(Fraction(2), None, None)  # algorithm 5: no noise on queries, never stops
CHEN = Variant(Fraction(2), Fraction(2), None)  # algorithm 6: Lap(1/eps2), never stops
GPTT = Variant(Fraction(4), Fraction(4, 3), None)  # any split; here that of Lee and Clifton
BAD_GAP = Variant(Fraction(2), Fraction(4), 1, shows_value=True)  # Lap(2/eps), Lap(4N/eps), N = 1
RESTARTED = Variant(
    Fraction(2), Fraction(4), 4, renews=True
)  # AboveThreshold of one hit, four times
UNNOISED = Variant(Fraction(1, 1000), Fraction(2), 1)  # the threshold has no noise worth the name


def _plant_bug(
    name: str,
    what: str,
    origin: str,
    variant: Variant,
    first_queries: list[int],
    answers: list[int],
    runs: int,
    shown_up_to: int | None = None,
) -> Bug:
    """Plant a sparse vector bug on queries that one unit moves in opposite directions.

    A query that should miss is 0 on the first input and 1 on the second; one that should hit,
    the reverse.

    With `shown_up_to` the last answer is any value shown up to this one.
    """

    def mechanism(queries: list[int], size: int) -> Integers:
        return variant.run(queries, size)

    second_queries = [1 - query for query in first_queries]
    lasts = answers[-1:] if shown_up_to is None else list(range(shown_up_to - 60, shown_up_to + 1))

    def chance(queries: list[int]) -> float:
        return sum(variant.chance(queries, [*answers[:-1], last]) for last in lasts)

    def holds(rows: Any) -> Any:
        return (rows[:, :-1] == np.array(answers[:-1])).all(axis=1) & np.isin(rows[:, -1], lasts)

    text = " ".join("no" if answer == MISS else "yes" for answer in answers)
    answers_text = (
        text
        if shown_up_to is None
        else f"{text.removesuffix(' yes')}, then a value up to {shown_up_to}"
    )
    return black_box(
        name,
        what,
        origin,
        mechanism=mechanism,
        pair=(first_queries, second_queries),
        epsilon=1.0,
        named=(f"the answers are {answers_text}", holds),
        chances=lambda: (chance(first_queries), chance(second_queries)),
        runs=runs,
    )


def bugs() -> list[Bug]:
    """List the planted bugs of this module, for the black-box tester to catch."""
    figure = "Lyu, Su, Li 2017, figure 1, algorithm"
    return [
        _plant_bug(
            "svt-roth-2011",
            "sparse vector that answers a hit with the noise of the comparison",
            f"{figure} 3 (Roth, lecture notes 2011)",
            ROTH,
            [0] * 4 + [1],
            [MISS] * 4 + [HIT],
            250_000,
            shown_up_to=2,
        ),
        _plant_bug(
            "svt-lee-clifton-2014",
            "sparse vector whose query noise does not grow with the number of hits",
            f"{figure} 4 (Lee, Clifton 2014)",
            LEE_CLIFTON,
            [0, 0, 1, 1],
            [MISS] * 2 + [HIT] * 2,
            65_000,
        ),
        _plant_bug(
            "svt-stoddard-2014",
            "sparse vector without noise on the queries",
            f"{figure} 5 (Stoddard, Chen, Machanavajjhala 2014)",
            STODDARD,
            [0, 1],
            [MISS, HIT],
            4_000,
        ),
        _plant_bug(
            "svt-chen-2015",
            "sparse vector that never stops",
            f"{figure} 6 (Chen, Xiao, Zhang, Xu 2015)",
            CHEN,
            [0] * 3 + [1] * 3,
            [MISS] * 3 + [HIT] * 3,
            130_000,
        ),
        _plant_bug(
            "svt-gptt-2015",
            "generalised private threshold testing: never stops, any split of epsilon",
            "Chen, Machanavajjhala 2015",
            GPTT,
            [0, 0, 1, 1],
            [MISS] * 2 + [HIT] * 2,
            65_000,
        ),
        _plant_bug(
            "svt-bad-gap-2020",
            "sparse vector with gap that shows the noisy query, not its distance from the noisy "
            "threshold",
            "CheckDP (Wang, Ding, Kifer, Zhang 2020), BadGapSVT",
            BAD_GAP,
            [0] * 6 + [1],
            [MISS] * 6 + [HIT],
            2_750_000,
            shown_up_to=2,
        ),
        _plant_bug(
            "svt-restarted-for-free",
            "AboveThreshold of one hit started anew after every hit, charged once",
            "Dwork, Roth 2014, algorithm 1 in a loop",
            RESTARTED,
            [0, 1] * 4,
            [MISS, HIT] * 4,
            1_550_000,
        ),
        _plant_bug(
            "un-noised-threshold",
            "sparse vector with noise on the queries only: misses are no longer free",
            "AboveThreshold read as: the threshold is public, so it needs no noise",
            UNNOISED,
            [0] * 4,
            [MISS] * 4,
            190_000,
        ),
    ]
