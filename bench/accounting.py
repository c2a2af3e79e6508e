"""Accounting against dp-accounting 0.6 and prv-accountant 0.2: time and true error side by side.

Every line gives our processor time, our bracket's relative width, the peer's time and its distance
from the truth (the middle of our bracket, whose width is below 1e-9). Both sides: the best of
forty, or of as many as fit into three seconds. Before each of ours all that was kept from earlier
workloads is dropped and the loss is built anew, except where an event is appended: there both sides
hold the schedule, accounted once before the clock starts (the peer's is copied for each run,
outside the clock), and are asked for epsilon with one event more that neither has seen; ours
includes making the event and the longer loss, the peer's composing it. `--quick` stays under a
minute.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib.metadata
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from sampled_grid import build_grid

from dither import accounting as acc
from dither.accounting.growth import forget
from dither.errors import DitherError

warnings.filterwarnings("ignore")


PEERS = ("dp-accounting", "prv-accountant")
Prepared = Callable[[], Callable[[], Any]]


def best_of(prepare: Prepared, times: int = 40, seconds: float = 3.0) -> tuple[float, Any]:
    """The shortest processor time (the machine may be shared) of what is prepared outside the
    clock; the last result."""
    shortest, result, spent = math.inf, None, 0.0
    for _ in range(times):
        work = prepare()
        start = time.process_time()
        result = work()
        taken = time.process_time() - start
        shortest, spent = min(shortest, taken), spent + taken
        if spent > seconds:
            break
    return shortest, result


def peer_pld(events: list[tuple[Any, int]], delta: float, grid: float) -> Prepared:
    from dp_accounting.pld import pld_privacy_accountant as pld

    def work() -> float:
        accountant = pld.PLDAccountant(value_discretization_interval=grid)
        for event, count in events:
            accountant.compose(event, count)
        return float(accountant.get_epsilon(delta))

    return again(work)


def peer_prv(mechanisms: list[Any], counts: list[int], delta: float, error: float) -> Prepared:
    from prv_accountant import PRVAccountant

    def work() -> float:
        accountant = PRVAccountant(
            prvs=mechanisms, max_self_compositions=counts, eps_error=error, delta_error=delta / 1000
        )
        return float(accountant.compute_epsilon(delta, counts)[1])

    return again(work)


def peer_append(events: list[tuple[Any, int]], more: Any, delta: float, grid: float) -> Prepared:
    """The same accountant, asked once before the clock starts; then one event more on a copy of
    it."""
    from dp_accounting.pld import pld_privacy_accountant as pld

    accountant = pld.PLDAccountant(value_discretization_interval=grid)
    for event, count in events:
        accountant.compose(event, count)
    accountant.get_epsilon(delta)

    def prepare() -> Callable[[], float]:
        held = copy.deepcopy(accountant)
        return lambda: float(held.compose(more).get_epsilon(delta))

    return prepare


def again(work: Callable[[], float]) -> Prepared:
    """A peer that starts from nothing every time."""
    return lambda: work


def cold(loss: acc.Loss, delta: float) -> Prepared:
    """Our bracket, nothing kept from before."""

    def prepare() -> Callable[[], acc.Bounds]:
        forget()
        fresh = acc.from_json(loss.to_json())
        return lambda: acc.epsilon(fresh, delta)

    return prepare


def line(
    name: str,
    loss: acc.Loss,
    delta: float,
    target: float,
    base: Prepared | None,
    ask: Prepared | None = None,
) -> dict[str, Any]:
    """Our bracket and time against one peer; `ok` when the time target and, with a peer, fifty
    times are met."""
    acc.epsilon(loss, delta)
    ours, bounds = best_of(ask or cold(loss, delta))
    bounds = acc.epsilon(loss, delta)
    truth = (bounds.lower + bounds.upper) / 2
    row: dict[str, Any] = {
        "name": name,
        "ours_s": ours,
        "base_s": None,
        "ratio": None,
        "target": target,
        "ok": ours <= target,
        "epsilon": bounds.upper,
        "our_relative_width": (bounds.upper - bounds.lower) / bounds.upper,
    }
    try:
        measured = None if base is None else best_of(base)
    except RuntimeError as error:  # prv-accountant checks itself, and gives up
        measured, row["name"] = None, f"{name} (the peer gave up: {error})"
    if measured is not None:
        theirs, value = measured
        row["base_s"], row["ratio"] = theirs, theirs / ours
        row["base_error"] = value - truth
        row["ok"] = (
            row["ok"] and row["ratio"] >= 50 and abs(value - truth) > bounds.upper - bounds.lower
        )
    return row


class GridReading(NamedTuple):
    """Processor time and width of one workload of the grid."""

    seconds: float
    bounds: acc.Bounds

    def is_within(self, relative: float) -> bool:
        width = self.bounds.upper - self.bounds.lower
        return width <= max(relative * self.bounds.upper, 1e-9)


def read_grid(quick: bool) -> list[GridReading]:
    """Every workload of the grid of sampled Gaussians, cold, once; quick: every tenth."""
    readings = []
    for workload in build_grid()[:: 10 if quick else 1]:
        loss = acc.PoissonSampled(workload.q, acc.Gaussian(workload.sigma))
        ask = cold(loss if workload.steps == 1 else loss * workload.steps, workload.delta)()
        start = time.process_time()
        try:
            bounds = ask()
        except DitherError:
            bounds = acc.Bounds(0.0, math.inf)
        readings.append(GridReading(time.process_time() - start, bounds))
    return readings


def grid_lines(quick: bool) -> Iterator[dict[str, Any]]:
    """How much of the grid is sharp and fast: `ours_s` is the share that is not, or the slowest."""
    readings = read_grid(quick)
    good = sum(reading.is_within(1e-6) and reading.seconds <= 0.05 for reading in readings)
    missed = 1 - good / len(readings)
    name = f"grid of {len(readings)}: share not within 1e-6 and 50 ms (a share, not seconds)"
    yield plain_line(name, missed, 0.05)
    rough = [reading for reading in readings if not reading.is_within(1e-4)]
    name = f"grid of {len(readings)}: share not within 1e-4 (a share, not seconds)"
    yield plain_line(name, len(rough) / len(readings), 0.0)
    yield plain_line("the slowest of the grid", max(reading.seconds for reading in readings), 1.0)


CALIBRATIONS: tuple[dict[str, Any], ...] = (
    {"epsilon": 1, "delta": 1e-5, "steps": 25, "sensitivity": 6, "q": "0.001"},
    {"epsilon": 1, "delta": 1e-6, "steps": 2, "q": "0.01"},
    {"epsilon": "0.5", "delta": 1e-8, "steps": 100, "q": "0.1"},
    {"epsilon": 1, "delta": 1e-5, "sigma": 1, "q": None, "steps": 10},
)


def calibration_line() -> dict[str, Any]:
    """The slowest of a few calibrations of few steps."""
    slowest = 0.0
    for parameters in CALIBRATIONS:
        forget()
        start = time.process_time()
        acc.calibrate(**parameters)
        slowest = max(slowest, time.process_time() - start)
    return plain_line("the slowest of four calibrations of few steps", slowest, 2.0)


def plain_line(name: str, ours: float, target: float) -> dict[str, Any]:
    """A line without a peer and without a bracket of its own."""
    return {
        "name": name,
        "ours_s": ours,
        "base_s": None,
        "ratio": None,
        "target": target,
        "ok": ours <= target,
        "our_relative_width": 0.0,
    }


def lines(quick: bool) -> Iterator[dict[str, Any]]:
    """Every comparison, one at a time."""
    yield from grid_lines(quick)
    yield calibration_line()
    if len(PEERS) == len(find_versions(PEERS)):
        yield from peer_lines(quick)


def peer_lines(quick: bool) -> Iterator[dict[str, Any]]:
    """Lines beside a peer, which must be installed."""
    import dp_accounting as dp
    from prv_accountant import (
        GaussianMechanism,
        LaplaceMechanism,
        PoissonSubsampledGaussianMechanism,
    )

    def poisson(q: float, sigma: float) -> Any:
        return dp.PoissonSampledDpEvent(q, dp.GaussianDpEvent(sigma))

    sgd = acc.PoissonSampled(Fraction(1, 100), acc.Gaussian(Fraction(11, 10))) * 10_000
    base = peer_pld([(poisson(0.01, 1.1), 10_000)], 1e-5, 1e-4)
    yield (
        line(
            "10,000 sampled Gaussian steps, both directions | dp-accounting PLD 1e-4",
            sgd,
            1e-5,
            0.020,
            base,
        )
    )
    mechanism = PoissonSubsampledGaussianMechanism(0.01, 1.1)
    error = 0.1 if quick else 0.01
    base = peer_prv([mechanism], [10_000], 1e-5, error)
    yield line(f"the same | prv-accountant eps_error {error}", sgd, 1e-5, 0.020, base)

    scales = [20 + Fraction(60 * i, 499) for i in range(500)]
    thousand = acc.compose(*(acc.Laplace(b) for b in scales), *(acc.Gaussian(b) for b in scales))
    events = [(dp.LaplaceDpEvent(float(b)), 1) for b in scales] + [
        (dp.GaussianDpEvent(float(b)), 1) for b in scales
    ]
    grid = 1e-3 if quick else 1e-4
    base = peer_pld(events, 1e-6, grid)
    yield line(
        f"1,000 distinct mechanisms | dp-accounting PLD {grid:g}", thousand, 1e-6, 0.050, base
    )
    long = acc.PoissonSampled(Fraction(1, 1000), acc.Gaussian(Fraction(11, 10))) * 10**6
    base = peer_pld([(poisson(0.001, 1.1), 10**6)], 1e-6, 1e-4)
    yield line("1e6 sampled steps | dp-accounting PLD 1e-4", long, 1e-6, 0.050, base)
    huge = acc.PoissonSampled(Fraction(1, 10**4), acc.Gaussian(Fraction(11, 10))) * 10**8
    base = (
        None
        if quick
        else peer_prv([PoissonSubsampledGaussianMechanism(0.0001, 1.1)], [10**8], 1e-5, 0.1)
    )
    yield line(
        "1e8 sampled steps" + ("" if quick else " | prv-accountant 0.1"), huge, 1e-5, 0.050, base
    )

    phases = [Fraction(10 + i, 10) for i in range(20)]
    schedule = acc.compose(
        *(acc.PoissonSampled(Fraction(1, 100), acc.Gaussian(s)) * 100 for s in phases)
    )
    grid = 1e-3 if quick else 1e-4
    base = peer_pld([(poisson(0.01, float(s)), 100) for s in phases], 1e-6, grid)
    yield line(f"20 phases of 100 steps | dp-accounting PLD {grid:g}", schedule, 1e-6, 0.100, base)

    past = [(poisson(0.01, float(s)), 100) for s in phases]
    fresh = iter(range(1000))

    def append(event: Callable[[Fraction], acc.Loss]) -> Prepared:
        forget()
        acc.epsilon(schedule, 1e-6)

        def prepare() -> Callable[[], acc.Bounds]:
            more = Fraction(next(fresh), 997)
            return lambda: acc.epsilon(schedule + event(more), 1e-6)

        return prepare

    base = peer_append(past, dp.GaussianDpEvent(30.0), 1e-6, grid)
    ask = append(lambda more: acc.Gaussian(30 + more))
    more = schedule + acc.Gaussian(30)
    yield line(
        f"a Gaussian appended to the schedule | dp-accounting PLD {grid:g}",
        more,
        1e-6,
        0.020,
        base,
        ask,
    )
    base = peer_append(past, dp.SelfComposedDpEvent(poisson(0.01, 3.0), 100), 1e-6, grid)
    ask = append(lambda more: acc.PoissonSampled(Fraction(1, 100), acc.Gaussian(3 + more)) * 100)
    more = schedule + acc.PoissonSampled(Fraction(1, 100), acc.Gaussian(3)) * 100
    yield line(f"a 21st phase appended | dp-accounting PLD {grid:g}", more, 1e-6, 0.020, base, ask)

    gaussian = acc.Gaussian(Fraction(1, 20))
    base = peer_pld([(dp.GaussianDpEvent(0.05), 1)], 1e-6, 1e-3 if quick else 1e-4)
    yield line("one Gaussian, sigma 0.05 | dp-accounting PLD", gaussian, 1e-6, 0.010, base)

    tiny = acc.PoissonSampled(Fraction(1, 100), acc.Gaussian(Fraction(11, 10))) * 1000
    yield line(
        "1,000 sampled steps at delta 1e-50 (peers: inf or an error)", tiny, 1e-50, 0.100, None
    )
    yield line("1,000 sampled steps at delta 1e-301", tiny, 1e-301, 0.100, None)
    if not quick:
        prvs = [LaplaceMechanism(float(b)) for b in scales] + [
            GaussianMechanism(float(b)) for b in scales
        ]
        base = peer_prv(prvs, [1] * 1000, 1e-6, 0.1)
        yield line("1,000 distinct mechanisms | prv-accountant 0.1", thousand, 1e-6, 0.050, base)


def find_versions(names: Sequence[str]) -> dict[str, str]:
    """Versions of the packages that are installed."""
    versions = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def main() -> None:
    """Run, print a table or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="coarser peers, below a minute")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    versions = find_versions((*PEERS, "numpy", "scipy"))
    if options.json:
        rows = list(lines(options.quick))
        print(
            json.dumps(
                {
                    "bench": "accounting",
                    "versions": versions,
                    "cores": os.cpu_count(),
                    "lines": rows,
                },
                indent=1,
            )
        )
        return
    print(f"{'ms':>8} {'width':>8} {'peer s':>8} {'ratio':>8} {'peer error':>11}  ok  line")
    for row in lines(options.quick):
        peer = (
            f"{row['base_s']:8.2f} {row['ratio']:8.0f} {row['base_error']:11.1e}"
            if row["base_s"]
            else f"{'':29}"
        )
        ok = "yes" if row["ok"] else "no"
        print(
            f"{row['ours_s'] * 1e3:8.1f} {row['our_relative_width']:8.0e} {peer}  {ok:3} "
            f"{row['name']}",
            flush=True,
        )


if __name__ == "__main__":
    main()
