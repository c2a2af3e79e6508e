"""Wrong counts, sums and choices that the tester sees: too little noise, the wrong neighbours,
leaks beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.audit.zoo.bug import Bug, Integers, black_box, laplace_pmf, laplace_tail
from dither.audit.zoo.dawa import DAWA_CHANCES, dawa_partition
from dither.privacy.noise import Words, discrete_laplace


def half_noise(count: int, size: int) -> Integers:
    """Claims epsilon 1 and adds Laplace noise of scale 1 / (2 epsilon)."""
    return np.asarray(count + discrete_laplace(0.5, size))


def missing_clamp(values: list[int], size: int) -> Integers:
    """A sum of values declared to lie in [0, 10], which nobody enforces; noise for 10."""
    return np.asarray(sum(values) + discrete_laplace(10, size))


def noisy_max(counts: list[int], size: int) -> Integers:
    """Report noisy max at scale 2 / epsilon that reports the winning value with the noise that made
    it win."""
    noisy = np.array(counts) + discrete_laplace(2, (size, len(counts)))
    return np.asarray(noisy.max(axis=1))


def unsplit(values: list[int], size: int) -> Integers:
    """COUNT and SUM of values in [0, 10], each at the whole epsilon, charged once."""
    return np.stack(
        [len(values) + discrete_laplace(1, size), sum(values) + discrete_laplace(10, size)], axis=1
    )


def uncharged_threshold(count: int, size: int) -> Integers:
    """A key is shown if its noisy count reaches 10; then a second noisy count is released; only
    that one is charged."""
    is_released = count + discrete_laplace(1, size) >= 10
    return np.where(is_released, count + discrete_laplace(1, size), -1)


def local_sensitivity(values: list[int], size: int) -> Integers:
    """A median of values in [0, 100] with noise for the *local* sensitivity: none where neighbours
    agree."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    scale = max(ordered[middle] - ordered[middle - 1], ordered[middle + 1] - ordered[middle])
    return np.full(size, ordered[middle]) + (discrete_laplace(scale, size) if scale else 0)


class Fixed(Words):
    """A generator that every release starts from the same state (Ektelo's default: a state set
    once, to 0)."""

    def __init__(self) -> None:
        self._state = np.uint64(0)

    def words(self, count: int, width: int = 64) -> NDArray[np.uint64]:
        """Compute the same words each time: a counter, mixed by shifts and multiplications."""
        x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        with np.errstate(over="ignore"):
            x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
            x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return (x ^ x >> np.uint64(31)) >> np.uint64(64 - width)


def fixed_state(count: int) -> int:
    """A noisy count whose generator starts anew, from the same state, for every release."""
    return int(count + discrete_laplace(1, source=Fixed()))


def reused_noise(counts: list[int], size: int) -> Integers:
    """Two counts, one noise."""
    return np.asarray(np.array(counts) + discrete_laplace(2, size)[:, None])


def exact_keys(keys: list[str]) -> dict[str, int]:
    """GROUP BY over an undeclared column: noisy counts of exactly the keys that occur."""
    return {key: keys.count(key) + discrete_laplace(1) for key in sorted(set(keys))}


def add_remove_noise(counts: list[int], size: int) -> Integers:
    """A histogram with noise for one cell moved, sold under replace, where two cells move."""
    return np.asarray(np.array(counts) + discrete_laplace(1, (size, len(counts))))


def truncated_noise(count: int, size: int) -> Integers:
    """The noise itself is cut at 10 scales, so that answers 'stay plausible'."""
    return np.asarray(count + np.clip(discrete_laplace(1, size), -10, 10))


def self_join(weights: tuple[int, int], size: int) -> Integers:
    """Weighted self-join (wPINQ) of a day with 10 visits: pairs of old visits, pairs with the new
    one, times 22.

    A row moves the weights of its own pairs and of all others: 31 / 22 in all, but the noise is for
    1.
    """
    return np.asarray(np.array(weights) + discrete_laplace(22, (size, 2)))


def row_level(rows: int, size: int) -> Integers:
    """One person's visits, noise for one row, sold as protection of the person."""
    return np.asarray(rows + discrete_laplace(1, size))


def failing(values: list[int]) -> int:
    """A sum that raises on a value outside the declared bounds instead of clamping it."""
    if any(value > 10 for value in values):
        raise OverflowError("value out of range")
    return int(sum(values) + discrete_laplace(10))


