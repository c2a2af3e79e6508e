"""This tree against another checkout of dither: CPU time of what users do, old and new in turns.

    python bench/compare.py --base ../old-checkout [--pairs 15] [--quick] [--json]

Each pair runs one process on the old sources and one on the new ones, in alternating order. A line
is a job: the median over all pairs of new CPU time / old CPU time. Jobs use the public API alone,
so that they run on both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from common import line, report, write_catalog

ROOT = Path(__file__).parents[1]
TARGET = 1.05
COLUMNS = """\
      ward: {type: category, values: [north, south, east, west], other: drop, nulls: drop}
      cost: {type: decimal, bounds: [0, 5000], resolution: 0.01, nulls: drop, provenance: tariff}
      age: {type: integer, bounds: [0, 110], nulls: drop, provenance: form}
"""
CATALOG = write_catalog(COLUMNS, population="residents", rows_per_unit=5, max_rows=1_000_000)
QUESTION = "SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM visits WHERE age >= {age} GROUP BY ward"


@contextmanager
def timed(figures: dict[str, float], job: str) -> Iterator[None]:
    """CPU seconds of this process, all of its threads."""
    before = time.process_time()
    yield
    figures[job] = time.process_time() - before


def run_jobs(rows: int, rounds: int) -> dict[str, float]:
    """Every job once, in this process; CPU seconds by job."""
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "xdg")
        (folder / "bench.yaml").write_text(CATALOG)
        wards = ("north", "south", "east", "west")
        with (folder / "visits.csv").open("w") as file:
            file.write("person,ward,cost,age\n")
            for i in range(rows):
                file.write(f"p{i // 3},{wards[i % 4]},{i % 4999}.{i % 100:02d},{i % 111}\n")
        with timed(figures, "import and connect"):
            import dither
            from dither import steward
            from dither.state import State

            steward.register(folder / "bench.yaml", dev=True)
            state = State.beside(folder / "bench.yaml")
            purpose = {
                "question": "How fast is this tree?",
                "population": "residents of the bench",
                "recipient": "people who compare trees",
            }
            from dither.catalog import load

            catalog = load(folder / "bench.yaml")
            steward.open_pot(state, catalog, "total", epsilon=10**6, ceiling=10**6, purpose=purpose)
            connection = dither.connect(folder / "bench.yaml")
        figures |= _ask(connection, rounds)
        with timed(figures, "register again"):
            steward.register(folder / "bench.yaml", dev=True)
        with timed(figures, "verify the ledger"):
            steward.verify_ledger(state)
    return figures | _compute(rounds)


def _ask(connection, rounds: int) -> dict[str, float]:  # type: ignore[no-untyped-def]
    figures: dict[str, float] = {}
    jobs: dict[str, Callable[[int], object]] = {
        "preview of a new question": lambda i: connection.preview(
            QUESTION.format(age=i), epsilon=1
        ),
        "new question": lambda i: connection.sql(QUESTION.format(age=i), epsilon=1).table,
        "the same question, fresh": lambda i: (
            connection.sql(QUESTION.format(age=1), epsilon=1, fresh=True).table
        ),
        "the same question, free": lambda i: (
            connection.sql(QUESTION.format(age=1), epsilon=1).table
        ),
        "quantiles": lambda i: (
            connection.sql(
                f"SELECT ward, MEDIAN(cost) AS m FROM visits WHERE age >= {i} GROUP BY ward",
                epsilon=1,
            ).table
        ),
        "least price for an accuracy": lambda i: connection.preview(
            QUESTION.format(age=i), within={"n": 10 + i}
        ),
    }
    for name, job in jobs.items():
        job(0)
        with timed(figures, name):
            for i in range(1, rounds + 1):
                job(i)
    return figures


def _compute(rounds: int) -> dict[str, float]:
    import numpy as np

    from dither import accounting as acc
    from dither import local
    from dither.privacy import noise

    figures: dict[str, float] = {}
    with timed(figures, "accountant"):
        for i in range(max(1, rounds // 5)):
            acc.epsilon(acc.PoissonSampled(0.01, acc.Gaussian(1.1 + i / 100)) * 10_000, 1e-5)
    with timed(figures, "Laplace and Gaussian draws"):
        for _ in range(max(1, rounds // 5)):
            noise.discrete_laplace(10, 200_000)
            noise.discrete_gaussian(10, 200_000)
    with timed(figures, "local reports"):
        protocol = local.Direct(1, 16)
        values = np.arange(20_000) % 16
        protocol.randomise(values, noise.SystemSource())
    return figures


def compare(base: Path, pairs: int, rows: int, rounds: int) -> dict[str, list[tuple[float, float]]]:
    """(new, old) CPU seconds of every job and pair."""
    figures: dict[str, list[tuple[float, float]]] = {}
    for pair in range(pairs):
        trees = [ROOT, base] if pair % 2 else [base, ROOT]
        taken = {tree: _measure(tree, rows, rounds) for tree in trees}
        for job in taken[ROOT]:
            figures.setdefault(job, []).append((taken[ROOT][job], taken[base][job]))
        print(f"pair {pair + 1} of {pairs}", file=sys.stderr)
    return figures


def _measure(tree: Path, rows: int, rounds: int) -> dict[str, float]:
    command = [sys.executable, str(Path(__file__).resolve()), "--child", str(rows), str(rounds)]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(ran.stderr)
    figures: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", type=Path, help="the root of the other checkout")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--quick", action="store_true", help="three pairs of smaller jobs")
    parser.add_argument(
        "--json", action="store_true", help="the last line is one JSON object of the table"
    )
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        print(json.dumps(run_jobs(*chosen.child)))
        return
    if chosen.base is None:
        print("nothing to compare with: python bench/compare.py --base FOLDER")
        if chosen.json:
            print(
                json.dumps(
                    {
                        "bench": "compare",
                        "lines": [{"name": "CPU time", "ok": None, "why": "no --base"}],
                    }
                )
            )
        return
    start = time.perf_counter()
    pairs = 3 if chosen.quick else chosen.pairs
    rows, rounds = (3_000, 5) if chosen.quick else (30_000, 20)
    figures = compare(chosen.base.resolve(), pairs, rows, rounds)
    lines = []
    for job, times in figures.items():
        ratio = statistics.median(new / old for new, old in times)
        old = statistics.median(old for _, old in times)
        lines.append(line(job, ratio * old, old, TARGET))
    report("compare", lines, ("numpy", "duckdb"), as_json=chosen.json)
    print(f"{pairs} pairs in {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
