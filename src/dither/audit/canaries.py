"""Auditing with one run: many canaries, each in or out by a fair coin, and one output from which to
guess the coins.

For a mechanism that is (eps, delta)-DP towards each canary, with m coins of which r are guessed,
the number of right guesses is at least v with probability at most

    P[W >= v] + 2 m delta max over i >= 1 of P[v > W >= v - i] / i,
    where W is binomial(r, e^eps / (1 + e^eps))

(Steinke, Nasr, Jagielski 2023, theorem 5.2); with delta = 0 that is the binomial tail. Coins must
be independent, and r fixed by the rule of guessing. docs/proofs/audit.md#one-run.

>>> round(epsilon_lower(1000, 1000, 600, alpha=0.05), 6), round(epsilon_lower(1000, 1000, 1000,
...     alpha=0.05), 5)
(0.297468, 5.80907)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

from dither.audit.confidence import check_alpha
from dither.errors import ParameterError
from dither.privacy.noise import bernoulli


def chance_of(canaries: int, guesses: int, right: int, epsilon: float, delta: float = 0.0) -> float:
    """Bound the probability of so many right guesses if the mechanism is (epsilon, delta)-DP."""
    if not 0 <= right <= guesses <= canaries:
        raise ParameterError("need 0 <= right guesses <= guesses <= canaries")
    q = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, q))
    if delta == 0 or right == 0:
        return min(1.0, tail)
    below = binom.pmf(np.arange(right - 1, -1, -1), guesses, q)
    steepest = float(np.max(np.cumsum(below) / np.arange(1, right + 1)))
    return min(1.0, tail + 2 * canaries * delta * steepest)


def epsilon_lower(
    canaries: int, guesses: int, right: int, *, delta: float = 0.0, alpha: float = 0.05
) -> float:
    """Find the largest epsilon that so many right guesses refute with confidence 1 - alpha.

    It is 0 if they refute none.
    """
    check_alpha(alpha)
    if chance_of(canaries, guesses, right, 0.0, delta) > alpha:
        return 0.0
    low, high = 0.0, 1.0
    while high < 64 and chance_of(canaries, guesses, right, high, delta) <= alpha:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (
            (middle, high)
            if chance_of(canaries, guesses, right, middle, delta) <= alpha
            else (low, middle)
        )
    return low


@dataclass(frozen=True)
class OneRun:
    """Result of one run: the right guesses, and the epsilon that they show at least."""

    canaries: int
    guesses: int
    right: int
    epsilon_lower: float
    ceiling: float
    delta: float
    alpha: float

    def refutes(self, epsilon: float) -> bool:
        """Whether a claim of (epsilon, delta) is refuted."""
        return self.epsilon_lower > epsilon


def one_run(
    mechanism: Callable[[NDArray[np.bool_]], Any],
    canaries: int,
    score: Callable[[Any], Any],
    *,
    guesses: int | None = None,
    delta: float = 0.0,
    alpha: float = 0.05,
) -> OneRun:
    """Run `mechanism(included)` once, `included` a fair coin for each canary; guess the coins with
    the extreme scores.

    `score(output)` gives a number for every canary, high for "in". The `guesses` most extreme ones
    (half from each end, all by default) are guessed; the others are left open.
    """
    check_alpha(alpha)
    taken = canaries if guesses is None else guesses
    if not 2 <= taken <= canaries:
        raise ParameterError(f"guesses must lie between 2 and {canaries}, got {guesses}")
    coins = np.asarray(bernoulli(0.5, canaries), np.bool_)
    scores = np.asarray(score(mechanism(coins)), np.float64)
    if scores.shape != (canaries,):
        raise ParameterError(
            f"score must give one number for each of {canaries} canaries, got shape {scores.shape}"
        )
    order = np.argsort(scores, kind="stable")
    low, high = order[: taken // 2], order[canaries - (taken - taken // 2) :]
    right = int(np.count_nonzero(~coins[low]) + np.count_nonzero(coins[high]))
    shown_epsilon = epsilon_lower(canaries, taken, right, delta=delta, alpha=alpha)
    top = epsilon_lower(canaries, taken, taken, delta=delta, alpha=alpha)
    return OneRun(canaries, taken, right, shown_epsilon, top, delta, alpha)
