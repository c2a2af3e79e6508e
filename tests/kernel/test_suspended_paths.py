"""A failure suspends the pot that asked at once, and counts for the dataset whoever asked (rule
incidents-capped)."""

from __future__ import annotations

import json
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from dither import RefusedError, UnavailableError, steward
from dither.data.measure import Measurer
from dither.data.quoting import text as quote_text
from dither.privacy.kernel.lease import Lease
from tests.kernel.interrupted_clinic import COUNT, Clinic, engine_that, make_clinic, open_inside

ROW = "Jane Doe, 47, oncology \x1b[31m\u202e"


def fail() -> None:
    raise RuntimeError(f"Conversion Error: {ROW}")


def ask(site: Clinic, pot: str = "total") -> Any:
    return site.connect(pot).sql(COUNT, epsilon="0.1", fresh=True)


def fail_from(site: Clinic, pot: str) -> None:
    with engine_that(fail), pytest.raises(UnavailableError):
        ask(site, pot)


@pytest.fixture
def site(tmp_path: Path) -> Clinic:
    """board with ann inside it, and press: three failures are allowed in all."""
    made = make_clinic(tmp_path, max_incidents=3)
    open_inside(made, "board", kind="group")
    open_inside(made, "ann", inside="board")
    open_inside(made, "press", kind="group")
    return made


def test_a_failure_suspends_the_pot_that_asked_and_those_inside_it(site: Clinic) -> None:
    fail_from(site, "board")
    for pot in ("board", "ann"):
        with pytest.raises(RefusedError, match="suspended until the data steward clears"):
            ask(site, pot)
    for pot in ("press", "total"):
        ask(site, pot)
    steward.clear_incidents(site.place, "the engine has more memory now")
    ask(site, "ann")
    report = steward.verify_ledger(site.place)
    assert report.ok and report.notes == ()


def test_a_failure_of_the_total_suspends_everyone(site: Clinic) -> None:
    fail_from(site, "total")
    for pot in ("total", "board", "ann", "press"):
        with pytest.raises(RefusedError, match="suspended"):
            ask(site, pot)


def test_failures_of_different_pots_add_up_for_the_dataset(site: Clinic) -> None:
    """Else so many colluding analysts, so many exact bits."""
    open_inside(site, "bob")
    for pot in ("ann", "board", "press"):
        fail_from(site, pot)
    with pytest.raises(RefusedError, match="suspended"):
        ask(site, "bob")
    assert len(site.ledger().incidents_open()) == 3


def test_what_the_suspended_pot_has_under_way_fails_alike_and_others_do_not(site: Clinic) -> None:
    kernel = site.kernel()
    priced = {
        pot: kernel.price(site.connect(pot).request(COUNT, epsilon="0.1"))
        for pot in ("ann", "press")
    }
    under_way = {pot: kernel.reserve(price) for pot, price in priced.items()}
    fail_from(site, "board")
    with pytest.raises(RefusedError, match="suspended"):
        kernel.commit(priced["ann"], under_way["ann"], ((50,),), "2026-03-01T12:00:00+00:00")
    kernel.commit(priced["press"], under_way["press"], ((50,),), "2026-03-01T12:00:00+00:00")
    assert steward.verify_ledger(site.place).ok


def test_a_lease_of_another_pot_goes_on(site: Clinic) -> None:
    kernel = site.kernel()
    leases = {}
    for pot in ("ann", "press"):
        request = site.connect(pot).request(COUNT, epsilon="0.1")
        leases[pot] = (Lease(kernel, kernel.price(request).loss * 3, pot), request)
    fail_from(site, "board")
    lease, request = leases["press"]
    lease.release(request)
    lease.close()
    lease, request = leases["ann"]
    with pytest.raises(RefusedError, match="suspended"):
        lease.release(request)
    with pytest.raises(RefusedError, match="suspended"):
        Lease(kernel, kernel.price(request).loss * 3, "ann")
    lease.close()
    assert len(site.ledger().incidents()) == 1 and steward.verify_ledger(site.place).ok


