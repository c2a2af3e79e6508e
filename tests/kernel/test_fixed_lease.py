"""Leases of fixed steps at the analyst's door: one charge for all steps of a training, by what the
pot's rule knows of them together (rules P35 and P44 of the review)."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction as F
from typing import Any

import pytest

from dither import accounting
from dither.answer.leased import OpenFixedLease
from dither.errors import BudgetError, ParameterError, RefusedError, UnavailableError
from dither.plan.algebra import Cells, Count, Scan, UnitVectors
from dither.plan.encodings import Intercept, OneHot, Scaled
from dither.plan.vector_functions import THETA_SCALE, LogisticGradient
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.losses import PoissonSampled, RoundedGaussian
from dither.session import Connection
from tests.datasets.regional_clinic import GAUSSIAN, Clinic

FEATURES = (Intercept(), Scaled("age"))
SIGMA = F(11, 10)
"""Noise beside the clip: rho = 1 / (2 sigma^2)."""
RHO = 1 / (2 * SIGMA**2)
RATE = F(655, 65536)


def make_query(theta: tuple[float, ...] = (0, 0), rate: F | None = None) -> UnitVectors:
    function = LogisticGradient("region", 1, tuple(round(weight * THETA_SCALE) for weight in theta))
    return UnitVectors(Scan("patients"), FEATURES, function, F(1), F(1, 1024), rate)


def open_approx(clinic: Clinic) -> Connection:
    clinic.open(rule="approx", delta="1e-4", delta_per_question="1e-5", epsilon=3, ceiling=3)
    return clinic.connect()


def test_a_thousand_sampled_steps_cost_what_sampling_leaves_of_them(clinic: Clinic) -> None:
    """Rate 0.01, sigma 1.1, 1,000 steps, delta 1e-5: exactly 1.515 (the accountant); 1.726 by Renyi
    bounds; rho 413 without amplification."""
    con = open_approx(clinic)
    with con.fixed_lease(make_query(rate=RATE), rho=RHO, steps=1000) as lease:
        assert F("1.514") < lease.charged < F("1.517")
        (loss,) = {lease._lease._expected}
        assert isinstance(loss, PoissonSampled) and isinstance(loss.loss, RoundedGaussian)
        exact = accounting.epsilon(loss * 1000, delta=1e-5)
        assert exact.upper <= lease.charged <= F("1.001") * F(exact.upper)
        assert len(lease.release(make_query((0.1, -2), RATE))) == 2
    assert clinic.verify().ok


def test_a_zcdp_budget_refuses_sampled_training_and_names_what_fits(clinic: Clinic) -> None:
    clinic.open(**(GAUSSIAN | {"rho": 1000, "ceiling": 1000}))
    with pytest.raises(RefusedError, match="rule approx or rdp"):
        clinic.connect().fixed_lease(make_query(rate=RATE), rho=RHO, steps=10)
    assert clinic.spent() == {"total": 0}


def test_a_lease_of_a_budget_refuses_a_sample_and_names_what_fits(clinic: Clinic) -> None:
    clinic.open(**GAUSSIAN)
    with clinic.connect().lease(rho="0.1") as lease:
        with pytest.raises(RefusedError, match="lease of fixed steps"):
            lease.release(make_query(rate=RATE), rho="0.01")
        assert lease.left == F(1, 10)
        assert len(lease.release(make_query(), rho="0.01")) == 2


def test_steps_are_charged_first_and_end_with_the_plan(clinic: Clinic) -> None:
    """Gradient descent on all units: theta moves with every answer, the loss stays the planned
    one."""
    clinic.open(**(GAUSSIAN | {"rho": 10**6, "ceiling": 10**6}))
    con = clinic.connect()
    theta = [0.0, 0.0]
    with con.fixed_lease(make_query(), rho=1000, steps=20) as lease:
        assert isinstance(lease, OpenFixedLease)
        assert 19_990 < lease.charged <= 20_000 and clinic.spent()["total"] == lease.charged
        words = lease.explain(make_query())
        assert words.asks.startswith("LogisticGradient") and "L2 1,024" in words.sensitivity
        for _ in range(20):
            gradient = lease.release(make_query(tuple(theta)))
            theta = [t - g / 1024 / 100 for t, g in zip(theta, gradient, strict=True)]
        with pytest.raises(RefusedError, match="the plan has None next"):
            lease.release(make_query())
    # a quarter is of the south; noise of 0.02 in each sum of 400 gradients cannot hide that
    assert theta[0] < -0.3
    assert len(clinic.ledger().history()) == 1 and clinic.verify().ok


@pytest.mark.parametrize(
    "other",
    [
        replace(make_query(), clip=F(2)),
        replace(make_query(), resolution=F(1, 512)),
        make_query(rate=F(1, 2)),
    ],
    ids=["another clip", "another resolution", "a sample"],
)
def test_a_step_of_another_loss_is_refused_and_costs_nothing(
    clinic: Clinic, other: UnitVectors
) -> None:
    clinic.open(**GAUSSIAN)
    with clinic.connect().fixed_lease(make_query(), rho="0.01", steps=1) as lease:
        with pytest.raises(RefusedError, match="the plan has RoundedGaussian"):
            lease.release(other)
        features = (Intercept(), OneHot("region"))
        function = LogisticGradient("region", 1, (0, 0, 0))
        longer = replace(make_query(), features=features, function=function)
        assert len(lease.release(longer)) == 3  # the same norm: other features are fine


def test_an_interrupt_ends_the_lease_and_stores_what_left(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.open(**GAUSSIAN)
    lease = clinic.connect().fixed_lease(make_query(), rho="0.01", steps=5)
    measure = Kernel.measure

    def interrupt(self: Kernel, *arguments: Any) -> Any:
        os.kill(os.getpid(), 2)
        return measure(self, *arguments)

    monkeypatch.setattr(Kernel, "measure", interrupt)
    with pytest.raises(KeyboardInterrupt):
        lease.release(make_query())
    with pytest.raises(RefusedError, match="over"):
        lease.release(make_query())
    assert len(clinic.ledger().history()) == 1 and clinic.ledger().incidents_open() == ()
    assert clinic.spent()["total"] == lease.charged


def test_a_failure_is_charged_and_shows_nothing(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic.open(**GAUSSIAN)
    lease = clinic.connect().fixed_lease(make_query(), rho="0.01", steps=5)

    def fail(*_: object) -> None:
        raise RuntimeError("row 17 of Jane Doe")

    monkeypatch.setattr(Kernel, "measure", fail)
    with pytest.raises(UnavailableError) as caught:
        lease.release(make_query())
    assert caught.value.__context__ is None and clinic.spent()["total"] == lease.charged


def test_every_step_of_a_sample_has_a_key_of_its_own(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[bytes | None] = []
    measure = Kernel.measure

    def note(self: Kernel, priced: Any, measurer: Any, key: bytes | None = None) -> Any:
        keys.append(key)
        return measure(self, priced, measurer, key)

    monkeypatch.setattr(Kernel, "measure", note)
    with open_approx(clinic).fixed_lease(make_query(rate=F(1, 4)), rho="0.01", steps=4) as lease:
        for _ in range(4):
            lease.release(make_query(rate=F(1, 4)))
    assert len(set(keys)) == 4 and all(key is not None and len(key) == 32 for key in keys)


def test_what_a_pot_cannot_pay_and_what_is_no_number_of_steps_is_refused(clinic: Clinic) -> None:
    clinic.open(**GAUSSIAN)
    con = clinic.connect()
    with pytest.raises(BudgetError):
        con.fixed_lease(make_query(), rho="0.5", steps=3)
    for steps in (0, -1, 1.5, True, 10**9):
        with pytest.raises(ParameterError, match="number from 1"):
            con.fixed_lease(make_query(), rho="0.01", steps=steps)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="either epsilon= or rho="):
        con.fixed_lease(make_query(), steps=3)
    with pytest.raises(BudgetError, match="no budget"):
        clinic.connect("nobody").fixed_lease(make_query(), rho=1, steps=1)
    assert clinic.spent() == {"total": 0}


def test_counts_can_be_leased_in_fixed_steps_too(clinic: Clinic) -> None:
    clinic.open(**GAUSSIAN)
    cells = Cells(Scan("patients"), ("region",), (Count(),))
    with clinic.connect().fixed_lease(cells, rho="0.1", steps=2) as lease:
        assert len(lease.release(cells)) == 2 and lease.charged <= F(1, 5)
