"""Exact noise. Randomness from the operating system, integers and rationals, the speed of NumPy.

>>> from dither.privacy import noise
>>> abs(noise.discrete_laplace(10)) < 10_000
True
"""

from typing import TYPE_CHECKING, Any

from dither.privacy.noise.argmax import argmax_exponential, argmax_gumbel
from dither.privacy.noise.samplers import discrete_gaussian, discrete_laplace, uniform_below
from dither.privacy.noise.source import SystemSource, Words, fresh_bytes

if TYPE_CHECKING:
    from dither.privacy.noise.coins import bernoulli, bernoulli_exp, geometric

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


def __getattr__(name: str) -> Any:
    """Import a sampler that no request can reach, when it is asked for by name."""
    if name in ("bernoulli", "bernoulli_exp", "geometric"):
        from dither.privacy.noise import coins

        return getattr(coins, name)
    raise AttributeError(f"module 'dither.privacy.noise' has no attribute {name!r}")
