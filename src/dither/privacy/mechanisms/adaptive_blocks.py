"""Blocks of cells that are split by a noisy score, and the noisy count of every block that is left.

A block at depth h with score s is split where max(threshold - step, s - h step) plus integer
Laplace noise of scale tree_scale exceeds the threshold; step >= tree_scale ln(fan). Then every
unsplit block leaves with its sum plus integer Laplace noise of scale leaf_scale. With V the most
that one unit moves all cells in L1 and fan = 2^axes children of a block:

    loss = Pure(V (2 fan - 1) / ((fan - 1) tree_scale) + V / leaf_scale)

whatever the depth of the tree. Proof: docs/proofs/adaptive-blocks.md.

>>> from fractions import Fraction
>>> blocks = AdaptiveBlocks.for_epsilon(Fraction(10**4), Fraction(1, 2), 1, (4,), "deviation", 0)
>>> blocks.release([7, 7, 900, 0])
[1, 0, 1, 14, 900, 0]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dither.canonical import number_text, positive
from dither.error_terms import NoiseTerms
from dither.errors import ParameterError
from dither.plan.algebra import BlockCounts
from dither.plan.blocks import (
    MOST_AXES,
    SCORES,
    CellBlock,
    add_up,
    find_whole_block,
    score_block,
    split_block,
    take_block,
)
from dither.privacy.losses import ADD_REMOVE, Adjacency, Loss, Neighbours, Pure
from dither.privacy.mechanisms.additive import exact_integers, round_up
from dither.privacy.mechanisms.step_terms import Built, StepTerms
from dither.privacy.noise import Words, discrete_laplace
from dither.privacy.noise.samplers import LARGEST, SMALLEST
from dither.privacy.noise.source import check_source

LN2_ABOVE = Fraction(693148, 10**6)
"""Above ln 2 = 0.693147180..."""


@dataclass(frozen=True)
class AdaptiveBlocks:
    """Splits blocks of counts by noisy scores, and counts the blocks that are left.

    `moved` is V, the most that one unit moves all cells in L1; `axes` are their sizes.
    """

    stored_name: ClassVar[str] = "AdaptiveBlocks"  # in digests of stored releases: never changes

    tree_scale: Fraction
    leaf_scale: Fraction
    moved: int
    axes: tuple[int, ...]
    score: str
    threshold: int
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make the scales exact; refuse what has no proof."""
        for name in ("tree_scale", "leaf_scale"):
            scale = positive(getattr(self, name), name)
            if not SMALLEST <= scale <= LARGEST:
                raise ParameterError(f"{name} must lie between 1/1000 and 2**60")
            object.__setattr__(self, name, scale)
        if type(self.moved) is not int or self.moved < 1:
            raise ParameterError("what one unit moves must be a positive integer")
        if type(self.threshold) is not int:
            raise ParameterError("a threshold is an integer")
        if not 1 <= len(self.axes) <= MOST_AXES or min(self.axes) < 1 or self.score not in SCORES:
            raise ParameterError(f"one to {MOST_AXES} axes, and a score of {', '.join(SCORES)}")
        self.loss()

    @classmethod
    def for_epsilon(
        cls,
        epsilon: Fraction,
        tree_share: Fraction,
        moved: int,
        axes: tuple[int, ...],
        score: str,
        threshold: int,
        adjacency: Adjacency = ADD_REMOVE,
    ) -> AdaptiveBlocks:
        """Make the least noise that meets epsilon, `tree_share` of it for the splits."""
        tree = moved * _bound_path(len(axes)) / (tree_share * epsilon)
        leaf = moved / ((1 - tree_share) * epsilon)
        tree_scale = max(SMALLEST, round_up(tree))
        leaf_scale = max(SMALLEST, round_up(leaf))
        return cls(tree_scale, leaf_scale, moved, axes, score, threshold, *adjacency)

    @cached_property
    def step(self) -> int:
        """What every split above a block takes off its score: at least tree_scale ln(fan)."""
        least = self.tree_scale * len(self.axes) * LN2_ABOVE
        return -(-least.numerator // least.denominator)

    def loss(self) -> Loss:
        """What one release costs: the splits, then the counts of disjoint blocks."""
        tree = self.moved * _bound_path(len(self.axes)) / self.tree_scale
        leaves = self.moved / self.leaf_scale
        return Pure(tree + leaves, neighbours=self.neighbours, unit=self.unit)

    def error_terms(self, column: int = 0) -> NoiseTerms:
        """The law of the noise on the count of a block."""
        return NoiseTerms("laplace_error", {"scale": self.leaf_scale}, self.leaf_scale)

    def column_sensitivity(self, column: int = 0) -> None:
        """Blocks differ between neighbours: no bound cell by cell."""
        return None

    def release(self, cells: Any, *, source: Words | None = None) -> list[int]:
        """The splits and the noisy counts of the blocks; see `release_exact`."""
        return self.release_exact(cells, check_source(source))

    def release_exact(self, exact: Any, source: Words) -> list[int]:
        """1 or 0 for every block of two or more cells that was reached, level by level: whether it
        was split. Then the noisy counts of the blocks left, in each level single cells first.

        What is below 0 counts as 0: the proof needs blocks that hold no less than their parts.
        """
        cells = np.maximum(exact_integers(exact), 0).reshape(self.axes)
        splits: list[int] = []
        leaves: list[CellBlock] = []
        level = [find_whole_block(self.axes)]
        while level:
            leaves += [block for block in level if block.cell_count == 1]
            tested = [block for block in level if block.cell_count > 1]
            chosen = self._choose_splits(cells, tested, source)
            splits += chosen
            level = []
            for block, is_split in zip(tested, chosen, strict=True):
                if is_split:
                    level += split_block(block, self.axes)
                else:
                    leaves.append(block)
        noise = discrete_laplace(self.leaf_scale, (len(leaves),), source=source)
        counts = [
            add_up(take_block(cells, block)) + drawn
            for block, drawn in zip(leaves, noise.tolist(), strict=True)
        ]
        return splits + counts

    def _choose_splits(self, cells: Any, tested: list[CellBlock], source: Words) -> list[int]:
        """1 for every block of one level that is split, else 0."""
        noise = discrete_laplace(self.tree_scale, (len(tested),), source=source)
        scores = [self.find_split_score(take_block(cells, block), block.depth) for block in tested]
        return [
            int(score + drawn > self.threshold)
            for score, drawn in zip(scores, noise.tolist(), strict=True)
        ]

    def find_split_score(self, numbers: Any, depth: int) -> int:
        """The score that decides a split: less `step` for every split above, at least
        threshold - step."""
        lowered = score_block(np.asarray(numbers), self.score) - depth * self.step
        return max(self.threshold - self.step, lowered)

    @property
    def parameters(self) -> Mapping[str, Fraction]:
        """The scales of both noises."""
        return {"scale": self.leaf_scale, "tree_scale": self.tree_scale}

    def describe(self) -> str:
        """The noises and the score, in words."""
        return (
            f"blocks split by {self.score}, with integer Laplace noise of scale "
            f"{number_text(self.tree_scale)} on every score, and of scale "
            f"{number_text(self.leaf_scale)} on the count of every block"
        )

    def describe_sensitivity(self) -> str:
        """How far one unit moves the cells, in words."""
        return f"L1 {self.moved:,} over all cells"

    def sensitivity_document(self) -> Mapping[str, Any]:
        """The same as certificates show it."""
        return {"l1": Fraction(self.moved)}


def _bound_path(axes: int) -> Fraction:
    """(2 fan - 1) / (fan - 1): how much moving one cell by 1 costs in all splits, times
    tree_scale."""
    fan = 1 << axes
    return Fraction(2 * fan - 1, fan - 1)


def build_adaptive_blocks(terms: StepTerms) -> Built:
    """Build the mechanism of block counts at the step's epsilon; every key is an axis."""
    query = terms.query
    assert isinstance(query, BlockCounts)
    _ = terms.analysed.released_rows  # checks the query before a mechanism is built
    return Built(
        AdaptiveBlocks.for_epsilon(
            terms.share,
            query.tree_share,
            terms.analysed.block_move,
            tuple(domain.codes for domain in terms.analysed.domains),
            query.score,
            query.threshold,
            terms.adjacency,
        )
    )
