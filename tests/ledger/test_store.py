"""The kernel's steps: each reserve is committed at most once, and what is stored is what was
committed."""

from __future__ import annotations

import stat
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dither.errors import ParameterError, RefusedError
from dither.privacy.ledger import chain, rows, tables
from dither.privacy.ledger.database import Transaction
from dither.privacy.ledger.head import Anchor
from dither.privacy.ledger.repeats import read_repeat
from dither.privacy.ledger.steward_ledger import StewardLedger
from tests.ledger.ledger_place import HASH, TIME, Place, release, reserve


def bodies(ledger: StewardLedger, kind: str) -> list[dict[str, object]]:
    with ledger._database.transaction(write=False) as transaction:
        return [body for _, body in rows.bodies(transaction, kind)]


def test_a_commit_stores_the_release_with_its_entry(both: Place) -> None:
    ledger = both.create()
    reservation = reserve(ledger, "0.1")
    assert (reservation.charge, reservation.spent_after, reservation.cap) == (
        Fraction(1, 10),
        Fraction(1, 10),
        1,
    )
    assert ledger.release(reservation.seq) is None
    committed = ledger.commit(reservation, b"arrow", {"n": 42}, released_at=TIME)
    assert committed.reserve == reservation.seq == committed.seq - 1
    stored = both.open().release(reservation.seq)
    assert stored is not None and (stored.arrow_bytes, stored.meta, len(stored.nonce)) == (
        b"arrow",
        {"n": 42},
        32,
    )
    assert both.verify().ok


def test_a_reservation_is_committed_once(both: Place) -> None:
    ledger = both.create()
    done = release(ledger)
    with pytest.raises(RefusedError, match="committed already"):
        ledger.commit(done, b"other", {}, released_at=TIME)
    pending = reserve(ledger)
    for forged in (replace(pending, seq=99), replace(pending, hash=HASH), replace(pending, seq=1)):
        with pytest.raises(RefusedError, match="not this reserve"):
            ledger.commit(forged, b"other", {}, released_at=TIME)
    ledger.commit(pending, b"other", {}, released_at=TIME)
    assert both.verify().releases == 2


def test_a_reservation_of_another_ledger_is_unknown(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "other").create(cap="0.5")
    with pytest.raises(RefusedError, match="not this reserve"):
        place.create().commit(reserve(other), b"", {}, released_at=TIME)


def test_what_is_stored_must_be_bytes_and_a_time(both: Place) -> None:
    reservation = reserve(ledger := both.create())
    with pytest.raises(ParameterError, match="bytes"):
        ledger.commit(reservation, "text", {}, released_at=TIME)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="released_at"):
        ledger.commit(reservation, b"", {}, released_at="yesterday")
    with pytest.raises(ParameterError, match="request_hash"):
        ledger.reserve("total", reservation, "no hash", {})  # type: ignore[arg-type]


def test_a_low_entropy_release_cannot_be_found_by_trying(both: Place) -> None:
    # rule no-fingerprints: sha256 of a count is its value
    ledger = both.create()
    for _ in range(3):
        release(ledger, content=b"42")
    promised = [body["commitment"] for body in bodies(ledger, "commit")]
    assert len(set(promised)) == 3
    meta = chain.canonical_text({"n": 42}, "meta")
    for nonce in (b"", b"\0" * 32):
        guess = chain.hashlib.sha256(
            nonce + (2).to_bytes(8, "big") + b"42" + meta.encode()
        ).hexdigest()
        assert guess not in promised
    nonces = {stored.nonce for seq in (2, 4, 6) if (stored := ledger.release(seq))}
    assert len(nonces) == 3
    everything = " ".join(str(body) for kind in tables.BODIES for body in bodies(ledger, kind))
    assert not any(nonce.hex() in everything for nonce in nonces)


def test_a_commitment_binds_to_where_release_ends_and_meta_begins() -> None:
    nonce = b"\1" * 32
    assert chain.commitment(nonce, b'a{"', "}") != chain.commitment(nonce, b"a", '{"}')
    with pytest.raises(ParameterError):
        chain.commitment(b"short", b"", "{}")


def test_entries_hold_no_time_but_that_of_the_release(both: Place) -> None:
    ledger = both.create()
    ledger.record_register(1, HASH, {"max_rows": 200000})
    release(ledger)
    ledger.record_incident(reserve(ledger), "engine_failed")
    keys = {kind: set().union(*bodies(ledger, kind)) for kind in tables.BODIES}
    assert keys["reserve"] == {
        "pots",
        "charges",
        "loss",
        "request_hash",
        "public",
        "reissue",
        "lease",
        "totals",
    }
    assert keys["commit"] == {"reserve", "commitment", "released_at", "totals"}
    assert keys["incident"] == {"reserve", "code", "totals"}
    assert keys["register"] == {"version", "catalog_hash", "public", "totals"}


def test_history_shows_parameters_of_what_was_released(both: Place) -> None:
    ledger = both.create()
    first, pending = release(ledger), reserve(ledger, "0.2")
    (record,) = ledger.history()
    assert (record.seq, record.pot, record.charge, record.released_at) == (
        first.seq,
        "total",
        Fraction(1, 10),
        TIME,
    )
    assert record.loss["type"] == "pure" and record.public == {"plan": HASH}
    assert [record.seq for record in ledger.history(unreleased=True)] == [first.seq, pending.seq]
    assert "42" not in str(ledger.history())


