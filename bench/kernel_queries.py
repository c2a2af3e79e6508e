"""Queries of the kernel for release and learning: linear queries, choices by scores, vectors of
units, rounded noise.

    python bench/kernel_queries.py [--quick] [--json]

Targets: a Kronecker strategy over 65,536 cells and 100,000 rows at most 3 times the engine's own
count plus noise; a choice among 1,000 candidates at most twice the exact evaluation of their
scores; a gradient of 1,000,000 people and 100 features at most 5 times a NumPy gradient in floats,
exact, clipped and with noise; a draw of rounded Gaussian noise at most 9 ns from sigma 1,000 on;
the memory that a product and a pass state is enough. Bases are measured in the same run.
"""

from __future__ import annotations

import os
import tempfile
import time
import tracemalloc
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from common import line, options, report, seconds, write_catalog

from dither import steward
from dither.plan.algebra import Cells, Count, Linear, Scan, Scores, UnitVectors
from dither.plan.apply_operator import apply_operator
from dither.plan.encodings import Scaled
from dither.plan.operator_norms import memory_bytes
from dither.plan.operators import Kronecker, Marginal, Tree, count_rows
from dither.plan.scores import evaluate_scores
from dither.plan.utilities import DistanceCandidate, Distances
from dither.plan.vector_functions import THETA_SCALE, LogisticGradient
from dither.plan.vectors import vector_bytes
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.noise import SystemSource, discrete_gaussian
from dither.privacy.noise.rounded import rounded_gaussian
from dither.state import State

PURPOSE = {
    "question": "How fast are the queries?",
    "population": "invented people of this benchmark",
    "recipient": "readers of the benchmark",
}
SIDE = 256
FEATURES = 100
CELLS = Cells(Scan("visits"), ("a", "b"), (Count(),))
STRATEGY = Kronecker((Tree(SIDE, 4), Tree(SIDE, 4)))


def open_kernel(folder: Path, rows: int) -> Kernel:
    """A registered table of random rows over 256 x 256 keys."""
    kind = f"{{type: integer, bounds: [0, {SIDE - 1}], nulls: drop, provenance: bench}}"
    columns = "".join(f"      {name}: {kind}\n" for name in "ab")
    text = write_catalog(columns, population="bench", rows_per_unit=1, max_rows=10 * rows)
    draws = np.random.default_rng(1)
    names = [f"p{number}" for number in range(rows)]
    table = {"person": names} | {name: draws.integers(0, SIDE, rows) for name in "ab"}
    return register_table(folder, pa.table(table), text)


def register_table(folder: Path, table: pa.Table, text: str) -> Kernel:
    """A registered table with a zCDP pot that is never empty."""
    folder.mkdir()
    os.environ["XDG_STATE_HOME"] = str(folder)
    pa.csv.write_csv(table, folder / "visits.csv")
    file = folder / "bench.yaml"
    file.write_text(text)
    steward.register(file)
    state = State(file.with_suffix(".dither"))
    steward.open_pot(
        state,
        steward.registered_catalog(state),
        "total",
        rule="zcdp",
        delta_conversion="1e-6",
        rho=10**6,
        ceiling=10**6,
        purpose=PURPOSE,
    )
    return Kernel(state)


def measure_linear(kernel: Kernel) -> list[dict[str, object]]:
    """MEASURE and RANDOMISE of a linear query against those of its cells."""
    times = {}
    for name, query, family in (
        ("cells", CELLS, "gaussian"),
        ("linear", Linear(CELLS, STRATEGY), "linear_rounded_gaussian"),
    ):
        request = Request((Step(query, family, Fraction(1)),), Price(rho=Fraction(1)), "total")
        priced = kernel.price(request)
        measurer = kernel.prepare(priced)
        times[name] = seconds(lambda: kernel.randomise(priced, kernel.measure(priced, measurer)))  # noqa: B023
        measurer.close()
    cells = np.ones(SIDE * SIDE, object)
    tracemalloc.start()
    apply_operator(STRATEGY, cells, 10**6)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    name = f"Kronecker of trees, {count_rows(STRATEGY):,} numbers of 65,536 cells"
    stated = memory_bytes(STRATEGY, 10**6)
    return [
        line(f"{name}, against cells plus noise", times["linear"], times["cells"], 3),
        line("memory of that product, against the memory stated", peak, stated, 1, unit="bytes"),
    ]


