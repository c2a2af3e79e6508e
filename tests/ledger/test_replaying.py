"""A plain ledger, the kernel's, replays nothing: it refuses what it cannot confirm, and goes on
after a replay."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dither.errors import RefusedError
from dither.privacy.kernel.opening import open_kernel
from dither.privacy.ledger import Ledger, chain, default_head_path
from dither.privacy.ledger.head import GENESIS, Anchor, Head
from dither.privacy.ledger.replaying import replay_ledger
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.ledger.writer import ReplayNeededError, Seal
from tests.datasets.clinic import open_total, register, row
from tests.ledger.ledger_place import HASH, TIME, Place, release, reserve

REASON = "more people came than planned"


def crash(*_: object) -> None:
    raise KeyboardInterrupt


def leave_past_the_head(act: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """An act whose process dies between its COMMIT and the move of the head."""
    with monkeypatch.context() as patched:
        patched.setattr(Head, "advance", crash)
        with pytest.raises(KeyboardInterrupt):
            act()


def strip_totals(place: Place) -> None:
    """A closed ledger as the first version of dither wrote it: no entry names the totals."""
    previous = GENESIS
    for seq, kind, body_json in place.rows("SELECT seq, kind, body_json FROM entry ORDER BY seq"):
        body = {key: value for key, value in json.loads(body_json).items() if key != "totals"}
        text = chain.canonical_text(body, "body")
        hashed = chain.entry_hash(seq, kind, text, previous)
        place.change(
            f"UPDATE entry SET body_json='{text}', prev_hash='{previous}', hash='{hashed}' WHERE "
            f"seq={seq}",
        )
        previous = hashed
    place.head.write_text(Anchor(seq, previous).text())


def test_an_act_of_the_steward_past_the_head_is_left_to_a_replay(
    both: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    steward = both.create(cap=1, ceiling=2)
    plain = Ledger.open(both.location, both.head)
    leave_past_the_head(lambda: steward.raise_cap("total", 2, REASON), monkeypatch)
    with pytest.raises(ReplayNeededError, match="connect again"):
        reserve(plain, "0.1")
    with pytest.raises(ReplayNeededError, match="connect again"):
        Ledger.open(both.location, both.head)
    replay_ledger(both.location, both.head)
    reserve(plain, "0.1")
    assert Ledger.open(both.location, both.head).pot("total").cap == 2
    assert both.verify().ok


def test_a_commit_past_the_head_needs_no_replay(
    both: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that dies between its COMMIT and its head must not stop the others."""
    both.create()
    dying = Ledger.open(both.location, both.head)
    plain = Ledger.open(both.location, both.head)
    leave_past_the_head(lambda: release(dying, "0.1"), monkeypatch)
    reserve(plain, "0.1")
    assert Ledger.open(both.location, both.head).pot("total").spent * 10 == 2
    assert both.verify().ok


def test_a_lowered_total_behind_a_commit_past_the_head_is_refused(
    both: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug of a check that skips commits: it must still add up the reserves beside
    them."""
    both.create()
    ledger = Ledger.open(both.location, both.head)
    release(ledger, "0.5")
    leave_past_the_head(lambda: release(ledger, "0.1"), monkeypatch)
    ((seq, text, previous),) = both.rows(
        "SELECT seq, body_json, prev_hash FROM entry ORDER BY seq DESC LIMIT 1"
    )
    body = json.loads(text) | {
        "totals": chain.digest_totals({"total": ("1/100", "0/1", "0/1", "1/1")})
    }
    text = chain.canonical_text(body, "body")
    hashed = chain.entry_hash(seq, "commit", text, previous)
    both.change(
        "UPDATE pot_state SET spent='1/100'",
        f"UPDATE entry SET body_json='{text}', hash='{hashed}' WHERE seq={seq}",
    )
    with pytest.raises(ReplayNeededError):
        Ledger.open(both.location, both.head)
    with pytest.raises(RefusedError, match="are damaged"):
        both.open()


def test_a_reserve_waits_while_the_steward_moves_the_head(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    steward = place.create(cap=1, ceiling=2)
    plain = Ledger.open(place.location, place.head)
    has_committed = threading.Event()
    may_go_on = threading.Event()
    advance = Head.advance

    def wait_and_advance(head: Head, anchor: Anchor) -> None:
        if head is steward._head:
            has_committed.set()
            may_go_on.wait(10)
        advance(head, anchor)

    monkeypatch.setattr(Head, "advance", wait_and_advance)
    act = threading.Thread(target=steward.raise_cap, args=("total", 2, REASON))
    act.start()
    assert has_committed.wait(10)
    threading.Timer(0.2, may_go_on.set).start()
    reserve(plain, "0.1")
    act.join()
    assert place.verify().ok


def test_a_ledger_of_the_first_version_is_opened_with_the_seal_of_a_replay(both: Place) -> None:
    ledger = both.create()
    release(ledger, "0.1")
    ledger.close()
    strip_totals(both)
    with pytest.raises(ReplayNeededError, match="first version"):
        Ledger.open(both.location, both.head)
    seal = replay_ledger(both.location, both.head)
    first, second = (Ledger.open(both.location, both.head, seal) for _ in range(2))
    pending = reserve(first, "0.1")
    reserve(
        second, "0.1"
    )  # past the head there is a reserve by now, and the anchored entry names no totals
    first.commit(pending, b"noisy", {}, released_at=TIME)
    assert Ledger.open(both.location, both.head).pot("total").spent * 10 == 3  # sealed for good
    assert both.verify().ok


def test_totals_changed_after_the_replay_are_refused(both: Place) -> None:
    both.create().close()
    strip_totals(both)
    seal = replay_ledger(both.location, both.head)
    ledger = Ledger.open(both.location, both.head, seal)
    both.change("UPDATE pot_state SET cap='2/1'")
    with pytest.raises(RefusedError, match="are damaged"):
        reserve(ledger, "0.1")
    with pytest.raises(RefusedError, match="are damaged"):
        Ledger.open(both.location, both.head, Seal(seal.seq, HASH))


def test_a_connection_replays_what_needs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    _, state = register(tmp_path, [row(str(i), str(i % 40), weight="70") for i in range(9)])
    open_total(state, ceiling="20")
    where = state.ledger_location(), default_head_path(state.installation_id())
    steward = StewardLedger.open(*where)
    leave_past_the_head(lambda: steward.raise_cap("total", 11, REASON), monkeypatch)
    with pytest.raises(ReplayNeededError):
        Ledger.open(*where)
    kernel = open_kernel(state)
    assert kernel.ledger.pot("total").cap == 11
