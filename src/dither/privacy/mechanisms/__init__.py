"""Mechanisms: exact integers and an exact sensitivity in; a random answer, its loss and its error law out."""

from dither.privacy.mechanisms.gaussian import IntegerGaussian
from dither.privacy.mechanisms.laplace import IntegerLaplace

__all__ = ["IntegerGaussian", "IntegerLaplace"]
