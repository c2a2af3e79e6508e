"""The work that every peer does, and how it is told: rows in a Parquet file, answers as JSON on standard output.

Tables: `owner` (8 rows each), `key` (k0 to k99), `x` in [0, 1000]. Task "keys": COUNT, SUM and AVG of x by the 100 keys, which
are public, for one total price (epsilon 1, delta 1e-6 where the peer needs one), protecting an owner with at most 10 rows.
Task "median": the median of x. A worker prints one JSON object: load_s, answer_s, peak_mb, version, answers, settings.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

KEYS = [f"k{i}" for i in range(100)]
EPSILON, DELTA, ROWS_PER_OWNER, TOP = 1.0, 1e-6, 10, 1000.0


def tell(load: Callable[[str], Any], tasks: dict[str, Callable[[Any], Any]], settings: str, version: str) -> None:
    """Run one task: argv is file, task, repetitions."""
    file, task, repetitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if task not in tasks:
        print(json.dumps({"refused": f"no {task} in this library", "version": version}))
        return
    start = time.perf_counter()
    data = load(file)
    loaded = time.perf_counter() - start
    taken, answers = [], []
    for _ in range(repetitions):
        start = time.perf_counter()
        answers.append(tasks[task](data))
        taken.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"load_s": loaded, "answer_s": sorted(taken)[len(taken) // 2], "peak_mb": peak + children,
                      "version": version, "answers": answers, "settings": settings}))  # fmt: skip
