"""What a durable charge costs: reserve + commit as a ratio to bare fsyncs of the same run, and how
it grows.

    python bench/ledger.py [--quick] [--json]

Ratios, not milliseconds: a virtual disk syncs in 0.1 ms, a plain one in 10. Targets: at most 8 bare
fsyncs for one reserve + commit (it needs three: two transactions and the head), flat within 20%
from 0 to 100,000 entries.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.losses import DiscreteLaplace

LOSS = DiscreteLaplace(10**9, 1, unit="person")
HASH = "ab" * 32
TIME = "2026-03-01T12:00:00+00:00"
PUBLIC = {"version": 1, "catalog_hash": HASH, "request": {"steps": ["a plan of some size"] * 20}}
TERMS: dict[str, Any] = {
    "neighbours": "add_remove",
    "unit": "person",
    "question": "How many visits are urgent?",
    "population": "residents of the county",
    "recipient": "the county health board",
}


def bare_fsync(folder: Path) -> float:
    """Appending one page to a file and syncing it."""
    with (folder / "bare").open("ab", buffering=0) as file:
        started = time.perf_counter()
        file.write(b"x" * 4096)
        os.fsync(file.fileno())
        return time.perf_counter() - started


def time_pair(ledger: StewardLedger) -> float:
    started = time.perf_counter()
    ledger.commit(
        ledger.reserve("total", LOSS, HASH, PUBLIC), b"x" * 400, {"v": 1}, released_at=TIME
    )
    return time.perf_counter() - started


def opened(folder: Path) -> StewardLedger:
    ledger = StewardLedger.create(folder / "state" / "ledger.sqlite", folder / "heads" / "one")
    ledger.open_pot("total", 1, 2, **TERMS)
    return ledger


def grow(folder: Path, ledger: StewardLedger, entries: int) -> None:
    """Entries written fast, without syncs, to reach a size; the chain is whole."""
    ledger.close()
    path = folder / "state" / "ledger.sqlite"
    again = StewardLedger.open(path, folder / "heads" / "one")
    real = os.fsync, os.fdatasync
    os.fsync = os.fdatasync = lambda _: None  # type: ignore[assignment]
    raw = again._database.pool.take()
    raw.execute("PRAGMA synchronous=OFF")
    again._database.pool.give_back(raw)
    try:
        for _ in range(entries // 2):
            time_pair(again)
    finally:
        os.fsync, os.fdatasync = real
        again.close()


def spend(folder: Path, times: int, results: Any) -> None:
    ledger = StewardLedger.open(folder / "state" / "ledger.sqlite", folder / "heads" / "one")
    results.put([time_pair(ledger) for _ in range(times)])


def crowd(folder: Path, processes: int, times: int) -> tuple[float, float, float]:
    """Pairs per second, p99 and max with several processes on one ledger."""
    context = get_context("fork")
    results = context.Queue()
    workers = [
        context.Process(target=spend, args=(folder, times, results)) for _ in range(processes)
    ]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    taken = sorted(value for _ in workers for value in results.get())
    wall = time.perf_counter() - started
    for worker in workers:
        worker.join()
    return len(taken) / wall, taken[int(len(taken) * 0.99)], taken[-1]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="under 60 seconds")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument("--folder", type=Path, help="where to write; the disk that is measured")
    options = parser.parse_args()
    pairs, entries = (200, 20_000) if options.quick else (1000, 100_000)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        lines = measured(Path(name), pairs, entries, 30 if options.quick else 100)
    base = lines[0]["base_s"]
    for line in lines:
        target = (
            ""
            if line["target"] is None
            else f"  target {line['target']:g}: {'ok' if line['ok'] else 'MISSED'}"
        )
        print(f"{line['name']:<45}{line['ours_s'] * 1e3:>10.3f} ms  {line['ratio']:>6.2f}x{target}")
    versions = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
    print(f"bare fsync {base * 1e3:.3f} ms; {versions}; {os.cpu_count()} cores")
    if options.json:
        print(
            json.dumps(
                {"bench": "ledger", "versions": versions, "cores": os.cpu_count(), "lines": lines}
            )
        )


def measured(folder: Path, pairs: int, entries: int, times: int) -> list[dict[str, Any]]:
    """A small and a grown ledger in turns with bare fsyncs, so that a busy machine slows all three
    alike."""
    small = opened(folder / "small")
    large = opened(folder / "large")
    grow(folder / "large", large, entries)
    large = StewardLedger.open(
        folder / "large" / "state" / "ledger.sqlite", folder / "large" / "heads" / "one"
    )
    for ledger in (small, large):
        for _ in range(20):
            time_pair(ledger)
    taken: dict[str, list[float]] = {"fsync": [], "small": [], "large": []}
    for _ in range(pairs):
        taken["fsync"].append(bare_fsync(folder))
        taken["small"].append(time_pair(small))
        taken["large"].append(time_pair(large))
    base, empty, grown = (statistics.median(values) for values in taken.values())
    lines = [
        _line("reserve + commit, empty ledger", empty, base, 8),
        _line(f"reserve + commit after {entries:,} entries", grown, base, 8),
        _line(f"growth from 0 to {entries:,} entries", grown, empty, 1.2),
    ]
    large.close()
    small.close()
    rate, p99, worst = crowd(folder / "small", 8, times)
    lines.append(_line(f"8 processes, {rate:,.0f} pairs/s, p99", p99, base, None))
    lines.append(_line("8 processes, longest", worst, base, None))
    return lines


def _line(name: str, measured: float, base: float, target: float | None) -> dict[str, Any]:
    ratio = measured / base
    good = target is None or ratio <= target
    return {
        "name": name,
        "ours_s": measured,
        "base_s": base,
        "ratio": ratio,
        "target": target,
        "ok": good,
    }


if __name__ == "__main__":
    sys.exit(main())
