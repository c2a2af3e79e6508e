"""A charge under way changes no text that an analyst can see, but for a refusal itself (rule
settled-figures-only)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dither import BudgetError
from dither.cli.registry import read_deployment
from dither.privacy.ledger import export
from tests.datasets import clinic
from tests.kernel.interrupted_clinic import Clinic, make_clinic, open_inside

TEXT = clinic.CATALOG.replace("rows_per_unit: 3", "rows_per_unit: 1")
NORTH = "SELECT COUNT(*) AS n FROM visits WHERE ward = 'north'"
SOUTH = "SELECT COUNT(*) AS n FROM visits WHERE ward = 'south'"
PRICES = ("0.3", "11")


@pytest.fixture
def site(tmp_path: Path) -> Clinic:
    """Parts of a partition and an analyst's pot beside it; each has an answer."""
    made = make_clinic(tmp_path, TEXT, epsilon="10", ceiling="12")
    open_inside(made, "wards", kind="partition", column="visits.ward")
    for ward in ("north", "south"):
        open_inside(made, ward, inside="wards", kind="part", value=ward, epsilon=4, ceiling=4)
    open_inside(made, "ann")
    made.connect("south").sql(SOUTH, epsilon="0.25")
    made.connect("ann").sql(NORTH, epsilon="0.5")
    return made


def visible_texts(site: Clinic) -> dict[str, Any]:
    """All that analysts, and readers of exports and reports, are shown."""
    texts: dict[str, Any] = {}
    for pot, question, price in (("south", SOUTH, "0.25"), ("ann", NORTH, "0.5")):
        con = site.connect(pot)
        answer = con.sql(question, epsilon=price)
        texts[f"{pot} budget"] = str(con.budget())
        texts[f"{pot} history"] = str(con.history())
        texts[f"{pot} answer"] = json.dumps(answer.info)
        certificate = answer.certificate()["body"]
        del certificate["values"]  # a commitment with fresh salt
        texts[f"{pot} certificate"] = json.dumps(certificate, default=str)
        for each in PRICES:
            texts[f"{pot} preview at {each}"] = str(con.preview(question, epsilon=each))
        texts[f"{pot} refusal"] = refusal(con, question, "11")
    ledger = site.ledger()
    texts["export"] = export.as_json(ledger) + export.as_csv(ledger)
    facts = read_deployment(site.place)
    texts["deployment"] = str((facts.pots, facts.releases, facts.incidents))
    return texts


def refusal(con: Any, question: str, price: str) -> str:
    with pytest.raises(BudgetError) as caught:
        con.sql(question, epsilon=price, fresh=True)
    return str(caught.value)


@pytest.mark.parametrize("pot", ["north", "ann"])
def test_a_charge_under_way_changes_no_text(site: Clinic, pot: str) -> None:
    before = visible_texts(site)
    kernel = site.kernel()
    under_way = kernel.reserve(kernel.price(site.connect(pot).request(NORTH, epsilon=3)))
    after = visible_texts(site)
    for name, text in before.items():
        assert after[name] == text, name
    assert site.ledger().history(unreleased=True)[-1].seq == under_way.seq


def test_an_answer_given_meanwhile_tells_nothing_of_it(site: Clinic) -> None:
    """A part asks while another part's charge, which the partition stands at, is under way."""
    kernel = site.kernel()
    kernel.reserve(kernel.price(site.connect("north").request(NORTH, epsilon=3)))
    answer = site.connect("south").sql(SOUTH, epsilon="0.5")
    assert answer.info["charges"] == {name: ["1/2", "0/1"] for name in ("south", "wards", "total")}
    assert answer.info["pot_spent_after"] == "3/4"
    spent = {pot.name: float(pot.spent) for pot in site.connect("ann").budget().pots}
    assert spent == {"total": 1.25, "wards": 0.75, "north": 0, "south": 0.75, "ann": 0.5}


def test_the_refusal_itself_is_all_that_shows(site: Clinic) -> None:
    con = site.connect("ann")
    settled = str(con.budget())
    kernel = site.kernel()
    kernel.reserve(kernel.price(site.connect("north").request(NORTH, epsilon=4)))
    kernel.reserve(kernel.price(site.connect("total").request(NORTH, epsilon=4)))
    told = refusal(con, NORTH, "4")
    assert (
        "budget 'ann' cannot pay now" in told and "asked epsilon 4, delta 0, for one person" in told
    )
    assert not any(name in told for name in ("total", "north", "left "))
    assert str(con.budget()) == settled
