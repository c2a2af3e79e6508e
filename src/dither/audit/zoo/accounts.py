"""Wrong arithmetic of losses: found by the accountant's proved brackets."""

from __future__ import annotations

import math
from fractions import Fraction

from scipy.stats import binom, norm

from dither.accounting.curves import delta
from dither.accounting.renyi import rdp
from dither.audit.confidence import runs_needed
from dither.audit.figures import write_needed_runs
from dither.audit.zoo.bug import ALPHA, Bug, accountant
from dither.privacy.losses import DiscreteLaplace, Gaussian

CLASSIC = Fraction(math.sqrt(2 * math.log(1.25e5)) / 10)  # sqrt(2 ln(1.25 / delta)) / epsilon


def mixed_orders(costs: list[tuple[int, float]]) -> float:
    """Chorus: adds RDP costs as if all were at the largest order."""
    return sum(cost for _, cost in costs)


def _needs_gaussian() -> str:
    """Say how many runs a black box needs to see the bug, with the best of some half-lines.

    The best one starts near where the loss passes epsilon.
    """
    sigma = float(CLASSIC)
    run_counts = []
    for step in range(6):
        t = sigma * sigma * 10 + 0.5 + step / 20
        run_counts.append(
            runs_needed(
                float(norm.sf((t - 1) / sigma)), float(norm.sf(t / sigma)), 10.0, 1e-5, ALPHA / 4
            )
        )
    best = min((runs for runs in run_counts if runs is not None), default=None)
    return "more than 1e15 a side" if best is None else write_needed_runs(best)


def _needs_laplace() -> str:
    """Say how many runs a black box needs to see the bug.

    The loss of integer Laplace with sensitivity 1 is that of a coin: 100 coins at 1/10, best
    from 74 heads on.
    """
    q = 1 / (1 + math.exp(-0.1))
    heads = 74
    p = float(binom.sf(heads - 1, 100, q)), float(binom.sf(heads - 1, 100, 1 - q))
    needed = runs_needed(*p, 4.69267, 1e-6, ALPHA / 4)
    return "more than 1e15 a side" if needed is None else write_needed_runs(needed)


def bugs() -> list[Bug]:
    """List the planted bugs of this module, for the accountant to catch."""
    return [
        accountant(
            "rdp-orders-mixed",
            "RDP costs at orders 2 and 32 added, the larger order kept",
            "Chorus: sigma 5, claims 0.68, truth 1.28",
            claim="RDP(32, 0.68)",
            claimed=lambda: mixed_orders([(2, 2 / 50), (32, 32 / 50)]),
            true_lower=lambda: float(rdp(Gaussian(Fraction(5)) * 2, 32).lower),
            needs=lambda: "not visible: a claim about one Renyi order",
        ),
        accountant(
            "classic-gaussian-at-epsilon-10",
            "sigma = sqrt(2 ln(1.25/delta)) / epsilon, proved for epsilon below 1",
            "Dwork, Roth 2014, theorem A.1, used beyond its range",
            claim="(10, 1e-5)",
            claimed=lambda: 1e-5,
            true_lower=lambda: delta(Gaussian(CLASSIC), 10).lower,
            needs=_needs_gaussian,
        ),
        accountant(
            "integer-laplace-priced-as-laplace",
            "100 counts with integer Laplace(10) reported by the continuous curve",
            "rule integer-noise-price",
            claim="(4.69267, 1e-6)",
            claimed=lambda: 1e-6,
            true_lower=lambda: (
                delta(DiscreteLaplace(Fraction(10), 1) * 100, Fraction("4.69267")).lower
            ),
            needs=_needs_laplace,
        ),
    ]
