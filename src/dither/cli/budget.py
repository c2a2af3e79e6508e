"""`dither budget`: open, raise and show pots."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from dither import connect, steward
from dither.cli.register import CatalogFile, StateFolder
from dither.session import Budget
from dither.state import State

app = typer.Typer(name="budget", help="Open, raise and show pots: what may ever be learned.", no_args_is_help=True)
PotName = Annotated[str, typer.Argument(help="The pot's name; 'total' is the one that connect() uses.")]


@app.command("open")
def open_pot(
    catalog: CatalogFile,
    pot: PotName,
    epsilon: Annotated[str, typer.Option(help="The cap: what may be spent now.")],
    ceiling: Annotated[str, typer.Option(help="What the cap may ever be raised to; the guarantee is stated for it.")],
    question: Annotated[str, typer.Option(help="What is to be learned, in a sentence.")],
    population: Annotated[str, typer.Option(help="About whom, in a sentence.")],
    recipient: Annotated[str, typer.Option(help="Who will see the answers, in a sentence.")],
    state: StateFolder = None,
) -> None:
    """Open a pot: a cap, a ceiling that never moves, and a purpose. Done once, before anyone has seen an answer."""
    place = State.beside(catalog, state)
    registered = steward.registered_catalog(place)
    purpose = {"question": question, "population": population, "recipient": recipient}
    opened = steward.open_pot(place, registered, pot, epsilon=epsilon, ceiling=ceiling, purpose=purpose)
    Console().print(Budget((opened,)))


@app.command("raise")
def raise_cap(
    catalog: CatalogFile,
    pot: PotName,
    epsilon: Annotated[str, typer.Option(help="The new cap, at most the ceiling.")],
    reason: Annotated[str, typer.Option(help="Why, in a sentence; recorded for ever.")],
    state: StateFolder = None,
) -> None:
    """Raise a pot's cap, at most to its ceiling."""
    Console().print(Budget((steward.raise_cap(State.beside(catalog, state), pot, epsilon, reason),)))


@app.command("show")
def show(catalog: CatalogFile, state: StateFolder = None) -> None:
    """Show spent, left, cap and ceiling of every pot."""
    Console().print(connect(catalog, state=state).budget())
