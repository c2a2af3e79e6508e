"""`dither audit function`: test a function of one's own on two neighbours."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from dither.audit.alpha_budget import next_share
from dither.audit.black_box import test
from dither.audit.report import Section, finite, write
from dither.audit.verdict import LIMITS, Budget
from dither.cli.audit_output import Alpha, Report, Year, say_written, show_limits
from dither.cli.output import AsJson, make_console, print_json
from dither.errors import ParameterError
from dither.strict_json import read_document


def function(
    where: Annotated[
        str, typer.Argument(help="file.py:name or module:name; takes data, or data and size.")
    ],
    first: Annotated[str, typer.Option(help="The first input, as JSON.")],
    second: Annotated[str, typer.Option(help="Its neighbour, as JSON.")],
    epsilon: Annotated[float, typer.Option(help="The claim.")],
    delta: Annotated[float, typer.Option(help="The claim's delta.")] = 0.0,
    runs: Annotated[int, typer.Option(help="Runs on each input, fixed in advance.")] = 200_000,
    alpha: Alpha = 1e-6,
    year: Year = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Test a function of your own on two neighbours. Exit status 1 if its claim is refuted."""
    console = make_console(stderr=as_json)
    mechanism = _load_function(where)
    pair = (
        read_document(first, "the first input", allow_floats=True),
        read_document(second, "the second input", allow_floats=True),
    )
    spend = Budget(runs, alpha if year is None else next_share(year, alpha))
    verdict = test(mechanism, *pair, epsilon, delta, budget=spend, name=where, progress=True)
    console.print(str(verdict), soft_wrap=True, highlight=False, markup=False)
    show_limits(console, verdict.limits[len(LIMITS) :])
    if report is not None:
        sentence = f"inputs {first} and {second}"
        say_written(
            console,
            write(
                report, f"Audit of {where}", [Section("Verdict", (sentence,), verdicts=(verdict,))]
            ),
        )
    if as_json:
        print_json(finite(verdict.to_json()))
    raise typer.Exit(1 if verdict.violated else 0)


def _load_function(where: str) -> Callable[..., Any]:
    """Import the function at file.py:name or module:name.

    Raises ParameterError where there is none.
    """
    module_path, _, name = where.rpartition(":")
    if not module_path:
        raise ParameterError(f"name a function as file.py:name or module:name, got {where!r}")
    if module_path.endswith(".py"):
        spec = importlib.util.spec_from_file_location("audited", module_path)
        if spec is None or spec.loader is None or not Path(module_path).exists():
            raise ParameterError(f"there is no file {module_path}")
        module = importlib.util.module_from_spec(spec)
        sys.modules["audited"] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(module_path)
    attribute = getattr(module, name, None)
    if not callable(attribute):
        raise ParameterError(f"{module_path} has no function {name}")
    mechanism: Callable[..., Any] = attribute
    return mechanism
