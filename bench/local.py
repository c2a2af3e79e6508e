"""Local differential privacy against pure-ldp and multi-freq-ldpy, and against a plain NumPy
histogram.

    python bench/local.py [--quick] [--json] [--stream N]

One million users, domain 1,024, epsilon 1. Seconds are of processor time (everything here runs on
one core). Ours are measured in full (quick: subset and local hash on 100,000); peers run on fewer
users (their cost is linear) and are scaled to a million; the faster peer is the base
(bench/local_peers.py, which says what happens where they are not installed; `--record` measures
and writes their figures).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from typing import Any

import numpy as np
from local_peers import (
    DOMAIN,
    EPSILON,
    find_version,
    load_peers,
    mse,
    oracles,
    peer_mse,
    users_of,
)

from dither import local
from dither.local.localhash import extend_prefixes
from dither.privacy.noise import SystemSource


def ours(oracle: Any, users: int) -> dict[str, float]:
    """Seconds of randomising and of collecting, in blocks, so that memory stays bounded."""
    values, source, collector = users_of(users), SystemSource(), local.Aggregator(oracle)
    client = server = 0.0
    for start in range(0, users, 1 << 16):
        tick = time.process_time()
        payloads = oracle.randomise(values[start : start + (1 << 16)], source)
        tock = time.process_time()
        collector.add_payloads(payloads)
        client, server = client + tock - tick, server + time.process_time() - tock
    tick = time.process_time()
    collector.estimate()
    return {"client": client, "server": server + time.process_time() - tick}


def single(oracle: Any, reports: int) -> float:
    """Seconds of one `Client.report` of a new answer: randomised, charged and sealed, one call at a
    time."""
    client = local.Client(oracle, lifetime_epsilon=10 * reports, memoise=False)
    client.report(5)
    tick = time.process_time()
    for _ in range(reports):
        client.report(5)
    return (time.process_time() - tick) / reports


def line(
    name: str, ours_s: float, base_s: float | None, target: float, *, more_is_better: bool = True
) -> dict[str, Any]:
    ratio = None if base_s is None else base_s / ours_s if more_is_better else ours_s / base_s
    ok = None if ratio is None else ratio >= target if more_is_better else ratio <= target
    return {
        "name": name,
        "ours_s": ours_s,
        "base_s": base_s,
        "ratio": ratio,
        "target": target,
        "ok": ok,
    }


def stream(reports: int) -> dict[str, Any]:
    """Direct encoding streamed through one aggregator, randomised block by block; memory must not
    grow."""
    oracle, source = local.Direct(EPSILON, DOMAIN), SystemSource()
    collector, values = local.Aggregator(oracle), users_of(1 << 18)
    collector.add_payloads(oracle.randomise(values, source))
    before, tick = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    while collector.reports < reports:
        collector.add_payloads(oracle.randomise(values, source))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    found = line(
        f"{collector.reports:.3g} reports streamed, MiB grown",
        time.process_time() - tick,
        None,
        64.0,
    )
    return found | {"ratio": grown / 1024, "ok": grown / 1024 <= 64}


def search(reports: int) -> dict[str, Any]:
    """Support of the extensions of 32 prefixes by 10 bits, by sums of residues, against one hash
    for every candidate."""
    oracle = local.OptimalHash(EPSILON, 1 << 30)
    payloads = oracle.randomise(np.arange(reports), SystemSource())
    prefixes = np.arange(32)
    start = time.process_time()
    sums = oracle.support_extensions(payloads, prefixes, 10)
    middle = time.process_time()
    plain = oracle.support(payloads, extend_prefixes(prefixes, 10))
    end = time.process_time()
    assert (sums.ravel() == plain).all()
    return line(f"prefix search, {reports:,} reports", middle - start, end - middle, 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--json", action="store_true", help="last line is one JSON object")
    parser.add_argument(
        "--record", action="store_true", help="write the peers' figures to bench/local_peers.json"
    )
    parser.add_argument(
        "--stream", type=int, default=0, help="reports to stream (default 1e8, quick 4e6)"
    )
    options = parser.parse_args()
    users = 1_000_000
    found = load_peers(options.quick, options.record)
    note = "measured in this run" if found["here"] else f"recorded {found['date']}"
    print(
        f"{users:,} users, domain {DOMAIN:,}, epsilon {EPSILON}; peers {note}, scaled to {users:,} "
        f"users"
    )
    lines = []
    for name, oracle in oracles().items():
        size = users if not options.quick or name not in ("subset", "local_hash") else users // 10
        mine = {half: seconds * users / size for half, seconds in ours(oracle, size).items()}
        for half in ("client", "server"):
            rivals = [peer[half] * users for peer in found["figures"].get(name, [])]
            lines.append(line(f"{name} {half}", mine[half], min(rivals, default=None), 10.0))
        whole = [
            (peer["client"] + peer["server"]) * users for peer in found["figures"].get(name, [])
        ]
        lines.append(line(f"{name} both", sum(mine.values()), min(whole, default=None), 10.0))
        # not the target: a device makes one report at a time, and peers make theirs without
        # a CSPRNG or a ledger
        alone = single(oracle, 2_000 if options.quick else 20_000)
        rivals = [peer["client"] for peer in found["figures"].get(name, [])]
        lines.append(
            line(f"{name} single Client.report", alone, min(rivals, default=None), 1.0)
            | {"ok": None}
        )
    values = users_of(users)
    tick = time.process_time()
    np.bincount(values, minlength=DOMAIN)
    plain = time.process_time() - tick
    lines.append(
        line(
            "direct server / numpy histogram", lines[1]["ours_s"], plain, 40.0, more_is_better=False
        )
    )
    size, runs = (50_000, 16) if options.quick else (100_000, 40)
    for name in ("direct", "optimised_unary", "hadamard", "subset"):
        measured, predicted = mse(oracles()[name], size, runs)
        lines.append(
            line(
                f"{name} MSE / theory ({runs} runs)",
                measured,
                predicted,
                1.05,
                more_is_better=False,
            )
        )
    if found["here"]:
        few, times = (4_000, 8) if options.quick else (20_000, 12)
        for name, (peer, theirs, mine_mse) in peer_mse(few, times).items():
            lines.append(
                line(
                    f"{name} MSE / {peer}'s ({times} runs)",
                    mine_mse,
                    theirs,
                    1.05,
                    more_is_better=False,
                )
            )
    lines.append(search(2_000 if options.quick else 20_000))
    lines.append(stream(options.stream or (4_000_000 if options.quick else 100_000_000)))
    print(f"{'':<44}{'ours':>12}{'base':>12}{'ratio':>9}{'target':>8}")
    for row in lines:
        base = "-" if row["base_s"] is None else f"{row['base_s']:.4g}"
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.3g}"
        mark = {True: "ok", False: "MISSED", None: ""}[row["ok"]]
        print(
            f"{row['name']:<44}{row['ours_s']:>12.4g}{base:>12}{ratio:>9}{row['target']:>8g} {mark}"
        )
    if options.json:
        versions = {
            "dither": find_version("dither"),
            "numpy": np.__version__,
            "python": platform.python_version(),
        }
        summary = {
            "bench": "local",
            "versions": versions | found["versions"],
            "cores": os.cpu_count(),
            "lines": lines,
        }
        print(json.dumps(summary | {"peers": note}))


if __name__ == "__main__":
    main()
