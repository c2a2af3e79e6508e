"""How fast the auditor is: ten million runs, neighbours of 1e5 points, the quick zoo, each against
its promised time."""

from __future__ import annotations

import time

import numpy as np
from common import line, options, report

from dither import audit
from dither.audit.leakage.estimate import Trained
from dither.audit.leakage.systems import Plane
from dither.audit.shipped_mechanisms import subjects
from dither.audit.zoo import ALPHA, BUGS
from dither.privacy.losses import DiscreteLaplace
from dither.privacy.noise import discrete_laplace


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    asked = options(__doc__ or "")
    runs = 2_000_000 if asked.quick else 10_000_000

    def answer(count, size):
        return count + discrete_laplace(2, size)

    spend = audit.Budget(runs, 1e-9)
    full = timed(lambda: audit.test(answer, 10, 11, claim=DiscreteLaplace(2, 1), budget=spend))
    points = 20_000 if asked.quick else 100_000
    plane = Plane(4.0)
    secrets, seen = plane.laplace_pairs(points)
    others = plane.laplace_pairs(points)[1]
    near = timed(lambda: Trained(secrets, seen, 400).nearest(others, int(np.log(points)) + 1))
    lines = [
        line(f"test of {runs:,} runs a side, against 1 s a million", full, runs / 1e6, 1),
        line(f"k_n-NN of {points:,} by {points:,} points, against a minute", near, 60, 1),
    ]
    if not asked.quick:
        whole = timed(lambda: [bug.catch() for bug in BUGS.values()])
        whole += timed(
            lambda: [each.audit(20_000 if each.vectorised else 300, ALPHA) for each in subjects()]
        )
        lines.append(line("what dither audit zoo --quick does, against 50 seconds", whole, 50, 1))
    report("audit", lines, ("numpy", "scipy"), as_json=asked.json)


if __name__ == "__main__":
    main()
