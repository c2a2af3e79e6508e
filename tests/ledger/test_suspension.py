"""Which pots an open incident suspends, in the ledger and when it is verified (rule
incidents-capped)."""

from __future__ import annotations

from typing import Any

import pytest

from dither.errors import RefusedError
from dither.privacy.ledger.head import Anchor
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.losses import Pure
from tests.ledger.ledger_place import HASH, TERMS, Place, release, reserve, rewrite

WEEKS = ("2026-01-05", "2026-01-12")
FAILED = "failed_after_reserve"


def open_analysts(ledger: StewardLedger) -> None:
    for name in ("ann", "bob"):
        ledger.open_pot(name, 1, 1, inside="total", kind="analyst", **TERMS)


def test_a_window_that_paid_is_not_suspended_the_pot_that_asked_is(both: Place) -> None:
    """Windows pay for all who ask: an incident of one analyst must not stop the others."""
    ledger = both.create(cap=3, ceiling=4)
    ledger.open_windows("weeks", 1, 2, "*.day every week +0s", WEEKS, **TERMS, inside="total")
    open_analysts(ledger)
    loss = Pure("0.1", unit="person")
    weeks = tuple(f"weeks-{week}" for week in WEEKS)
    ledger.record_incident(ledger.reserve(("ann", *weeks), loss, HASH, {}), FAILED)
    with pytest.raises(RefusedError, match="suspended"):
        ledger.reserve(("ann", *weeks), loss, HASH, {})
    ledger.reserve(("bob", *weeks), loss, HASH, {})
    assert ledger.is_suspended("ann") and not ledger.is_suspended("bob") and both.verify().ok


def test_parts_that_asked_together_are_suspended_together(both: Place) -> None:
    ledger = both.create(cap=3, ceiling=4)
    ledger.record_register(1, HASH, {"lineage": "clinic"})
    terms: dict[str, Any] = TERMS | {"reissue": 0}
    ledger.open_pot("wards", 2, 2, inside="total", kind="partition", column="t.ward", **terms)
    for ward in ("north", "south", "west"):
        ledger.open_pot(ward, 2, 2, inside="wards", kind="part", value=ward, **terms)
    failed = ledger.reserve(("north", "south"), Pure("0.1", unit="person"), HASH, {})
    ledger.record_incident(failed, FAILED)
    assert [ledger.is_suspended(ward) for ward in ("north", "south", "west")] == [True, True, False]
    for ward in ("north", "south"):
        with pytest.raises(RefusedError, match="suspended"):
            reserve(ledger, pot=ward)
    reserve(ledger, pot="west")
    assert both.verify().ok


def test_a_pot_that_went_on_under_an_earlier_dither_verifies_with_a_note(
    both: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, one incident of two let the asking pot go on: such a history is noted, not called
    broken."""
    ledger = both.create(max_incidents=2)
    ledger.record_incident(reserve(ledger), FAILED)
    with monkeypatch.context() as patch:
        patch.setattr("dither.privacy.ledger.suspension.is_path_suspended", lambda *_: False)
        release(ledger)
    ledger.close()
    assert "had suspended its budget" in both.verify().problem  # written today it is broken
    rewrite(both, 0)  # entries of the first version
    ((seq, hashed),) = both.rows("SELECT seq, hash FROM entry ORDER BY seq DESC LIMIT 1")
    both.head.write_text(Anchor(seq, hashed).text())
    report = both.verify()
    assert report.ok and [note.split(" was ")[0] for note in report.notes] == ["entry 4", "entry 5"]
    assert "the first version of dither allowed that" in str(report)
    ledger = both.open()
    ledger.clear_incidents("the engine has more memory now")
    release(ledger)
    ledger.close()
    assert len(both.verify().notes) == 2


def test_a_history_beyond_the_datasets_limit_is_broken(
    both: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No dither ever answered past `max_incidents`."""
    ledger = both.create(max_incidents=1)
    open_analysts(ledger)
    ledger.record_incident(reserve(ledger, pot="ann"), FAILED)
    with monkeypatch.context() as patch:
        patch.setattr("dither.privacy.ledger.suspension.is_full", lambda *_: False)
        reserve(ledger, pot="bob")
    ledger.close()
    report = both.verify()
    assert report.first_bad == 6 and "suspended the dataset" in report.problem
