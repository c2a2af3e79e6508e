"""The peers of bench/local.py: pure-ldp and multi-freq-ldpy, their seconds and their errors.

If they are not installed here, the figures last recorded in bench/local_peers.json are used, and
marked so. pure-ldp also needs scikit-learn.
"""

from __future__ import annotations

import json
import platform
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

DOMAIN = 1024
EPSILON = 1
RECORD = Path(__file__).parent / "local_peers.json"


def users_of(count: int) -> np.ndarray:
    return np.repeat(np.arange(DOMAIN), population(DOMAIN, count))


def oracles() -> dict[str, Any]:
    return {
        "direct": local.Direct(EPSILON, DOMAIN),
        "optimised_unary": local.OptimisedUnary(EPSILON, DOMAIN),
        "hadamard": local.Hadamard(EPSILON, DOMAIN),
        "subset": local.Subset(EPSILON, DOMAIN),
        "local_hash": local.OptimalHash(EPSILON, DOMAIN),
    }


def mse(oracle: Any, users: int, runs: int) -> tuple[float, float]:
    """(measured mean squared error of a count over all runs and values, what the formula says)."""
    values, counts, source = users_of(users), population(DOMAIN, users), SystemSource()
    found = []
    for _ in range(runs):
        estimate = oracle.debias(oracle.tally(oracle.randomise(values, source)), users)
        found.append(float(((estimate - counts) ** 2).mean()))
    return float(np.mean(found)), float(oracle.variances(counts.astype(float), users).mean())


def find_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


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


def load_peers(quick: bool, record: bool) -> dict[str, Any]:
    try:
        figures = peers(quick)
        measured = {
            "date": date.today().isoformat(),
            "here": True,
            "versions": {
                name: find_version(name)
                for name in ("pure-ldp", "multi-freq-ldpy", "numpy", "numba")
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
