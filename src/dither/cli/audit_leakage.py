"""`dither audit leakage`: what outputs tell about a secret, from pairs of one's own or as the book's experiments."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from dither.audit.black_box import LIMITS
from dither.audit.leakage import places, tables
from dither.audit.leakage.estimate import METHODS, from_pairs
from dither.audit.leakage.limits import certified_epsilon
from dither.audit.leakage.systems import Plane, spiky
from dither.audit.report import finite
from dither.cli.output import AsJson, make_console, print_json

_HEAD = ("table", "system", "R* printed", "R* ours", "delta", *METHODS, "beyond tolerance")
_Tick = Callable[[str, float], None]


def leakage(
    pairs: Annotated[
        Path | None, typer.Argument(help="CSV of pairs: the secret, then the output's numbers; one header line.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="All systems of the book and the places, for about seven minutes.")
    ] = False,
    runs: Annotated[int, typer.Option(help="Runs of which the book's tables show the median.", min=1)] = 3,
    alpha: Annotated[float, typer.Option(help="Confidence of the certified epsilon is 1 - alpha.")] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Estimate what outputs tell about a secret; without a file, print the book's tables against ours."""
    console = make_console(stderr=as_json)
    if pairs is None:
        _book(console, full=full, runs=runs, as_json=as_json)
    else:
        _pairs(console, pairs, alpha=alpha, as_json=as_json)


def _book(console: Console, *, full: bool, runs: int, as_json: bool) -> None:
    with _bar(console, full) as tick:
        systems = list(tables.reproduce(full=full, runs=runs, tick=tick))
        found = list(places.reproduce(tick=tick)) if full else []
        known = {nu: Plane(nu).bayes_risk for nu in (places.UNIFORM if full else (8,))}
    if as_json:
        uniform = [{"nu": nu, "risk": risk, "spec": places.UNIFORM[nu]} for nu, risk in known.items()]
        told = {"systems": [each.to_json() for each in systems], "places": [each.to_json() for each in found]}
        print_json(finite({**told, "planar_geometric_uniform": uniform, "runs": runs}))
        return
    table = Table(*_HEAD, title=f"examples needed: printed / ours (median of {runs})")
    for each in systems:
        for delta, ours in each.counts.items():
            cells = _beside(each.experiment.counts[delta], ours)
            risks = f"{each.experiment.risk:.3f}", f"{each.risk:.6f}"
            odd = ", ".join(each.misses[delta]) or "-"
            table.add_row(each.experiment.table, each.experiment.name, *risks, f"{delta:g}", *cells, odd)
    console.print(table)
    if found:
        table = Table(
            "table", "system", "R* ours", "delta", *METHODS, title="places, a prior of our own: printed / ours"
        )
        for place in found:
            printed = places.PRINTED[place.table, place.name, place.nu]
            for delta, ours in place.counts.items():
                name = f"{place.name}, nu = {place.nu}"
                table.add_row(place.table, name, f"{place.risk:.5f}", f"{delta:g}", *_beside(printed[delta], ours))
        console.print(table)
    table = Table("system", "R* spec", "R* ours", title="uniform prior, exact")
    for nu, risk in known.items():
        table.add_row(f"planar geometric nu = {nu}, 400 x 115,600", f"{places.UNIFORM[nu]}", f"{risk:.5f}")
    table.add_row("spiky, 2 x 10K", "0", f"{spiky().bayes_risk:.5f}")
    console.print(table)
    console.print(LIMITS[0], style="dim", soft_wrap=True)
    judged = sum(len(each.counts) for each in systems)
    odd_rows = sum(bool(odd) for each in systems for odd in each.misses.values())
    console.print(f"leakage: {judged - odd_rows} of {judged} rows of the book within tolerance", soft_wrap=True)


def _beside(printed: tables.Counts, ours: tables.Counts) -> list[str]:
    shown = [["X" if count is None else f"{count:,}" for count in row] for row in (printed, ours)]
    return [f"{said} / {seen}" for said, seen in zip(*shown, strict=True)]


@contextmanager
def _bar(console: Console, full: bool) -> Iterator[_Tick]:
    """A progress bar over all systems."""
    total = sum(full or each.quick is not None for each in tables.EXPERIMENTS) + (len(places.PRINTED) if full else 0)
    shown = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*shown, console=console, transient=True) as bar:
        task = bar.add_task("the book's systems", total=total)
        yield lambda name, done: bar.update(task, advance=done, description=name)


def _pairs(console: Console, file: Path, *, alpha: float, as_json: bool) -> None:
    with file.open(encoding="utf-8", newline="") as opened:
        rows = list(csv.reader(opened))[1:]
    found = from_pairs([row[0] for row in rows], np.array([[float(x) for x in row[1:]] for row in rows]))
    table = Table("estimator", "examples", "least error", "last error")
    for line in found.curves:
        table.add_row(line.method, f"{line.examples[-1]:,}", f"{line.least:.4f}", f"{line.last:.4f}")
    console.print(table)
    bound = certified_epsilon(found.secrets, found.errors, found.held_out, alpha)
    console.print(
        f"guessing errs {found.random_guess:.4f}; best estimate of the Bayes risk {found.risk:.4f} ({found.method}), "
        f"multiplicative leakage {found.leakage:.4f}; if secrets were drawn uniformly, epsilon (local) is at least "
        f"{bound:.4f} with confidence {1 - alpha:g}",
        soft_wrap=True,
    )
    for warning in found.warnings:
        console.print(warning, style="dim", soft_wrap=True)
    if as_json:
        print_json(finite({"random_guess": found.random_guess, "risk": found.risk, "method": found.method,
                    "leakage": found.leakage, "epsilon_at_least": bound, "confidence": 1 - alpha,
                    "warnings": list(found.warnings)}))  # fmt: skip
