"""Verdicts over live sessions: the attacker learns from other sessions how each world looks.

Ten folds: on nine the attacker chooses between a threshold on its best single figure and a linear
discriminant over all of them, on the tenth it is scored. Every session is scored once.
"""

from __future__ import annotations

import numpy as np

FOLDS = 10


def describe_session(session: dict[str, object]) -> list[float]:
    """Figures of a session: of its asks, and mean, largest and number of each kind of probe."""
    asks = np.array(session["asks"])
    figures = [asks[0], asks[-1], asks[-1] - asks[0], asks.mean(), asks.max(), asks.min()]
    figures += [np.median(asks), np.quantile(asks, 0.25), float(len(asks)), session["is_cold"]]
    for kind in ("preview", "healthz", "budget", "repeat"):
        times = np.array(session[kind]) if session[kind] else np.zeros(1)
        figures += [times.mean(), times.max(), float(len(times)), times[0]]
    return [float(figure) for figure in figures]


def attack(sessions: list[dict[str, object]]) -> list[bool]:
    """For each session, whether the attacker guesses its world right."""
    figures = np.array([describe_session(session) for session in sessions])
    is_in = np.array([session["world"] == "with" for session in sessions])
    fold = np.arange(len(sessions)) % FOLDS
    is_right = np.zeros(len(sessions), dtype=bool)
    for number in range(FOLDS):
        learned = fold != number
        guess = _learn(figures[learned], is_in[learned])
        is_right[~learned] = guess(figures[~learned]) == is_in[~learned]
    return [bool(verdict) for verdict in is_right]


def _learn(figures: np.ndarray, is_in: np.ndarray):
    rules = [_learn_threshold(figures, is_in), _learn_discriminant(figures, is_in)]
    return max(rules, key=lambda rule: float(np.mean(rule(figures) == is_in)))


def _learn_threshold(figures: np.ndarray, is_in: np.ndarray):
    """The best cut of a single figure, in either direction."""
    best = (0.0, 0, 0.0, True)
    for column in range(figures.shape[1]):
        for cut in np.quantile(figures[:, column], np.linspace(0.02, 0.98, 49)):
            share = float(np.mean((figures[:, column] > cut) == is_in))
            best = max(best, (share, column, float(cut), True), (1 - share, column, cut, False))
    _, column, cut, is_above = best
    return lambda new: (new[:, column] > cut) == is_above


def _learn_discriminant(figures: np.ndarray, is_in: np.ndarray):
    """Fisher's linear discriminant over ranks, which outliers do not rule."""
    centre = np.median(figures, axis=0)
    spread = np.median(np.abs(figures - centre), axis=0) + 1e-9

    def scale(new: np.ndarray) -> np.ndarray:
        return np.clip((new - centre) / spread, -5, 5)

    scaled = scale(figures)
    low, high = scaled[~is_in].mean(axis=0), scaled[is_in].mean(axis=0)
    within = np.cov(scaled.T) + 0.1 * np.eye(scaled.shape[1])
    weights = np.linalg.solve(within, high - low)
    middle = float((low + high) @ weights / 2)
    return lambda new: scale(new) @ weights > middle


def find_upper_end(right: int, count: int) -> float:
    """The upper end of the exact 95% interval (one-sided, Clopper and Pearson) of a share."""
    from scipy.stats import beta

    return 1.0 if right == count else float(beta.ppf(0.95, right + 1, count - right))
