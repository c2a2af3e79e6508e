"""Local differential privacy against pure-ldp and multi-freq-ldpy, and against a plain NumPy
histogram.

    python bench/local.py [--quick] [--json] [--stream N]

One million users, domain 1,024, epsilon 1. Seconds are of processor time (everything here runs on
one core). Ours are measured in full (quick: subset and local hash on 100,000); peers run on fewer
users (their cost is linear) and are scaled to a million; the faster peer is the base. If the peers
are not installed here, the figures last recorded in bench/local_peers.json are used, and marked so;
`--record` measures and writes them. pure-ldp also needs scikit-learn.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Callable
from datetime import date
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dither import local
from dither.local.simulate import population
from dither.privacy.noise import SystemSource

DOMAIN, EPSILON = 1024, 1
RECORD = Path(__file__).parent / "local_peers.json"


def users_of(count: int) -> np.ndarray:
    return np.repeat(np.arange(DOMAIN), population(DOMAIN, count))


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


def mse(oracle: Any, users: int, runs: int) -> tuple[float, float]:
    """(measured mean squared error of a count over all runs and values, what the formula says)."""
    values, counts, source = users_of(users), population(DOMAIN, users), SystemSource()
    found = []
    for _ in range(runs):
        estimate = oracle.debias(oracle.tally(oracle.randomise(values, source)), users)
        found.append(float(((estimate - counts) ** 2).mean()))
    return float(np.mean(found)), float(oracle.variances(counts.astype(float), users).mean())


def _peer(
    name: str,
    users: int,
    make: Callable[[], tuple[Callable[[int], Any], Callable[[list[Any]], Any]]],
) -> dict[str, Any]:
    privatise, collect = make()
    values = [
        int(v) for v in np.random.default_rng(0).permutation(users_of(max(users, DOMAIN)))[:users]
    ]
    privatise(values[0])  # compile what is compiled
    collect([privatise(v) for v in values[:50]])
    tick = time.process_time()
    reports = [privatise(v) for v in values]
    tock = time.process_time()
    collect(reports)
    done = time.process_time()
    return {
        "peer": name,
        "users": users,
        "client": (tock - tick) / users,
        "server": (done - tock) / users,
    }


def peers(quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Seconds per user of both peers for each oracle."""
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
    from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client
    from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
    from pure_ldp.frequency_oracles.hadamard_response import (
        HadamardResponseClient,
        HadamardResponseServer,
    )
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

    def pure(client: Any, server: Any) -> tuple[Callable[[int], Any], Callable[[list[Any]], Any]]:
        def collect(reports: list[Any]) -> Any:
            for report in reports:
                server.aggregate(report)
            return server.estimate(1, suppress_warnings=True)

        return (lambda v: client.privatise(v)), collect

    def plain(index: int) -> int:
        return index

    def hadamard() -> Any:
        server = HadamardResponseServer(EPSILON, DOMAIN, index_mapper=plain)
        return pure(
            HadamardResponseClient(EPSILON, DOMAIN, server.get_hash_funcs(), index_mapper=plain),
            server,
        )

    few, many = (200, 20_000) if quick else (2_000, 100_000)
    e, d = float(EPSILON), DOMAIN
    tried: dict[str, list[tuple[str, int, Any]]] = {
        "direct": [
            (
                "pure-ldp",
                many,
                lambda: pure(
                    DEClient(e, d, index_mapper=plain), DEServer(e, d, index_mapper=plain)
                ),
            ),
            (
                "multi-freq-ldpy",
                many,
                lambda: ((lambda v: GRR_Client(v, d, e)), lambda r: GRR_Aggregator_MI(r, d, e)),
            ),
        ],
        "optimised_unary": [
            (
                "pure-ldp",
                many // 4,
                lambda: pure(
                    UEClient(e, d, True, index_mapper=plain),
                    UEServer(e, d, True, index_mapper=plain),
                ),
            ),
            (
                "multi-freq-ldpy",
                many // 4,
                lambda: ((lambda v: UE_Client(v, d, e)), lambda r: UE_Aggregator_MI(r, e)),
            ),
        ],
        "local_hash": [
            (
                "pure-ldp",
                few,
                lambda: pure(
                    LHClient(e, d, use_olh=True, index_mapper=plain),
                    LHServer(e, d, use_olh=True, index_mapper=plain),
                ),
            ),
            (
                "multi-freq-ldpy",
                few,
                lambda: ((lambda v: LH_Client(v, d, e)), lambda r: LH_Aggregator_MI(r, d, e)),
            ),
        ],
        "hadamard": [("pure-ldp", many // 4, hadamard)],
        "subset": [
            (
                "multi-freq-ldpy",
                many // 10,
                lambda: ((lambda v: SS_Client(v, d, e)), lambda r: SS_Aggregator_MI(r, d, e)),
            )
        ],
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for oracle, entries in tried.items():
        found[oracle] = []
        for name, users, make in entries:
            try:
                found[oracle].append(_peer(name, users, make))
            except Exception as error:
                print(f"  ({name} {oracle} failed here: {type(error).__name__}: {error})")
    return found


def peer_mse(users: int, runs: int) -> dict[str, tuple[str, float, float]]:
    """Oracle -> (peer, its mean squared error, ours), same population; both raw, or both with the
    peer's post-processing.

    pure-ldp gives raw counts. multi-freq-ldpy only gives shares that it has clipped at zero and
    normalised: ours are treated the same way there. Local hashing costs the peer a millisecond a
    report, so it gets a tenth of the users.
    """
    from multi_freq_ldpy.pure_frequency_oracles.SS import SS_Aggregator_MI, SS_Client
    from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
    from pure_ldp.frequency_oracles.hadamard_response import (
        HadamardResponseClient,
        HadamardResponseServer,
    )
    from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
    from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

    def plain(index: int) -> int:
        return index

    e, d = float(EPSILON), DOMAIN

    def hadamard() -> Any:
        server = HadamardResponseServer(e, d, index_mapper=plain)
        return HadamardResponseClient(e, d, server.get_hash_funcs(), index_mapper=plain), server

    pairs: dict[str, Callable[[], Any]] = {
        "direct": lambda: (DEClient(e, d, index_mapper=plain), DEServer(e, d, index_mapper=plain)),
        "optimised_unary": lambda: (
            UEClient(e, d, True, index_mapper=plain),
            UEServer(e, d, True, index_mapper=plain),
        ),
        "hadamard": hadamard,
        "local_hash": lambda: (
            LHClient(e, d, use_olh=True, index_mapper=plain),
            LHServer(e, d, use_olh=True, index_mapper=plain),
        ),
    }
    found = {}
    for name, make in pairs.items():
        some = users // 10 if name == "local_hash" else users
        counts, errors = population(DOMAIN, some), []
        for _ in range(runs):
            client, server = make()
            for value in users_of(some):
                server.aggregate(client.privatise(int(value)))
            estimate = np.array(server.estimate_all(range(d), suppress_warnings=True))
            errors.append(float(((estimate - counts) ** 2).mean()))
        found[name] = ("pure-ldp", float(np.mean(errors)), mse(oracles()[name], some, 10 * runs)[0])
    counts, subset, source, theirs, mine = (
        population(DOMAIN, users),
        oracles()["subset"],
        SystemSource(),
        [],
        [],
    )
    for _ in range(runs):
        shares = SS_Aggregator_MI([SS_Client(int(v), d, e) for v in users_of(users)], d, e)
        theirs.append(float(((np.array(shares) * users - counts) ** 2).mean()))
        for _ in range(5):
            raw = np.maximum(
                subset.debias(subset.tally(subset.randomise(users_of(users), source)), users), 0
            )
            mine.append(float(((raw / raw.sum() * users - counts) ** 2).mean()))
    found["subset"] = ("multi-freq-ldpy", float(np.mean(theirs)), float(np.mean(mine)))
    return found


def oracles() -> dict[str, Any]:
    return {
        "direct": local.Direct(EPSILON, DOMAIN),
        "optimised_unary": local.OptimisedUnary(EPSILON, DOMAIN),
        "hadamard": local.Hadamard(EPSILON, DOMAIN),
        "subset": local.Subset(EPSILON, DOMAIN),
        "local_hash": local.OptimalHash(EPSILON, DOMAIN),
    }


def single(oracle: Any, reports: int) -> float:
    """Seconds of one `Client.report` of a new answer: randomised, charged and sealed, one call at a
    time."""
    client = local.Client(oracle, lifetime_epsilon=10 * reports, memoise=False)
    client.report(5)
    tick = time.process_time()
    for _ in range(reports):
        client.report(5)
    return (time.process_time() - tick) / reports


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def load_peers(quick: bool, record: bool) -> dict[str, Any]:
    try:
        figures = peers(quick)
        measured = {
            "date": date.today().isoformat(),
            "here": True,
            "versions": {
                name: _version(name) for name in ("pure-ldp", "multi-freq-ldpy", "numpy", "numba")
            },
            "figures": figures,
        }
        if record:
            RECORD.write_text(
                json.dumps(measured | {"here": False, "cpu": platform.processor()}, indent=1) + "\n"
            )
        return measured
    except ImportError:
        if RECORD.exists():
            return dict(json.loads(RECORD.read_text()))
        return {"here": False, "versions": {}, "figures": {}, "date": "never"}


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
            "dither": _version("dither"),
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
