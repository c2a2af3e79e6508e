"""Every mechanism, for those who build on dither in Python.

Exact integers and an exact sensitivity go in; a random answer, its loss and its error law come out.
Those that a request can reach live in `dither.privacy.mechanisms`; the others live here, outside
the trusted part. docs/reference/mechanisms.md is the table of them all, with their proofs, tests
and planted bugs.
"""

from dither.mechanisms.calibrations import (
    fit_gaussian,
    fit_gaussian_interval,
    fit_gaussian_keys,
    fit_laplace_interval,
)
from dither.mechanisms.clipped_moments import ClippedMoments
from dither.mechanisms.degree_histogram import DegreeHistogram
from dither.mechanisms.exponential import ExponentialMechanism
from dither.mechanisms.graph_count import GraphCount
from dither.mechanisms.grid import QuantileGrid
from dither.mechanisms.histogram import bounded_histogram, histogram_sensitivity
from dither.mechanisms.noisy_max import ReportNoisyMax
from dither.mechanisms.permute_and_flip import PermuteAndFlip
from dither.mechanisms.private_selection import PrivateSelection
from dither.mechanisms.randomised_response import RandomisedResponse
from dither.mechanisms.sparse_vector import SparseVector
from dither.mechanisms.staircase import Staircase
from dither.mechanisms.top_k import TopK
from dither.mechanisms.tree_counter import TreeCounter
from dither.mechanisms.truncated_geometric import TruncatedGeometric
from dither.privacy.mechanisms.adaptive_blocks import AdaptiveBlocks
from dither.privacy.mechanisms.box import IntegerBox
from dither.privacy.mechanisms.gaussian import IntegerGaussian
from dither.privacy.mechanisms.gaussian_keys import CountedKeys, GaussianKeys, ThresholdKeys
from dither.privacy.mechanisms.key_selection import TruncatedGeometricKeys
from dither.privacy.mechanisms.laplace import IntegerLaplace
from dither.privacy.mechanisms.quantile import FlippedQuantile, Quantile
from dither.privacy.mechanisms.quantile_ends import QuantilesWithEnds
from dither.privacy.mechanisms.quantiles import JointQuantiles
from dither.privacy.mechanisms.rounded_gaussian import IntegerRoundedGaussian
from dither.privacy.mechanisms.score_selection import FlippedScoreSelection, ScoreSelection
from dither.privacy.mechanisms.threshold_epoch import ThresholdEpoch

__all__ = [
    "AdaptiveBlocks",
    "ClippedMoments",
    "CountedKeys",
    "DegreeHistogram",
    "ExponentialMechanism",
    "FlippedQuantile",
    "FlippedScoreSelection",
    "GaussianKeys",
    "GraphCount",
    "IntegerBox",
    "IntegerGaussian",
    "IntegerLaplace",
    "IntegerRoundedGaussian",
    "JointQuantiles",
    "PermuteAndFlip",
    "PrivateSelection",
    "Quantile",
    "QuantileGrid",
    "QuantilesWithEnds",
    "RandomisedResponse",
    "ReportNoisyMax",
    "ScoreSelection",
    "SparseVector",
    "Staircase",
    "ThresholdEpoch",
    "ThresholdKeys",
    "TopK",
    "TreeCounter",
    "TruncatedGeometric",
    "TruncatedGeometricKeys",
    "bounded_histogram",
    "fit_gaussian",
    "fit_gaussian_interval",
    "fit_gaussian_keys",
    "fit_laplace_interval",
    "histogram_sensitivity",
]
