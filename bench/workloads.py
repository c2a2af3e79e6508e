"""Workloads: how far strategies are from the lower bounds, and how long planning takes.

    python bench/workloads.py [--quick] [--json] [--dpbench FOLDER] [--only PART]

Targets are those of the design: certified gaps of 1.001 before and 1.002 after rounding up to 1,024
cells, 1.012 (ranges) and 1.03 (prefixes) of the singular value bound at 4,096, marginals within
1.0001, Laplace strategies no worse than HDMM's own code (root mean squared errors at epsilon 1,
recorded 2026-11), and CPU seconds of planning. DPBench's data sets (`dpbench.py`) are read from a
folder where one is named. Run it with OPENBLAS_NUM_THREADS=1: CPU seconds are those of one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import line, report
from dpbench import list_dpbench, list_generated, list_steps

from dither.workloads.certificates import check_certificate, make_certificate
from dither.workloads.coarser import coarsen_plan
from dither.workloads.kronecker import bound_products, plan_kronecker
from dither.workloads.language import CountingWorkload, LineKind, marginals, ranges
from dither.workloads.line_strategies import choose_line, find_svd_bound
from dither.workloads.lines import count_queries, make_gram
from dither.workloads.measurement import MeasurementPlan, split_variance
from dither.workloads.residuals import make_domain, plan_direct, plan_residuals
from dither.workloads.spectral import FixedPoint, find_optimum

ADULT = {
    "age": 85,
    "workclass": 9,
    "fnlwgt": 100,
    "education_num": 16,
    "marital_status": 7,
    "occupation": 15,
    "relationship": 6,
    "race": 5,
    "sex": 2,
    "capital_gain": 100,
    "capital_loss": 100,
    "hours_per_week": 99,
    "native_country": 42,
    "income_above_50k": 2,
}
"""Sizes of the public discretised Adult domain: 14 columns, money and weight in 100 bins."""
HDMM = {("ranges", 256): 8.07, ("prefixes", 256): 7.39, ("ranges", 1024): 11.10}
HDMM[("prefixes", 1024)] = 9.66


def measure_cpu(work: Callable[[], Any]) -> tuple[Any, float]:
    """What the work returns, and its CPU seconds."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def score(plan: MeasurementPlan, workload: CountingWorkload, noise: Any) -> float:
    """The weighted squared error at one unit of noise."""
    variances = split_variance(plan.steps, noise)
    return sum(
        float(product.weight) * plan.find_total(product, variances) for product in workload.products
    )


def measure_certified(kind: LineKind, size: int) -> list[dict[str, object]]:
    """Certified gaps before and after rounding to integers, and the CPU seconds to plan."""
    lines, taken = measure_cpu(lambda: choose_line({kind: 1.0}, size, "gaussian"))
    chosen = lines[0].strategy
    checked = check_certificate(make_certificate(chosen.operator, ((kind, 1.0),)))
    name = f"{kind}, {size:,} cells, Gaussian: {chosen.name}"
    optimum = find_optimum(make_gram(kind, size))
    return [
        line(
            f"{kind}, {size:,} cells, Gaussian: fixed point before rounding, error / certified "
            "bound",
            *measure_unrounded(optimum, make_gram(kind, size)),
            1.001,
            unit="",
        ),
        line(f"{name}, error / certified bound", checked.error, checked.bound, 1.002, unit=""),
        line(f"{name}, CPU seconds of planning", taken, 5.0, 1),
    ]


def measure_unrounded(optimum: FixedPoint, gram: Any) -> tuple[float, float]:
    """The squared error of a real strategy with columns of norm 1, and the bound by its dual."""
    error = float((gram * np.linalg.inv(optimum.root.T @ optimum.root)).sum())
    root = np.sqrt(optimum.dual)
    values = np.linalg.eigvalsh(gram * np.outer(root, root))
    bound = float(np.sqrt(np.maximum(values, 0)).sum() ** 2 / optimum.dual.sum())
    return error, bound


def measure_bound(kind: LineKind, size: int, target: float) -> list[dict[str, object]]:
    """The error against the singular value bound, and the CPU seconds to plan it."""
    lines, taken = measure_cpu(lambda: choose_line({kind: 1.0}, size, "gaussian"))
    bound = find_svd_bound({kind: 1.0}, size)
    name = f"{kind}, {size:,} cells, Gaussian: {lines[0].strategy.name}"
    return [
        line(f"{name}, error / SVD bound", lines[0].score, bound, target, unit=""),
        line(f"{name}, CPU seconds of planning", taken, 10.0, 1),
    ]