def private_size_mean(values: list[int], size: int) -> Integers:
    """The mean of values in [0, 1] with noise for a public n, in 1/1000: scale 1000 / (n epsilon),
    n the true one."""
    n = len(values)
    return np.asarray(1000 * sum(values) // n + discrete_laplace(1000 // n, size))


def two_level_tree(counts: list[int], size: int) -> Integers:
    """Running sums of 4 steps by a tree of 3 levels, with noise for 2 (ceil(log2 4)): the blocks 1,
    1-2, 1-4."""
    blocks = np.array([counts[0], counts[0] + counts[1], sum(counts)])
    return np.asarray(blocks + discrete_laplace(2, (size, 3)))


def _tail(scale: float, t: float) -> float:
    return float(laplace_tail(scale, t))


def _noisy_max_chances() -> tuple[float, float]:
    below = [(1 - _tail(2, 1 - count)) ** 5 for count in (0, 1)]  # max <= 0
    return below[0], below[1]


def _unsplit_chances() -> tuple[float, float]:
    return _tail(1, 0) * _tail(10, 0), _tail(1, 1) * _tail(10, 10)


def _threshold_chances() -> tuple[float, float]:
    return _tail(1, 0) * _tail(1, 0), _tail(1, 1) * _tail(1, 1)


def _pmf(scale: float, z: int) -> float:
    return float(laplace_pmf(scale, z))


def _two_cells(scale: float, moves: tuple[int, int]) -> tuple[float, float]:
    """Compute the chance on both inputs that one cell is high and another low.

    On the likelier input both bounds are the true values; on the other they are `moves` away.
    """
    return _tail(scale, 0) * _tail(scale, 0), _tail(scale, moves[0]) * _tail(scale, moves[1])


def _tree_chances() -> tuple[float, float]:
    return _tail(2, 0) ** 3, _tail(2, 1) ** 3


def _at_most(t: int) -> Callable[[Any], Any]:
    return lambda x: x <= t


def _at_least(t: int) -> Callable[[Any], Any]:
    return lambda x: x >= t


def bugs() -> list[Bug]:
    """List the planted bugs of this module, for the black-box tester to catch."""
    return [
        black_box(
            "half-noise",
            "Laplace noise of half the scale",
            "CheckDP (Wang et al. 2020), BadPartialSum: scale 1 / (2 epsilon)",
            mechanism=half_noise,
            pair=(1, 0),
            epsilon=1.0,
            named=("value >= 1", _at_least(1)),
            chances=lambda: (_tail(0.5, 0), _tail(0.5, 1)),
            runs=20_000,
        ),
        black_box(
            "missing-clamp",
            "a sum whose declared bounds are not enforced",
            "Wilson et al. 2020 (bounds trusted); Kifer et al. 2020, section 5",
            mechanism=missing_clamp,
            pair=([5, 5, 1000], [5, 5]),
            epsilon=1.0,
            named=("value >= 500", _at_least(500)),
            chances=lambda: (_tail(10, 500 - 1010), _tail(10, 490)),
            runs=2_000,
        ),
        black_box(
            "noisy-max-shows-its-value",
            "noisy max that reports the winner's value with the same noise",
            "StatDP (Ding et al. 2018), noisy_max_v1b",
            mechanism=noisy_max,
            pair=([0] * 5, [1] * 5),
            epsilon=1.0,
            named=("value <= 0", _at_most(0)),
            chances=_noisy_max_chances,
            runs=60_000,
        ),
        black_box(
            "epsilon-not-split",
            "AVG as COUNT and SUM, each at the whole epsilon",
            "a frequent slip; PINQ tutorials",
            mechanism=unsplit,
            pair=([10], []),
            epsilon=1.0,
            named=("count >= 1 and sum >= 10", lambda rows: (rows[:, 0] >= 1) & (rows[:, 1] >= 10)),
            chances=_unsplit_chances,
            runs=30_000,
        ),
        black_box(
            "threshold-count-not-charged",
            "the noisy count that decides whether a key is shown is not charged",
            "Kifer et al. 2020, section 5.4; Wilson et al. 2020 charge it",
            mechanism=uncharged_threshold,
            pair=(10, 9),
            epsilon=1.0,
            named=("shown with a value of at least 10", _at_least(10)),
            chances=_threshold_chances,
            runs=60_000,
        ),
        black_box(
            "local-sensitivity-as-scale",
            "a median with noise for the local sensitivity",
            "Nissim, Raskhodnikova, Smith 2007, section 1",
            mechanism=local_sensitivity,
            pair=([0, 0, 0, 0, 100], [0, 0, 0, 100, 100]),
            epsilon=1.0,
            named=("value is 0", lambda x: x == 0),
            chances=lambda: (1.0, _pmf(100, 0)),
            runs=2_000,
        ),
        black_box(
            "dawa-half-scale",
            "DAWA's partition with half the noise it needs",
            "public code of Ektelo and dpcomp; measured 1.105 at a claim of 1",
            mechanism=dawa_partition,
            pair=([0] * 4 + [8] * 4, [1, 0, 0, 0] + [8] * 4),
            epsilon=1.0,
            named=("one single bucket", lambda x: np.asarray(x) > 0),
            chances=lambda: DAWA_CHANCES,
            runs=8_900_000,
        ),
        black_box(
            "fixed-seed",
            "a generator that every release starts from the same state",
            "Ektelo (2018), default state 0",
            mechanism=fixed_state,
            pair=(10, 11),
            epsilon=1.0,
            named=("the one value that 10 gives", lambda x: x == fixed_state(10)),
            chances=lambda: (1.0, 0.0),
            runs=400,
        ),
        black_box(
            "reused-noise",
            "two cells with one noise",
            "snapshots and copies of generators (rule fresh-noise)",
            mechanism=reused_noise,
            pair=([3, 7], [4, 7]),
            epsilon=1.0,
            named=("second - first is 4", lambda rows: rows[:, 1] - rows[:, 0] == 4),
            chances=lambda: (1.0, 0.0),
            runs=400,
        ),
        black_box(
            "exact-group-keys",
            "GROUP BY that returns exactly the keys that occur",
            "the obvious SQL; Korolova et al. 2009 need a threshold",
            mechanism=exact_keys,
            pair=(["a", "a", "rare"], ["a", "a"]),
            epsilon=1.0,
            named=(
                "the key 'rare' is there",
                lambda texts: np.array(["rare" in text for text in texts]),
            ),
            chances=lambda: (1.0, 0.0),
            runs=400,
        ),
        black_box(
            "replace-priced-as-add-remove",
            "a histogram with noise for one cell, under replace",
            "bounded against unbounded DP (Kifer, Machanavajjhala 2011)",
            mechanism=add_remove_noise,
            pair=([1, 0], [0, 1]),
            epsilon=1.0,
            named=(
                "first >= 1 and second <= 0",
                lambda rows: (rows[:, 0] >= 1) & (rows[:, 1] <= 0),
            ),
            chances=lambda: _two_cells(1, (1, 1)),
            runs=20_000,
        ),
        black_box(
            "truncated-noise",
            "noise cut at ten scales",
            "clamp the noisy count, not the noise (docs/proofs/geometric.md)",
            mechanism=truncated_noise,
            pair=(0, 1),
            epsilon=1.0,
            named=("value <= -10", _at_most(-10)),
            chances=lambda: (1 - _tail(1, -9), 0.0),
            runs=6_800_000,
        ),
        black_box(
            "self-join-with-flat-sensitivity",
            "a weighted self-join with noise for one input",
            "Chorus' wPINQ rewriter",
            mechanism=self_join,
            pair=((100, 21), (110, 0)),
            epsilon=1.0,
            named=(
                "old <= 100 and new >= 21",
                lambda rows: (rows[:, 0] <= 100) & (rows[:, 1] >= 21),
            ),
            chances=lambda: _two_cells(22, (10, 21)),
            runs=200_000,
        ),
        black_box(
            "user-level-with-row-limits",
            "protection of a person claimed with noise for one row",
            "Kifer et al. 2020, section 3.3",
            mechanism=row_level,
            pair=(5, 0),
            epsilon=1.0,
            named=("value >= 5", _at_least(5)),
            chances=lambda: (_tail(1, 0), _tail(1, 5)),
            runs=4_000,
        ),
        black_box(
            "data-dependent-error",
            "an error that only one person's row can cause",
            "Haeberlen, Pierce, Narayan 2011; rule one-failure-text",
            mechanism=failing,
            pair=([5, 11], [5]),
            epsilon=1.0,
            named=(
                "it raised",
                lambda outputs: np.array(["Raised" in str(output) for output in outputs]),
            ),
            chances=lambda: (1.0, 0.0),
            runs=400,
        ),
        black_box(
            "mean-with-private-n",
            "a mean with noise for a public n, n being private",
            "add/remove neighbours with bounded-DP noise",
            mechanism=private_size_mean,
            pair=([0], [0, 1]),
            epsilon=1.0,
            named=(
                "value <= -3 or value >= 4 (in thousandths)",
                lambda x: (x <= -3000) | (x >= 4000),
            ),
            chances=lambda: (
                _tail(1000, 3000) + _tail(1000, 4000),
                _tail(500, 3500) + _tail(500, 3500),
            ),
            runs=60_000,
        ),
        black_box(
            "tree-with-a-level-missing",
            "a tree counter with noise for ceil(log2 n) levels",
            "Chan, Shi, Song 2011 as often coded: 4 steps have 3 levels",
            mechanism=two_level_tree,
            pair=([1, 0, 0, 0], [0, 0, 0, 0]),
            epsilon=1.0,
            named=("all three blocks >= 1", lambda rows: (rows >= 1).all(axis=1)),
            chances=_tree_chances,
            runs=60_000,
        ),
    ]
