"""How fast the auditor is (ten million runs, neighbours of 1e5 points, the quick zoo), which bugs
it refutes at its default size, and how often it accuses mechanisms that keep their claim."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
from common import line, options, report

from dither import audit
from dither.audit.leakage.estimate import Trained, from_pairs
from dither.audit.leakage.systems import Plane
from dither.audit.pairs import explore, vectors
from dither.audit.shipped_mechanisms import subjects
from dither.audit.zoo import ALPHA, BUGS
from dither.audit.zoo.sparse import Variant
from dither.privacy.losses import DiscreteLaplace
from dither.privacy.noise import bernoulli, discrete_gaussian, discrete_laplace, uniform_below

HALVED = Variant(Fraction(1), Fraction(3), 3)  # a sparse vector of 3 hits at epsilon 1, half noise
SIGMA_READ_AS_VARIANCE = Fraction(22011, 10_000)  # the root of sqrt(2 ln(1.25 / 1e-5))


def timed(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run_halved(queries, size):
    return HALVED.run(queries, size)


def add_gaussian(count, size):
    return count + discrete_gaussian(SIGMA_READ_AS_VARIANCE, size)


def flip_coin(value, size):
    """Randomised response that meets epsilon = ln 3 with equality."""
    return np.where(bernoulli(Fraction(3, 4), size), value, 1 - value)


def add_laplace(count, size):
    return count + discrete_laplace(2, size)


def count_misses(times, work):
    """A line each: bugs not refuted in so many tests of 200,000 runs, and the CPU time of one."""
    start = time.process_time()
    misses = sum(not work().violated for _ in range(times))
    return misses, (time.process_time() - start) / times


def measure_power(times: int) -> list[dict[str, object]]:
    spend = audit.Budget(200_000, 1e-6)
    bugs = {
        "sigma taken as a variance": lambda: audit.test(
            add_gaussian, 0, 1, 1.0, 1e-5, budget=spend
        ),
        "half the noise of a sparse vector": lambda: audit.test(
            run_halved, *vectors(10)[3], 1.0, budget=spend
        ),
        "the same, pair searched": lambda: explore(run_halved, vectors(10), 1.0, budget=spend)[0],
    }
    lines = []
    for name, work in bugs.items():
        misses, cost = count_misses(times, work)
        words = f"{name}: not refuted in {times} tests, against 5%"
        lines.append(line(words, misses, times, 0.05, unit="tests"))
        lines.append(line(f"{name}: CPU time of one test, against 60 s", cost, 60, 1))
    return lines


def measure_false_alarms(times: int) -> list[dict[str, object]]:
    """Mechanisms that meet their claim with equality, at alpha = 0.2; and pairs that tell nothing,
    at alpha = 0.05. Lines are met if the count is not above alpha by six standard deviations."""
    right = {"a coin": (flip_coin, math.log(3)), "Laplace noise": (add_laplace, 0.5)}
    spend = audit.Budget(2_000, 0.2)
    lines = []
    for name, (mechanism, epsilon) in right.items():
        alarms = sum(
            audit.test(mechanism, 0, 1, epsilon, budget=spend).violated for _ in range(times)
        )
        words = f"{name} at its claim accused in {times} tests, against alpha 0.2"
        spare = 6 * math.sqrt(times * 0.2 * 0.8)
        lines.append(line(words, alarms, times, 0.2, extra=spare, unit="tests"))
    certified = sum(
        from_pairs(uniform_below(2, 400), uniform_below(5, 400)).certify(0.05) > 0
        for _ in range(times)
    )
    words = f"nothing told, epsilon above 0 certified in {times} tests, against alpha 0.05"
    spare = 6 * math.sqrt(times * 0.05 * 0.95)
    lines.append(line(words, certified, times, 0.05, extra=spare, unit="tests"))
    return lines


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
    lines += measure_power(5 if asked.quick else 40)
    lines += measure_false_alarms(100 if asked.quick else 1_000)
    if not asked.quick:
        whole = timed(lambda: [bug.catch() for bug in BUGS.values()])
        whole += timed(
            lambda: [each.audit(20_000 if each.vectorised else 300, ALPHA) for each in subjects()]
        )
        lines.append(line("what dither audit zoo --quick does, against 50 seconds", whole, 50, 1))
    report("audit", lines, ("numpy", "scipy"), as_json=asked.json)


if __name__ == "__main__":
    main()
