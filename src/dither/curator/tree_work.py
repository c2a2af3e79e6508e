"""How long rows take to find their leaves in public trees, and how trees grow in a training.

Every branch of every tree is looked at for every row. The first step of a training says little of
the later ones: a tree grows by one level a step, a forest by one tree.
"""

from __future__ import annotations

from dataclasses import replace

from dither.plan.algebra import UnitVectors
from dither.plan.analyse import Analysed
from dither.plan.encodings import resolve_features
from dither.plan.tree_functions import MOST_SPLITS, Split, TreeCounts, TreeGradient

BRANCH_S = 10e-9
BRANCH_FEATURE_S = 0.5e-9
"""Seconds for one row at one branch, and for each feature that the branch adds up."""


def bound_leaves(vectors: UnitVectors) -> float:
    """Seconds for one row in the trees of a function of rows; 0 where it has none."""
    function = vectors.function
    if isinstance(function, TreeCounts):
        return _bound_tree(function.splits)
    if isinstance(function, TreeGradient):
        trees = [function.splits, *(tree.splits for tree in function.forest)]
        return sum(map(_bound_tree, trees))
    return 0.0


def _bound_tree(splits: tuple[Split, ...]) -> float:
    features = sum(stop - first for first, stop in splits)
    return BRANCH_S * (len(splits) + 1) + BRANCH_FEATURE_S * features


def list_levels(vectors: UnitVectors, rows: Analysed, steps: int) -> list[UnitVectors]:
    """What the steps of a tree measure, which begins without a branch. Empty for all else.

    Each level has twice the leaves of the one before, and branches of at most the widest column;
    the last step counts leaves alone.
    """
    function = vectors.function
    if not isinstance(function, TreeCounts) or function.splits:
        return []
    branch = (0, _find_widest(vectors, rows))
    levels = []
    for level in range(steps):
        branches = min(MOST_SPLITS, (1 << level) - 1)
        grown = replace(function, splits=(branch,) * branches, is_leaf=level == steps - 1)
        levels.append(replace(vectors, function=grown))
    return levels


def bound_growth(vectors: UnitVectors, rows: Analysed, steps: int) -> float:
    """Seconds for one row in the trees that a forest gains in all steps; 0 for all else."""
    function = vectors.function
    if not isinstance(function, TreeGradient):
        return 0.0
    tree = ((0, _find_widest(vectors, rows)),) * len(function.splits)
    return steps * (steps - 1) / 2 * _bound_tree(tree)


def _find_widest(vectors: UnitVectors, rows: Analysed) -> int:
    return max(feature.width for feature in resolve_features(vectors.features, rows.columns))
