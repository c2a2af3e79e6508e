"""A PostgreSQL that is dead, dying, read-only, unsynced, rolled back or tampered with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dither.errors import RefusedError
from dither.privacy.ledger.steward_ledger import StewardLedger
from tests.ledger.ledger_place import TIME, Place, fresh_url, release, reserve
from tests.postgres_server import running_server

psycopg = pytest.importorskip("psycopg")


@pytest.fixture
def place(server: Any, tmp_path: Path) -> Place:
    return Place(tmp_path, fresh_url(server))


@pytest.fixture
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Place]]:
    """A server of our own to stop and start."""
    with running_server() as server:
        yield server, Place(tmp_path_factory.mktemp("mortal_place"), fresh_url(server))


def test_a_dead_server_says_so_and_a_living_one_goes_on(mortal: tuple[Any, Place]) -> None:
    import pgserver

    server, place = mortal
    ledger = place.create()
    release(ledger)
    pending = reserve(ledger)
    stopped = {"pgdata": server.pgdata, "user": server.system_user}
    pgserver.pg_ctl(["-m", "immediate", "-w", "stop"], **stopped)  # as a power cut would
    for step in (
        lambda: reserve(ledger),
        lambda: ledger.commit(pending, b"42", {}, released_at=TIME),
        lambda: ledger.record_incident(pending, "failed_after_reserve"),
        place.open,
    ):
        with pytest.raises(
            RefusedError, match=r"server cannot be reached.*Nothing was recorded"
        ) as caught:
            step()
        assert "42" not in str(caught.value) and caught.value.__suppress_context__
    assert not place.verify().ok
    server.ensure_postgres_running()
    assert ledger.pot("total").spent == Fraction(2, 10) and place.verify().ok
    ledger.commit(pending, b"42", {}, released_at=TIME)
    release(ledger)
    assert place.verify().releases == 3


def test_a_connection_that_dies_inside_a_transaction_records_nothing(place: Place) -> None:
    ledger = place.create()
    release(ledger)
    with pytest.raises(RefusedError, match="may or may not have been recorded"):
        _die_while_writing(ledger, place)
    assert ledger.pot("total").spent == Fraction(1, 10) and place.verify().ok
    release(ledger)
    assert place.verify().releases == 2


def _die_while_writing(ledger: StewardLedger, place: Place) -> None:
    with ledger._appending() as (transaction, append):
        append("clear", {"reason": "never to be seen"})
        (pid,) = transaction.rows("SELECT pg_backend_pid()")[0]
        with psycopg.connect(place.url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(%s)", [pid])


def test_a_read_only_database_says_so(place: Place) -> None:
    place.create().close()
    assert place.url is not None
    frozen = Place(place.folder, place.url + "%20-cdefault_transaction_read_only%3Don")
    ledger = frozen.open()
    with pytest.raises(RefusedError, match=r"read-only.*Nothing was recorded"):
        reserve(ledger)
    assert place.verify().entries == 1 and frozen.verify().ok


def test_a_server_that_does_not_sync_is_refused(mortal: tuple[Any, Place]) -> None:
    server, place = mortal
    place.create().close()
    with psycopg.connect(place.url, autocommit=True) as other:
        other.execute("ALTER SYSTEM SET fsync = off")
        other.execute("SELECT pg_reload_conf()")
        other.execute("SELECT pg_sleep(0.3)")
    with pytest.raises(RefusedError, match="fsync off"):
        place.open()
    del server


def test_an_older_copy_put_back_is_refused(place: Place) -> None:
    ledger = place.create()
    release(ledger)
    release(ledger)
    place.change(
        "DELETE FROM entry WHERE seq > 3",
        "DELETE FROM release WHERE seq > 3",
        "UPDATE pot_state SET spent='1/10'",
    )
    with pytest.raises(RefusedError, match="ends before entry 5"):
        reserve(ledger)
    with pytest.raises(RefusedError, match="ends before entry 5"):
        place.open()
    assert "older copy" in place.verify().problem


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE entry SET body_json=body_json || ' ' WHERE seq=2", "entry 2"),
        ("DELETE FROM entry WHERE seq=2", "entry 2"),
        ("UPDATE release SET arrow_bytes='\\x00'", "entry 3"),
        ("UPDATE pot_state SET spent='0/1'", "pot_state"),
        ("CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'", ""),
    ],
)
def test_tampering_is_found(place: Place, statement: str, problem: str) -> None:
    ledger = place.create()
    release(ledger)
    ledger.close()
    place.change(statement)
    if not problem:
        assert place.verify().ok
        place.change("CREATE TRIGGER t BEFORE INSERT ON entry FOR EACH ROW EXECUTE FUNCTION f()")
        problem = "trigger"
        with pytest.raises(RefusedError, match="trigger"):
            place.open()
    report = place.verify()
    assert not report.ok and problem in report.problem


def test_a_ledger_is_never_replaced_and_a_stranger_is_no_ledger(
    place: Place, server: Any, tmp_path: Path
) -> None:
    place.create().close()
    with pytest.raises(RefusedError, match="never replaced"):
        StewardLedger.create(place.location, tmp_path / "other" / "head")
    stranger = Place(tmp_path / "stranger", fresh_url(server))
    with pytest.raises(RefusedError, match="no ledger of dither"):
        stranger.open()
    stranger.change("CREATE TABLE entry(x int)")
    with pytest.raises(RefusedError, match="no ledger of dither"):
        stranger.open()


def test_two_ledgers_in_one_database_do_not_wait_for_each_other(
    place: Place, server: Any, tmp_path: Path
) -> None:
    first, second = place.create(), Place(tmp_path / "second", fresh_url(server)).create()
    with first._database.transaction(write=True):
        release(second)
    release(first)


def test_a_full_disk_says_so_and_spends_nothing(place: Place) -> None:
    """The server's own report of a full disk (SQLSTATE 53100), in the middle of a charge."""
    ledger = place.create()
    release(ledger)
    place.change(
        "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE disk_full; "
        "END'",
        "CREATE TRIGGER t BEFORE UPDATE ON pot_state FOR EACH ROW EXECUTE FUNCTION full_disk()",
    )
    with pytest.raises(
        RefusedError, match="the disk is full; free some space. Nothing was recorded"
    ):
        reserve(ledger)
    place.change("DROP TRIGGER t ON pot_state")
    assert ledger.pot("total").spent == Fraction(1, 10) and place.verify().ok
    release(ledger)


