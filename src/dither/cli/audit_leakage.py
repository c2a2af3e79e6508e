"""`dither audit leakage`: what outputs tell about a secret, from pairs of one's own or as the
book's experiments."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dither.audit.leakage import places, tables
from dither.audit.leakage.estimate import METHODS, from_pairs
from dither.audit.leakage.systems import Plane, spiky
from dither.audit.report import finite
from dither.audit.verdict import LIMITS
from dither.cli.output import AsJson, make_console, print_json
from dither.errors import ParameterError
from dither.figures import write_bound
from dither.publish.shown_table import ShownTable

_HEAD = ("table", "system", "R* printed", "R* ours", "delta", *METHODS, "beyond tolerance")
_Tick = Callable[[str, float], None]


def leakage(
    pairs: Annotated[
        Path | None,
        typer.Argument(
            help="CSV of pairs: the secret, then the output's numbers; a header line is optional."
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="All systems of the book and the places, for about seven minutes."
        ),
    ] = False,
    runs: Annotated[
        int, typer.Option(help="Runs of which the book's tables show the median.", min=1)
    ] = 3,
    alpha: Annotated[
        float, typer.Option(help="Confidence of the certified epsilon is 1 - alpha.")
    ] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Estimate what outputs tell about a secret; without a file, print the book's tables against
    ours."""
    console = make_console(stderr=as_json)
    if pairs is None:
        _show_book(console, full=full, runs=runs, as_json=as_json)
    else:
        _show_pairs(console, pairs, alpha=alpha, as_json=as_json)


def _show_book(console: Console, *, full: bool, runs: int, as_json: bool) -> None:
    with _show_progress(console, full) as tick:
        systems = list(tables.reproduce(full=full, runs=runs, tick=tick))
        located_systems = list(places.reproduce(tick=tick)) if full else []
        uniform_risks = {nu: Plane(nu).bayes_risk for nu in (places.UNIFORM if full else (8,))}
    if as_json:
        uniform = [
            {"nu": nu, "risk": risk, "spec": places.UNIFORM[nu]}
            for nu, risk in uniform_risks.items()
        ]
        documents = {
            "systems": [system.to_json() for system in systems],
            "places": [system.to_json() for system in located_systems],
        }
        print_json(finite({**documents, "planar_geometric_uniform": uniform, "runs": runs}))
        return
    rows = []
    for system in systems:
        for delta, own_counts in system.counts.items():
            cells = _pair_counts(system.experiment.counts[delta], own_counts)
            risks = write_bound(system.experiment.risk), write_bound(system.risk)
            odd = ", ".join(system.misses[delta]) or "-"
            name = system.experiment.name
            rows.append((system.experiment.table, name, *risks, write_bound(delta), *cells, odd))
    title = f"examples needed: printed / ours (median of {runs})"
    console.print(ShownTable(_HEAD, tuple(rows), title=title))
    if located_systems:
        heads = ("table", "system", "R* ours", "delta", *METHODS)
        rows = []
        for located in located_systems:
            printed = places.PRINTED[located.table, located.name, located.nu]
            for delta, own_counts in located.counts.items():
                name = f"{located.name}, nu = {located.nu}"
                cells = _pair_counts(printed[delta], own_counts)
                rows.append(
                    (located.table, name, write_bound(located.risk), write_bound(delta), *cells)
                )
        title = "places, a prior of our own: printed / ours"
        console.print(ShownTable(heads, tuple(rows), title=title))
    exact_risks = [
        (f"planar geometric nu = {nu}, 400 x 115,600", f"{places.UNIFORM[nu]}", write_bound(risk))
        for nu, risk in uniform_risks.items()
    ]
    exact_risks.append(("spiky, 2 x 10K", "0", write_bound(spiky().bayes_risk)))
    console.print(
        ShownTable(
            ("system", "R* spec", "R* ours"), tuple(exact_risks), title="uniform prior, exact"
        )
    )
    console.print(LIMITS[0], style="dim", soft_wrap=True)
    judged = sum(len(system.counts) for system in systems)
    odd_rows = sum(bool(odd) for system in systems for odd in system.misses.values())
    console.print(
        f"leakage: {judged - odd_rows} of {judged} rows of the book within tolerance",
        soft_wrap=True,
    )


def _pair_counts(printed: tables.Counts, measured: tables.Counts) -> list[str]:
    """Write printed and measured counts side by side; X for one that was never reached."""
    columns = [
        ["X" if count is None else f"{count:,}" for count in row] for row in (printed, measured)
    ]
    return [
        f"{printed_text} / {measured_text}"
        for printed_text, measured_text in zip(*columns, strict=True)
    ]


@contextmanager
def _show_progress(console: Console, full: bool) -> Iterator[_Tick]:
    """Show a progress bar over all systems; yield the function that moves it."""
    total = sum(full or experiment.quick is not None for experiment in tables.EXPERIMENTS) + (
        len(places.PRINTED) if full else 0
    )
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("the book's systems", total=total)
        yield lambda name, done: bar.update(task, advance=done, description=name)


def _read_pairs(file: Path) -> tuple[list[str], NDArray[np.float64]]:
    """Read secrets and outputs of a CSV.

    Its first line is a header if its outputs are no numbers.
    """
    with file.open(encoding="utf-8", newline="") as opened:
        lines = [row for row in csv.reader(opened) if row]
    header = bool(lines) and _parse_numbers(lines[0][1:]) is None
    secrets: list[str] = []
    outputs: list[list[float]] = []
    for number, row in enumerate(lines[header:], start=1 + header):
        numbers = _parse_numbers(row[1:])
        if not numbers or (outputs and len(numbers) != len(outputs[0])):
            raise ParameterError(
                f"line {number} of {file.name} does not hold a secret and the output's numbers, as "
                "many as in the lines before: write secret,number,..."
            )
        secrets.append(row[0])
        outputs.append(numbers)
    return secrets, np.array(outputs)


def _parse_numbers(cells: list[str]) -> list[float] | None:
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return None


def _show_pairs(console: Console, file: Path, *, alpha: float, as_json: bool) -> None:
    """Print the leakage estimated from the pairs in a file, and the epsilon that it certifies."""
    estimate = from_pairs(*_read_pairs(file))
    rows = tuple(
        (line.method, f"{line.examples[-1]:,}", write_bound(line.least), write_bound(line.last))
        for line in estimate.curves
    )
    heads = ("estimator", "examples", "least error", "last error")
    console.print(ShownTable(heads, rows, frozenset({1, 2, 3})))
    bound = estimate.certify(alpha)
    console.print(
        f"guessing errs {write_bound(estimate.random_guess)}; best estimate of the Bayes risk "
        f"{write_bound(estimate.risk)} ({estimate.method}), multiplicative leakage "
        f"{write_bound(estimate.leakage)}; for secrets drawn as these were, epsilon (local) is at "
        f"least {write_bound(bound)} with confidence {write_bound(1 - alpha)}",
        soft_wrap=True,
    )
    for warning in estimate.warnings:
        console.print(warning, style="dim", soft_wrap=True)
    if as_json:
        print_json(
            finite(
                {
                    "random_guess": estimate.random_guess,
                    "risk": estimate.risk,
                    "method": estimate.method,
                    "leakage": estimate.leakage,
                    "epsilon_at_least": bound,
                    "confidence": 1 - alpha,
                    "warnings": list(estimate.warnings),
                }
            )
        )
