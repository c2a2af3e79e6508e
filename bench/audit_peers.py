"""Other libraries as black boxes: what the tester shows of opendp, diffprivlib and smartnoise, and
nothing else.

Each subject is one public mechanism with the claim that its own documentation makes, run on two
neighbours. The table says what was measured: the largest epsilon shown, the ceiling, the verdict
and the event. "violated" is a statement about this version, this pair and this confidence; most
verdicts will be "not refuted", which proves nothing. A peer that is not installed is listed as
such. Peers that need an environment of their own:

    python -m venv peers
    peers/bin/pip install diffprivlib 'scikit-learn<1.6' smartnoise-sql mpmath \\
        cryptography rich typer pydantic pyarrow
    PYTHONPATH=src peers/bin/python bench/audit_peers.py --record

writes bench/audit_peers.json, each line with its date, version and processor time; a version
measured again replaces its own lines and no others. Without the peers that record is shown, and
marked so. docs/reference/audit-peers.md is the same record for people
(tests/audit/test_audit_peers.py compares the two).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dither import audit

RECORD = Path(__file__).parent / "audit_peers.json"
PAGE = Path(__file__).parent.parent / "docs" / "reference" / "audit-peers.md"
PACKAGES = ("opendp", "diffprivlib", "smartnoise-sql")
ALPHA = 1e-9


@dataclass(frozen=True)
class Peer:
    """One mechanism of a peer: its claim, and two inputs that differ by one unit."""

    package: str
    name: str
    mechanism: Callable[..., Any]
    pair: tuple[Any, Any]
    epsilon: float
    delta: float = 0.0


def opendp() -> list[Peer]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    integers = dp.m.make_laplace(dp.atom_domain(T=int), dp.absolute_distance(T=int), 2.0)
    floats = dp.m.make_laplace(
        dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), 2.0
    )
    several = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), 2.0)
    return [
        Peer("opendp", "make_laplace, int", integers, (0, 1), integers.map(1)),
        Peer("opendp", "make_laplace, float", floats, (0.0, 1.0), floats.map(1.0)),
        Peer(
            "opendp",
            "make_laplace, 3 ints, one moved",
            several,
            ([0, 0, 0], [1, 0, 0]),
            several.map(1),
        ),
    ]


def diffprivlib() -> list[Peer]:
    from diffprivlib import mechanisms as m
    from diffprivlib import tools

    laplace = m.Laplace(epsilon=0.5, sensitivity=1)
    geometric = m.Geometric(epsilon=0.5, sensitivity=1)
    bounded = m.LaplaceBoundedDomain(epsilon=0.5, sensitivity=1, lower=0, upper=5)
    gaussian = m.Gaussian(epsilon=0.5, delta=1e-2, sensitivity=1)
    exponential = m.Exponential(epsilon=1, sensitivity=1, utility=[0, 0, 0])
    moved = m.Exponential(epsilon=1, sensitivity=1, utility=[1, -1, -1])
    found = [
        Peer("diffprivlib", "Laplace", laplace.randomise, (0.0, 1.0), 0.5),
        Peer("diffprivlib", "Geometric", geometric.randomise, (0, 1), 0.5),
        Peer("diffprivlib", "LaplaceBoundedDomain", bounded.randomise, (0.0, 1.0), 0.5),
        Peer("diffprivlib", "Gaussian", gaussian.randomise, (0.0, 1.0), 0.5, 1e-2),
        Peer(
            "diffprivlib", "Exponential", lambda which: which.randomise(), (exponential, moved), 1.0
        ),
    ]

    def mean(rows: list[float]) -> float:
        return float(tools.mean(np.array(rows), epsilon=0.5, bounds=(0, 1)))

    def count(rows: list[int]) -> int:
        return int(tools.count_nonzero(np.array(rows), epsilon=0.5))

    found.append(
        Peer(
            "diffprivlib",
            "tools.mean, one value replaced",
            mean,
            ([0.0] * 4, [0.0] * 3 + [1.0]),
            0.5,
        )
    )
    found.append(
        Peer(
            "diffprivlib",
            "tools.count_nonzero, one value replaced",
            count,
            ([0, 1, 1], [1, 1, 1]),
            0.5,
        )
    )
    return found


def smartnoise() -> list[Peer]:
    import pandas as pd
    import snsql

    meta = {
        "": {
            "s": {
                "t": {
                    "row_privacy": True,
                    "censor_dims": False,
                    "rows": 100,
                    "x": {"type": "int", "lower": 0, "upper": 1},
                }
            }
        },
    }
    readers = {}
    for people in (99, 100):
        frame = pd.DataFrame({"x": [1] * people})
        readers[people] = snsql.from_df(
            frame, privacy=snsql.Privacy(epsilon=0.5, delta=1e-6), metadata=meta
        )

    def counted(people: int) -> int:
        return int(readers[people].execute("SELECT COUNT(*) AS n FROM s.t")[1][0])

    return [Peer("smartnoise-sql", "COUNT(*), row privacy", counted, (99, 100), 0.5, 1e-6)]


MAKERS: dict[str, Callable[[], list[Peer]]] = {
    "opendp": opendp,
    "diffprivlib": diffprivlib,
    "smartnoise-sql": smartnoise,
}


HEADING = """# Other libraries as black boxes

What the tester shows of other people's mechanisms, and nothing else: each was run on two
neighbours that differ by one unit, against the claim that its own documentation makes. *Violated*
is a statement about this version, this pair and this confidence (false alarms at most 10⁻⁹ for
each line); *not refuted* proves nothing. *Shown* is the largest ε that was shown at the claimed δ,
*ceiling* the most that so many runs could show. `bench/audit_peers.py --record` wrote this page
and `bench/audit_peers.json`; nothing in it was chosen by hand.