def test_a_server_with_another_default_isolation_serves_as_well(place: Place) -> None:
    """A snapshot older than the lock would see totals of before: check and spend would be two
    steps."""
    place.create().close()
    strict = Place(place.folder, f"{place.url}%20-cdefault_transaction_isolation%3Dserializable")
    failed: list[Exception] = []

    def spend() -> None:
        try:
            for _ in range(8):
                release(strict.open(), "1/24")
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=spend) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failed and place.verify().pots[0].left == 0


def test_two_search_paths_to_one_ledger_share_its_lock(
    place: Place, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty schema before it in the search_path names the same tables."""
    ledger = place.create()
    (name,) = (place.url or "").split("search_path%3D")[1:]
    server.psql(f"CREATE SCHEMA before_{name};")
    other = Place(place.folder, (place.url or "").replace(name, f"before_{name},{name}"))
    monkeypatch.setattr("dither.privacy.ledger.postgres._WAIT_MS", 200)
    through = other.open()
    with (
        ledger._database.transaction(write=True),
        pytest.raises(RefusedError, match="locked for too long"),
    ):
        reserve(through)
    release(through)
    release(ledger)
    assert place.verify().ok and other.verify().ok
    server.psql(f"CREATE TABLE before_{name}.pot_state AS TABLE {name}.pot_state;")
    server.psql(f"UPDATE before_{name}.pot_state SET spent = '0/1';")
    with pytest.raises(RefusedError, match="shadowed table"):
        other.open()
    assert "shadowed table" in other.verify().problem and place.verify().ok


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    secret = "postgresql://steward:hunter2@127.0.0.1:1/ledger"
    with pytest.raises(RefusedError, match="cannot be reached") as caught:
        StewardLedger.open(secret, tmp_path / "head")
    assert "hunter2" not in str(caught.value)
