"""Error laws: what a reader of an answer may rely on. They are made from what a mechanism says of
its errors (`dither.error_terms`), and need no mechanism, no catalog and no data."""

from dither.laws.base import (
    AdditiveErrorLaw,
    ErrorLaw,
    Floats,
    HasErrorTerms,
    KeyErrorLaw,
    RankErrorLaw,
)
from dither.laws.box import BoxErrorLaw
from dither.laws.documents import find_error_law, law_from_json, law_to_json
from dither.laws.gaussian import GaussianErrorLaw
from dither.laws.keys import KeyChanceLaw, KeyThresholdLaw
from dither.laws.laplace import LaplaceErrorLaw
from dither.laws.ranks import JointQuantileErrorLaw, QuantileErrorLaw, SelectionErrorLaw
from dither.laws.rounded_gaussian import RoundedGaussianErrorLaw
from dither.laws.shown_counts import ShownCountLaw

__all__ = [
    "AdditiveErrorLaw",
    "BoxErrorLaw",
    "ErrorLaw",
    "Floats",
    "GaussianErrorLaw",
    "HasErrorTerms",
    "JointQuantileErrorLaw",
    "KeyChanceLaw",
    "KeyErrorLaw",
    "KeyThresholdLaw",
    "LaplaceErrorLaw",
    "QuantileErrorLaw",
    "RankErrorLaw",
    "RoundedGaussianErrorLaw",
    "SelectionErrorLaw",
    "ShownCountLaw",
    "find_error_law",
    "law_from_json",
    "law_to_json",
]
