"""The guessing test: guess from each output which input gave it, and count the right guesses.

An event looks at one set in one direction. This test uses all outputs that tell more than the claim
allows, in both directions at once, each by a weight; its level is exact and not a union bound. The
guesser (which view, which guess and weight for each of its values) is learned from the choosing
runs. docs/proofs/audit.md#guesses.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dither.audit.guess_tail import LEVELS, discount_failures, epsilon_lower, tail
from dither.audit.outputs import Batch, Numbers
from dither.audit.views import View
from dither.figures import write_bound
from dither.privacy.noise import bernoulli

_BINS = 300
_TAIL_BINS = 30
_MOST_CELLS = 5_000
_SHRINK = 10.0  # guesses at the claim's boundary that are added to every cell
_SPARE = 4.0  # standard deviations by which the coins may lean to one input
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Guesser:
    """A guess for every output: +k for the first input, -k for the second with weight k, or 0."""

    view: View
    edges: Numbers = field(compare=False, repr=False)
    levels: Integers = field(compare=False, repr=False)
    exact: bool
    epsilon: float
    delta: float
    excess: float  # standard deviations above the claim that the choosing runs promise

    def guess(self, batch: Batch) -> Integers:
        """The signed weights of these outputs."""
        return self.levels[_find_cells(self.view.of(batch), self.edges, self.exact)]


@dataclass(frozen=True)
class Guesses:
    """What the guesses showed: those that were right and wrong by weight, and the least epsilon
    that they need at this delta."""

    view: str
    right: tuple[int, ...]
    wrong: tuple[int, ...]
    trials: int
    epsilon: float
    delta: float
    alpha: float
    chance: float
    epsilon_lower: float

    @property
    def refuted(self) -> bool:
        return self.chance <= self.alpha

    def __str__(self) -> str:
        """Say how many guesses were right, and how unlikely that is if the claim holds."""
        claim = f"epsilon {write_bound(self.epsilon, up=True)}, "
        claim += f"delta {write_bound(self.delta, up=True)}"
        return (
            f"{sum(self.right):,} of {sum(self.right) + sum(self.wrong):,} guesses of the input "
            f"from '{self.view}' were right, of {self.trials:,} outputs; so many come with "
            f"probability at most {write_bound(self.chance, up=True)} if the claim ({claim}) "
            f"holds"
        )

    def to_json(self) -> dict[str, Any]:
        names = ("view", "right", "wrong", "trials", "epsilon", "delta", "alpha", "chance")
        return {name: getattr(self, name) for name in names} | {"epsilon_lower": self.epsilon_lower}


def count_trials(runs: int) -> int:
    """How many outputs are guessed, of `runs` from each input: a few are spared, so that the coins
    find enough of either."""
    return max(0, 2 * runs - math.ceil(_SPARE * math.sqrt(2 * runs)))


def flip_coins(runs: int) -> tuple[int, int] | None:
    """How many outputs of each input are guessed: a fair coin decides for each trial. None if the
    coins ask for more than there are, which is rare."""
    trials = count_trials(runs)
    first = int(np.count_nonzero(bernoulli(0.5, trials))) if trials else 0
    return (first, trials - first) if max(first, trials - first) <= runs else None


def choose_guesser(
    views: Sequence[View],
    left: Batch,
    right: Batch,
    claims: Sequence[tuple[float, float]],
    runs: int,
    alpha: float,
) -> Guesser | None:
    """Choose the guesser and the point (epsilon, delta) of the claim that promise most.

    It is learned on every other choosing run, compared on the rest, then learned again on all.
    """
    best: tuple[float, View, bool, tuple[float, float]] | None = None
    for view in views:
        a = view.of(left)
        b = view.of(right)
        for monotone in (False, True) if view.ordered else (False,):
            table = _count_cells(a[::2], b[::2], monotone=monotone)
            if table is None:
                continue
            cells = [_find_cells(values[1::2], table.edges, table.exact) for values in (a, b)]
            for claim in claims:
                levels = table.set_levels(claim[0])
                score = _predict(levels, cells, claim, runs, alpha)
                if best is None or score > best[0]:
                    best = (score, view, monotone, claim)
    if best is None:
        return None
    excess, view, monotone, claim = best
    table = _count_cells(view.of(left), view.of(right), monotone=monotone)
    assert table is not None
    return Guesser(view, table.edges, table.set_levels(claim[0]), table.exact, *claim, excess)


def count_guesses(signed: Integers, *, first: bool) -> tuple[Integers, Integers]:
    """Right and wrong guesses by weight, of outputs of the first or of the second input."""
    counts = np.bincount(signed + LEVELS, minlength=2 * LEVELS + 1)
    for_first = counts[LEVELS + 1 :]
    for_second = counts[:LEVELS][::-1]
    return (for_first, for_second) if first else (for_second, for_first)


def judge_guesses(
    guesser: Guesser, right: Integers, wrong: Integers, trials: int, alpha: float
) -> Guesses:
    """Make the statement that these guesses allow about the claim."""
    kept, level = discount_failures(right, trials, guesser.delta, alpha)
    chance = tail(kept, wrong, 1 / (1 + math.exp(-guesser.epsilon))) * alpha / level
    return Guesses(
        guesser.view.name,
        tuple(right.tolist()),
        tuple(wrong.tolist()),
        trials,
        guesser.epsilon,
        guesser.delta,
        alpha,
        min(1.0, chance),
        epsilon_lower(right, wrong, trials, guesser.delta, alpha),
    )


@dataclass(frozen=True)
class _CellTable:
    """Counts of both inputs in the cells of one view; cells that the fit joined have equal
    counts. The last entry stands for values that were not seen."""

    edges: Numbers
    exact: bool
    first: Floats
    second: Floats

    def set_levels(self, epsilon: float) -> Integers:
        """Compute the guess and weight of every cell: what it tells beyond the claim, in LEVELS
        steps.

        The sign is the guess, positive for the first input.
        """
        bar = 1 / (1 + math.exp(-epsilon))
        total = self.first + self.second + _SHRINK
        for_first = (self.first + _SHRINK * bar) / total - bar
        for_second = (self.second + _SHRINK * bar) / total - bar
        gain = np.maximum(for_first, for_second)
        largest_gain = float(gain.max())
        if largest_gain <= 0:
            return np.zeros(len(gain), np.int64)
        steps = np.clip(np.rint(LEVELS * gain / largest_gain), 0, LEVELS).astype(np.int64)
        return np.where(for_first >= for_second, steps, -steps)


def _count_cells(a: Numbers, b: Numbers, *, monotone: bool) -> _CellTable | None:
    """Count the cells of one view: its values where they are few integers, else quantile bins.

    None where there are no numbers.
    """
    both = np.concatenate([a, b])
    exact = both.dtype.kind in "bi"
    exact = exact and not (monotone and len(np.unique(both)) > _MOST_CELLS)
    edges = _list_common_values(both) if exact else _find_quantiles(both)
    if not len(edges):
        return None
    counts = [
        np.bincount(_find_cells(values, edges, exact), minlength=len(edges) + 2).astype(np.float64)
        for values in (a, b)
    ]
    if exact:  # values that are no edge have not been seen: no guess
        counts[0][-1] = 0.0
        counts[1][-1] = 0.0
    first, second = _fit_monotone(*counts) if monotone else counts
    return _CellTable(edges, exact, first, second)


def _list_common_values(values: Numbers) -> Numbers:
    distinct, counts = np.unique(values, return_counts=True)
    common = np.argsort(-counts, kind="stable")[:_MOST_CELLS]
    return np.sort(distinct[common])


def _find_quantiles(values: Numbers) -> Numbers:
    """Find ends of bins: equally frequent, and finer in both tails, where claims break first."""
    numbers = values[~np.isnan(values)] if values.dtype.kind == "f" else values
    if not len(numbers):
        return numbers
    shares = np.linspace(0, 1, _BINS)
    tails = np.geomspace(1e-4, 0.02, _TAIL_BINS)
    shares = np.sort(np.concatenate([shares, tails, 1 - tails]))
    return np.unique(np.quantile(numbers, shares, method="nearest"))


def _find_cells(values: Numbers, edges: Numbers, exact: bool) -> Integers:
    """Find the cell of every value: that of the next edge.

    The last cell but one is for values above all edges, the last for NaN, and for values that are
    no edge where cells are exact.
    """
    cells = np.searchsorted(edges, values)
    unseen = len(edges) + 1
    if exact:
        matches = edges[np.minimum(cells, len(edges) - 1)] == values
        return np.where(matches, cells, unseen).astype(np.int64)
    if values.dtype.kind == "f":
        cells = np.where(np.isnan(values), unseen, cells)
    return cells.astype(np.int64)


class _Pool(NamedTuple):
    """Neighbouring cells that are counted together: outputs of each input, and how many cells."""

    first: float
    second: float
    cells: int

    @property
    def share_of_first(self) -> float:
        """The share of outputs that came from the first input; a half where there are none."""
        total = self.first + self.second
        return self.first / total if total else 0.5

    def join(self, pool: _Pool) -> _Pool:
        """Return both pools as one."""
        return _Pool(self.first + pool.first, self.second + pool.second, self.cells + pool.cells)


def _fit_monotone(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Pool counts of neighbouring cells until the share of the first input is monotone.

    (Pool adjacent violators, in the direction that the samples show.) The last cell stays alone.
    """
    positions = np.arange(len(first) - 1)
    body = slice(0, len(first) - 1)
    falls = float(positions @ first[body]) / max(1.0, first[body].sum()) < float(
        positions @ second[body]
    ) / max(1.0, second[body].sum())
    order = -1 if falls else 1
    pools: list[_Pool] = []
    for first_count, second_count in zip(first[body][::order], second[body][::order], strict=True):
        pools.append(_Pool(first_count, second_count, 1))
        while len(pools) > 1 and pools[-2].share_of_first >= pools[-1].share_of_first:
            last = pools.pop()
            pools[-1] = pools[-1].join(last)
    sizes = [pool.cells for pool in pools]
    pooled_first = np.repeat([pool.first for pool in pools], sizes)[::order]
    pooled_second = np.repeat([pool.second for pool in pools], sizes)[::order]
    return np.append(pooled_first, first[-1]), np.append(pooled_second, second[-1])


def _predict(
    levels: Integers,
    cells: list[Integers],
    claim: tuple[float, float],
    runs: int,
    alpha: float,
) -> float:
    """Predict by how many standard deviations `runs` more outputs of each input exceed the
    claim."""
    counts = [count_guesses(levels[side], first=i == 0) for i, side in enumerate(cells)]
    right = (counts[0][0] + counts[1][0]).astype(np.float64)
    wrong = (counts[0][1] + counts[1][1]).astype(np.float64)
    if not right.sum():
        return -math.inf
    weights = np.arange(1, LEVELS + 1)
    bar = 1 / (1 + math.exp(-claim[0]))
    growth = 2 * runs / (len(cells[0]) + len(cells[1]))
    failures = float(binom.isf(0.05 * alpha, 2 * runs, claim[1])) if claim[1] > 0 else 0.0
    excess = growth * float(weights @ right - bar * weights @ (right + wrong)) - LEVELS * failures
    spread = growth * bar * (1 - bar) * float(weights**2 @ (right + wrong))
    return excess / math.sqrt(max(spread, 1.0))
