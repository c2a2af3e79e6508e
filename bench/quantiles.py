"""Quantiles of a million values, beyond the engine's histogram: at most a tenth of a second each.

base: the tenth of a second that the mechanisms are allowed; ours: one release from ready counts.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from common import line, options, report, seconds

from dither.mechanisms import JointQuantiles, Quantile, TreeCounter

ALLOWED = 0.1


def main() -> None:
    chosen = options(__doc__ or "")
    deciles = JointQuantiles([Fraction(i, 10) for i in range(1, 10)], 1)
    cases = [
        ("the median, 1e6 cells", Quantile(Fraction(1, 2), 1), 10**6),
        ("nine deciles together, 1e5 cells", deciles, 10**5),
        ("all quantiles by a tree, 1e5 cells", TreeCounter.for_epsilon(1, steps=10**5), 10**5),
    ]
    if not chosen.quick:
        cases += [("nine deciles together, 1e6 cells", deciles, 10**6)]
    lines = []
    for what, mechanism, cells in cases:
        counts = np.bincount(np.random.default_rng(1).integers(0, cells, 10**6), minlength=cells)
        lines.append(
            line(what, seconds(lambda m=mechanism, c=counts: m.release(c), 5), ALLOWED, 1.0)
        )
    report("quantiles", lines, ("numpy",), as_json=chosen.json)


if __name__ == "__main__":
    main()
