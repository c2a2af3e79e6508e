"""Local differential privacy: reports that leave the device already private.

Two halves that share one public protocol document: `Client` (on the device; memoises, keeps a
lifetime budget) and `Aggregator` (collects; never sees a raw value). Losses are *replace*, unit
user; who reported, when and how often is not protected.

>>> from dither import local
>>> protocol = local.choose(epsilon=2, domain=4).oracle
>>> collector = local.Aggregator(protocol)
>>> for value in (0, 0, 1, 3):
...     collector.add(local.Client(protocol, lifetime_epsilon=2).report(value))
>>> collector.estimate().values.shape
(4,)
"""

from importlib import import_module
from types import ModuleType

from dither.local.aggregator import Aggregator
from dither.local.bitflip import BitFlip
from dither.local.bloom import BloomRappor, bloom_rappor
from dither.local.check import Checked, check, check_client, epsilon_at_least, same_law
from dither.local.choose import Choice, choose
from dither.local.choose_ranges import RangeChoice, choose_ranges, order_counts
from dither.local.client import Client
from dither.local.device import DeviceBudget
from dither.local.devicefile import budget_file
from dither.local.direct import Direct
from dither.local.estimate import BracketedValues, Estimate
from dither.local.graph import Degrees, EdgeResponse
from dither.local.haar import Haar
from dither.local.hadamard import Hadamard
from dither.local.heavy import PrefixSearch, best_search
from dither.local.localhash import BinaryHash, LocalHash, OptimalHash
from dither.local.marginals import Marginals
from dither.local.onebit import OneBit, RepeatedOneBit
from dither.local.piecewise import Hybrid, Piecewise, best_mean
from dither.local.presets import PRESETS
from dither.local.protocol import UNPROTECTED, Protocol, from_json
from dither.local.puzzle import FragmentPuzzle
from dither.local.ranges import Hierarchy
from dither.local.rappor import BasicRappor, basic_rappor
from dither.local.search_limits import least_possible_count
from dither.local.sketch import CountMeanSketch, HadamardSketch
from dither.local.sparse import SparseMean
from dither.local.spatial import Grid, PlanarLaplace
from dither.local.squarewave import SquareWave
from dither.local.subset import Subset
from dither.local.unary import OptimisedUnary, SymmetricUnary
from dither.local.vector import VectorMean, best_vector

__all__ = [
    "PRESETS",
    "UNPROTECTED",
    "Aggregator",
    "BasicRappor",
    "BinaryHash",
    "BitFlip",
    "BloomRappor",
    "BracketedValues",
    "Checked",
    "Choice",
    "Client",
    "CountMeanSketch",
    "Degrees",
    "DeviceBudget",
    "Direct",
    "EdgeResponse",
    "Estimate",
    "FragmentPuzzle",
    "Grid",
    "Haar",
    "Hadamard",
    "HadamardSketch",
    "Hierarchy",
    "Hybrid",
    "LocalHash",
    "Marginals",
    "OneBit",
    "OptimalHash",
    "OptimisedUnary",
    "Piecewise",
    "PlanarLaplace",
    "PrefixSearch",
    "Protocol",
    "RangeChoice",
    "RepeatedOneBit",
    "SparseMean",
    "SquareWave",
    "Subset",
    "SymmetricUnary",
    "VectorMean",
    "basic_rappor",
    "best_mean",
    "best_search",
    "best_vector",
    "bloom_rappor",
    "budget_file",
    "check",
    "check_client",
    "choose",
    "choose_ranges",
    "epsilon_at_least",
    "from_json",
    "least_possible_count",
    "order_counts",
    "same_law",
]

_MODULES = (
    "dashboard",
    "graph",
    "graphgen",
    "plots",
    "poisoning",
    "postprocess",
    "presets",
    "sgd",
    "shuffle",
    "simulate",
    "subjects",
    "text",
)


def __getattr__(name: str) -> ModuleType:
    """`local.shuffle` and its like load when they are asked for."""
    if name in _MODULES:
        return import_module(f"dither.local.{name}")
    raise AttributeError(f"module 'dither.local' has no attribute {name!r}")
