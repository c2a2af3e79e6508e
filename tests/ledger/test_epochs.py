"""Several curators over one ledger: one at a time, fenced by the epoch of every entry."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from dither.errors import RefusedError
from dither.privacy.ledger.epochs import FencedError, read_epoch, read_store_id
from dither.privacy.ledger.head import Anchor, Head
from dither.privacy.ledger.location import database_at
from dither.privacy.ledger.lost import restart_head
from dither.privacy.ledger.misses import add_miss
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.ledger.takeover import end_holders, seize_head, take_over
from tests.ledger.ledger_place import TIME, Place, release, reserve, rewrite


def list_epochs(place: Place) -> list[tuple[str, int]]:
    found = place.rows("SELECT kind, body_json FROM entry ORDER BY seq")
    return [(kind, json.loads(text).get("epoch", 0)) for kind, text in found]


def test_a_ledger_without_a_takeover_names_no_epoch(both: Place) -> None:
    ledger = both.create()
    release(ledger)
    ledger.close()
    assert all(epoch == 0 for _, epoch in list_epochs(both))


def test_every_entry_after_a_takeover_names_its_epoch(both: Place) -> None:
    first = both.create()
    release(first)
    assert take_over(first, "north") == 1
    release(first)
    second = both.open()
    assert take_over(second, "south") == 2
    release(second)
    add_miss(second)
    kinds = list_epochs(both)
    assert kinds[:3] == [("open", 0), ("reserve", 0), ("commit", 0)]
    assert kinds[3:6] == [("takeover", 1), ("reserve", 1), ("commit", 1)]
    assert kinds[6:] == [("takeover", 2), ("reserve", 2), ("commit", 2), ("miss", 2)]
    first.close()
    second.close()
    assert both.verify().ok


def test_whoever_holds_an_older_epoch_writes_nothing(both: Place) -> None:
    """A curator that was paused, wakes up beside its successor."""
    paused = both.create()
    take_over(paused, "north")
    stored = release(paused)
    held = reserve(paused)
    successor = both.open()
    take_over(successor, "south")
    spent = successor.pot("total").spent
    entries = len(list_epochs(both))
    for act in (
        lambda: reserve(paused),
        lambda: paused.commit(held, b"1", {}, released_at=TIME),
        lambda: paused.share(stored.seq, "total", released_at=TIME),
        lambda: paused.record_incident(held, "engine"),
        lambda: add_miss(paused),
        paused.check_epoch,
    ):
        with pytest.raises(FencedError):
            act()
    assert len(list_epochs(both)) == entries and successor.pot("total").spent == spent
    successor.check_epoch()
    paused.close()
    successor.close()
    assert both.verify().ok


def test_charges_under_way_become_incidents_in_the_takeover(both: Place) -> None:
    """Also that of a living process: nobody can tell it from one that is cut off."""
    leader = both.create()
    take_over(leader, "north")
    held = reserve(leader)
    told: list[tuple[int, str]] = []
    successor = both.open()
    successor.on_abandoned = lambda seq, pot: told.append((seq, pot))
    take_over(successor, "south")
    assert told == [(held.seq, "total")]
    kinds = list_epochs(both)
    assert kinds[-2:] == [("takeover", 2), ("incident", 2)]
    assert successor.pot("total").spent == held.charge
    with pytest.raises(RefusedError):
        successor.commit(held, b"1", {}, released_at=TIME)
    leader.close()
    successor.close()
    assert both.verify().ok


def test_a_steward_s_command_follows_the_newest_epoch(both: Place) -> None:
    leader = both.create()
    take_over(leader, "north")
    steward = both.open()
    steward.raise_cap("total", 2, "the second half of the year")
    assert list_epochs(both)[-1] == ("raise", 1)
    release(leader)
    steward.close()
    leader.close()
    assert both.verify().ok


def test_a_curator_with_a_head_of_its_own_is_refused(both: Place) -> None:
    """P12: the database was rolled back, and a host whose head is old takes over."""
    leader = both.create()
    take_over(leader, "north")
    own_head = both.folder / "other heads" / "one"
    own_head.parent.mkdir()
    own_head.write_bytes(both.head.read_bytes())
    release(leader)
    with pytest.raises(RefusedError, match="another folder"):
        StewardLedger.open(both.location, own_head)
    leader.close()


def test_a_ledger_that_is_behind_the_shared_head_is_not_taken_over(place: Place) -> None:
    leader = place.create()
    take_over(leader, "north")
    release(leader)
    leader.close()
    place.change("DELETE FROM release", "DELETE FROM entry WHERE seq > 2", "DELETE FROM pending")
    with pytest.raises(RefusedError, match="rolled back"):
        place.open()


@pytest.mark.parametrize("epoch", [0, 2, "1", True])
def test_an_entry_of_another_epoch_is_named(place: Place, epoch: object) -> None:
    ledger = place.create()
    take_over(ledger, "north")
    release(ledger)
    ledger.close()
    rewrite(place, 3, epoch=epoch)
    report = place.verify()
    assert not report.ok and "3" in str(report) and "epoch" in str(report)


def test_the_epoch_is_read_from_the_newest_takeover(both: Place) -> None:
    ledger = both.create()
    for number in (1, 2, 3):
        take_over(ledger, "north")
        with ledger._database.transaction(write=False) as transaction:
            assert read_epoch(transaction).number == number == ledger.epoch
    ledger.close()


# -- a curator that is paused while it holds the head or the database


def test_a_session_that_holds_the_database_is_ended_and_writes_nothing(
    both: Place,
) -> None:
    """SQLite has no server to end it; there the head alone is taken."""
    paused = both.create()
    entries = len(list_epochs(both))
    if both.url is None:
        end_holders(both.location, both.head, 0.2)
        paused.close()
        return
    with pytest.raises(RefusedError), paused._writing() as (_, writer):
        writer.append("takeover", {"curator": "paused", "heads": ""})
        time.sleep(0.3)
        end_holders(both.location, both.head, 0.2)
        successor = both.open()
        take_over(successor, "south")
        release(successor)
    assert len(list_epochs(both)) == entries + 3
    paused.close()
    successor.close()
    assert both.verify().ok


def test_a_short_transaction_is_left_alone(both: Place) -> None:
    with both.create()._appending() as (_, append):
        assert database_at(both.location).end_writers(60) == 0
        append("takeover", {"curator": "north", "heads": ""})
    assert list_epochs(both)[-1][0] == "takeover"


STEPS = [(step, False) for step in ("open", "pread", "pwrite", "fdatasync", "close")]
STEPS += [(step, True) for step in ("open", "fsync", "rename")]


@pytest.mark.parametrize(("step", "is_by_hand"), STEPS)
def test_a_head_never_moves_back_wherever_its_holder_is_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, is_by_hand: bool
) -> None:
    """Its successor goes on in a new file; what the paused one writes later moves nothing back."""
    path = tmp_path / "heads" / "one"
    paused, successor = Head(path, "postgresql://"), Head(path, "postgresql://")
    move_head(successor, 1, 2, 3)
    if is_by_hand:  # a head of one slot, which the first move replaces
        path.write_text(make_anchor(3).text())
    real = getattr(os, step)
    reached = False

    def seize_and_do(*arguments: Any, **terms: Any) -> Any:
        nonlocal reached
        if reached:
            return real(*arguments, **terms)
        reached = True
        monkeypatch.setattr(os, step, real)
        seize_head(successor, 0.01)
        move_head(successor, 5, 6, 7)
        return real(*arguments, **terms)

    with paused.locked():
        monkeypatch.setattr(os, step, seize_and_do)
        paused.advance(make_anchor(4))
    assert reached and successor.read() == make_anchor(7)
    move_head(paused, 8)  # awake again, it goes on in the newest file
    assert successor.read() == make_anchor(8)


def test_what_a_paused_holder_wrote_before_it_was_replaced_counts(tmp_path: Path) -> None:
    path = tmp_path / "heads" / "one"
    paused, successor = Head(path, "postgresql://"), Head(path, "postgresql://")
    move_head(paused, 1)
    with paused.locked():
        seize_head(successor, 0.01)
        paused.advance(make_anchor(2))
    assert successor.read() == make_anchor(2)
    with successor.locked(), pytest.raises(RefusedError, match="another ledger"):
        successor.advance(Anchor(2, "f" * 64))


def test_several_who_seize_one_lock_begin_one_file(tmp_path: Path) -> None:
    path = tmp_path / "heads" / "one"
    holder = Head(path, "postgresql://")
    move_head(holder, 1)
    with holder.locked():
        crowd = [
            threading.Thread(target=seize_head, args=(Head(path, "postgresql://"), 0.3))
            for _ in range(4)
        ]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
        with holder.locked():  # the lock of the new file is free
            pass
    names = sorted(file.name for file in path.parent.iterdir())
    assert names == ["one", "one.g1", "one.g1.lock", "one.lock"]


def test_a_lock_that_is_let_go_is_not_seized(tmp_path: Path) -> None:
    path = tmp_path / "heads" / "one"
    move_head(Head(path, "postgresql://"), 1)
    seize_head(Head(path, "postgresql://"), 0.01)
    assert sorted(file.name for file in path.parent.iterdir()) == ["one", "one.lock"]


@pytest.mark.parametrize("takeovers", [1, 2, 3])
def test_a_head_that_begins_anew_forgets_what_all_its_files_named(
    tmp_path: Path, takeovers: int
) -> None:
    path = tmp_path / "heads" / "one"
    head = Head(path, "postgresql://")
    move_head(head, 9)
    with ExitStack() as paused:
        for _ in range(takeovers):
            paused.enter_context(Head(path, "postgresql://").locked())
            seize_head(head, 0.01)
    with head.locked():
        restart_head(head, make_anchor(3))
    assert Head(path, "postgresql://").read() == make_anchor(3)
    move_head(head, 4)
    assert Head(path, "postgresql://").read() == make_anchor(4)


def test_a_folder_of_heads_has_one_name_whoever_asks_first(tmp_path: Path) -> None:
    names: list[str] = []
    crowd = [
        threading.Thread(target=lambda: names.append(read_store_id(tmp_path / "heads" / "one")))
        for _ in range(8)
    ]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()
    assert len(set(names)) == 1 and len(names) == 8 and len(names[0]) == 32
    assert [file.name for file in (tmp_path / "heads").iterdir()] == ["store-id"]


def move_head(head: Head, *numbers: int) -> None:
    for number in numbers:
        with head.locked():
            head.advance(make_anchor(number))


def make_anchor(seq: int) -> Anchor:
    return Anchor(seq, f"{seq:064x}")
