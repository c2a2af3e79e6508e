"""What every benchmark shares: a table for people, one JSON object for machines."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

_VISITS = """\
dither: 1
dataset: bench
lineage: bench
population: {population}
neighbours: add_remove
unit: {{kind: person}}
people: {{person: {{protected: true}}}}
source: {{engine: csv, location: .}}
tables:
  visits:
    kind: private
    from: visits.csv
    owner: {{column: person}}
    unique: []
    rows_per_unit: {rows_per_unit}
    max_rows: {max_rows}
    columns:
      person: {{type: id}}
{columns}"""


def write_catalog(columns: str, *, population: str, rows_per_unit: int, max_rows: int) -> str:
    """Write a catalog of one private table of visits; `columns` are the lines after the owner."""
    return _VISITS.format(
        columns=columns, population=population, rows_per_unit=rows_per_unit, max_rows=max_rows
    )


def options(description: str, *flags: str, folder: str | None = None) -> argparse.Namespace:
    """The options that every benchmark takes, flags of this one, and a folder of data."""
    parser = argparse.ArgumentParser(description=description)
    for flag in flags:
        parser.add_argument(f"--{flag}", action="store_true", help=f"{flag} alone")
    if folder is not None:
        parser.add_argument(f"--{folder}", metavar="FOLDER", help="where its data lie")
    parser.add_argument("--quick", action="store_true", help="smaller sizes, under a minute")
    parser.add_argument(
        "--json", action="store_true", help="the last line is one JSON object of the table"
    )
    return parser.parse_args()


def seconds(work: Callable[[], object], times: int = 7) -> float:
    """The median time of some runs, after one that does not count."""
    work()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def line(
    name: str, measured: float, base: float, target: float, *, extra: float = 0.0, unit: str = "s"
) -> dict[str, object]:
    """One line: `ratio` is ours / base; ok if ours <= target * base + extra. Other units than
    seconds are said."""
    return ({} if unit == "s" else {"unit": unit}) | {
        "name": name,
        "ours_s": measured,
        "base_s": base,
        "ratio": measured / base,
        "target": target,
        "ok": measured <= target * base + extra,
    }


def skip(name: str, why: str, target: float = 0.0) -> dict[str, object]:
    """A line that was not measured, and why."""
    empty = dict.fromkeys(("ours_s", "base_s", "ratio", "ok"))
    return {"name": f"{name}: {why}", **empty, "target": target}


def _write_number(number: object, factor: float = 1, unit: str = "") -> str:
    """A number with its unit; a dash where nothing was measured."""
    return "–" if number is None else f"{number * factor:,.3g}{unit}"  # type: ignore[operator]


def _write_verdict(bench_line: dict[str, object]) -> str:
    """Whether the target was met; a line may have none, or may not have been measured."""
    if bench_line["ok"] is None:
        if bench_line["ours_s"] is not None and bench_line["base_s"] is None:
            return "not judged"
        return "skipped" if bench_line["ratio"] is None else "no target"
    return "yes" if bench_line["ok"] else "NO"


def report(
    bench: str, lines: list[dict[str, object]], packages: tuple[str, ...], *, as_json: bool
) -> None:
    console = Console(width=120)
    table = Table("what", "ours", "base", "ratio", "target", "met")
    for bench_line in lines:
        factor, unit = (1, bench_line["unit"]) if "unit" in bench_line else (1e3, "ms")
        numbers = [
            _write_number(bench_line[name], factor, f" {unit}") for name in ("ours_s", "base_s")
        ]
        table.add_row(
            str(bench_line["name"]),
            *numbers,
            _write_number(bench_line["ratio"]),
            _write_number(bench_line["target"]),
            _write_verdict(bench_line),
        )
    console.print(table)
    versions = {"python": platform.python_version(), **{name: version(name) for name in packages}}
    console.print(
        f"{os.cpu_count()} cores; "
        + ", ".join(f"{name} {number}" for name, number in versions.items())
    )
    if as_json:
        print(
            json.dumps(
                {"bench": bench, "versions": versions, "cores": os.cpu_count(), "lines": lines}
            )
        )
