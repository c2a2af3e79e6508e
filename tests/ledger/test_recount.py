"""Ledgers of the first version: their shares are recounted by the present rule, and whoever looks
is told.

`shares_of_the_first_version.json` was written by the code before the repair: two groups with a
partition by ward each, total cap 1. Both groups hold one stored count of the north; each asked
another question of the south. The old rule let the total stand at 1, where a person of the south
has lost 2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dither.errors import BudgetError, RefusedError
from dither.privacy.ledger.head import Anchor
from dither.privacy.ledger.steward_ledger import StewardLedger
from tests.ledger.ledger_place import TABLES, Place, reserve

STORED: dict[str, Any] = json.loads(
    Path(__file__).with_name("shares_of_the_first_version.json").read_text()
)
BYTES = {("release", 3), ("release", 4)}


@pytest.fixture
def old(both: Place) -> Place:
    """The stored ledger in a fresh place, with its head."""
    StewardLedger.create(both.location, both.head).close()
    with both._theirs() as theirs:
        mark = "%s" if both.url else "?"
        for table in TABLES:
            for row in STORED[table]:
                values = [
                    bytes.fromhex(cell) if (table, at) in BYTES else cell
                    for at, cell in enumerate(row)
                ]
                theirs.execute(
                    f"INSERT INTO {table} VALUES ({', '.join([mark] * len(row))})", values
                )
        theirs.commit()
    last = STORED["entry"][-1]
    both.head.parent.mkdir(parents=True, exist_ok=True)
    both.head.write_text(Anchor(last[0], last[4]).text())
    return both


def test_verify_accepts_the_old_entries_and_says_what_the_total_is(old: Place) -> None:
    report = old.verify()
    assert report.ok and "budget 'total' was recounted: it stands at 2 (cap 1), not at 1" in str(
        report
    )
    assert {pot.name: pot.spent for pot in report.pots}["total"] == 2


def test_opening_recounts_once_and_stops_the_pot(old: Place) -> None:
    ledger = old.open()
    assert (ledger.pot("total").spent, ledger.pot("total").left) == (2, 0)
    with pytest.raises(BudgetError, match="'total' cannot pay"):
        reserve(ledger, "0.01")
    ledger.close()
    assert old.open().pot("total").spent == 2
    assert old.rows("SELECT COUNT(*) FROM entry WHERE kind = 'recount'") == [(1,)]
    report = old.verify()
    assert report.ok and "entry 17: budget 'total' was recounted" in str(report)


def test_a_recount_that_is_taken_out_or_lowered_is_found(old: Place) -> None:
    old.open().close()
    text = old.rows("SELECT body_json FROM entry WHERE kind = 'recount'")[0][0]
    old.change(
        f"UPDATE entry SET body_json = '{text.replace('2/1', '1/1', 1)}' WHERE kind = 'recount'"
    )
    assert not old.verify().ok


def test_a_lowered_total_of_an_old_ledger_is_found_at_opening(old: Place) -> None:
    old.change("UPDATE pot_state SET spent='0/1' WHERE pot='g1'")
    with pytest.raises(RefusedError, match="are damaged"):
        old.open()
