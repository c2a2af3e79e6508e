"""Mechanisms: exact integers and an exact sensitivity in; a random answer, its loss and its error law out.

One file each; docs/reference/mechanisms.md is the table of them all, with their proofs, tests and planted bugs.
"""

from dither.privacy.mechanisms.box import IntegerBox
from dither.privacy.mechanisms.clipped_moments import ClippedMoments
from dither.privacy.mechanisms.exponential import ExponentialMechanism
from dither.privacy.mechanisms.gaussian import IntegerGaussian
from dither.privacy.mechanisms.gaussian_keys import GaussianKeys
from dither.privacy.mechanisms.grid import QuantileGrid
from dither.privacy.mechanisms.histogram import bounded_histogram, histogram_sensitivity
from dither.privacy.mechanisms.key_selection import TruncatedGeometricKeys
from dither.privacy.mechanisms.laplace import IntegerLaplace
from dither.privacy.mechanisms.noisy_max import ReportNoisyMax
from dither.privacy.mechanisms.permute_and_flip import PermuteAndFlip
from dither.privacy.mechanisms.private_selection import PrivateSelection
from dither.privacy.mechanisms.quantile import FlippedQuantile, Quantile
from dither.privacy.mechanisms.quantile_ends import QuantilesWithEnds
from dither.privacy.mechanisms.quantiles import JointQuantiles
from dither.privacy.mechanisms.randomised_response import RandomisedResponse
from dither.privacy.mechanisms.sparse_vector import SparseVector
from dither.privacy.mechanisms.staircase import Staircase
from dither.privacy.mechanisms.top_k import TopK
from dither.privacy.mechanisms.tree_counter import TreeCounter
from dither.privacy.mechanisms.truncated_geometric import TruncatedGeometric

__all__ = [
    "ClippedMoments",
    "ExponentialMechanism",
    "FlippedQuantile",
    "GaussianKeys",
    "IntegerBox",
    "IntegerGaussian",
    "IntegerLaplace",
    "JointQuantiles",
    "PermuteAndFlip",
    "PrivateSelection",
    "Quantile",
    "QuantileGrid",
    "QuantilesWithEnds",
    "RandomisedResponse",
    "ReportNoisyMax",
    "SparseVector",
    "Staircase",
    "TopK",
    "TreeCounter",
    "TruncatedGeometric",
    "TruncatedGeometricKeys",
    "bounded_histogram",
    "histogram_sensitivity",
]
