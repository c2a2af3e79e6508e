"""`dither budget`: open, raise and show pots; clear incidents."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from dither import steward
from dither.catalog.explain import horizon
from dither.cli.datasets import CatalogOrNone, find_catalog, show_datasets
from dither.cli.large_epsilon import Yes, check_cap
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import CatalogFile, StateFolder
from dither.cli.status import describe_suspension
from dither.errors import ParameterError
from dither.privacy.ledger import Pot
from dither.publish.budget import PotBalances
from dither.state import State
from dither.steward.budgets import read_rule

app = typer.Typer(
    name="budget",
    help="Open, raise and show budgets: what may ever be learned.",
    no_args_is_help=True,
)
PotName = Annotated[
    str,
    typer.Argument(metavar="BUDGET", help="Its name; 'total' is the one that connect() uses."),
]


class Rules(StrEnum):
    """How a pot adds up."""

    pure = "pure"
    approx = "approx"
    zcdp = "zcdp"
    rdp = "rdp"


@app.command("open")
def open_pot(
    catalog: CatalogFile,
    pot: PotName,
    ceiling: Annotated[
        str,
        typer.Option(help="What the cap may ever be raised to; the guarantee is stated for it."),
    ],
    question: Annotated[str, typer.Option(help="What is to be learned, in a sentence.")],
    population: Annotated[str, typer.Option(help="About whom, in a sentence.")],
    recipient: Annotated[str, typer.Option(help="Who will see the answers, in a sentence.")],
    rule: Annotated[Rules, typer.Option(help="How charges add up; fixed for ever.")] = Rules.pure,
    epsilon: Annotated[
        str | None, typer.Option(help="The cap of a pure or (epsilon, delta) budget.")
    ] = None,
    rho: Annotated[str | None, typer.Option(help="The cap of a zCDP budget.")] = None,
    renyi: Annotated[
        str | None, typer.Option(help="The cap of an RDP budget, at its order.")
    ] = None,
    delta: Annotated[
        str | None, typer.Option(help="(epsilon, delta): what all deltas may add up to.")
    ] = None,
    delta_per_question: Annotated[
        str | None, typer.Option(help="(epsilon, delta): what a question takes that needs a delta.")
    ] = None,
    delta_conversion: Annotated[
        str | None, typer.Option(help="zCDP and RDP: the delta at which the guarantee is stated.")
    ] = None,
    delta_selection: Annotated[
        str | None,
        typer.Option(help="zCDP and RDP: what the deltas of key selection may add up to."),
    ] = None,
    alpha: Annotated[str | None, typer.Option(help="RDP: the one order, above 1.")] = None,
    inside: Annotated[
        str | None, typer.Option(help="The budget that this one lies inside of.")
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="dataset (the total), or inside it: analyst, group, purpose, partition, "
            "part, windows."
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="partition: table.column, one value per person.")
    ] = None,
    value: Annotated[str | None, typer.Option(help="part: the value of that column.")] = None,
    policy: Annotated[
        str | None, typer.Option(help="The total's: global, or separate groups.")
    ] = None,
    max_incidents: Annotated[
        int | None, typer.Option(help="The total's: failures until all are suspended.")
    ] = None,
    reissue: Annotated[
        str | None, typer.Option(help="Kept inside the ceiling for reissues; 10% of it.")
    ] = None,
    relation: Annotated[
        list[str] | None,
        typer.Option(help="The total's: DATASET=same, disjoint or unknown, for each known here."),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Open a budget: a cap, a ceiling that never moves, and a purpose. Done once, before anyone has
    seen an answer."""
    dataset_state = State.beside(catalog, state)
    registered = steward.registered_catalog(dataset_state)
    terms: dict[str, Any] = {
        "epsilon": epsilon,
        "rho": rho,
        "renyi": renyi,
        "delta": delta,
        "delta_per_question": delta_per_question,
        "delta_conversion": delta_conversion,
        "delta_selection": delta_selection,
        "alpha": alpha,
        "inside": inside,
        "kind": kind,
        "column": column,
        "value": value,
        "policy": policy,
        "max_incidents": max_incidents,
        "reissue": reissue,
    }
    checked_rule = read_rule(rule.value, terms)
    for amount in (epsilon or rho or renyi, ceiling):
        check_cap(checked_rule, amount, yes=yes)
    opened = steward.open_pot(
        dataset_state,
        registered,
        pot,
        ceiling=ceiling,
        rule=rule.value,
        purpose={"question": question, "population": population, "recipient": recipient},
        relations=read_relations(relation or []),
        **terms,
    )
    _show(opened, as_json)


