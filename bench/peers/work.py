"""The work that every peer does, and how it is told.

The table: `owner` (8 rows each, in file order never side by side), `key` (k0 to k99, as if drawn at
random), `x` in [0, 1000] with two decimals, skewed (the square of a uniform). Task "keys": COUNT,
SUM and AVG of x by the 100 keys, which are public, for one total price (epsilon 1; delta 1e-6 where
the peer needs one), protecting an owner. Every owner with at most 10 rows counts in full, wherever
the rows lie: 10 rows in one key are allowed. Task "median": the median of x, same price.

A worker is a script run by its peer's own interpreter with: file, task, repetitions, seconds,
target. It writes one JSON object a line to `target`: first the load, then each answer with its time
and the peak memory so far, so that a worker which is stopped has still told what it did.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEYS = [f"k{i}" for i in range(100)]
EPSILON = 1.0
DELTA = 1e-6
ROWS_PER_OWNER = 10
TOP = 1000.0


def table_sql(rows: int) -> str:
    """The table in DuckDB's words: the same rows on every machine."""
    mixed = "({0} * {0} % 2147483647 * 48271 + 11) % 2147483647 * {1} % 2147483647"
    key = mixed.format("(i + 12345)", 40692)
    x = mixed.format("(i + 777777)", 69621)
    return (
        f"SELECT 'u' || (i % {rows // 8}) AS owner, 'k' || ({key}) // 21474837 AS key, "
        f"round(1000 * pow(({x}) / 2147483647.0, 2), 2) AS x FROM range({rows}) r(i)"
    )


def tell(
    load: Callable[[str], Any], tasks: dict[str, Callable[[Any], Any]], settings: str, version: str
) -> None:
    """Load, then answer one task again and again, and say each time how long it took."""
    file = sys.argv[1]
    task = sys.argv[2]
    repetitions = int(sys.argv[3])
    limit = float(sys.argv[4])
    target = sys.argv[5]
    with Path(target).open("w") as file_out:

        def say(**line: Any) -> None:
            file_out.write(json.dumps(line) + "\n")
            file_out.flush()

        if task not in tasks:
            say(version=version, settings=settings, refused=f"no {task} in this library")
            return
        start = time.perf_counter()
        data = load(file)
        say(version=version, settings=settings, load_s=time.perf_counter() - start)
        spent = 0.0
        for _ in range(repetitions):
            start = time.perf_counter()
            answer = tasks[task](data)
            spent += (taken := time.perf_counter() - start)
            say(answer=answer, answer_s=taken, peak_mb=peak_mb())
            if spent + taken > limit:
                break


def peak_mb() -> float:
    """The largest resident memory that this process and its living descendants (Spark's, a
    database's) have had."""
    parents = {}
    for folder in Path("/proc").iterdir():
        try:
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rpartition(")")[2].split()[1]
            )
        except (ValueError, OSError):
            continue
    family = {os.getpid()}
    while grown := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= grown
    return sum(_high_water(pid) for pid in family) / 1024


def _high_water(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)
