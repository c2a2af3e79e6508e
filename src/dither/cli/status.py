"""`dither status`: a registered dataset at a glance, and what suspends it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dither import steward
from dither.canonical import decimal_text
from dither.cli.datasets import CatalogOrNone, find_catalog, show_datasets
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import StateFolder
from dither.commands import write_command
from dither.given_numbers import as_float
from dither.state import State


def status(
    catalog: CatalogOrNone = None, as_json: AsJson = False, state: StateFolder = None
) -> None:
    """Show what is registered, what is left of its budgets, and whether incidents suspend it.
    Without a catalog, list the datasets of this machine."""
    catalog_file = find_catalog(catalog, state)
    if catalog_file is None:
        show_datasets("status", as_json=as_json)
        return
    dataset_state = State.beside(catalog_file, state)
    registered = steward.read_registered(dataset_state)
    facts = steward.registered_catalog(dataset_state)
    ledger = steward.open_ledger(dataset_state)
    try:
        pots = ledger.pots()
    finally:
        ledger.close()
    suspension = describe_suspension(dataset_state, catalog_file)
    if as_json:
        document: dict[str, Any] = {
            "dataset": facts.dataset,
            "lineage": facts.lineage,
            "version": registered.version,
            "context": registered.public["context"],
            "unit": facts.unit.label,
            "pots": {pot.name: as_float(pot.left, "left") for pot in pots},
            "suspended": suspension,
        }
        print_json(document)
        return
    console = make_console()
    lines = [
        f"dataset {facts.dataset}, version {registered.version} "
        f"({registered.public['context']}), protects one {facts.unit.label}",
        *(
            f"budget {pot.name}: {pot.rule.measure} {decimal_text(pot.left)} left of "
            f"{decimal_text(pot.cap)}, "
            f"delta {decimal_text(pot.delta_left)} left, for one {pot.unit}"
            for pot in pots
        ),
        "no budget is open" if not pots else "",
        suspension or "answers leave: no incident is open",
    ]
    for line in filter(None, lines):
        console.print(line, highlight=False, soft_wrap=True)


def describe_suspension(state: State, catalog: Path) -> str | None:
    """Say who is suspended, since when, and the command that clears it; None where nobody is."""
    suspension = steward.read_suspension(state)
    if suspension is None:
        return None
    command = write_command("budget", "clear", catalog, "--reason", "say what was done about it")
    return f"{suspension.sentence}; clear with: {command}"
