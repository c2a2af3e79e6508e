"""Leases: the whole charge first, each step the planned one, dead with its process (rule
lease-serves-its-plan)."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dither import steward
from dither.data.measure import Measurer
from dither.errors import BudgetError, RefusedError, UnavailableError
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.lease import Lease, events
from dither.privacy.kernel.request import Request
from dither.privacy.ledger.head import Head, default_head_path
from dither.privacy.losses import DiscreteGaussian, GaussianSum, Loss, PoissonSampled, Pure
from tests.datasets.regional_clinic import BY_REGION, COUNT, GAUSSIAN, Clinic

F = Fraction
SIGMA_TEN = DiscreteGaussian(10, 1, unit="person")


@pytest.fixture
def rho(clinic: Clinic) -> tuple[Clinic, Kernel, Request]:
    """A zCDP pot, and a request whose loss is sigma 10."""
    clinic.open(**GAUSSIAN)
    kernel, request = clinic.kernel(), clinic.connect().request(COUNT, rho="0.005")
    assert kernel.price(request).loss == SIGMA_TEN
    return clinic, kernel, request


def test_a_plan_is_charged_first_and_served_without_a_sync(
    rho: tuple[Clinic, Kernel, Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic, kernel, request = rho
    other = clinic.connect().request(
        BY_REGION, rho="0.005"
    )  # another query, the same loss: adaptive queries are fine
    with Lease(kernel, SIGMA_TEN * 20, "total") as lease:
        assert clinic.spent() == {"total": F(20, 200)} and clinic.ledger().history() == ()
        writes: list[object] = []
        with monkeypatch.context() as patch:
            patch.setattr(kernel.ledger, "_appending", lambda **_: writes.append(1))
            answers = [lease.release(request if i % 2 else other) for i in range(20)]
        assert writes == [] and len(set(answers)) > 2
        with pytest.raises(RefusedError, match="the plan has None next"):
            lease.release(request)
    assert clinic.spent() == {"total": F(20, 200)} and clinic.verify().ok
    (record,) = clinic.ledger().history()
    assert record.public["lease"] is True and clinic.ledger().release(record.seq) is not None
    with pytest.raises(RefusedError, match="over"):
        lease.release(request)


def test_what_a_step_measures_was_prepared_before(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts and sums share a statement: the one that runs must be the one that was compiled, so
    that a query that cannot run is refused, and is no incident."""
    clinic.open(**GAUSSIAN)
    kernel = clinic.kernel()
    request = clinic.connect().request("SELECT AVG(age) AS mean FROM patients", rho="0.01")
    assert len(request.steps) == 2 and request.steps[0].measured is request.steps[1].measured
    calls: list[tuple[str, str]] = []
    prepare = Measurer.prepare
    measure = Measurer.measure

    def note_prepare(self: Measurer, query: Any) -> None:
        calls.append(("prepare", query.hash))
        prepare(self, query)

    def note_measure(self: Measurer, query: Any, key: bytes | None = None) -> Any:
        calls.append(("measure", query.hash))
        return measure(self, query, key)

    monkeypatch.setattr(Measurer, "prepare", note_prepare)
    monkeypatch.setattr(Measurer, "measure", note_measure)
    with Lease(kernel, kernel.price(request).loss * 1, "total") as lease:
        lease.release(request)
    measured = request.steps[0].measured.hash
    assert calls == [("prepare", measured), ("measure", measured)]


def test_only_the_planned_loss_leaves(rho: tuple[Clinic, Kernel, Request]) -> None:
    clinic, kernel, request = rho
    larger = clinic.connect().request(COUNT, rho="0.0051")
    with Lease(kernel, SIGMA_TEN * 2, "total") as lease:
        for wrong in (larger, clinic.connect().request(COUNT, epsilon=1)):
            with pytest.raises(RefusedError, match="the plan has DiscreteGaussian"):
                lease.release(wrong)
        with pytest.raises(RefusedError, match="paid by 'total'"):
            lease.release(Request(request.steps, request.price, "other"))
        lease.release(request)  # a refused step can be asked again
        lease.release(request)
    assert len(clinic.ledger().history()) == 1


