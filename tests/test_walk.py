"""The walk of one question, counted: COUNT and AVG by ward, asked for the first time.

A question goes one way: the ledger is read once for the session and once for the kernel, which believes nothing; the
dialect is parsed once; one offer is made and priced. Each repetition would cost time, and hide what depends on what.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import dither
from dither import steward
from dither.privacy.ledger.database import Transaction
from dither.state import State
from tests.datasets.clinic import CATALOG, PURPOSE, catalog, row, write_csv

QUESTION = "SELECT ward, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY ward"
MOST_TRANSACTIONS = 6
MOST_PRICES = 2


@pytest.fixture
def connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dither.Connection:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    file = tmp_path / "clinic.yaml"
    file.write_text(CATALOG)
    wards = ("north", "south")
    write_csv(tmp_path / "visits.csv", [row(str(i), str(i % 40), ward=wards[i % 2]) for i in range(100)])
    steward.register(file)
    steward.open_pot(State.beside(file), catalog(), "total", epsilon=10, ceiling=20, purpose=PURPOSE)
    return dither.connect(file)


@pytest.fixture
def calls(connection: dither.Connection, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each function of dither ran, in any thread, and how many transactions the ledger's driver saw."""
    counted: Counter[str] = Counter()
    begin = Transaction.__init__

    def counting(self: Transaction, raw: Any, dialect: Any) -> None:
        counted["transactions"] += 1
        begin(self, raw, dialect)

    def note_call(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and "dither" in frame.f_globals.get("__name__", ""):
            counted[f"{frame.f_globals['__name__']}.{frame.f_code.co_name}"] += 1

    monkeypatch.setattr(Transaction, "__init__", counting)
    threading.setprofile(note_call)
    sys.setprofile(note_call)
    try:
        connection.sql(QUESTION, epsilon=1)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return counted


def test_the_ledger_is_opened_few_times(calls: Counter[str]) -> None:
    assert 4 <= calls["transactions"] <= MOST_TRANSACTIONS


def test_a_question_is_read_bound_and_offered_once_and_priced_twice(calls: Counter[str]) -> None:
    assert calls["dither.sql.dialects.spoken"] == 1
    assert calls["dither.sql.bind.bind"] == 1
    assert calls["dither.answer.choose_mechanism.choose_mechanisms"] == 1
    assert 1 <= calls["dither.privacy.kernel.kernel.price_at"] <= MOST_PRICES
    assert calls["dither.privacy.kernel.kernel.price"] == 1  # by the kernel itself, which takes nobody's word


def test_the_pot_path_is_read_once_by_each_side(calls: Counter[str]) -> None:
    assert calls["dither.privacy.ledger.queries.view"] == 2
    assert calls["dither.privacy.ledger.queries.path"] == 0
