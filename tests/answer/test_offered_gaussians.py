"""Gaussian noise alone in a question costs its exact curve, where epsilons are added up."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest

from dither.privacy.charges.gaussian_curve import find_gaussian_epsilon
from dither.privacy.charges.rules import charge
from dither.privacy.losses import FixedNoise
from tests.answer import asked

BY_DAY = "SELECT date, COUNT(DISTINCT patient_id) AS n FROM visits GROUP BY date"
BY_DIAGNOSIS = (
    "SELECT diagnosis, date, COUNT(DISTINCT patient_id) AS n FROM visits WHERE date < "
    "'2024-03-01' GROUP BY diagnosis, date"
)


@pytest.fixture
def con(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    return asked.connection(tmp_path / "c", rows=asked.few_rows(3))


def price(con, sql: str, **terms):
    return con._kernel.price(con.request(sql, **terms)).steps


def test_an_epsilon_buys_seven_percent_less_noise(con):
    (step,) = price(con, BY_DAY, epsilon=1)
    assert step.step.family == "gaussian_by_curve"
    old = asked.sell_by_the_first_laws(con, BY_DAY, 1).priced.steps[0].mechanism
    assert F(92, 100) < step.mechanism.sigma / old.sigma < F(94, 100)
    spent = con.budget().pots[0].spent
    con.sql(BY_DAY, epsilon=1, fresh=True)
    assert F(999, 1000) < con.budget().pots[0].spent - spent <= 1


def test_a_number_that_nobody_moves_costs_nothing_beside_others(con):
    """Its loss is none, and the curve of the others is still what is paid."""
    request = con.request(BY_DAY.replace("AS n", "AS n, SUM(0) AS z"), epsilon=1)
    steps = tuple(replace(step, family="gaussian_by_curve") for step in request.steps)
    priced = con._kernel.price(replace(request, steps=steps))
    assert isinstance(priced.loss, FixedNoise)
    people, nothing = (step.mechanism for step in priced.steps)
    assert (people.sensitivity.l2_squared, nothing.sensitivity.l2_squared) == (20, 0)
    alone = find_gaussian_epsilon(20 / people.sigma**2, F(1, 10**6))
    assert charge(priced.loss, con._view().path[0].rule).amount == alone <= 1


def test_an_answer_of_the_first_laws_stays_free(first_release, con):
    old = asked.sell_by_the_first_laws(con, BY_DAY, 1)
    again = con.sql(BY_DAY, epsilon=1)
    assert again.info["repeated"] and again.info["release_id"] == old.release_id


def test_beside_a_selection_of_keys_rhos_are_converted(con):
    families = {step.step.family for step in price(con, BY_DIAGNOSIS, epsilon=1)}
    assert "gaussian_by_curve" not in families


def test_where_rhos_are_added_up_nothing_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "heads"))
    terms = {"rule": "zcdp", "rho": 10, "epsilon": None, "ceiling": 10, "delta_conversion": "1e-6"}
    con = asked.connection(tmp_path / "z", rows=asked.few_rows(3), **terms)
    (step,) = price(con, BY_DAY, rho="0.1")
    assert step.step.family == "gaussian"
