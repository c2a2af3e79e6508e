"""Leases of a budget: charged first, then steps whose prices are chosen as they come, while their
sum fits (privacy rule P23)."""

from __future__ import annotations

import copy
import os
import pickle
import random
from fractions import Fraction as F
from typing import Any

import pytest

from dither.answer.leased import OpenLease
from dither.errors import BudgetError, ParameterError, RefusedError, UnavailableError
from dither.plan.algebra import Cells, Count, Keys, Linear, Quantiles, Query, Scan, Scores
from dither.plan.operators import Identity, Total, Tree
from dither.plan.utilities import CellCounts, DistanceCandidate, Distances
from dither.privacy.charges.measures import zcdp
from dither.privacy.kernel.budget_lease import BudgetLease
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from tests.datasets.regional_clinic import APPROX, GAUSSIAN, Clinic

CELLS = Cells(Scan("patients"), ("region",), (Count(),))
TOTAL = Linear(CELLS, Total(2))
CHOICE = Scores(CELLS, CellCounts((0, 1)))
FIT = Scores(CELLS, Distances(1, (DistanceCandidate(1, Identity(2), (100, 300)),)))


def make_step(query: Query, family: str, pot: str = "total", **price: Any) -> Request:
    prices = {name: F(str(value)) for name, value in price.items()}
    return Request((Step(query, family, F(1)),), Price(**prices), pot)


@pytest.fixture
def lease(clinic: Clinic) -> BudgetLease:
    clinic.open(**GAUSSIAN)
    return BudgetLease(clinic.kernel(), Price(rho=F(1, 2)), "total")


def test_the_charge_comes_first_and_steps_take_their_own_prices(
    clinic: Clinic, lease: BudgetLease
) -> None:
    assert clinic.spent() == {"total": F(1, 2)} and lease.left == F(1, 2)
    costs = []
    for request in (
        make_step(TOTAL, "linear_gaussian", rho="0.1"),
        make_step(CHOICE, "scores_exponential", rho="0.05"),
        make_step(TOTAL, "linear_rounded_gaussian", rho="0.2"),
        make_step(FIT, "scores_exponential", rho="0.01"),
        make_step(CELLS, "laplace", epsilon="0.1"),
    ):
        before = lease.left
        lease.release(request)
        costs.append(before - lease.left)
    limits = [F(1, 10), F(1, 20), F(1, 5), F(1, 100), F(1, 200)]
    assert all(F("0.99") * cap < cost <= cap for cost, cap in zip(costs, limits, strict=True))
    assert lease.left == F(1, 2) - sum(costs)
    lease.close()
    assert clinic.spent() == {"total": F(1, 2)} and clinic.verify().ok
    (record,) = clinic.ledger().history()
    assert record.loss["type"] == "zcdp" and clinic.ledger().release(record.seq) is not None


def test_no_sequence_of_steps_costs_more_than_the_charge(
    clinic: Clinic, lease: BudgetLease
) -> None:
    """Prices drawn after seeing answers: what was served adds up to at most the charge."""
    draws = random.Random(5)
    served = F(0)
    refused = 0
    price = lease._kernel.price
    for _ in range(60):
        request = make_step(TOTAL, "linear_gaussian", rho=F(draws.randint(1, 60), 1000))
        try:
            values = lease.release(request)
        except RefusedError:
            refused += 1
            continue
        served += zcdp(price(request).loss)[0]
        draws.seed(values[0][0])
    assert refused and F(2, 5) < served <= F(1, 2) and lease.left == F(1, 2) - served


def test_a_step_that_does_not_fit_is_free_and_a_smaller_one_is_served(lease: BudgetLease) -> None:
    with pytest.raises(RefusedError, match="ask for less"):
        lease.release(make_step(TOTAL, "linear_gaussian", rho="0.51"))
    assert lease.left == F(1, 2)
    lease.release(make_step(TOTAL, "linear_gaussian", rho="0.5"))
    with pytest.raises(RefusedError, match="ask for less"):
        lease.release(make_step(TOTAL, "linear_gaussian", rho="0.001"))


def test_a_planted_lease_that_forgets_what_it_spent_is_caught(
    clinic: Clinic, lease: BudgetLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BudgetLease, "_spend", lambda self, priced: None)
    with pytest.raises(AssertionError):
        test_no_sequence_of_steps_costs_more_than_the_charge(clinic, lease)


def test_an_epsilon_lease_serves_pure_steps_alone(clinic: Clinic) -> None:
    clinic.open()
    with BudgetLease(clinic.kernel(), Price(F(1)), "total") as lease:
        assert clinic.spent() == {"total": 1}
        lease.release(make_step(TOTAL, "linear_laplace", epsilon="0.5"))
        lease.release(make_step(CHOICE, "scores_permute_and_flip", epsilon="0.25"))
        assert F(1, 4) <= lease.left < F("0.2501")
        assert lease.price(lease._kernel.price(make_step(CELLS, "laplace", epsilon=1)).loss) <= 1
        with pytest.raises(RefusedError):
            lease.release(make_step(TOTAL, "linear_gaussian", rho="0.001"))
    assert clinic.spent() == {"total": 1}


