"""Mechanisms that a request can reach, and no other.

Exact integers and an exact sensitivity go in; a random answer, its loss and its error law come out.
One file each; docs/reference/mechanisms.md is the table of them all, with their proofs, tests and
planted bugs.
"""

from dither.privacy.mechanisms.adaptive_blocks import AdaptiveBlocks
from dither.privacy.mechanisms.box import IntegerBox
from dither.privacy.mechanisms.gaussian import IntegerGaussian
from dither.privacy.mechanisms.gaussian_keys import GaussianKeys
from dither.privacy.mechanisms.key_selection import TruncatedGeometricKeys
from dither.privacy.mechanisms.laplace import IntegerLaplace
from dither.privacy.mechanisms.quantile import FlippedQuantile, Quantile
from dither.privacy.mechanisms.quantile_ends import QuantilesWithEnds
from dither.privacy.mechanisms.quantiles import JointQuantiles
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian
from dither.privacy.mechanisms.score_selection import FlippedScoreSelection, ScoreSelection

__all__ = [
    "AdaptiveBlocks",
    "FlippedQuantile",
    "FlippedScoreSelection",
    "GaussianKeys",
    "IntegerBox",
    "IntegerGaussian",
    "IntegerLaplace",
    "IntegerRoundedGaussian",
    "JointQuantiles",
    "Quantile",
    "QuantilesWithEnds",
    "ScoreSelection",
    "TruncatedGeometricKeys",
]
