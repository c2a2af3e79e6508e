"""`dither bench`: run the benchmarks that come with the source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import track

from dither.cli.output import AsJson, make_console
from dither.errors import DitherError, ParameterError

FOLDER = Path(__file__).parents[3] / "bench"


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(help="Which: noise, sql, ledger, ...; all by default.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Full sizes: minutes, not seconds.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure dither on this machine: ratios against the bare engine and peers, at sizes that are
    stated."""
    benchmarks = sorted(file.stem for file in FOLDER.glob("[a-z]*.py") if file.stem != "common")
    if not benchmarks:
        raise DitherError(
            "benchmarks come with the source, not with the installed package: clone it, then make "
            "bench"
        )
    for name in names or []:
        if name not in benchmarks:
            raise ParameterError(f"no benchmark {name!r}: there are {', '.join(benchmarks)}")
    options = [*([] if full else ["--quick"]), *(["--json"] if as_json else [])]
    chosen = track(
        names or benchmarks,
        "measuring",
        console=make_console(stderr=True),
        transient=True,
        disable=as_json,
    )
    failed = [
        name
        for name in chosen
        if subprocess.run(_make_command(name, options), check=False).returncode
    ]
    if failed:
        raise DitherError(
            f"did not finish: {', '.join(failed)} (some peers need: pip install 'dither[bench]')"
        )


def _make_command(name: str, options: list[str]) -> list[str]:
    return [sys.executable, str(FOLDER / f"{name}.py"), *options]