def _show(pot: Pot, as_json: bool) -> None:
    """Print the balance of one pot, for people or as JSON."""
    budget = PotBalances((pot,))
    if as_json:
        print_json(_pot_document(pot, budget))
    else:
        make_console().print(budget)


def read_relations(texts: list[str]) -> dict[str, str]:
    """Read texts LINEAGE=relation as a dict. Raises ParameterError for any other text."""
    pairs = [text.rpartition("=")[::2] for text in texts]
    if any(not lineage for lineage, _ in pairs):
        raise ParameterError(
            "a relation is written DATASET=same, DATASET=disjoint or DATASET=unknown"
        )
    return dict(pairs)


@app.command("raise")
def raise_cap(
    catalog: CatalogFile,
    pot: PotName,
    reason: Annotated[str, typer.Option(help="Why, in a sentence; recorded for ever.")],
    epsilon: Annotated[
        str | None, typer.Option(help="The new cap, at most the ceiling less the reserve.")
    ] = None,
    cap: Annotated[
        str | None,
        typer.Option(help="The same, for budgets that count in rho or Renyi divergence."),
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Raise a budget's cap, at most to its ceiling."""
    if (epsilon is None) == (cap is None):
        raise ParameterError("say the new cap once: --epsilon or --cap")
    dataset_state = State.beside(catalog, state)
    raised = next((stored.rule for stored in _list_pots(dataset_state) if stored.name == pot), None)
    if raised is not None:
        check_cap(raised, epsilon or cap, yes=yes)
    _show(steward.raise_cap(dataset_state, pot, epsilon or cap or "", reason), as_json)


def _list_pots(dataset_state: State) -> tuple[Pot, ...]:
    """The steward's own reading of all pots: with what is under way."""
    ledger = steward.open_ledger(dataset_state)
    try:
        return ledger.pots()
    finally:
        ledger.close()


@app.command("show")
def show(catalog: CatalogOrNone = None, as_json: AsJson = False, state: StateFolder = None) -> None:
    """Show spent, left, cap and ceiling of every budget, all groups together, and the population's
    datasets. Without a catalog, list the datasets of this machine."""
    catalog_file = find_catalog(catalog, state)
    if catalog_file is None:
        show_datasets("budget", "show", as_json=as_json)
        return
    dataset_state = State.beside(catalog_file, state)
    registered = steward.registered_catalog(dataset_state)
    pots = _list_pots(dataset_state)
    suspension = describe_suspension(dataset_state, catalog_file)
    budget = PotBalances(
        pots, steward.population_notes(dataset_state, registered), horizon(registered)
    )
    if as_json:
        print_json([_pot_document(pot, budget) | {"suspended": suspension} for pot in pots])
    else:
        make_console().print(budget)
        if suspension is not None:
            make_console().print(suspension, highlight=False, soft_wrap=True)


def _pot_document(pot: Pot, budget: PotBalances) -> dict[str, Any]:
    """Write the balance of a pot, and what it promises whatever is asked, as plain data."""
    whole = budget.guarantee(pot)
    return {
        "pot": pot.name,
        "kind": pot.kind,
        "inside": pot.inside,
        "rule": pot.rule.name,
        "measure": pot.rule.measure,
        "spent": pot.spent,
        "left": pot.left,
        "cap": pot.cap,
        "ceiling": pot.ceiling,
        "delta_spent": pot.delta_spent,
        "unit": pot.unit,
        "neighbours": pot.neighbours,
        "whatever_is_asked": {"epsilon": whole.epsilon, "delta": whole.delta},
    }


@app.command("clear")
def clear(
    catalog: CatalogFile,
    reason: Annotated[
        str, typer.Option(help="What was done about it, in a sentence; recorded for ever.")
    ],
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Let answers leave again after incidents. The incidents stay on record."""
    steward.clear_incidents(State.beside(catalog, state), reason)
    if as_json:
        print_json({"cleared": True, "reason": reason})
    else:
        make_console().print("incidents cleared; they stay listed as unprotected")
