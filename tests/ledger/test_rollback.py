"""The head: a ledger that is behind it, or another one, does not start (rule no-rollback)."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import threading
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from dither.curator.stored_answers import find_free_answer
from dither.errors import BudgetError, ParameterError, RefusedError
from dither.privacy.ledger import default_head_path
from dither.privacy.ledger.head import Anchor, Head
from dither.privacy.ledger.lost import close_ledger
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.ledger.takeover import end_holders, take_over
from dither.privacy.ledger.verify import verify
from tests.ledger.ledger_place import HASH, TERMS, TIME, Place, release, reserve


def anchored(place: Place) -> int:
    anchor = Head(place.head, place.path).read()
    assert anchor is not None
    return anchor.seq


def put_older_copy_back(place: Place) -> StewardLedger:
    """A ledger that made a release after its backup, closed, with the backup in its place."""
    ledger = place.create()
    release(ledger)
    ledger.close()
    shutil.copy(place.path, older := place.folder / "backup")
    again = place.open()
    release(again, "0.9")
    again.close()
    shutil.copy(older, place.path)
    return again


def test_an_older_copy_put_back_is_refused(place: Place) -> None:
    put_older_copy_back(place)
    with pytest.raises(
        RefusedError, match=r"rolled back: the ledger ends before entry 5.*newest copy"
    ):
        place.open()
    report = place.verify()
    assert not report.ok and report.first_bad is None and "older copy" in report.problem


def test_a_running_ledger_notices_an_older_copy_too(both: Place) -> None:
    ledger = both.create()
    release(ledger)
    head = Head(both.head, both.path)
    with head.locked():  # as if another process had gone on with the true ledger
        head.advance(Anchor(9, HASH))
    with pytest.raises(RefusedError, match="rolled back"):
        reserve(ledger)


def test_a_running_ledger_without_its_head_hands_out_no_stored_answer(both: Place) -> None:
    ledger = both.create()
    release(ledger)
    assert find_free_answer(ledger, HASH, "total") is not None
    both.head.unlink()
    with pytest.raises(RefusedError, match="no head"):
        find_free_answer(ledger, HASH, "total")
    with pytest.raises(RefusedError, match="no head"):
        reserve(ledger)


def test_an_older_copy_under_a_running_ledger_hands_out_no_stored_answer(place: Place) -> None:
    again = put_older_copy_back(place)
    with pytest.raises(RefusedError, match="older copy"):
        find_free_answer(again, HASH, "total")  # it connects anew


def test_another_ledger_of_the_same_length_is_refused(place: Place, tmp_path: Path) -> None:
    mine, other = place.create(), Place(tmp_path / "other")
    release(mine)
    mine.close()
    theirs = other.create()
    release(theirs)
    theirs.close()
    shutil.copy(other.path, place.path)
    with pytest.raises(RefusedError, match="entry 3: the head names another hash"):
        place.open()
    assert place.verify().first_bad == 3


def test_a_ledger_ahead_of_its_head_goes_on_and_repairs_it(both: Place) -> None:
    ledger = both.create()
    release(ledger)
    kept = both.head.read_bytes()
    release(ledger)
    both.head.write_bytes(kept)  # killed between COMMIT and head
    assert both.verify().ok
    release(both.open())
    assert anchored(both) == 7
    both.head.write_bytes(kept)
    both.open()
    assert anchored(both) == 7


def test_a_missing_head_is_refused_and_its_remedy_opens_no_budget(both: Place) -> None:
    """Rule P42: without the head nobody knows what was spent, so everything counts as spent."""
    ledger = both.create()
    release(ledger)
    both.head.unlink()
    with pytest.raises(RefusedError, match="no head") as caught:
        both.open()
    with pytest.raises(RefusedError, match="no head"):
        reserve(ledger)
    assert "no head" in both.verify().problem
    assert "dither ledger close CATALOG" in str(caught.value)
    assert close_ledger(both.location, both.head) == (4, None)
    assert both.verify().ok
    again = both.open()
    with pytest.raises(BudgetError):
        reserve(again)
    with pytest.raises(ParameterError):
        again.raise_cap("total", 2, "we would like to go on")
    again.close()


@pytest.mark.parametrize(
    "content", ["", "{", '{"seq": 3}', '{"hash": "00", "seq": 3, "v": 1}', "[]", "\0"]
)
def test_a_damaged_head_is_refused(both: Place, content: str) -> None:
    both.create()
    both.head.write_text(content)
    with pytest.raises(RefusedError, match="damaged"):
        both.open()
    assert not both.verify().ok


def test_a_lost_ledger_gives_nothing_back(place: Place) -> None:
    ledger = place.create()
    ledger.close()
    with pytest.raises(RefusedError, match="exists already"):
        StewardLedger.create(place.path, place.folder / "fresh" / "head")
    place.path.unlink()
    with pytest.raises(RefusedError, match="remembers a ledger of 1 entries"):
        place.create()
    with pytest.raises(RefusedError, match="cannot be opened"):
        place.open()
    assert not place.path.exists()


def test_an_empty_ledger_may_have_lost_its_head(both: Place) -> None:
    # killed in `create`, between the file and its head
    StewardLedger.create(both.location, both.head).close()
    both.head.unlink()
    ledger = both.open()
    ledger.open_pot("total", 1, 1, **TERMS)
    assert both.verify().ok


def test_the_head_lies_elsewhere(place: Place) -> None:
    for inside in (
        place.path.parent / "head",
        place.path.parent / "a" / "b",
        place.path.parent / "x" / ".." / "head",
    ):
        with pytest.raises(ParameterError, match="outside the ledger's directory"):
            StewardLedger.create(place.path, inside)
    assert not place.path.exists()


def test_the_default_head_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert default_head_path("a1b2") == tmp_path / "dither" / "heads" / "a1b2"
    monkeypatch.setenv("HOME", str(tmp_path))
    for unset in ("", "relative/path"):
        monkeypatch.setenv("XDG_STATE_HOME", unset)
        assert (
            default_head_path("a1b2") == tmp_path / ".local" / "state" / "dither" / "heads" / "a1b2"
        )
    for bad in ("", "../x", "a/b", "a\n"):
        with pytest.raises(ParameterError):
            default_head_path(bad)


def _advance(head: Path, ledger: Path, numbers: list[int]) -> None:
    for number in numbers:
        moved = Head(head, ledger)
        with moved.locked():
            moved.advance(Anchor(number, f"{number:064x}"))
        anchor = moved.read()
        assert anchor is not None and anchor.seq >= number and anchor.hash == f"{anchor.seq:064x}"


def test_concurrent_writers_never_move_the_head_back(place: Place) -> None:
    spawn = get_context("fork")
    workers = [
        spawn.Process(target=_advance, args=(place.head, place.path, list(range(start, 60, 3))))
        for start in (1, 2, 3)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    anchor = Head(place.head, place.path).read()
    assert anchor is not None and anchor.seq == 59


def test_a_power_cut_while_the_head_is_written_leaves_the_one_before(both: Place) -> None:
    ledger = both.create()
    release(ledger)
    content = both.head.read_bytes()
    assert len(content) == 8192
    newest = 0 if b'"seq":3' in content[:4096] else 4096
    for spoilt in (b"\0" * 4096, b"x" * 4096, content[newest : newest + 20].ljust(4096)):
        both.head.write_bytes(content[:newest] + spoilt + content[newest + 4096 :])
        assert anchored(both) == 1  # behind the ledger, which may be
        assert both.verify().ok
    release(both.open())
    assert anchored(both) == 5


def test_a_head_read_while_it_is_written_is_not_believed(place: Place) -> None:
    """New digits before old ones may spell a number that was never anchored."""
    ledger = place.create()
    release(ledger)
    first = Anchor(1238, "ab" * 32).text()
    second = Anchor(1240, "cd" * 32).text()
    for cut in range(1, len(second)):
        mixed = second[:cut] + first[cut:]
        place.head.write_text(mixed)
        if mixed not in (first, second):
            with pytest.raises(RefusedError, match="damaged"):
                Head(place.head, place.path).read()


def test_two_copies_of_a_ledger_that_race_for_one_head_do_not_both_send(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each copy has a database lock of its own; between comparing the head and moving it, the other
    must wait."""
    place.create().close()
    shutil.copytree(place.folder / "state", tmp_path / "copy")
    mine, copy = place.open(), StewardLedger.open(tmp_path / "copy" / "ledger.sqlite", place.head)
    first, second = reserve(mine), reserve(copy)  # nothing has left, so both may
    committed, go_on = threading.Event(), threading.Event()
    true = Head.advance

    def slow(self: Head, anchor: Anchor) -> None:
        if threading.current_thread() is not threading.main_thread():
            committed.set()
            assert go_on.wait(60)
        true(self, anchor)

    monkeypatch.setattr(Head, "advance", slow)
    sent: list[object] = []
    other = threading.Thread(
        target=lambda: sent.append(mine.commit(first, b"1", {}, released_at=TIME))
    )
    other.start()
    assert committed.wait(60)  # in the first copy, its head not moved yet
    threading.Timer(0.2, go_on.set).start()
    with pytest.raises(RefusedError, match="rolled back"):
        copy.commit(second, b"2", {}, released_at=TIME)
    other.join(60)
    assert len(sent) == 1


