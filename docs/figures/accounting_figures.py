"""Figures 3.1 and 3.2 of the book, computed by dither; the printed points are marked.

Run: PYTHONPATH=src python docs/figures/accounting_figures.py [folder]
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from dither import accounting as acc

FIGURE_1 = {
    1: 0.0999980952,
    10: 0.999370906,
    50: 3.17290273,
    100: 4.77456759,
    200: 7.18559446,
    500: 12.51787996,
    1000: 19.34467145,
}
FIGURE_2 = {
    2: 0.00428650437,
    4: 0.0114162689,
    6: 0.0394013597,
    8: 0.601268914,
    10: 1.67406056,
    20: 6.84659772,
    50: 21.9431303,
}


def theorem_3_40(alpha: float, p: float, rho: float) -> float:
    """The analytic bound with its best omega >= alpha (p <= 1 - 1/e)."""
    best = math.inf
    for step in range(400):
        omega = alpha + step * 0.05
        tail = omega * math.log((alpha - 1) * p) + (omega - 1) * omega * rho
        middle = math.e / 2 * alpha * (alpha - 1) * p * p * math.expm1(2 * rho)
        # beyond e^600 the logarithm of 1 + middle + e^tail is tail to all digits
        value = math.log1p(middle + math.exp(tail)) if tail < 600 else tail
        best = min(best, value / (alpha - 1))
    return best


def theorem_3_41(alpha: float, p: float, rho: float) -> float:
    """The bound that is good at large orders."""
    return alpha / (alpha - 1) * math.log1p(p * math.expm1((1 - 1 / alpha) * alpha * rho))


def figure_1() -> Figure:
    """k mechanisms of 0.1-DP at delta = 1e-6 under each theorem."""
    counts = sorted({*FIGURE_1, 2, 5, 20, 31, 75, 150, 300, 700})
    rows: dict[str, list[float]] = {}
    for count in counts:
        for rung in acc.explain(acc.Pure(Fraction(1, 10)) * count, 1e-6).rungs:
            rows.setdefault(rung.name, []).append(rung.epsilon)
        gaussian = acc.epsilon(acc.ZCDP(Fraction(count, 400)), 1e-6)
        rows.setdefault("Gaussian of equal variance", []).append(gaussian.lower)
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes: Any = figure.subplots()
    for name, values in rows.items():
        axes.loglog(counts, values, label=name)
    axes.loglog(list(FIGURE_1), list(FIGURE_1.values()), "kx", label="printed optimal points")
    axes.set(xlabel="number of 0.1-DP mechanisms", ylabel="epsilon at delta = 1e-6", title="Figure 3.1")
    axes.legend()
    return figure


def figure_2() -> Figure:
    """Renyi divergence of a Poisson-sampled Gaussian (p = 0.05, rho = 0.5) and two analytic bounds."""
    p, rho = 0.05, 0.5
    loss = acc.PoissonSampled(Fraction(1, 20), acc.Gaussian(Fraction(1)))
    orders = [1.5 + 0.5 * k for k in range(98)]
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes: Any = figure.subplots()
    axes.semilogy(orders, [acc.rdp(loss, order).upper for order in orders], label="exact")
    axes.semilogy(orders, [theorem_3_40(order, p, rho) for order in orders], label="proposition 3.40")
    axes.semilogy(orders, [theorem_3_41(order, p, rho) for order in orders], label="proposition 3.41")
    axes.semilogy(list(FIGURE_2), list(FIGURE_2.values()), "kx", label="printed exact points")
    axes.set(xlabel="order", ylabel="Renyi divergence", title="Figure 3.2")
    axes.legend()
    return figure


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    figure_1().savefig(folder / "figure-3-1.svg")
    figure_2().savefig(folder / "figure-3-2.svg")
