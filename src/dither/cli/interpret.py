"""`dither interpret`: what a guarantee means, in plain words."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dither import steward
from dither.accounting.expressions import parse
from dither.catalog.explain import horizon
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import StateFolder
from dither.errors import ParameterError
from dither.publish.interpret import Meaning, interpret_loss, interpret_pot
from dither.publish.interpret import interpret as meaning_of
from dither.state import State


class Neighbours(StrEnum):
    """What two neighbouring databases differ in."""

    add_remove = "add_remove"
    replaced = "replace"


def interpret(
    catalog: Annotated[
        Path | None,
        typer.Argument(help="Read the guarantee of this catalog's budget, at its ceiling."),
    ] = None,
    pot: Annotated[str, typer.Option(help="Which budget of the catalog.")] = "total",
    epsilon: Annotated[
        str | None, typer.Option(help="Or: an epsilon, with --delta and --unit.")
    ] = None,
    delta: Annotated[str | None, typer.Option(help="Its delta; 0 for pure guarantees.")] = None,
    unit: Annotated[
        str | None, typer.Option(help="Whom it protects: person, row, person_month, ...")
    ] = None,
    loss: Annotated[
        str | None, typer.Option(help="Or: a workload, e.g. '20 * gaussian(10)', read at --delta.")
    ] = None,
    neighbours: Annotated[
        Neighbours, typer.Option(help="What neighbours differ in.")
    ] = Neighbours.add_remove,
    household: Annotated[int, typer.Option(help="How many people to count together.", min=2)] = 4,
    rows: Annotated[
        int | None, typer.Option(help="Unit row: how many rows a person may have.", min=1)
    ] = None,
    windows: Annotated[
        int | None,
        typer.Option(help="Units of a window: how many; of a catalog, all it declares.", min=1),
    ] = None,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Say what epsilon and delta mean: belief before and after, what a test can find, households,
    rows, windows."""
    meaning = _read_meaning(catalog, pot, epsilon, delta, unit, loss, neighbours, state)
    if catalog is not None and windows is None:
        windows = horizon(steward.registered_catalog(State.beside(catalog, state)))
    if as_json:
        print_json(meaning.to_json(household=household, rows=rows, windows=windows))
        return
    console = make_console()
    for line in meaning.lines(household=household, rows=rows, windows=windows):
        console.print(f"- {line}", highlight=False, markup=False)


def _read_meaning(
    catalog: Path | None,
    pot: str,
    epsilon: str | None,
    delta: str | None,
    unit: str | None,
    loss: str | None,
    neighbours: Neighbours,
    state: Path | None,
) -> Meaning:
    """Read what to interpret: a pot, an epsilon, or a loss.

    Raises ParameterError unless exactly one is given, with its delta and unit.
    """
    if sum(source is not None for source in (catalog, epsilon, loss)) != 1:
        raise ParameterError(
            "say what to interpret: a CATALOG and its budget, or --epsilon or --loss, with --delta "
            "and --unit"
        )
    if catalog is not None:
        ledger = steward.open_ledger(State.beside(catalog, state))
        try:
            return interpret_pot(ledger.pot(pot))
        finally:
            ledger.close()
    if delta is None or unit is None:
        raise ParameterError(
            "an epsilon means nothing without its --delta and its --unit: give both (--delta 0 if "
            "pure)"
        )
    if loss is not None:
        return interpret_loss(parse(loss, neighbours=neighbours.value, unit=unit), delta)
    assert epsilon is not None
    return meaning_of(epsilon, delta, unit=unit, neighbours=neighbours.value)
