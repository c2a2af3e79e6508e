"""Error laws: what a reader of an answer may rely on, as plain data. They need no mechanism, no
catalog and no data."""

from dither.laws.base import AdditiveErrorLaw, ErrorLaw, Floats, HasErrorLaws, KeyErrorLaw, RankErrorLaw
from dither.laws.box import BoxErrorLaw
from dither.laws.documents import law_from_json, law_to_json
from dither.laws.gaussian import GaussianErrorLaw
from dither.laws.keys import KeyChanceLaw, KeyThresholdLaw
from dither.laws.laplace import LaplaceErrorLaw
from dither.laws.ranks import JointQuantileErrorLaw, QuantileErrorLaw, SelectionErrorLaw

__all__ = [
    "AdditiveErrorLaw",
    "BoxErrorLaw",
    "ErrorLaw",
    "Floats",
    "GaussianErrorLaw",
    "HasErrorLaws",
    "JointQuantileErrorLaw",
    "KeyChanceLaw",
    "KeyErrorLaw",
    "KeyThresholdLaw",
    "LaplaceErrorLaw",
    "QuantileErrorLaw",
    "RankErrorLaw",
    "SelectionErrorLaw",
    "law_from_json",
    "law_to_json",
]
