"""The auditor's program in docs/reference/ledger.md runs, and finds what `verify` finds."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dither.privacy.ledger.chain import entry_hash
from dither.privacy.ledger.head import Anchor
from tests.ledger.ledger_place import Place, release, reserve

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "ledger.md"


@pytest.fixture(scope="module")
def audit() -> Callable[[Path, Path], Any]:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)
    names: dict[str, Any] = {}
    exec(program, names)
    found: Callable[[Path, Path], Any] = names["audit"]
    return found


def test_it_agrees_with_verify_on_a_good_ledger(
    place: Place, audit: Callable[[Path, Path], Any]
) -> None:
    ledger = place.create()
    release(ledger)
    ledger.raise_cap("total", 2, "the board asked for more")
    ledger.record_incident(reserve(ledger), "engine_failed")
    ledger.clear_incidents("the engine has more memory now")
    release(ledger, "0.3")
    pot = ledger.pot("total")
    assert audit(place.path, place.head) == {"total": (pot.spent, pot.cap)}
    assert place.verify().ok


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entry SET body_json=replace(body_json, '1/10', '1/100') WHERE seq=2",
        "UPDATE entry SET hash=prev_hash WHERE seq=3",
        "DELETE FROM entry WHERE seq=2",
        "UPDATE release SET arrow_bytes=x'00'",
        "UPDATE release SET nonce=zeroblob(32)",
        "DELETE FROM release",
        "UPDATE pot_state SET spent='0/1'",
    ],
)
def test_it_finds_tampering(
    place: Place, audit: Callable[[Path, Path], Any], statement: str
) -> None:
    ledger = place.create()
    release(ledger)
    ledger.close()
    audit(place.path, place.head)
    connection = sqlite3.connect(place.path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(AssertionError):
        audit(place.path, place.head)
    assert not place.verify().ok


def test_it_finds_a_body_that_two_readers_could_read_differently(
    place: Place, audit: Callable[[Path, Path], Any]
) -> None:
    """Hashes and head are good; only the spelling of the last body is not the one that dither
    writes."""
    ledger = place.create()
    ledger.raise_cap("total", 2, "the board asked for more")
    ledger.close()
    connection = sqlite3.connect(place.path)
    seq, kind, text, previous = connection.execute(
        "SELECT seq, kind, body_json, prev_hash FROM entry ORDER BY seq DESC LIMIT 1"
    ).fetchone()
    twice = '{"cap":"9/1",' + text[1:]
    hashed = entry_hash(seq, kind, twice, previous)
    connection.execute("UPDATE entry SET body_json=?, hash=? WHERE seq=?", (twice, hashed, seq))
    connection.commit()
    connection.close()
    place.head.write_text(Anchor(seq, hashed).text())
    with pytest.raises(AssertionError, match=f"entry {seq}"):
        audit(place.path, place.head)
    assert place.verify().first_bad == seq