def test_a_lease_whose_outputs_cannot_be_stored_is_an_incident(
    site: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = site.kernel()
    request = site.connect("ann").request(COUNT, epsilon="0.1")
    lease = Lease(kernel, kernel.price(request).loss * 3, "ann")
    lease.release(request)
    with monkeypatch.context() as patch:
        patch.setattr(type(kernel.ledger), "commit", lambda *_, **__: fail())
        with pytest.raises(UnavailableError) as caught:
            lease.close()
    assert caught.value.__context__ is None
    assert len(site.ledger().incidents_open()) == 1
    lease.close()


# -- why it failed
# -------------------------------------------------------------------------------------------------


def read_log(site: Clinic) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in site.place.log.read_text().splitlines()]
    return [line for line in lines if "incident" in line]


def test_the_stewards_log_tells_why_and_nobody_else_does(
    site: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = site.connect("ann")

    def refuse(self: Measurer, *_: Any) -> str:
        return f"SELECT CAST({quote_text(ROW)} AS INTEGER)"

    with monkeypatch.context() as patch:
        patch.setattr(Measurer, "_run", refuse)  # the engine itself fails
        with pytest.raises(UnavailableError) as caught:
            con.sql(COUNT, epsilon="0.1")
    (line,) = read_log(site)
    assert (line["incident"], line["pot"]) == ("failed_after_reserve", "ann")
    assert line["reserve"] == site.ledger().incidents_open()[0].reserve and "time" in line
    assert [cause["type"] for cause in line["causes"]] == ["MeasureError", "ConversionException"]
    assert ROW in line["causes"][1]["message"]
    raw = site.place.log.read_bytes()
    assert (
        b"\x1b" not in raw and raw.isascii()
    )  # what a person wrote into a cell commands no terminal
    assert stat.S_IMODE(site.place.log.stat().st_mode) == 0o600
    site.ledger().close()
    for file in site.place.root.glob("ledger*"):
        assert b"Jane" not in file.read_bytes()
    assert str(caught.value) == UnavailableError.TEXT and caught.value.__context__ is None


def test_a_log_that_cannot_be_written_changes_nothing(site: Clinic) -> None:
    site.place.log.unlink(missing_ok=True)
    site.place.log.mkdir()
    with engine_that(fail), pytest.raises(UnavailableError) as caught:
        ask(site, "ann")
    assert caught.value.__context__ is None and len(site.ledger().incidents_open()) == 1


def test_a_killed_process_is_in_the_log_when_it_is_counted(site: Clinic) -> None:
    request = site.connect("ann").request(COUNT, epsilon="0.1")
    child = os.fork()
    if child == 0:
        try:
            kernel = site.kernel()
            kernel.reserve(kernel.price(request))
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    ask(site, "press")
    with pytest.raises(RefusedError, match="suspended"):
        ask(site, "ann")
    (line,) = read_log(site)
    assert (line["incident"], line["pot"], line["causes"]) == ("abandoned", "ann", [])
    assert line["reserve"] == site.ledger().incidents_open()[0].reserve


def test_what_was_held_back_counts_towards_no_limit(site: Clinic) -> None:
    """One real failure of an analyst with three questions under way is one incident, not three."""
    kernel = site.kernel()
    priced = kernel.price(site.connect("ann").request(COUNT, epsilon="0.1"))
    under_way = [kernel.reserve(priced) for _ in range(3)]
    fail_from(site, "ann")
    for reservation in under_way:
        try:
            kernel.commit(priced, reservation, ((50,),), "2026-03-01T12:00:00+00:00")
        except RefusedError as error:
            kernel.record_incident(reservation, error)
    assert len(site.ledger().incidents_open()) == 1 == len(site.ledger().incidents())
    ask(site, "press")
    assert steward.verify_ledger(site.place).ok
