"""Disks that are full or read-only: a sentence that says so, and nothing spent."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from multiprocessing import get_context
from pathlib import Path

import pytest

from dither.errors import DitherError, RefusedError
from dither.privacy.ledger import database
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.rules import PrivacyRule
from tests.ledger.ledger_place import Place, release, reserve


def in_child(work: Callable[[], object]) -> str:
    """What `work` says in a process of its own, which may give up rights."""
    context = get_context("fork")
    answers = context.Queue()

    def run() -> None:
        try:
            answers.put(str(work()))
        except DitherError as error:
            answers.put(f"{type(error).__name__}: {error}")

    child = context.Process(target=run)
    child.start()
    answer: str = answers.get(timeout=30)
    child.join(30)
    return answer


def as_nobody() -> None:
    """Root writes everywhere; nobody does not."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


def spend_all(ledger: StewardLedger) -> str:
    for _ in range(1000):
        reserve(ledger)
    return "never refused"


@pytest.fixture
def locked() -> Iterator[Place]:
    """A ledger with two releases that may be read but not written, nor may its folder."""
    folder = Path(tempfile.mkdtemp())
    place = Place(folder)
    ledger = place.create()
    release(ledger)
    ledger.close()
    folder.chmod(0o755)
    for path in [place.path, *place.head.parent.iterdir()]:
        path.chmod(0o444)
    for directory in (place.path.parent, place.head.parent):
        directory.chmod(0o555)
    yield place
    for directory in (folder, place.path.parent, place.head.parent):
        directory.chmod(0o755)
    shutil.rmtree(folder)


def test_verify_needs_nothing_writable(locked: Place) -> None:
    def check() -> object:
        as_nobody()
        return locked.verify()

    before = {file: file.read_bytes() for file in locked.path.parent.iterdir()}
    assert in_child(check) == "the ledger verifies: 3 entries, 1 release, 1 budget"
    assert {file: file.read_bytes() for file in locked.path.parent.iterdir()} == before


def test_verify_leaves_nothing_beside_a_ledger_at_rest(place: Place) -> None:
    place.create().close()
    assert place.verify().ok
    assert [file.name for file in place.path.parent.iterdir()] == ["ledger.sqlite"]


def test_verify_of_a_bad_ledger_needs_nothing_writable(locked: Place) -> None:
    def check() -> object:
        as_nobody()
        return locked.verify()

    locked.path.chmod(0o644)
    content = locked.path.read_bytes()
    locked.path.write_bytes(content.replace(b"health board", b"health bored"))
    assert "entry 1: its content does not have its hash" in in_child(check)


def test_verify_reads_a_crashed_log_without_writing(place: Place) -> None:
    ledger = place.create()
    release(ledger)  # lies in the log: the ledger is not closed
    with tempfile.TemporaryDirectory() as folder:
        crashed = Place(Path(folder))
        Path(folder).chmod(0o755)
        for source in (place.path, place.path.with_name("ledger.sqlite-wal"), place.head):
            copy = crashed.folder / source.relative_to(place.folder)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, copy)
            copy.chmod(0o444)
        for directory in (crashed.path.parent, crashed.head.parent):
            directory.chmod(0o555)

        def check() -> object:
            as_nobody()
            return crashed.verify()

        try:
            assert in_child(check) == "the ledger verifies: 3 entries, 1 release, 1 budget"
            assert len(list(crashed.path.parent.iterdir())) == 2
        finally:
            for directory in (crashed.path.parent, crashed.head.parent):
                directory.chmod(0o755)


def test_a_read_only_ledger_says_so(locked: Place) -> None:
    def spend() -> object:
        as_nobody()
        return reserve(locked.open())

    answer = in_child(spend)
    assert answer.startswith("RefusedError") and (
        "read-only" in answer or "cannot be opened" in answer
    )
    assert "Nothing was recorded" in answer


def test_a_read_only_head_is_found_before_the_charge(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = place.create()
    true_open = os.open

    def refuse(path: Path, flags: int, *rest: int) -> int:
        if Path(path).parent == place.head.parent and flags & (os.O_WRONLY | os.O_RDWR):
            raise PermissionError(13, "Permission denied")
        return true_open(path, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(RefusedError, match=r"head .* cannot be written: Permission denied"):
        reserve(ledger)
    monkeypatch.undo()
    assert ledger.pot("total").spent == 0 and place.verify().entries == 1


def test_a_full_disk_says_so_and_spends_nothing(place: Place) -> None:
    ledger = place.create(cap=100, ceiling=100)
    with ledger._database.transaction(
        write=True
    ) as transaction:  # the pool hands out this same connection again
        pages = transaction.scalar("PRAGMA page_count")
        transaction.run(f"PRAGMA max_page_count={pages}")
    with pytest.raises(
        RefusedError, match=r"the disk is full; free some space\. Nothing was recorded"
    ) as caught:
        spend_all(ledger)
    assert caught.value.rule is PrivacyRule.DURABLE
    report = place.verify()
    assert report.ok and report.entries > 1
    assert ledger.pot("total").spent == report.pots[0].spent == Fraction(report.entries - 1, 10)


def test_a_limit_on_file_size_spends_nothing(place: Place) -> None:
    ledger = place.create(cap=100, ceiling=100)
    ledger.close()

    def spend() -> object:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000))
        return spend_all(place.open())

    answer = in_child(spend)
    assert answer.startswith("RefusedError") and "the store failed" in answer
    report = place.verify()
    assert report.ok and report.entries > 1
    assert report.pots[0].spent == Fraction(report.entries - 1, 10)
    ledger = place.open()
    with pytest.raises(
        RefusedError, match="suspended"
    ):  # the child died with charges whose answers never left
        reserve(ledger)
    ledger.clear_incidents("the disk was full and has room again")
    release(ledger)


def test_a_full_disk_at_commit_stores_nothing_and_keeps_the_charge(place: Place) -> None:
    ledger = place.create()
    reservation = reserve(ledger)
    with ledger._database.transaction(write=True) as transaction:
        pages = transaction.scalar("PRAGMA page_count")
        transaction.run(f"PRAGMA max_page_count={pages}")
    with pytest.raises(RefusedError, match="disk is full") as caught:
        ledger.commit(reservation, b"secret value" * 1000, {"n": 42}, released_at="2026-03-01")
    assert "secret" not in str(caught.value) and caught.value.__cause__ is None
    assert ledger.release(reservation.seq) is None and ledger.pot("total").spent == Fraction(1, 10)
    assert place.verify().ok and place.verify().releases == 0


def test_a_ledger_held_elsewhere_is_waited_for_and_then_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger, other = place.create(), place.open()
    monkeypatch.setattr(database, "PATIENCE_S", 0.2)
    with other._database.transaction(write=True):
        started = time.monotonic()
        with pytest.raises(RefusedError, match="another process kept it locked"):
            reserve(ledger)
        assert 0.2 <= time.monotonic() - started < 5
        assert ledger.pot("total").spent == 0  # readers do not wait
    reserve(ledger)
    assert place.verify().entries == 2


def test_a_folder_that_cannot_be_made(place: Place) -> None:
    (place.folder / "state").write_text("in the way")
    with pytest.raises(RefusedError, match="cannot be created"):
        place.create()
    assert stat.S_ISREG((place.folder / "state").stat().st_mode)