def test_incidents_count_until_the_steward_clears_them(both: Place) -> None:
    ledger = both.create()
    failed = reserve(ledger)
    ledger.record_incident(failed, "engine_failed")
    assert [(item.reserve, item.code) for item in both.open().incidents_open()] == [
        (failed.seq, "engine_failed")
    ]
    with pytest.raises(RefusedError, match="ended in an incident"):
        ledger.commit(failed, b"", {}, released_at=TIME)
    with pytest.raises(RefusedError, match="already"):
        ledger.record_incident(failed, "engine_failed")
    with pytest.raises(RefusedError, match="not this reserve"):
        ledger.record_incident(replace(failed, seq=1), "engine_failed")
    with pytest.raises(ParameterError, match="code"):
        ledger.record_incident(failed, "Conversion Error: 'Jane Doe' is not a number")
    with pytest.raises(ParameterError, match="sentence"):
        ledger.clear_incidents("fixed")
    ledger.clear_incidents("the engine has more memory now")
    assert ledger.incidents_open() == ()
    with pytest.raises(ParameterError, match="no incident"):
        ledger.clear_incidents("the engine has more memory now")
    late = release(ledger)
    ledger.record_incident(late, "not_sent")
    assert len(ledger.incidents_open()) == 1
    assert both.verify().ok
    assert ledger.pot("total").spent == Fraction(2, 10)


def test_versions_are_counted(both: Place) -> None:
    ledger = both.create()
    assert ledger.registered() is None
    ledger.record_register(1, HASH)
    for wrong in (1, 3, 0, True):
        with pytest.raises(ParameterError, match="next version is 2"):
            ledger.record_register(wrong, HASH)
    ledger.record_register(2, "cd" * 32, {"tables": ["visits"]})
    newest = both.open().registered()
    assert newest is not None and (newest.version, newest.catalog_hash) == (2, "cd" * 32)
    assert newest.public == {"tables": ["visits"]}
    assert both.verify().ok


def test_files_are_for_the_owner_alone(place: Place) -> None:
    ledger = place.create()
    release(ledger)
    for file in (place.path, place.path.with_name("ledger.sqlite-wal"), place.head):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.path.parent.stat().st_mode) == 0o700
    assert sorted(file.name for file in place.head.parent.iterdir()) == ["one", "one.lock"]


def test_every_transaction_is_durable(place: Place) -> None:
    ledger = place.create()
    with ledger._database.transaction(write=False) as transaction:
        assert transaction.scalar("PRAGMA journal_mode") == "wal"
        assert transaction.scalar("PRAGMA synchronous") == 2


def test_a_clock_that_runs_backwards_changes_no_order(both: Place) -> None:
    """Entries are ordered by their numbers; times are what the caller says, and nothing is decided
    by them."""
    ledger = both.create()
    for at in (
        "2026-03-01T12:00:00+00:00",
        "2025-03-01T12:00:00+00:00",
        "1970-01-01T00:00:00+00:00",
    ):
        ledger.commit(reserve(ledger), b"42", {}, released_at=at)
    records = ledger.history()
    assert [record.seq for record in records] == [2, 4, 6] and both.verify().ok
    assert [str(record.released_at)[:4] for record in records] == ["2026", "2025", "1970"]
    found = ledger.find(HASH, "total")
    assert found is not None and found.seq == 6


def test_a_repeat_is_read_in_one_transaction_as_one_by_one(both: Place, monkeypatch) -> None:
    ledger = both.create()
    release(ledger)
    reserve(ledger, request="cd" * 32)  # under way: a settled balance is without it
    begun = []
    begin = Transaction.__init__
    monkeypatch.setattr(Transaction, "__init__", lambda *words: begun.append(1) or begin(*words))
    stored = read_repeat(ledger, HASH, "total")
    assert len(begun) == 1
    apart = (ledger.view("total"), ledger.find(HASH, "total"), ledger.pot("total", under_way=False))
    assert stored is not None and stored[:3] == apart and stored.balance.spent == Fraction(1, 10)
    assert read_repeat(ledger, "cd" * 32, "total") is None
    assert read_repeat(ledger, HASH, "nobody's") is None


def test_a_repeat_says_whether_the_head_is_at_the_newest_entry(both: Place, monkeypatch) -> None:
    ledger = both.create()
    release(ledger)
    newest = ledger._head.read()
    assert newest is not None
    with ledger._database.transaction(write=False) as transaction:
        _, _, earlier_hash = rows.entry(transaction, newest.seq - 1)
    heads = {newest: True, Anchor(newest.seq - 1, earlier_hash): False}
    for head, is_anchored in heads.items():
        monkeypatch.setattr(ledger._head, "read", lambda head=head: head)
        stored = read_repeat(ledger, HASH, "total")
        assert stored is not None and stored.is_anchored is is_anchored
    monkeypatch.setattr(ledger._head, "read", lambda: Anchor(newest.seq + 1, newest.hash))
    with pytest.raises(RefusedError, match="an older copy was put back"):
        read_repeat(ledger, HASH, "total")
