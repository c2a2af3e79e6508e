"""Which rule selects undeclared keys, and answers that the rules of release 0.1 sold."""

from __future__ import annotations

import pytest

from dither import ParameterError
from dither.answer import offers
from dither.answer.earlier_rules import has_newer_laws
from dither.laws import find_error_law
from dither.plan.algebra import Keys
from dither.privacy.kernel.families import FIRST_LAWS
from tests.answer import asked
from tests.case_lists import mark_rest

BY_DIAGNOSIS = "SELECT diagnosis, COUNT(*) AS n FROM visits GROUP BY diagnosis"


@pytest.fixture
def con(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    return asked.connection(tmp_path / "c", rows=asked.few_rows(30))


def select_family(con, max_groups: int, sql: str = BY_DIAGNOSIS, **price) -> str:
    steps = con.request(sql, max_groups=max_groups, **(price or {"epsilon": 1})).steps
    return next(step.family for step in steps if isinstance(step.query, Keys))


def test_the_rule_that_needs_fewer_owners_selects(con):
    """A quarter of epsilon 1, delta 1e-6: the threshold needs fewer from four keys a person on.

    docs/proofs/key-selection.md#which-rule-selects has the figures at epsilon 1.
    """
    families = [select_family(con, groups) for groups in (1, 2, 3, 4, 5, 12)]
    assert families == ["geometric_keys"] * 3 + ["threshold_keys"] * 3


def test_the_noise_of_the_counts_does_not_depend_on_who_selects(con):
    few, many = (
        con.request(BY_DIAGNOSIS, epsilon=1, max_groups=groups).steps for groups in (3, 12)
    )
    assert {step.family for step in (*few, *many) if not isinstance(step.query, Keys)} == {
        "laplace"
    }
    assert [step.weight for step in few] == [step.weight for step in many]


@pytest.mark.parametrize(
    ("terms", "price"),
    mark_rest(
        [
            ({"rule": "zcdp", "rho": 10, "epsilon": None, "ceiling": 10}, {"epsilon": "0.1"}),
            ({"rule": "zcdp", "rho": 10, "epsilon": None, "ceiling": 10}, {"rho": "0.1"}),
        ],
        quick=1,
    ),
    ids=["epsilon", "rho"],
)
def test_where_rhos_add_up_nothing_changes_under_add_remove(tmp_path, monkeypatch, terms, price):
    """An epsilon buys a rho only where the pot states a delta for each question."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    terms |= {"delta_conversion": "1e-6", "delta_selection": "1e-4"}
    con = asked.connection(tmp_path / "c", rows=asked.few_rows(3), **terms)
    chosen = "geometric_keys" if "epsilon" in price else "gaussian_keys"
    assert select_family(con, 12, **price) == chosen


def test_an_answer_of_the_first_laws_stays_free_and_keeps_its_law(first_release, con):
    assert has_newer_laws(con.request(BY_DIAGNOSIS, epsilon=4))
    old = asked.sell_by_the_first_laws(con, BY_DIAGNOSIS, 4)
    spent = con.budget().pots[0].spent
    assert con.preview(BY_DIAGNOSIS, epsilon=4).stored
    again = con.sql(BY_DIAGNOSIS, epsilon=4)
    assert again.info["repeated"] and again.info["release_id"] == old.release_id
    assert again.to_pandas()["n"].tolist() == list(old.values[1])
    assert con.budget().pots[0].spent == spent


def test_a_fresh_answer_is_sold_by_the_newest_laws(con):
    old = asked.sell_by_the_first_laws(con, BY_DIAGNOSIS, 4)
    fresh = con.sql(BY_DIAGNOSIS, epsilon=4, fresh=True)
    assert not fresh.info["repeated"] and fresh.info["release_id"] != old.release_id
    laws = [find_error_law(step.mechanism) for step in old.priced.steps]
    owners = laws[0].size_shown(0.5)
    newer = con._kernel.price(con.request(BY_DIAGNOSIS, epsilon=4)).steps
    assert find_error_law(newer[0].mechanism).size_shown(0.5) < owners


def test_what_the_first_laws_refuse_is_still_answered(con, monkeypatch):
    """They refuse where a key would need more than 262,144 owners; the threshold needs the root."""
    choose = offers.choose_mechanisms

    def refuse_the_first(*arguments):
        if arguments[-1] == FIRST_LAWS:
            raise ParameterError("more owners than the geometric rule can count")
        return choose(*arguments)

    monkeypatch.setattr(offers, "choose_mechanisms", refuse_the_first)
    assert not con.sql(BY_DIAGNOSIS, epsilon=4).info["repeated"]