def measure_scores(kernel: Kernel, candidates: int) -> dict[str, object]:
    """A choice among candidates against the exact evaluation of their scores."""
    marginals = [Marginal((16, 16, 16, 16), kept) for kept in combinations(range(4), 2)]
    listed = tuple(
        DistanceCandidate(1 + number % 7, marginals[number % 6], (number,) * 256)
        for number in range(candidates)
    )
    query = Scores(CELLS, Distances(1, listed))
    step = Step(query, "scores_exponential", Fraction(1))
    request = Request((step,), Price(rho=Fraction(1)), "total")
    priced = kernel.price(request)
    measurer = kernel.prepare(priced)

    def evaluate() -> object:
        return evaluate_scores(query, measurer.measure(CELLS), priced.steps[0].largest_cells)

    base = seconds(evaluate, 3)
    chosen = seconds(
        lambda: kernel.randomise(priced, kernel.measure(kernel.price(request), measurer)), 3
    )
    measurer.close()
    return line(f"choice among {candidates:,} candidates, priced and drawn", chosen, base, 2)


def register_features(folder: Path, rows: int) -> Kernel:
    """A registered table of people with 100 numbers and a label."""
    kind = "{type: integer, bounds: [0, 100], nulls: drop, provenance: bench}"
    names = [f"c{number}" for number in range(FEATURES)]
    columns = "".join(f"      {name}: {kind}\n" for name in names)
    columns += "      y: {type: integer, bounds: [0, 1], nulls: drop, provenance: bench}\n"
    text = write_catalog(columns, population="bench", rows_per_unit=1, max_rows=rows)
    draws = np.random.default_rng(2)
    table: dict[str, object] = {"person": [f"p{number}" for number in range(rows)]}
    table |= {name: draws.integers(0, 101, rows).astype(np.int8) for name in names}
    table["y"] = draws.integers(0, 2, rows).astype(np.int8)
    return register_table(folder, pa.table(table), text)


def measure_vectors(kernel: Kernel, rows: int) -> list[dict[str, object]]:
    """MEASURE and RANDOMISE of a gradient, the first and a later step of a lease, against a
    gradient in floats."""
    features = tuple(Scaled(f"c{number}") for number in range(FEATURES))
    weights = np.linspace(-1, 1, FEATURES)
    theta = tuple(round(weight * THETA_SCALE) for weight in weights.tolist())
    gradient = LogisticGradient("y", 1, theta)
    query = UnitVectors(Scan("visits"), features, gradient, Fraction(1), Fraction(1, 1024))
    step = Step(query, "vectors_rounded_gaussian", Fraction(1))
    priced = kernel.price(Request((step,), Price(rho=Fraction(1)), "total"))
    measurer = kernel.prepare(priced)
    first = seconds(lambda: kernel.randomise(priced, kernel.measure(priced, measurer)), 3)
    tracemalloc.start()
    kernel.measure(priced, measurer)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    measurer.keeps_rows = True
    later = seconds(lambda: kernel.randomise(priced, kernel.measure(priced, measurer)), 5)
    measurer.close()
    numbers = np.random.default_rng(3).uniform(-1, 1, (rows, FEATURES))
    labels = np.random.default_rng(4).integers(0, 2, rows)

    def add_in_floats() -> object:
        residuals = 1 / (1 + np.exp(-(numbers @ weights))) - labels
        return numbers.T @ residuals

    base = seconds(add_in_floats, 5)
    name = f"gradient of {rows:,} people x {FEATURES} features"
    stated = vector_bytes(query, kernel.version.analyses.analyse_rows(query.plan))
    return [
        line(f"{name}, a step of a lease, against floats", later, base, 5),
        line(f"{name}, the first step: reads the copy", first, base, 5),
        line("memory of that pass, against the memory stated", peak, stated, 1, unit="bytes"),
    ]


def measure_noise(sigma: int, draws: int) -> dict[str, object]:
    """CPU nanoseconds of a draw, the least of several runs: the machine may be busy."""
    source = SystemSource()

    def least(work: object) -> float:
        taken = []
        for _ in range(25):
            start = time.process_time()
            work()  # type: ignore[operator]
            taken.append(time.process_time() - start)
        return min(taken) / draws * 1e9

    rounded = least(lambda: rounded_gaussian(sigma, draws, source=source))
    discrete = least(lambda: discrete_gaussian(sigma, draws, source=source))
    name = f"rounded Gaussian, sigma {sigma:,}: ns a draw (discrete: {discrete:.1f})"
    return line(name, rounded, 9.0, 1, unit="ns")


def main() -> None:
    chosen = options(__doc__ or "")
    rows = 20_000 if chosen.quick else 100_000
    with tempfile.TemporaryDirectory() as folder:
        kernel = open_kernel(Path(folder) / "cells", rows)
        lines = measure_linear(kernel)
        lines.append(measure_scores(kernel, 200 if chosen.quick else 1000))
        people = 100_000 if chosen.quick else 1_000_000
        lines += measure_vectors(register_features(Path(folder) / "people", people), people)
    lines += [measure_noise(sigma, 1 << 19) for sigma in (1000, 10**6, 10**9)]
    report("kernel_queries", lines, ("numpy", "duckdb"), as_json=chosen.json)


if __name__ == "__main__":
    main()
