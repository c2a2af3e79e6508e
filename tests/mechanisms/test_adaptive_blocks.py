"""Blocks split by noisy scores: the exact law against its claim, planted bugs, and the sampler
(docs/proofs/adaptive-blocks.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest
from mpmath import mp, mpf

from dither.errors import ParameterError
from dither.plan.blocks import CellBlock, find_whole_block, score_block, split_block, take_block
from dither.privacy.mechanisms import adaptive_blocks
from dither.privacy.mechanisms.adaptive_blocks import LN2_ABOVE, AdaptiveBlocks
from tests.evidence import assert_counts, laplace_tail
from tests.mechanisms.planted import Bug

SCALE = F(3)
"""Small, so that small tables reach every side of the threshold; the step is 3 on a line."""


def make_blocks(axes: tuple[int, ...], score: str, threshold: int = 2) -> AdaptiveBlocks:
    return AdaptiveBlocks(SCALE, F(10), 1, axes, score, threshold)


def split_chance(blocks: AdaptiveBlocks, cells: np.ndarray, block: CellBlock) -> mpf:
    """P(b + Z > threshold), by the closed form of the tail."""
    lowered = blocks.find_split_score(take_block(cells, block), block.depth)
    return laplace_tail(blocks.tree_scale, blocks.threshold - lowered + 1)


def find_worst_ratio(
    blocks: AdaptiveBlocks, cells: np.ndarray, other: np.ndarray, cell: tuple[int, ...]
) -> float:
    """The largest log ratio of any outcome of the splits, where the two differ in one cell.

    Blocks beside the path of the cell have ratio 1, so only the path counts: at each of its blocks
    the worse of stopping there and going on.
    """

    def worst(block: CellBlock) -> float:
        if block.cell_count == 1:
            return 0.0
        here, there = (split_chance(blocks, side, block) for side in (cells, other))
        inner = next(part for part in split_block(block, blocks.axes) if holds(part, cell))
        going_on = worst(inner)
        return float(max(mp.log(here / there) + going_on, mp.log((1 - here) / (1 - there))))

    return worst(find_whole_block(blocks.axes))


def holds(block: CellBlock, cell: tuple[int, ...]) -> bool:
    ends = zip(block.starts, cell, block.stops, strict=True)
    return all(start <= position < stop for start, position, stop in ends)


def list_neighbours(
    axes: tuple[int, ...], values: tuple[int, ...]
) -> Iterator[tuple[np.ndarray, np.ndarray, tuple[int, ...]]]:
    """All tables of these values, and one more row in the first or last cell, both ways."""
    size = int(np.prod(axes))
    for numbers in product(values, repeat=size):
        cells = np.array(numbers).reshape(axes)
        for cell in {(0,) * len(axes), tuple(side - 1 for side in axes)}:
            other = cells.copy()
            other[cell] += 1
            yield cells, other, cell
            yield other, cells, cell


def claim(blocks: AdaptiveBlocks) -> float:
    """What of the loss is for the splits."""
    return float(blocks.loss().epsilon - blocks.moved / blocks.leaf_scale)


CASES = [
    ((4,), (0, 1, 4, 9)),
    ((3,), (0, 1, 2, 5, 9, 14)),
    ((2, 2), (0, 2, 7)),
]


@pytest.mark.parametrize("score", ["count", "deviation"])
@pytest.mark.parametrize(("axes", "values"), CASES, ids=["four", "three", "plane"])
def test_no_outcome_of_small_tables_beats_the_claim(
    axes: tuple[int, ...], values: tuple[int, ...], score: str
) -> None:
    blocks = make_blocks(axes, score)
    ratios = [find_worst_ratio(blocks, *pair) for pair in list_neighbours(axes, values)]
    assert 0.3 * claim(blocks) < max(ratios) <= claim(blocks) + 1e-12


def find_deep_ratio(blocks: AdaptiveBlocks, heaviest: int = 60) -> float:
    """The worst ratio where all rows lie in the first cell of a deep tree."""
    ratios = []
    for rows in range(heaviest):
        cells = np.zeros(blocks.axes, int)
        cells[(0,) * len(blocks.axes)] = rows
        other = cells.copy()
        other[(0,) * len(blocks.axes)] += 1
        ratios += [
            find_worst_ratio(blocks, *pair, (0,) * len(blocks.axes))
            for pair in ((cells, other), (other, cells))
        ]
    return max(ratios)


def test_adaptive_blocks_keep_their_claim_by_the_exact_law() -> None:
    """Deep trees: what the splits of a path add up to is about three quarters of the claim."""
    for axes, score in product([(64,), (50,), (8, 8)], ["count", "deviation"]):
        blocks = make_blocks(axes, score)
        assert 0.5 * claim(blocks) < find_deep_ratio(blocks, 40) <= claim(blocks) + 1e-12


def test_what_several_rows_of_a_unit_move_is_in_the_loss() -> None:
    """Five rows of one unit in one cell: the ratio exceeds the claim for one row, and stays below
    five times it."""
    one = make_blocks((64,), "count")
    five = AdaptiveBlocks(SCALE, F(10), 5, (64,), "count", 2)
    ratios = []
    for rows in range(40):
        cells = np.zeros(64, int)
        cells[0] = rows
        other = cells + np.eye(1, 64, dtype=int)[0] * 5
        ratios.append(find_worst_ratio(one, other, cells, (0,)))
    assert claim(one) < max(ratios) <= 5 * claim(one)
    assert five.loss().epsilon == 5 * (3 / SCALE + F(1, 10))


def test_the_step_is_above_the_scale_times_the_logarithm_of_the_fan() -> None:
    assert mp.mpf(LN2_ABOVE.numerator) / LN2_ABOVE.denominator > mp.log(2)
    for axes in ((4,), (4, 4), (4, 4, 4)):
        blocks = AdaptiveBlocks(F(1001, 10), F(1), 1, axes, "count", 0)
        assert blocks.step >= 100.1 * len(axes) * float(mp.log(2))


def test_adaptive_blocks_follow_their_law() -> None:
    """Outcomes of 4,000 releases of four cells, against the product of closed forms."""
    blocks = make_blocks((4,), "deviation")
    cells = np.array([0, 5, 1, 1])
    root = find_whole_block((4,))
    left, right = split_block(root, (4,))
    chances = {block: float(split_chance(blocks, cells, block)) for block in (root, left, right)}
    expected = {"whole": 1 - chances[root]}
    for first, second in product((0, 1), repeat=2):
        expected[f"{first}{second}"] = (
            chances[root]
            * (chances[left] if first else 1 - chances[left])
            * (chances[right] if second else 1 - chances[right])
        )
    draws = 4_000
    counts: Counter[str] = Counter()
    for _ in range(draws):
        released = blocks.release(cells)
        counts["".join(map(str, released[1:3])) if released[0] else "whole"] += 1
    assert_counts({event: counts[event] for event in expected}, draws, expected)


def test_without_noise_to_speak_of_blocks_are_equal_cells_and_their_sums() -> None:
    blocks = AdaptiveBlocks.for_epsilon(F(10**5), F(1, 2), 1, (4, 4), "deviation", 0)
    plane = np.array([[3, 3, 50, 0], [3, 3, 0, 0], [1, 1, 2, 2], [1, 1, 2, 2]])
    splits_and_counts = [1, 0, 1, 0, 0, 12, 4, 8, 50, 0, 0, 0]
    assert blocks.release(plane.ravel()) == splits_and_counts


def test_the_deviation_is_the_least_over_all_middles() -> None:
    for numbers in product((0, 1, 4, 9), repeat=3):
        least = min(sum(abs(x - m) for x in numbers) for m in range(10))
        assert score_block(np.array(numbers), "deviation") == least


def test_sums_beyond_int64_are_exact() -> None:
    """2^63 - 1 rows and one more: a sum that wrapped around would turn its sign."""
    blocks = make_blocks((2,), "count")
    scores = [blocks.find_split_score(np.array([2**62, last]), 0) for last in (2**62 - 1, 2**62)]
    assert scores == [2**63 - 1, 2**63]
    whole = AdaptiveBlocks(F(1, 1000), F(1, 1000), 1, (2,), "deviation", 2**40)
    assert whole.release([2**62, 2**62]) == [0, 2**63]


def test_what_is_below_zero_counts_as_nothing() -> None:
    """Parts with more rows than their block cost 1 / scale at each of ten depths: 3.3 for a claim
    of 1."""
    blocks = make_blocks((1024,), "count")
    cells = np.zeros(1024, int)
    cells[0] = 2 + 9 * blocks.step
    for depth in range(1, 10):
        cells[1024 >> depth] = -blocks.step
    other = cells.copy()
    other[0] += 1
    assert find_worst_ratio(blocks, other, cells, (0,)) > 3 * claim(blocks)
    exact = AdaptiveBlocks(F(1, 1000), F(1, 1000), 1, (4,), "count", 0)
    assert exact.release([9, -9, 0, -5]) == [1, 1, 0, 0, 9, 0]


@pytest.mark.parametrize(
    "change",
    [
        {"tree_scale": 0},
        {"leaf_scale": F(1, 10**4)},
        {"moved": 0},
        {"moved": True},
        {"axes": ()},
        {"axes": (2, 2, 2, 2)},
        {"score": "entropy"},
        {"threshold": 0.5},
    ],
)
def test_what_has_no_proof_is_refused(change: dict[str, object]) -> None:
    terms = {"tree_scale": 3, "leaf_scale": 3, "moved": 1, "axes": (4,), "score": "count"}
    with pytest.raises(ParameterError):
        AdaptiveBlocks(**{"threshold": 0, **terms, **change})  # type: ignore[arg-type]


def floor_nothing(blocks: AdaptiveBlocks, numbers: np.ndarray, depth: int) -> int:
    return score_block(numbers, blocks.score) - depth * blocks.step


KEEPS = test_adaptive_blocks_keep_their_claim_by_the_exact_law
BUGS = {
    "blocks-without-step": Bug(
        "depth takes nothing off a score", KEEPS, ((AdaptiveBlocks, "step", property(lambda _: 0)),)
    ),
    "blocks-without-floor": Bug(
        "scores far below the threshold still move",
        KEEPS,
        ((AdaptiveBlocks, "find_split_score", floor_nothing),),
    ),
    "blocks-half-path": Bug(
        "half of what a path costs",
        KEEPS,
        (
            (
                adaptive_blocks,
                "_bound_path",
                lambda axes: F(2 ** (axes + 1) - 1, 2 ** (axes + 1) - 2),
            ),
        ),
    ),
}
