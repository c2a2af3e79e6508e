"""How many misses of an interval a stated false alarm allows."""

from __future__ import annotations

from scipy.stats import binom


def binomial_bounds(runs: int, chance: float, false_alarm: float) -> tuple[int, int]:
    """(fewest, most) hits in `runs` trials; outside with probability at most `false_alarm`."""
    fewest = int(binom.ppf(false_alarm / 2, runs, chance))
    most = int(binom.isf(false_alarm / 2, runs, chance))
    return fewest, most
