"""Misses of a schedule are entries of the ledger, which count up and move no total."""

from __future__ import annotations

import pytest

from dither.privacy.ledger.misses import add_miss, count_misses
from tests.ledger.ledger_place import Place, release, rewrite


def test_misses_count_up_and_move_nothing(both: Place) -> None:
    ledger = both.create()
    release(ledger)
    before = ledger.pot("total")
    limits = ledger.newest_limit_entry()
    add_miss(ledger)
    add_miss(ledger)
    assert count_misses(ledger) == 2
    assert ledger.pot("total") == before and ledger.newest_limit_entry() == limits
    release(ledger)
    ledger.close()
    assert both.verify().ok
    again = both.open()
    assert count_misses(again) == 2
    again.close()


@pytest.mark.parametrize("number", [1, 3, "2", True])
def test_a_miss_that_does_not_count_up_is_named(place: Place, number: object) -> None:
    ledger = place.create()
    add_miss(ledger)
    add_miss(ledger)
    ledger.close()
    rewrite(place, 3, number=number)
    report = place.verify()
    assert not report.ok and "3" in str(report) and "miss" in str(report)
