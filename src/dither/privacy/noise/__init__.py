"""Exact noise. Randomness from the operating system, integers and rationals, the speed of NumPy.

>>> from dither.privacy import noise
>>> abs(noise.discrete_laplace(10)) < 10_000
True
"""

from dither.privacy.noise.argmax import argmax_exponential, argmax_gumbel
from dither.privacy.noise.samplers import (
    bernoulli,
    bernoulli_exp,
    discrete_gaussian,
    discrete_laplace,
    geometric,
    uniform_below,
)
from dither.privacy.noise.source import SystemSource, Words, fresh_bytes

__all__ = [
    "SystemSource",
    "Words",
    "argmax_exponential",
    "argmax_gumbel",
    "bernoulli",
    "bernoulli_exp",
    "discrete_gaussian",
    "discrete_laplace",
    "fresh_bytes",
    "geometric",
    "uniform_below",
]
