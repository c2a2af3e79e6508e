"""Functions of rows in the leaves of public trees: histograms, and gradients of boosting.

A tree is complete, its splits are in the order of a heap: below split k stand 2 k + 1 and 2 k + 2.
A split is a range (first, stop) of features: a row whose features in it add up to more than 0 goes
to the second branch. So a bin or more, or a listed value, is asked for with integers alone. The
range (0, 0) sends every row to the first branch. Proof: docs/proofs/unit-vectors.md#trees.

>>> count_leaves(((1, 3), (0, 0), (2, 3)))
4
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dither.stored import stored

MOST_SPLITS = 255
"""Of one tree: eight levels."""
MOST_TREES = 1000
MOST_SCORE = 1 << 30
"""The largest score of a leaf, in steps of 2**-16: sums of all trees stay exact."""

Split = tuple[int, int]


@stored("treecounts", label="label", classes="classes", splits="splits", is_leaf="is_leaf")
@dataclass(frozen=True)
class TreeCounts:
    """The features of the rows of every leaf and class, leaf by leaf: histograms of all features.

    With `is_leaf` only the number of rows of every leaf and class.
    """

    label: str
    classes: int
    splits: tuple[Split, ...]
    is_leaf: bool


@stored("scoredtree", splits="splits", scores="scores")
@dataclass(frozen=True)
class ScoredTree:
    """A tree with a score for every leaf, in steps of 2**-16."""

    splits: tuple[Split, ...]
    scores: tuple[int, ...]


@stored("treegradient", label="label", positive="positive", forest="forest", splits="splits")
@dataclass(frozen=True)
class TreeGradient:
    """The slope and the curvature of the logistic loss in every leaf of a new tree: all slopes,
    then all curvatures. The margin of a row is the sum of its scores in the trees of `forest`."""

    label: str
    positive: int
    forest: tuple[ScoredTree, ...]
    splits: tuple[Split, ...]


def count_leaves(splits: tuple[Split, ...]) -> int:
    """How many leaves a complete tree has."""
    return len(splits) + 1


def are_splits(splits: Any) -> bool:
    """Whether these are the splits of a complete tree of at most eight levels."""
    if type(splits) is not tuple or len(splits) > MOST_SPLITS or len(splits) & (len(splits) + 1):
        return False
    return all(
        type(split) is tuple
        and len(split) == 2
        and {*map(type, split)} == {int}
        and 0 <= split[0] <= split[1]
        for split in splits
    )


def is_forest(forest: Any) -> bool:
    """Whether these are trees with a short score for every leaf."""
    return (
        type(forest) is tuple
        and len(forest) <= MOST_TREES
        and all(type(tree) is ScoredTree and _is_scored(tree) for tree in forest)
    )


def _is_scored(tree: ScoredTree) -> bool:
    return (
        are_splits(tree.splits)
        and type(tree.scores) is tuple
        and len(tree.scores) == count_leaves(tree.splits)
        and {*map(type, tree.scores)} == {int}
        and max(map(abs, tree.scores)) <= MOST_SCORE
    )


def list_splits(function: TreeCounts | TreeGradient) -> tuple[Split, ...]:
    """The splits of all trees of a function."""
    forest = function.forest if isinstance(function, TreeGradient) else ()
    return (*function.splits, *(split for tree in forest for split in tree.splits))
