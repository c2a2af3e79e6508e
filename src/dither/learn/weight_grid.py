"""Weights chosen on public grids by the exponential mechanism: pure epsilon, for few features.

The first grid lies in a ball of radius 8 around 0, two finer ones around what was chosen before.
Every row adds to the loss of each point an integer between 0 and a public largest one, by a table
at the row's exact margin; around a chosen point it is the difference to the loss there, cut off at
a public size. Convexity is not needed. Proof:
docs/proofs/private-learning.md#a-choice-on-a-grid.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import ceil, log1p
from math import exp as power

import numpy as np

from dither.errors import ParameterError
from dither.learn.encode import FeatureRows
from dither.learn.perturbation import NoisyMinimum
from dither.learn.residuals import FACTOR_SCALE, THETA_SCALE, find_entries, list_links
from dither.learn.sums import Array
from dither.privacy.losses import Adjacency
from dither.privacy.mechanisms.score_selection import ScoreSelection

RADII = (8.0, 2.0, 0.5)
"""Of the ball of the first choice, and of those around what was chosen before."""
MOST_FEATURES = 5
"""The intercept is one of them."""
_MOST_POINTS = 1 << 12
_REACH = 16
_NUMBERS_AT_ONCE = 1 << 20


def check_grid_width(width: int) -> None:
    """Refuse more features than a grid has points for."""
    if width > MOST_FEATURES:
        raise ParameterError(
            f"solver='grid' is for up to {MOST_FEATURES} features with the intercept, not {width}: "
            f"use fewer columns or bins=None, or a delta above 0 and descent"
        )


def list_grid(width: int, radius: float) -> Array:
    """All weights of a grid, a row each, in steps of 2**-16: a lattice around 0 in a ball.

    >>> len(list_grid(1, 8.0)), list_grid(2, 8.0).shape[1], float(list_grid(2, 2.0).max()) / 65536
    (4095, 2, 2.0)
    """
    cuts = 1
    while (2 * cuts + 3) ** width <= _MOST_POINTS:
        cuts += 1
    axis = [round(radius * THETA_SCALE * k / cuts) for k in range(-cuts, cuts + 1)]
    cube = np.array(list(product(axis, repeat=width)), float)
    ball: Array = cube[(cube**2).sum(axis=1) <= (radius * THETA_SCALE) ** 2]
    return ball


@lru_cache(maxsize=1)
def list_losses() -> Array:
    """ln(1 + e^-t) in steps of 2**-16, at the middle of every entry of the margin."""
    return list_links(_REACH, lambda t: log1p(power(-t)))


def bound_loss(largest_norm: float, radius: float, *, is_first: bool) -> int:
    """How far the loss of one row, or its difference to that at the centre, is from 0 at most, in
    steps: a margin moves by at most the radius times the longest row, and a loss by no more. What
    tables round is added."""
    reach = min(2.0 * _REACH, radius * largest_norm)
    return ceil(FACTOR_SCALE * (reach + (log1p(power(-reach)) if is_first else 0))) + 256


def add_losses(
    rows: FeatureRows, signs: Array, points: Array, centre: Array | None, largest: int
) -> list[int]:
    """The loss of all rows at every point, or the difference to that at `centre`: exact integers.

    `signs` are 1 and -1, and 0 for a row without a label, which adds nothing. No row adds more than
    `largest` to a point.
    """
    total = np.zeros(len(points), np.int64)
    block = max(1, _NUMBERS_AT_ONCE // len(points))
    for start in range(0, rows.size, block):
        some = rows.slice(start, start + block)
        sign = signs[start : start + block]
        losses = list_losses()[find_entries(some.multiply(points) * sign, _REACH)]
        if centre is not None:
            losses = losses - list_losses()[find_entries(some.multiply(centre) * sign, _REACH)]
        np.clip(losses, 0 if centre is None else -largest, largest, out=losses)
        losses[:, sign == 0] = 0
        total += losses.sum(axis=1).astype(np.int64)
    return [int(number) for number in total]


def make_choice(
    epsilon: Fraction, largest: int, adjacency: Adjacency, *, is_first: bool
) -> ScoreSelection:
    """The choice among points to which a row adds at most `largest`.

    Losses of the first one are not negative: under add/remove they move the same way, and a row
    that takes another's place moves none by more than one of both. Later ones have either sign, so
    that such a row may move them by both.
    """
    is_replaced = adjacency.neighbours == "replace"
    moved = 2 * largest if is_replaced and not is_first else largest
    return ScoreSelection(epsilon, moved, is_first and not is_replaced, *adjacency)


def choose_weights(
    rows: FeatureRows, signs: Array, penalty: float, epsilon: Fraction, adjacency: Adjacency
) -> NoisyMinimum:
    """The weights of a point, the likelier the smaller its loss; three choices share epsilon.

    `penalty` times the squared norm over 2 is added to every loss: public.
    """
    facts = rows.facts
    chosen = np.zeros((1, facts.width))
    losses = []
    for radius in RADII:
        is_first = radius == RADII[0]
        points = chosen + list_grid(facts.width, radius)
        largest = bound_loss(facts.largest_norm, radius, is_first=is_first)
        choice = make_choice(epsilon / len(RADII), largest, adjacency, is_first=is_first)
        losses.append(choice.loss())
        shrinking = penalty * FACTOR_SCALE / 2 * ((points / THETA_SCALE) ** 2).sum(axis=1)
        added = add_losses(rows, signs, points, None if is_first else chosen, largest)
        scores = [-loss - round(more) for loss, more in zip(added, shrinking, strict=True)]
        winner = choice.release(scores)
        chosen = points[winner : winner + 1]
    return NoisyMinimum(chosen[0] / THETA_SCALE, tuple(losses))