def measure_laplace(kind: LineKind, size: int) -> dict[str, object]:
    """Root mean squared error at epsilon 1 against HDMM's own code."""
    chosen = choose_line({kind: 1.0}, size, "laplace")[0]
    error = (2 * chosen.score / count_queries(kind, size)) ** 0.5
    name = f"{kind}, {size:,} cells, Laplace: {chosen.strategy.name}, RMSE against HDMM's code"
    return line(name, error, HDMM[kind, size], 1, unit="")


def measure_marginals() -> list[dict[str, object]]:
    """All pairs of Adult's columns against the bound, against direct, and in CPU seconds."""
    workload = marginals(2, of=list(ADULT))
    domain = make_domain(workload.products, ADULT)
    assert domain is not None
    plan, taken = measure_cpu(lambda: plan_residuals(domain, "gaussian"))
    error = score(plan, workload, "gaussian")
    direct = score(plan_direct(domain, "gaussian"), workload, "gaussian")
    return [
        line(
            "2-way marginals of Adult, error / bound", error, domain.find_bound(), 1.0001, unit=""
        ),
        line("2-way marginals of Adult, error / marginals as they are", error, direct, 1, unit=""),
        line("2-way marginals of Adult, CPU seconds of planning", taken, 1.0, 1),
    ]


def measure_many_marginals(columns: int) -> dict[str, object]:
    """All triples of many columns: CPU seconds of planning."""
    sizes = {f"c{number}": 2 + number % 9 for number in range(columns)}

    def plan() -> float:
        workload = marginals(3, of=list(sizes))
        domain = make_domain(workload.products, sizes)
        assert domain is not None
        return sum(plan_residuals(domain, "gaussian").shares.values())

    _, taken = measure_cpu(plan)
    return line(f"3-way marginals of {columns} columns, CPU seconds of planning", taken, 60.0, 1)


def measure_two_dimensions(size: int) -> dict[str, object]:
    """All rectangles of a grid against the bound, in integers whose noise can be drawn."""
    workload = ranges("x") * ranges("y")
    sizes = {"x": size, "y": size}
    plan = plan_kronecker(workload.products, workload.columns, sizes, "gaussian")
    drawn = coarsen_plan(plan, 14)
    assert drawn is not None
    error = score(drawn, workload, "gaussian")
    bound = bound_products(workload.products, sizes)
    return line(f"2-D ranges {size} x {size}, error / SVD bound", error, bound, 1.05, unit="")


def read_options() -> argparse.Namespace:
    """The options of every benchmark, and the folder of DPBench's data sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under a minute")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--dpbench", help="folder of DPBench's data sets")
    parser.add_argument(
        "--only",
        choices=("strategies", "dpbench", "steps", "generated"),
        help="one part of the lines, for runs of a few minutes",
    )
    return parser.parse_args()


def main() -> None:
    chosen = read_options()
    runs = 2 if chosen.quick else 10
    parts: dict[str, Callable[[], list[dict[str, object]]]] = {
        "strategies": lambda: list_strategies(quick=chosen.quick),
        "dpbench": lambda: list_dpbench(chosen.dpbench, runs),
        "steps": lambda: list_steps(chosen.dpbench, max(1, runs // 5)),
        "generated": lambda: list_generated(runs),
    }
    lines = [
        bench_line
        for name, measure in parts.items()
        if chosen.only in (None, name)
        for bench_line in measure()
    ]
    report("workloads", lines, ("numpy", "scipy"), as_json=chosen.json)


def list_strategies(*, quick: bool) -> list[dict[str, object]]:
    """Fixed strategies against their bounds, and the CPU seconds of planning."""
    sums: tuple[LineKind, LineKind] = ("ranges", "prefixes")
    lines: list[dict[str, object]] = []
    for size in (256,) if quick else (256, 1024):
        for kind in sums:
            lines += measure_certified(kind, size)
            lines.append(measure_laplace(kind, size))
    if not quick:
        lines += measure_bound("ranges", 4096, 1.012)
        lines += measure_bound("prefixes", 4096, 1.03)
    lines += measure_marginals()
    lines.append(measure_two_dimensions(64 if quick else 256))
    lines.append(measure_many_marginals(12 if quick else 30))
    return lines


if __name__ == "__main__":
    main()