def test_an_approx_pot_pays_the_conversion_once(clinic: Clinic) -> None:
    """rho 1/50 at delta 1e-6: one conversion, however many steps are served."""
    clinic.open(**(APPROX | {"epsilon": 5, "ceiling": 5}))
    with BudgetLease(clinic.kernel(), Price(rho=F(1, 50)), "total") as lease:
        spent = clinic.spent()["total"]
        for _ in range(4):
            lease.release(make_step(TOTAL, "linear_gaussian", rho="0.004"))
    assert spent == clinic.spent()["total"] and F(1, 2) < spent < F(11, 10)


def test_what_a_pot_cannot_pay_is_refused_whole(clinic: Clinic) -> None:
    clinic.open(**GAUSSIAN)
    with pytest.raises(BudgetError):
        BudgetLease(clinic.kernel(), Price(rho=F(2)), "total")
    assert clinic.spent() == {"total": 0}


def test_a_lease_that_is_refused_leaves_no_connection_to_the_data(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.open(**GAUSSIAN)
    kernel = clinic.kernel()
    connect = kernel.connect
    opened: list[Any] = []
    monkeypatch.setattr(
        kernel, "connect", lambda version: opened.append(connect(version)) or opened[0]
    )
    with pytest.raises(BudgetError):
        BudgetLease(kernel, Price(rho=F(10**6)), "total")
    assert opened[0].engine._scratch is None


def test_a_step_with_a_delta_or_of_another_pot_is_refused(lease: BudgetLease) -> None:
    with pytest.raises(RefusedError):
        lease.release(make_step(Keys(Scan("patients"), ("region",)), "gaussian_keys", rho="0.1"))
    with pytest.raises(RefusedError, match="paid by 'total'"):
        lease.release(make_step(TOTAL, "linear_gaussian", pot="other", rho="0.1"))


def test_a_failure_is_charged_ends_the_lease_and_shows_nothing(
    clinic: Clinic, lease: BudgetLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("row 17 of Jane Doe")

    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "measure", fail)
        with pytest.raises(UnavailableError) as caught:
            lease.release(make_step(TOTAL, "linear_gaussian", rho="0.1"))
    assert caught.value.__context__ is None
    with pytest.raises(RefusedError, match="over"):
        lease.release(make_step(TOTAL, "linear_gaussian", rho="0.1"))
    assert clinic.spent() == {"total": F(1, 2)} and len(clinic.ledger().incidents_open()) == 1


def test_an_interrupt_ends_the_lease_after_its_step_and_stores_what_left(
    clinic: Clinic, lease: BudgetLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = Kernel.measure

    def interrupt(self: Kernel, *arguments: Any) -> Any:
        os.kill(os.getpid(), 2)
        return measure(self, *arguments)

    monkeypatch.setattr(Kernel, "measure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        lease.release(make_step(TOTAL, "linear_gaussian", rho="0.1"))
    with pytest.raises(RefusedError, match="over"):
        lease.release(make_step(TOTAL, "linear_gaussian", rho="0.1"))
    assert len(clinic.ledger().history()) == 1 and clinic.ledger().incidents_open() == ()
    assert clinic.spent() == {"total": F(1, 2)} and clinic.verify().ok


def test_a_lease_of_a_budget_is_neither_copied_nor_pickled(lease: BudgetLease) -> None:
    for make in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="spent twice"):
            make(lease)  # type: ignore[operator]


def test_the_analysts_door_chooses_families_and_explains_for_free(clinic: Clinic) -> None:
    clinic.open(**GAUSSIAN)
    con = clinic.connect()
    with con.lease(rho="0.2") as lease:
        assert isinstance(lease, OpenLease)
        words = lease.explain(Linear(CELLS, Tree(2, 2)), rho="0.1")
        assert words.asks == "Tree of 3 x 2 integers times Count by region"
        assert words.mechanism == "IntegerGaussian" and "L2 1.414" in words.sensitivity
        assert lease.left == F(1, 5)
        noisy = lease.release(Linear(CELLS, Tree(2, 2)), rho="0.1")
        assert len(noisy) == 3 and abs(noisy[0] - 400) < 200
        assert lease.release(CHOICE, rho="0.05") in ((0,), (1,))
        rounded = lease.release(TOTAL, rho="0.01", family="linear_rounded_gaussian")
        assert len(rounded) == 1
        medians = Quantiles(Scan("patients"), (), "age", (F(1, 2),))
        assert len(lease.release(medians, rho="0.01")) == 1
        with pytest.raises(ParameterError, match="no family"):
            lease.release(TOTAL, rho="0.01", family="nothing")
        with pytest.raises(ParameterError, match="no delta"):
            lease.release(Keys(Scan("patients"), ("region",)), rho="0.01")
        with pytest.raises(ParameterError, match="either epsilon= or rho="):
            lease.release(TOTAL)
    assert clinic.spent() == {"total": F(1, 5)}
    with pytest.raises(BudgetError, match="no budget"):
        clinic.connect("nobody").lease(rho=1)