@pytest.mark.parametrize("answers", [0, 3])
def test_a_copy_whose_holder_is_paused_sends_nothing_after_a_takeover_of_another(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    """As after a failover of the database: the paused curator is still connected to the old one,
    where it finds no newer epoch, and its lock of the head is held up to the takeover no more."""
    paused = place.create()
    shutil.copytree(place.folder / "state", tmp_path / "copy")
    held = reserve(paused)
    promoted = tmp_path / "copy" / "ledger.sqlite"
    true = Head.advance

    def wake_up_late(self: Head, anchor: Anchor) -> None:
        monkeypatch.setattr(Head, "advance", true)
        end_holders(promoted, place.head, 0.01)
        successor = StewardLedger.open(promoted, place.head)
        take_over(successor, "south")
        for _ in range(answers):
            release(successor)
        successor.close()
        self.advance(anchor)

    monkeypatch.setattr(Head, "advance", wake_up_late)
    with pytest.raises(RefusedError, match="rolled back"):
        paused.commit(held, b"1", {}, released_at=TIME)
    paused.close()


@pytest.mark.parametrize("under_way", [0, 1, 2])
def test_a_copy_that_lacks_what_was_sent_stays_refused(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, under_way: int
) -> None:
    """The paused curator wakes up and sends while another copy is taken over, just before that one
    moves the head past it: it lacks a charge, however often somebody tries again."""
    paused = place.create()
    for _ in range(under_way):  # the takeover counts them as incidents: it moves the head further
        reserve(paused)
    paused.close()
    shutil.copytree(place.folder / "state", tmp_path / "copy")
    paused, late = place.open(), StewardLedger.open(tmp_path / "copy" / "ledger.sqlite", place.head)
    held = reserve(paused)
    committed, go_on = threading.Event(), threading.Event()
    sent: list[object] = []
    sender = threading.Thread(
        target=lambda: sent.append(paused.commit(held, b"1", {}, released_at=TIME))
    )
    true = Head.advance

    def wake_up_first(self: Head, anchor: Anchor) -> None:
        if threading.current_thread() is sender:
            committed.set()
            assert go_on.wait(60)
        else:
            go_on.set()
            sender.join(60)
        true(self, anchor)

    monkeypatch.setattr(Head, "advance", wake_up_first)
    sender.start()
    assert committed.wait(60)
    end_holders(late.location, place.head, 0.01)
    for _ in range(3):
        with pytest.raises(RefusedError):
            take_over(late, "south")
    assert len(sent) == 1
    with pytest.raises(RefusedError, match="rolled back"):
        StewardLedger.open(late.location, place.head)
    late.close()
    assert not verify(late.location, place.head).ok
    close_ledger(late.location, place.head)  # all is spent in the copy: nothing is forgotten
    StewardLedger.open(late.location, place.head).close()


def test_a_head_that_moved_on_with_another_ledger_is_refused(both: Place) -> None:
    both.create()
    head = Head(both.head, both.path)
    with head.locked(), pytest.raises(RefusedError, match="another ledger"):
        head.advance(Anchor(1, HASH))


def test_a_deleted_log_is_noticed(place: Place) -> None:
    """After a crash all that is new lies in SQLite's write-ahead log beside the file."""
    place.create().close()
    child = os.fork()
    if not child:
        try:
            release(place.open())
        finally:
            os._exit(0)  # no checkpoint
    os.waitpid(child, 0)
    for file in place.path.parent.glob("ledger.sqlite-*"):
        file.unlink()
    with pytest.raises(RefusedError, match="rolled back"):
        place.open()
    assert not place.verify().ok


def test_a_reserve_taken_off_the_watch_is_found(both: Place) -> None:
    """Else a process that died after its charge would never count as an incident."""
    ledger = both.create()
    reserve(ledger)
    assert both.verify().ok
    ledger.close()
    both.change("DELETE FROM pending")
    assert "pending" in both.verify().problem


def test_a_child_forked_while_the_head_is_locked_does_not_keep_the_lock(place: Place) -> None:
    ledger = place.create()
    with ledger._head.locked():
        child = os.fork()
        if not child:
            time.sleep(30)
            os._exit(0)
    try:
        with open(place.head.with_name(place.head.name + ".lock")) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_stored_answer_leaves_after_the_head_covers_who_paid_for_it(both: Place) -> None:
    ledger = both.create()
    release(ledger)
    before = both.head.read_bytes()
    release(ledger, "0.2")
    both.head.write_bytes(before)  # as between COMMIT and the move of the head
    assert find_free_answer(ledger, HASH, "total") is not None
    assert ledger._head.read() == ledger.newest_entry()
