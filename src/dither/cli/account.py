"""`dither account`: what a planned workload costs.

dither account "10000 * poisson(0.01, gaussian(1.1))" --delta 1e-5
dither account loss.json --delta 1e-6 --json
dither account --opacus history.json --delta 1e-5 --plot ladder.png
dither account --dp-event event.txt --delta 1e-5
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import typer

from dither.accounting.bounds import Bounds
from dither.accounting.curves import read_delta
from dither.accounting.explain import LossExplanation, explain
from dither.accounting.expressions import parse, write_expression
from dither.accounting.planning import cautions
from dither.accounting.readers import from_opacus, parse_dp_event
from dither.canonical import decimal_text
from dither.cli.output import AsJson, make_console, print_json
from dither.errors import DitherError
from dither.given_numbers import as_float
from dither.privacy import loss_documents
from dither.privacy import losses as ls
from dither.publish.shown_table import ShownTable
from dither.strict_json import read_document
from dither.surfaces import escape_lines

_WRONG_LOSS = 2
"""The exit code of a command line that says no loss."""
app = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)


def read_loss(
    text: str | None,
    opacus: Path | None,
    dp_event: Path | None,
    neighbours: str | None,
    unit: str | None,
) -> ls.Loss:
    """Read a loss from a text or a file.

    It may be an expression, a JSON loss, an Opacus history file, or a printed DpEvent.
    """
    if dp_event is not None:
        relation: Any = neighbours or "add_remove"
        return parse_dp_event(dp_event.read_text(), neighbours=relation, unit=unit or "unit")
    if opacus is not None:
        history = read_document(opacus.read_text(), "the Opacus history", allow_floats=True)
        # accountant.state_dict()
        history = history["history"] if isinstance(history, dict) else history
        return from_opacus([(row[0], row[1], row[2]) for row in history], unit=unit or "unit")
    if text is None:
        raise typer.BadParameter(
            "give an expression such as '100 * laplace(10)', a JSON loss, --opacus or --dp-event "
            "FILE"
        )
    source = Path(text).read_text() if text.endswith(".json") else text
    if source.lstrip().startswith("{"):
        return loss_documents.read_loss(read_document(source, "the loss", allow_floats=True))
    return parse(source, neighbours=neighbours, unit=unit)  # type: ignore[arg-type]


def _show_error(error: Exception, *, as_json: bool) -> None:
    """Print what is wrong with the loss that was given, for people or as JSON."""
    message = escape_lines(str(error))
    if as_json:
        kind = type(error).__name__
        print_json({"error": {"kind": kind, "message": message, "exit_code": _WRONG_LOSS}})
    else:
        typer.echo(f"error: {message}", err=True)


@app.command()
def account(
    loss: Annotated[
        str | None, typer.Argument(help="An expression, a JSON loss, or a .json file with one.")
    ] = None,
    delta: Annotated[str, typer.Option(help="The delta at which epsilon is read.")] = "1e-6",
    epsilon: Annotated[str | None, typer.Option(help="Read delta at this epsilon too.")] = None,
    neighbours: Annotated[
        str | None, typer.Option(help="For all events: add_remove or replace.")
    ] = None,
    unit: Annotated[str | None, typer.Option(help="What a unit is, e.g. person.")] = None,
    units: Annotated[int | None, typer.Option(help="How many units, to judge delta.")] = None,
    opacus: Annotated[
        Path | None, typer.Option(help="A JSON list of [noise_multiplier, sample_rate, steps].")
    ] = None,
    dp_event: Annotated[
        Path | None, typer.Option(help="A file with repr(event) of a dp-accounting DpEvent.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the ladder as a picture.")] = None,
    as_json: AsJson = False,
) -> None:
    """Epsilon of a workload fixed in advance, under every theorem, with a proved bracket."""
    try:
        tree = read_loss(loss, opacus, dp_event, neighbours, unit)
        ladder = explain(tree, delta)
        delta_bounds = None if epsilon is None else read_delta(tree, epsilon).bounds
        notes = cautions(tree, delta, units)
        if plot is not None:
            ladder.plot().figure.savefig(plot)
    except (DitherError, OSError, UnicodeDecodeError, KeyError, IndexError, TypeError) as error:
        _show_error(error, as_json=as_json)
        raise typer.Exit(_WRONG_LOSS) from None
    if as_json:
        out: dict[str, Any] = ladder.to_json()
        if delta_bounds is not None:
            out["delta_at"] = {
                "epsilon": as_float(epsilon or 0, "epsilon"),
                "lower": delta_bounds.lower,
                "upper": delta_bounds.upper,
            }
        out["cautions"] = notes
        typer.echo(json.dumps(out, indent=2))
        return
    _show(ladder, epsilon, delta_bounds, notes)


def _show(
    ladder: LossExplanation, epsilon: str | None, delta_bounds: Bounds | None, notes: list[str]
) -> None:
    console = make_console()
    unit = ladder.loss.unit
    rows = tuple((rung.name, _round_end(rung.epsilon), rung.theorem) for rung in ladder.rungs)
    delta = decimal_text(Fraction(repr(ladder.delta)))
    title = f"epsilon at delta {delta}, for one {unit}"
    console.print(f"{write_expression(ladder.loss)}, {ladder.loss.neighbours}", soft_wrap=True)
    console.print(ShownTable(("theorem", "epsilon", "why"), rows, frozenset({1}), title))
    console.print("for a plan fixed in advance; filters add up otherwise", style="dim")
    console.print(
        f"proved: epsilon lies in {_show_bracket(ladder.bounds)} at delta {delta}, "
        f"for one {unit}; worst direction: {ladder.direction} (--json has all digits)",
        soft_wrap=True,
    )
    if delta_bounds is not None:
        console.print(
            f"proved: delta lies in {_show_bracket(delta_bounds)} at epsilon {epsilon}, "
            f"for one {unit}",
            soft_wrap=True,
        )
    for note in notes:
        console.print(f"caution: {note}")


def _show_bracket(bounds: Bounds) -> str:
    """Show both ends of a bracket, rounded outwards."""
    return f"[{_round_end(bounds.lower, up=False)}, {_round_end(bounds.upper)}]"


def _round_end(end: float, *, up: bool = True) -> str:
    """Round an end of a bracket to six digits, against us; infinity stays as it is."""
    return decimal_text(Fraction(end), up=up) if math.isfinite(end) else str(end)


if __name__ == "__main__":
    app()