| mechanism | version | claimed ε, δ | shown | ceiling | runs a side | verdict | best event | date |
|---|---|---|---|---|---|---|---|---|
"""
FOOTING = """
Where the best event is about the lowest set bit of a double, noise was added in floating point:
how finely the sum is rounded depends on the answer (Haney, Desfontaines, Hartman, Shrestha, Hay
2022), as do the doubles that can be returned at all (Mironov 2012). Such a claim holds for real
numbers, not for the bits that leave. [How the numbers are made](../proofs/audit.md) · [published
bugs](../published-bugs.md).
"""


def page(lines: list[dict[str, Any]]) -> str:
    """The record for people."""
    rows = [
        f"| {each['name']} | {each['version']} | {each['claimed_epsilon']:g}, "
        f"{each['claimed_delta']:g} "
        f"| {each['shown_epsilon']:.4f} | {each['ceiling']:.2f} | {each['runs']:,} | "
        f"{each['verdict']} "
        f"| {each['event']} | {each['date']} |\n"
        for each in lines
    ]
    return HEADING + "".join(rows) + FOOTING


def measure(
    quick: bool, only: list[str], done: Callable[[list[dict[str, Any]]], None]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Verdicts of every peer that is installed, and the versions; `done` gets the lines of each
    peer when it has run."""
    lines: list[dict[str, Any]] = []
    versions: dict[str, str] = {}
    for package, make in MAKERS.items():
        if only and package not in only:
            continue
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
        for peer in make():
            slow = package == "smartnoise-sql"
            runs = (200 if slow else 4_000) if quick else (2_000 if slow else 40_000)
            print(
                f"{package} {versions[package]}: {peer.name}, {runs:,} runs a side",
                file=sys.stderr,
                flush=True,
            )
            start = time.process_time()
            peer.mechanism(
                peer.pair[0]
            )  # a subject that only raises would look innocent: let it stop the bench
            spend = audit.Budget(runs, ALPHA)
            verdict = audit.test(
                peer.mechanism, *peer.pair, peer.epsilon, peer.delta, budget=spend, name=peer.name
            )
            shown = verdict.certificate
            lines.append(
                {
                    "name": f"{package}: {peer.name}",
                    "version": versions[package],
                    "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
                    "claimed_epsilon": peer.epsilon,
                    "claimed_delta": peer.delta,
                    "shown_epsilon": verdict.epsilon_lower,
                    "ceiling": verdict.ceiling,
                    "runs": runs,
                    "alpha": ALPHA,
                    "verdict": verdict.outcome,
                    "event": shown.event if shown else "",
                    "cpu_s": round(time.process_time() - start, 1),
                }
            )
        done([each for each in lines if each["name"].startswith(f"{package}:")])
    return lines, versions


def record(lines: list[dict[str, Any]]) -> None:
    """Put lines in the place of those of the same package and version, and write the page anew."""
    known: list[dict[str, Any]] = json.loads(RECORD.read_text())["lines"] if RECORD.exists() else []
    new = {(each["name"].split(":")[0], each["version"]) for each in lines}
    kept = [each for each in known if (each["name"].split(":")[0], each["version"]) not in new]
    order = sorted(
        [*kept, *lines],
        key=lambda each: (PACKAGES.index(each["name"].split(":")[0]), each["version"]),
    )
    RECORD.write_text(json.dumps({"lines": order}, indent=1) + "\n")
    PAGE.write_text(page(order), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer runs, under a minute")
    parser.add_argument(
        "--json", action="store_true", help="the last line is one JSON object of the table"
    )
    parser.add_argument(
        "--record", action="store_true", help="write bench/audit_peers.json and the page in docs"
    )
    parser.add_argument(
        "--only", action="append", default=[], choices=PACKAGES, help="this peer; may be repeated"
    )
    options = parser.parse_args()
    recorded: list[dict[str, Any]] = (
        json.loads(RECORD.read_text())["lines"] if RECORD.exists() else []
    )
    lines, versions = measure(
        options.quick, options.only, record if options.record else lambda _: None
    )
    missing = [package for package in PACKAGES if package not in versions]
    console = Console(width=150)
    table = Table(
        "peer", "claimed", "shown at least", "ceiling", "runs", "verdict", "best event", "measured"
    )
    old = [each for each in recorded if each["name"].split(":")[0] in missing]
    for where, group in (("now", lines), ("recorded", old)):
        for each in group:
            claim = f"{each['claimed_epsilon']:g}, {each['claimed_delta']:g}"
            numbers = (
                claim,
                f"{each['shown_epsilon']:.4f}",
                f"{each['ceiling']:.2f}",
                f"{each['runs']:,}",
            )
            when = f"{where} {each['date']}, {each['version']}"
            table.add_row(each["name"], *numbers, each["verdict"], each["event"][:60], when)
    console.print(table)
    for package in missing:
        known = sorted({each["version"] for each in old if each["name"].split(":")[0] == package})
        told = f"; recorded with {', '.join(known)}" if known else "; not measured"
        console.print(f"{package} was not measured now{told}")
    console.print(
        f"alpha {ALPHA:g} for each verdict. A test gives lower bounds, never a proof; only what "
        f"was run was measured."
    )
    if options.json:
        found = {"python": platform.python_version(), **versions}
        print(
            json.dumps(
                {
                    "bench": "audit_peers",
                    "versions": found,
                    "cores": os.cpu_count(),
                    "lines": [*lines, *old],
                }
            )
        )


if __name__ == "__main__":
    main()