def test_plans_in_order() -> None:
    one, two = Pure(1), Pure(2)
    assert list(events(one * 2 + two)) == [one, one, two]
    assert list(events((one + two) * 2)) == [one + two, one + two]
    assert list(events(one)) == [one]


def test_a_plan_that_does_not_fit_is_refused_whole(rho: tuple[Clinic, Kernel, Request]) -> None:
    clinic, kernel, _ = rho
    for planned in (SIGMA_TEN * 201, SIGMA_TEN * 10**9):
        with pytest.raises(BudgetError):
            Lease(kernel, planned, "total")
    assert clinic.spent() == {"total": 0}


def test_a_lease_is_not_inherited_copied_or_pickled(rho: tuple[Clinic, Kernel, Request]) -> None:
    clinic, kernel, request = rho
    with Lease(kernel, SIGMA_TEN * 2, "total") as lease:
        for make in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="spent twice"):
                make(lease)  # type: ignore[operator]
        child = os.fork()
        if not child:
            try:
                lease.release(request)
                os._exit(1)
            except RefusedError:
                lease.close()
                os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        lease.release(request)
    assert clinic.verify().ok and len(clinic.ledger().history()) == 1


def test_a_killed_process_keeps_the_charge_and_the_head_knows(
    rho: tuple[Clinic, Kernel, Request],
) -> None:
    """Answers of a lease leave before its commit: an older copy of the ledger must be noticed even
    so."""
    clinic, kernel, request = rho
    kernel.ledger.close()
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        lease = Lease(clinic.kernel(), SIGMA_TEN * 10, "total")
        os.write(writer, str(lease.release(request)[0][0]).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert os.read(reader, 100)  # an answer left
    anchor = Head(default_head_path(clinic.place.installation_id()), "elsewhere").read()
    ledger = clinic.ledger()
    (reserve,) = ledger.history(unreleased=True)
    assert anchor is not None and anchor.seq >= reserve.seq
    assert clinic.spent() == {"total": F(10, 200)} and clinic.verify().ok and ledger.history() == ()


def test_a_failing_step_ends_the_lease(
    rho: tuple[Clinic, Kernel, Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    clinic, kernel, request = rho
    lease = Lease(kernel, SIGMA_TEN * 5, "total")
    lease.release(request)

    def fail(*_: object) -> None:
        raise RuntimeError("row 17 of Jane Doe")

    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "measure", fail)
        with pytest.raises(UnavailableError) as caught:
            lease.release(request)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    with pytest.raises(RefusedError):
        lease.release(request)
    lease.close()
    assert len(clinic.ledger().incidents_open()) == 1 and clinic.ledger().history() == ()
    assert clinic.spent() == {"total": F(5, 200)} and clinic.verify().ok


def test_a_suspended_dataset_and_a_new_version_end_leases(
    rho: tuple[Clinic, Kernel, Request],
) -> None:
    clinic, kernel, request = rho
    lease = Lease(kernel, SIGMA_TEN * 5, "total")
    other = clinic.kernel()
    other.record_incident(other.reserve(other.price(request)))
    with pytest.raises(RefusedError, match="suspended"):
        lease.release(request)
    steward.clear_incidents(clinic.place, "the engine has more memory now")
    lease.release(request)
    steward.register(clinic.file)
    lease.release(request)  # still the version it was opened for
    kernel.view("total")  # the same kernel has seen version 2
    with pytest.raises(RefusedError, match="another version"):
        lease.release(request)


def test_threads_never_share_a_step(rho: tuple[Clinic, Kernel, Request]) -> None:
    _, kernel, request = rho
    answers: list[object] = []
    refused: list[RefusedError] = []
    lease = Lease(kernel, SIGMA_TEN * 10, "total")

    def ask() -> None:
        for _ in range(5):
            try:
                answers.append(lease.release(request))
            except RefusedError as error:
                refused.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (len(answers), len(refused)) == (10, 10)
    lease.close()


def test_a_lease_needs_a_pot_that_can_charge_its_plan(clinic: Clinic) -> None:
    clinic.open()
    planned: Loss = SIGMA_TEN * 3
    with pytest.raises(RefusedError, match="a pure budget cannot pay"):
        Lease(clinic.kernel(), planned, "total")
    assert clinic.spent() == {"total": 0}


# -- training: samples at one Renyi order
# ---------------------------------------------------------------------------

STEP = PoissonSampled("0.01", GaussianSum("1.1", 1, unit="person"))
RENYI: dict[str, Any] = {
    "rule": "rdp",
    "alpha": 8,
    "delta_conversion": "1e-6",
    "renyi": 5,
    "ceiling": 6,
}


def trained(monkeypatch: pytest.MonkeyPatch, loss: Loss) -> None:
    """A stand-in for the training query: the kernel derives `loss` for every request, and measures
    one clipped sum."""
    true = Kernel.price
    monkeypatch.setattr(
        Kernel, "price", lambda self, request: replace(true(self, request), loss=loss)
    )
    monkeypatch.setattr(Measurer, "measure", lambda self, *_: np.array([[7]]))


def test_a_planned_training_run_is_charged_at_the_pots_order_and_each_step_checked(
    clinic: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand steps of DP-SGD: one charge before the first, adaptive queries, no step beyond the
    plan."""
    dp_accounting = pytest.importorskip("dp_accounting")
    clinic.open(**RENYI)
    kernel, request = clinic.kernel(), clinic.connect().request(COUNT, rho="0.005")
    peer = dp_accounting.rdp.RdpAccountant([8.0])
    peer.compose(
        dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.1)), 1000
    )
    expected = float(peer._rdp[0])
    with pytest.raises(BudgetError):  # a schedule that does not fit is refused whole, for free
        Lease(kernel, STEP * 10**6, "total")
    trained(monkeypatch, STEP)
    with Lease(kernel, STEP * 1000, "total") as lease:
        charged = float(clinic.spent()["total"])
        assert expected * (1 - 1e-12) <= charged <= expected * (1 + 1e-6)  # the peer is a float
        for wrong in (
            PoissonSampled("0.02", GaussianSum("1.1", 1, unit="person")),
            PoissonSampled("0.01", GaussianSum(1, 1, unit="person")),
            PoissonSampled("0.01", GaussianSum("1.1", 2, unit="person")),
            GaussianSum("1.1", 1, unit="person"),
            STEP + STEP,
        ):
            with monkeypatch.context() as patch:
                trained(patch, wrong)
                with pytest.raises(RefusedError, match="the plan has PoissonSampled"):
                    lease.release(request)
        answers = {lease.release(request) for _ in range(1000)}
        with pytest.raises(RefusedError, match="the plan has None next"):
            lease.release(request)
    assert len(answers) > 10 and float(clinic.spent()["total"]) == charged and clinic.verify().ok
    (record,) = clinic.ledger().history()
    assert record.loss["type"] == "repeated" and record.loss["count"] == 1000


def test_other_pots_refuse_samples_and_say_what_would_fit(clinic: Clinic) -> None:
    """zCDP has no amplification: 1,000 steps would cost rho 413 in place of epsilon 1.515 at 1e-5
    (privacy rule P35), so the lease is refused, also where the pot lies inside of such a one."""
    clinic.open(**(GAUSSIAN | {"rho": 500, "ceiling": 500}))
    clinic.open("pure", inside="total", kind="purpose", epsilon=5, ceiling=5)
    for pot in ("total", "pure"):
        with pytest.raises(RefusedError, match="budget opened with rule approx or rdp"):
            Lease(clinic.kernel(), STEP * 1000, pot)
    assert clinic.spent() == {"total": 0, "pure": 0}


def test_a_pure_pot_refuses_samples_of_gaussian_noise(clinic: Clinic) -> None:
    clinic.open()
    with pytest.raises(RefusedError, match="cannot pay for .*What fits"):
        Lease(clinic.kernel(), STEP * 1000, "total")
    assert clinic.spent() == {"total": 0}


def test_samples_of_pure_losses_are_paid_in_a_zcdp_pot(clinic: Clinic) -> None:
    """Their amplified epsilon is a price of its own."""
    clinic.open(**GAUSSIAN)
    sampled = PoissonSampled("0.01", Pure(1, unit="person"))
    Lease(clinic.kernel(), sampled * 10, "total").close()
    assert 0 < clinic.spent()["total"] < F(1, 100)
