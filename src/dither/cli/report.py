"""`dither report`: a page about a dataset from its catalog and ledger. Parameters only: values belong to who paid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dither.answer.charts import number
from dither.answer.hazards import hazards
from dither.answer.history import asks
from dither.answer.interpret import of_pot
from dither.answer.report import Paid, Report, page
from dither.catalog import UNPROTECTED, guarantee
from dither.cli.register import CatalogFile, StateFolder
from dither.cli.registry import deployment
from dither.privacy.ledger import Charge
from dither.state import State


def report(
    catalog: CatalogFile,
    to: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
    state: StateFolder = None,
) -> None:
    """Write a page on what was asked and paid, what is promised and what is not. Reads no data and shows no value."""
    facts = deployment(State.beside(catalog, state))
    total, name = facts.total, facts.catalog.dataset
    releases = tuple((str(r.seq), asks(r.public.get("request", {})), _paid(r.charges)) for r in facts.releases)
    paid = None
    if total is not None:
        parts = tuple(
            (f"release {r.seq}", float(r.charges[total.name].amount)) for r in facts.releases if total.name in r.charges
        )
        paid = Paid(
            total.name, total.filter.measure, number(float(total.spent)), f"{float(total.cap):g}",
            f"{float(total.ceiling):g}", parts,
            f"Whatever is asked, all answers together stay within {of_pot(total).stated}",
        )  # fmt: skip
    lead = (
        f"Lineage {facts.catalog.lineage}, population {facts.catalog.population}: {len(releases)} releases. Parameters "
        "only: values belong to those whose pots paid for them."
    )
    text = page(
        Report(
            title=f"What was asked of {name}, and what it cost",
            lead=lead,
            context=facts.context,
            meaning=facts.meaning(),
            paid=paid,
            releases=releases,
            unprotected=UNPROTECTED,
            hazards=tuple(f"{each.name}: {each.message}" for each in hazards(facts)),
            catalog=guarantee(facts.catalog),
        )
    )
    to.write_text(text, encoding="utf-8")
    Console().print(f"wrote {to}: open it in a browser", highlight=False, soft_wrap=True)


def _paid(charges: dict[str, Charge]) -> str:
    return ", ".join(f"{pot}: {float(taken.amount):.4g}" for pot, taken in charges.items())
