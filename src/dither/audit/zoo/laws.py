"""Bugs whose two laws can be written down: found with no sampling; some would need more runs than
anyone has."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.stats import binom

from dither.audit.confidence import runs_needed
from dither.audit.exact import Law, renyi
from dither.audit.figures import write_needed_runs
from dither.audit.zoo.bug import ALPHA, Bug, Catch, exact_law
from dither.figures import write_bound


def modulo_coin() -> tuple[Law, Law]:
    """Randomised response at ln 3 whose coin is `byte % 100 < 75`: 206 of 256 bytes, not three
    quarters."""
    truth = Fraction(sum(byte % 100 < 75 for byte in range(256)), 256)
    return {0: truth, 1: 1 - truth}, {0: 1 - truth, 1: truth}


def integer_gaussian() -> tuple[Law, Law]:
    """Compute two laws of integer Gaussian noise at the continuous calibration for (1, 1e-5)."""
    sigma = 3.73063
    x = np.arange(-160, 161)
    weight = np.exp(-(x.astype(np.float64) ** 2) / (2 * sigma * sigma))
    weight /= weight.sum()
    law = dict(zip(x.tolist(), weight.tolist(), strict=True))
    return law, {k + 1: p for k, p in law.items()}


def renormalised_geometric() -> tuple[Law, Law]:
    """Compute two laws of 100 values on 1000 outputs, at rate 0.2.

    Rows are cut at the ends and divided by their sum, not clipped.
    """
    x = np.arange(1000)
    laws = []
    for centre in (0, 10):
        weight = np.exp(-0.2 * np.abs(x - centre))
        laws.append(dict(zip(x.tolist(), (weight / weight.sum()).tolist(), strict=True)))
    return laws[0], laws[1]


def unary_bits() -> tuple[Law, Law]:
    """Compute two laws of unary encoding with every bit at epsilon 1, although two bits differ."""
    keep = 1 / (1 + math.exp(-1))

    def law(value: int) -> Law:
        """Compute the law of two bits, each kept with probability `keep`; bit `value` is 1."""
        bits = [(a, b) for a in (0, 1) for b in (0, 1)]
        return {
            pair: math.prod(keep if bit == (i == value) else 1 - keep for i, bit in enumerate(pair))
            for pair in bits
        }

    return law(0), law(1)


def permute_and_flip() -> tuple[Law, Law]:
    """Two candidates, epsilon 1, sensitivity 1: scores (0, 0), and (-1, 1)."""
    best = 1 - math.exp(-1) / 2
    return {0: 0.5, 1: 0.5}, {0: 1 - best, 1: best}


def _priced_as_bounded_range() -> Bug:
    """Plant permute-and-flip at the price eps^2/8 of a mechanism of bounded range.

    The catch compares a Renyi divergence of its exact law with that price, at epsilon 1.
    """
    rho = 1 / 8
    order = 1.5
    times = 64

    def catch() -> Catch:
        """Compare the divergence with the price, and say how many runs a black box would need."""
        left, right = permute_and_flip()
        divergence = renyi(left, right, order)
        # a black box sees it only after composition: `times` choices against the zCDP curve of
        # their price
        up = math.log(0.5 / float(right[0]))
        down = math.log(0.5 / float(right[1]))
        price = times * rho
        options = []
        for ups in range(times + 1):
            epsilon = ups * up + (times - ups) * down - 1e-9
            if epsilon > price:
                delta = math.exp(-((epsilon - price) ** 2) / (4 * price))
                p = float(binom.sf(ups - 1, times, 0.5))
                q = float(binom.sf(ups - 1, times, float(right[0])))
                spread = math.sqrt(p + math.exp(2 * epsilon) * q)
                options.append(((p - math.exp(epsilon) * q - delta) / spread, p, q, epsilon, delta))
        best = runs_needed(*max(options)[1:], ALPHA / 4)
        needs_text = (
            "not visible at any composition tried"
            if best is None
            else f"{write_needed_runs(best)} of {times} choices each"
        )
        evidence = (
            f"Renyi divergence of order {write_bound(order)} is {write_bound(divergence)} > "
            f"{write_bound(order * rho, up=True)} = order * eps^2/8"
        )
        return Catch(divergence > order * rho, evidence, needs=needs_text)

    return Bug(
        "permute-and-flip-at-eps-squared-over-8",
        "permute-and-flip charged as if its range were bounded",
        "rule bounded-range: the bound is the exponential mechanism's alone",
        "zCDP 1/8",
        "exact law",
        catch,
    )


def bugs() -> list[Bug]:
    """List the planted bugs of this module, to be caught from their exact laws."""
    return [
        exact_law(
            "biased-coin",
            "a coin by `byte % 100 < 75`",
            "modulo bias; randomised response at ln 3",
            laws=modulo_coin,
            epsilon=math.log(3),
        ),
        exact_law(
            "integer-noise-at-the-continuous-sigma",
            "integer Gaussian noise at sigma 3.73063",
            "rule integer-noise-price; Balle, Wang 2018 calibrate continuous noise",
            laws=integer_gaussian,
            epsilon=1.0,
            delta=1e-5,
        ),
        exact_law(
            "truncated-by-dividing",
            "a geometric law cut at its ends and renormalised",
            "2.535 where 2 is claimed, by enumeration",
            laws=renormalised_geometric,
            epsilon=2.0,
        ),
        exact_law(
            "unary-bits-at-full-epsilon",
            "unary encoding with every bit at epsilon",
            "pure-LDP before 1.2.0, issue 11",
            laws=unary_bits,
            epsilon=1.0,
        ),
        _priced_as_bounded_range(),
    ]
