"""`dither report`: a page about a dataset from its catalog and ledger. Parameters only: values
belong to who paid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dither.answer.history import describe_request
from dither.answer.question_log import find_question, read_questions
from dither.canonical import decimal_text
from dither.catalog.explain import UNPROTECTED, guarantee
from dither.cli.ledger import WithSql
from dither.cli.output import AsJson, make_console, print_json
from dither.cli.register import CatalogFile, StateFolder
from dither.cli.registry import read_deployment
from dither.privacy.ledger import Charge, Pot
from dither.privacy.ledger.pots import price_text
from dither.publish.hazards import find_hazards
from dither.publish.interpret import interpret_pot
from dither.publish.report import Paid, ReportPage, write_report
from dither.state import State


def report(
    catalog: CatalogFile,
    to: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("report.html"),
    sql: WithSql = False,
    as_json: AsJson = False,
    state: StateFolder = None,
) -> None:
    """Write a page on what was asked and paid, what is promised and what is not. Reads no data and
    shows no value."""
    dataset_state = State.beside(catalog, state)
    facts = read_deployment(dataset_state)
    questions = read_questions(dataset_state.root) if sql else {}
    total = facts.total
    name = facts.catalog.dataset
    pots = {pot.name: pot for pot in facts.pots}
    releases = tuple(
        (
            str(r.seq),
            find_question(questions, r.release_id, (*r.pots, *r.shared_by))
            or describe_request(r.public.get("request", {})),
            _describe_payment(r.charges, pots),
        )
        for r in facts.releases
    )
    paid = None
    if total is not None:
        charges = tuple(
            (f"release {r.seq}", float(r.charges[total.name].amount))
            for r in facts.releases
            if total.name in r.charges
        )
        delta = decimal_text(total.delta_spent, up=True)
        paid = Paid(
            total.name,
            total.rule.measure,
            decimal_text(total.spent, up=True),
            decimal_text(total.cap),
            decimal_text(total.ceiling),
            charges,
            f"Whatever is asked, all answers together stay within {interpret_pot(total).stated}",
            delta_and_unit=f", delta {delta}, for one {total.unit}",
        )
    lead = (
        f"Dataset {facts.catalog.dataset}, population {facts.catalog.population}: {len(releases)} "
        "releases. Parameters only: values belong to those whose budgets paid for them."
    )
    text = write_report(
        ReportPage(
            title=f"What was asked of {name}, and what it cost",
            lead=lead,
            context=facts.context,
            meaning=facts.meaning(),
            paid=paid,
            releases=releases,
            unprotected=UNPROTECTED,
            hazards=tuple(f"{hazard.name}: {hazard.message}" for hazard in find_hazards(facts)),
            catalog=guarantee(facts.catalog),
        )
    )
    to.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"wrote": str(to), "releases": len(releases)})
        return
    make_console().print(f"wrote {to}: open it in a browser", highlight=False, soft_wrap=True)


def _describe_payment(charges: dict[str, Charge], pots: dict[str, Pot]) -> str:
    """Write what each pot paid, in one line."""
    texts = (
        f"{name}: {price_text(pots[name].rule.measure, taken, pots[name].unit)}"
        for name, taken in charges.items()
    )
    return "; ".join(texts)
