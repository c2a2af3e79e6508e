"""Exact noise against opendp's vector measurements and NumPy's non-private samplers, in one run.

    python bench/noise.py [--quick] [--json]

Targets (issue 2): at least 100x opendp for discrete Laplace and 50x for discrete Gaussian at a
million draws, within 5x of NumPy, scales from 1/1000 to 2**40 within 3x of the speed at 10, a
scalar call under 60 microseconds. Times are minima of several runs: the machine may be busy. The
peer in each line is measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable
from importlib.metadata import version
from time import perf_counter

import numpy as np
import opendp.prelude as dp
from rich.console import Console
from rich.table import Table

from dither.privacy import noise

MILLION = 1_000_000


def best(run: Callable[[], object], times: int) -> float:
    """Seconds of the fastest of several runs."""
    seconds = []
    for _ in range(times):
        start = perf_counter()
        run()
        seconds.append(perf_counter() - start)
    return min(seconds)


def opendp_seconds(kind: str, draws: int) -> float:
    """One run of opendp's vector measurement at scale 10 on `draws` zeros (the sampler dominates by
    far)."""
    dp.enable_features("contrib")
    metric = dp.l1_distance(T=int) if kind == "laplace" else dp.l2_distance(T=float)
    constructor = dp.m.then_laplace if kind == "laplace" else dp.m.then_gaussian
    measurement = (dp.vector_domain(dp.atom_domain(T=int)), metric) >> constructor(scale=10.0)
    zeros = [0] * draws
    measurement(zeros[:1000])
    return best(lambda: measurement(zeros), 1)


def lines(quick: bool) -> list[dict[str, object]]:
    runs = 5 if quick else 15
    bench_lines: list[dict[str, object]] = []

    def line(name: str, measured: float, base: float, ratio: float, target: str, ok: bool) -> None:
        bench_lines.append(
            {
                "name": name,
                "ours_s": measured,
                "base_s": base,
                "ratio": ratio,
                "target": target,
                "ok": bool(ok),
            }
        )

    seconds_by_kind = {
        "laplace": best(lambda: noise.discrete_laplace(10, MILLION), runs),
        "gaussian": best(lambda: noise.discrete_gaussian(10, MILLION), runs),
    }
    peer_draws = MILLION // 20 if quick else MILLION
    for kind, goal in (("laplace", 100), ("gaussian", 50)):
        peer = opendp_seconds(kind, peer_draws) * (MILLION / peer_draws)
        draws_note = f" (opendp: {peer_draws:,} draws x {MILLION // peer_draws})" if quick else ""
        speedup = peer / seconds_by_kind[kind]
        line(
            f"discrete {kind}, 1e6 draws, scale 10, against opendp{draws_note}",
            seconds_by_kind[kind],
            peer,
            speedup,
            f">= {goal}x",
            speedup >= goal,
        )

    rng = np.random.default_rng()
    p = -np.expm1(-0.1)
    bare = {
        "laplace": best(lambda: rng.geometric(p, MILLION) - rng.geometric(p, MILLION), runs),
        "gaussian": best(lambda: np.rint(rng.normal(0, 10, MILLION)).astype(np.int64), runs),
    }
    for kind, what in (("laplace", "geometric - geometric"), ("gaussian", "rounded normal")):
        slower = seconds_by_kind[kind] / bare[kind]
        line(
            f"discrete {kind}, 1e6 draws, scale 10, against numpy ({what})",
            seconds_by_kind[kind],
            bare[kind],
            slower,
            "<= 5x",
            slower <= 5,
        )

    samplers = {"laplace": noise.discrete_laplace, "gaussian": noise.discrete_gaussian}
    for kind, sampler in samplers.items():
        for scale, scale_text in (
            (1e-3, "1e-3"),
            (64, "64"),
            (1000, "1000"),
            (2**20, "2**20"),
            (2**40, "2**40"),
        ):
            sampler(scale, 10)
            wide = []
            ten = []
            for _ in range(2 * runs):  # in turns, so that a busy spell meets both
                wide.append(best(lambda s=scale, draw=sampler: draw(s, MILLION), 1))
                ten.append(best(lambda draw=sampler: draw(10, MILLION), 1))
            name = f"discrete {kind}, 1e6 draws, scale {scale_text} against 10"
            slower = min(wide) / min(ten)
            line(name, min(wide), min(ten), slower, "<= 3x", slower <= 3)
    for kind, sampler in samplers.items():
        for scale in (10, 2**30):
            sampler(scale)
            one_draw_s = (
                best(lambda s=scale, draw=sampler: [draw(s) for _ in range(10)], 40 * runs) / 10
            )
            line(
                f"one {kind} integer, scale {scale}, table cached",
                one_draw_s,
                60e-6,
                one_draw_s / 60e-6,
                "< 60 us",
                one_draw_s < 60e-6,
            )
    return bench_lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick",
        action="store_true",
        help="under a minute; opendp on fewer draws, said in its line",
    )
    parser.add_argument("--json", action="store_true", help="last line one JSON object")
    options = parser.parse_args()
    bench_lines = lines(options.quick)
    versions = {name: version(name) for name in ("numpy", "opendp", "cryptography")} | {
        "python": platform.python_version()
    }
    table = Table(
        "",
        "ours",
        "base",
        "ratio",
        "target",
        "met",
        title=f"exact noise · {versions} · {os.cpu_count()} cores",
    )
    for line in bench_lines:
        times = [f"{float(line[key]) * 1e3:.3f} ms" for key in ("ours_s", "base_s")]  # type: ignore[arg-type]
        table.add_row(
            str(line["name"]),
            *times,
            f"{line['ratio']:.2f}",
            str(line["target"]),
            "yes" if line["ok"] else "NO",
        )
    Console(width=160).print(table)
    if options.json:
        print(
            json.dumps(
                {
                    "bench": "noise",
                    "versions": versions,
                    "cores": os.cpu_count(),
                    "lines": bench_lines,
                }
            )
        )


if __name__ == "__main__":
    main()
