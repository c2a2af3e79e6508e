"""Prices in epsilon and rho, from pots of every rule: what is charged is the loss, exactly, and at
most the price."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dither.errors import BudgetError, ParameterError, RefusedError
from dither.privacy.charges.measures import rho_of_pure
from dither.privacy.loss_documents import read_loss
from dither.privacy.mechanisms import IntegerLaplace, IntegerRoundedGaussian
from tests.datasets.regional_clinic import APPROX, BY_REGION, COUNT, GAUSSIAN, MANY, Clinic

F = Fraction
ALL_VISITS = "SELECT COUNT(*) AS n FROM visits"


def charged(result: Any) -> Fraction:
    return F(result.info["charged"])


def test_rho_buys_integer_gaussian_noise_from_a_zcdp_pot(clinic: Clinic) -> None:
    clinic.open(**GAUSSIAN)
    con = clinic.connect()
    result = con.sql("SELECT COUNT(*) AS n, SUM(age) AS years FROM patients", rho="0.1")
    losses = read_loss(result.info["loss"]).losses  # type: ignore[attr-defined]
    assert [loss.type for loss in losses] == ["discrete_gaussian", "discrete_gaussian"]
    exact = sum(F(loss.sensitivity) ** 2 / (2 * loss.sigma**2) for loss in losses)
    assert charged(result) == exact and F("0.0999") < exact <= F("0.1")
    each = [F(loss.sensitivity) ** 2 / (2 * loss.sigma**2) for loss in losses]
    # the count serves itself and half of the sum, the centred sum the rest: demands 3/2 and 1/2,
    # rho by their roots
    count, centred = F("0.1") * F("0.633975"), F("0.1") * F("0.366025")
    assert [float(rho) for rho in sorted(each)] == pytest.approx(
        [float(centred), float(count)], rel=2e-4
    )
    assert clinic.spent() == {"total": exact} and clinic.verify().ok
    assert result.columns[0].mechanism == "IntegerGaussian" and result.info["rule"] == "zcdp"


def test_a_zcdp_pot_stops_exactly_at_its_cap(clinic: Clinic) -> None:
    clinic.open(**GAUSSIAN | {"rho": "0.02"})
    con = clinic.connect()
    # sigma 10 is 20 bits exactly: rho 1/200, four of which fill 0.02
    for _ in range(4):
        assert charged(con.sql(COUNT, rho="0.005", fresh=True)) == F(1, 200)
    with pytest.raises(
        BudgetError, match=r"asked rho 0\.005, delta 0, for one person; left 0 of 0\.02"
    ):
        con.sql(COUNT, rho="0.005", fresh=True)


def test_laplace_noise_in_a_zcdp_pot_pays_its_proved_rho(clinic: Clinic) -> None:
    clinic.open(**GAUSSIAN)
    assert charged(clinic.connect().sql(COUNT, epsilon=1)) == rho_of_pure(F(1))


def test_an_approx_pot_takes_its_stated_delta_only_when_noise_needs_it(visits: Clinic) -> None:
    visits.open(**APPROX)
    con = visits.connect()
    one = con.sql(ALL_VISITS, epsilon=1)
    assert one.columns[0].mechanism == "IntegerLaplace" and one.info["charges"]["total"] == [
        "1/1",
        "0/1",
    ]
    many = con.sql(MANY, epsilon=1)  # forty-eight sums: Gaussian noise is smaller
    assert many.columns[0].mechanism == "IntegerRoundedGaussian"
    amount, delta = map(F, many.info["charges"]["total"])
    assert F("0.999") < amount <= 1 and delta == F(1, 10**6)
    pot = visits.ledger().pot("total")
    assert (pot.spent, pot.delta_spent) == (1 + amount, F(1, 10**6)) and visits.verify().ok


def test_the_smaller_noise_is_chosen_without_data(visits: Clinic) -> None:
    visits.open(**APPROX)
    con = visits.connect()
    small, large = con.preview(ALL_VISITS, epsilon=1), con.preview(MANY, epsilon=1)
    assert small.charged == (1, 0) and large.charged.delta == F(1, 10**6)
    kernel = visits.kernel()
    offers = [
        kernel.price(con.request(sql, epsilon=1)).steps[0].mechanism for sql in (ALL_VISITS, MANY)
    ]
    assert isinstance(offers[0], IntegerLaplace) and isinstance(offers[1], IntegerRoundedGaussian)
    assert visits.spent() == {"total": 0}


def test_an_approx_pot_runs_out_of_delta_and_says_what_fits(visits: Clinic) -> None:
    visits.open(**APPROX | {"delta": "2e-6"})
    con = visits.connect()
    for _ in range(2):
        con.sql(MANY, epsilon="0.1", fresh=True)
    with pytest.raises(
        BudgetError, match=r"asked epsilon .*, delta .*; left delta .* ask with pure noise"
    ):
        con.sql(MANY, epsilon="0.1", fresh=True)
    con.sql(ALL_VISITS, epsilon="0.1")


def test_an_rdp_pot_counts_at_its_one_order(clinic: Clinic) -> None:
    clinic.open(rule="rdp", renyi=2, ceiling=4, alpha=16, delta_conversion="1e-6")
    assert charged(clinic.connect().sql(COUNT, rho="0.005")) == F(16, 200)


def test_a_pure_pot_says_why_it_refuses_gaussian_noise(clinic: Clinic) -> None:
    clinic.open()
    con = clinic.connect()
    for ask in (con.preview, con.sql):
        with pytest.raises(
            RefusedError,
            match=r"no finite epsilon holds for Gaussian noise with delta 0\. What fits",
        ):
            ask(COUNT, rho="0.1")  # type: ignore[operator]
    assert clinic.spent() == {"total": 0} and clinic.ledger().history(unreleased=True) == ()


def test_the_asker_chooses_no_delta_and_one_price(clinic: Clinic) -> None:
    clinic.open(**APPROX)
    con = clinic.connect()
    with pytest.raises(ParameterError, match="not the asker's to choose"):
        con.sql(COUNT, epsilon=1, delta="1e-3")
    for price in (
        {},
        {"epsilon": 1, "rho": 1},
        {"rho": 0},
        {"epsilon": -1},
        {"epsilon": float("nan")},
    ):
        with pytest.raises(ParameterError):
            con.sql(COUNT, **price)  # type: ignore[arg-type]
    assert clinic.spent() == {"total": 0}


def test_preview_reads_and_spends_nothing(clinic: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    clinic.open(**GAUSSIAN)
    monkeypatch.setattr("dither.data.measure.Measurer", None)
    preview = clinic.connect().preview(BY_REGION, rho="0.1")
    assert (
        preview.charged_in == "rho"
        and "rho 0.1 asked" in str(preview)
        and preview.questions_left == 10
    )
    assert clinic.spent() == {"total": 0}


def test_no_gaussian_noise_is_offered_inside_a_pure_pot(clinic: Clinic) -> None:
    """The inner pot states a delta, the outer one has none: the offer was refused when it was to be
    paid."""
    sql = "SELECT QUANTILE(age, 0.9) AS q, MEDIAN(age) AS m, AVG(age) AS a FROM patients"
    clinic.open()
    clinic.open(
        "inner",
        inside="total",
        kind="purpose",
        rule="approx",
        delta="1e-5",
        delta_per_question="1e-6",
    )
    for intervals in (True, False):
        clinic.connect("inner").sql(sql, epsilon="0.25", quantile_intervals=intervals)
    spent = clinic.spent()
    assert spent["inner"] == spent["total"] and 0 < spent["total"] <= 0.5
