"""Copies of a ledger between SQLite and PostgreSQL, and ledgers whose entries are lost."""

from __future__ import annotations

import shutil

import pytest

from dither.errors import BudgetError, ParameterError, RefusedError
from dither.privacy.ledger.copies import copy_ledger
from dither.privacy.ledger.lost import close_ledger
from dither.privacy.ledger.steward_ledger import StewardLedger
from dither.privacy.ledger.takeover import take_over
from dither.privacy.ledger.verify import verify
from tests.ledger.ledger_place import Place, release, reserve, rewrite


def test_a_copy_is_the_same_ledger(both: Place) -> None:
    ledger = both.create()
    release(ledger, content=b"\x00\xff" * 100)
    ledger.close()
    copy = both.folder / "copy" / "ledger.sqlite"
    assert copy_ledger(both.location, copy) == 3
    assert verify(copy, both.head).ok
    again = StewardLedger.open(copy, both.head)
    assert again.pot("total").spent == both.open().pot("total").spent
    release(again)
    again.close()
    with pytest.raises(RefusedError):  # one of the two goes on
        both.open()


def test_a_copy_goes_back_into_an_empty_store(both: Place) -> None:
    origin = Place(both.folder / "origin")
    ledger = origin.create()
    release(ledger)
    ledger.close()
    copy_ledger(origin.location, both.location)
    opened = StewardLedger.open(both.location, origin.head)
    release(opened)
    opened.close()
    assert verify(both.location, origin.head).ok
    with pytest.raises(RefusedError, match="already"):
        copy_ledger(origin.location, both.location)


def test_entries_that_are_lost_close_every_pot(both: Place) -> None:
    ledger = both.create(cap=1, ceiling=3, reissue="0.5")
    ledger.open_pot("board", 1, 2, **INSIDE)
    take_over(ledger, "north")
    release(ledger)
    ledger.close()
    early = both.folder / "early" / "ledger.sqlite"
    copy_ledger(both.location, early)
    ledger = both.open()
    release(ledger)
    ledger.close()
    with pytest.raises(RefusedError):
        StewardLedger.open(early, both.head)
    assert close_ledger(early, both.head) == (6, 7)
    closed = StewardLedger.open(early, both.head)
    for name in ("total", "board"):
        pot = closed.pot(name)
        assert pot.spent == pot.cap == pot.ceiling - pot.reissue and pot.reissued == pot.reissue
        with pytest.raises(BudgetError):
            reserve(closed, "0.001", pot=name)
        with pytest.raises((ParameterError, RefusedError)):
            closed.raise_cap(name, pot.cap + 1, "we would like to go on")
    assert closed.read_epoch().number == 2
    closed.close()
    assert verify(early, both.head).ok
    with pytest.raises(RefusedError):
        both.open()


def test_a_copy_that_went_on_by_itself_can_be_closed(both: Place) -> None:
    """It has another entry where the head names one, and entries after that."""
    both.create().close()
    copy = Place(both.folder / "copy")
    copy_ledger(both.location, copy.path)
    copy.head.parent.mkdir()
    shutil.copy(both.head, copy.head)
    for place in (both, copy, copy):
        ledger = place.open()
        release(ledger, "0.1" if place is copy else "0.2")
        ledger.close()
    with pytest.raises(RefusedError):
        StewardLedger.open(copy.path, both.head)
    close_ledger(copy.path, both.head)
    closed = StewardLedger.open(copy.path, both.head)
    with pytest.raises(BudgetError):
        reserve(closed, "0.001")
    closed.close()


INSIDE = {
    "inside": "total",
    "kind": "purpose",
    "neighbours": "add_remove",
    "unit": "person",
    "question": "How many visits are urgent?",
    "population": "residents of the county",
    "recipient": "the county health board",
}


def test_a_loss_that_leaves_a_pot_open_is_named(place: Place) -> None:
    """The planted bug: a `lost` entry whose totals are not those of closed pots."""
    ledger = place.create()
    release(ledger)
    ledger.close()
    early = place.folder / "early" / "ledger.sqlite"
    copy_ledger(place.location, early)
    ledger = place.open()
    release(ledger)
    ledger.close()
    close_ledger(early, place.head)
    lost = Place(place.folder / "moved")
    lost.path.parent.mkdir(parents=True)
    early.rename(lost.path)
    rewrite(lost, 4, first=9)
    report = verify(lost.path, place.head)
    assert not report.ok and "4" in str(report)
