"""Since when budgets are suspended, as those who ask may know it: slots, and no numbers."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dither import steward
from dither.errors import RefusedError, UnavailableError
from dither.identity import TokenStore
from dither.privacy.kernel.kernel import Kernel
from dither.protocol.page_messages import DatasetStatus, ReadStatus
from tests.datasets import clinic
from tests.datasets.served_clinic import COUNT, ROWS, ServedClinic, own_state_home, start_server

SLOT_S = 2.0


@pytest.fixture
def apart(tmp_path):
    """A clinic with two groups and slots, which two failures suspend for all."""
    with own_state_home(tmp_path), tempfile.TemporaryDirectory(prefix="dither") as short:
        file, state = clinic.register(tmp_path / "clinic", ROWS)
        clinic.open_total(state, max_incidents=2)
        for name in ("board", "press"):
            facts = steward.registered_catalog(state)
            group = {"epsilon": 2, "ceiling": 2, "kind": "group", "inside": "total"}
            steward.open_pot(state, facts, name, purpose=clinic.PURPOSE, **group)
        home = tmp_path / "home"
        path = Path(short) / "s"
        served = ServedClinic(
            file, state, home, path, TokenStore(home), start_server(file, home, path, SLOT_S)
        )
        yield served
        served.server.stop()
        served.tokens.close()


def read_status(served: ServedClinic, pot: str, role: str = "analyst") -> DatasetStatus:
    pots = (pot,) if pot else ()
    transport = served.make_transport(served.make_token(f"{role}-{pot}", role, pots))
    return transport.call(ReadStatus(), DatasetStatus)


def fail(served: ServedClinic, pot: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a question of a budget fail after its charge."""

    def break_engine(*_):
        raise RuntimeError("the engine ran out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "measure", break_engine)
        with pytest.raises(UnavailableError):
            served.connect(served.make_token(pots=(pot,)), pot).sql(COUNT, epsilon="0.1")


def test_a_failure_is_told_from_its_slot_on_to_those_whom_it_stops(apart, monkeypatch):
    assert read_status(apart, "board").since is None
    before = datetime.now(UTC).timestamp()
    fail(apart, "board", monkeypatch)
    after = datetime.now(UTC)
    board = read_status(apart, "board")
    assert board.pots == ["board"] and not board.is_for_all
    since = datetime.fromisoformat(board.since)
    assert since.microsecond == 0 and since.timestamp() > before + SLOT_S - 1  # rounded down
    assert since <= after
    press = read_status(apart, "press")
    assert (press.since, press.pots, press.is_for_all) == (None, [], False)
    for role in ("steward", "auditor", "admin"):
        status = read_status(apart, "", role)
        assert (status.since, status.pots, status.is_for_all) == (board.since, [], False)
    assert read_status(apart, "board").since == board.since


def test_the_time_for_all_is_when_all_were_stopped_and_no_number_is_told(apart, monkeypatch):
    fail(apart, "board", monkeypatch)
    first = read_status(apart, "board").since
    fail(apart, "press", monkeypatch)
    press = read_status(apart, "press")
    total = read_status(apart, "total")
    assert press.is_for_all and total.is_for_all and total.since == press.since > first
    assert read_status(apart, "board").since == first
    fields = set(DatasetStatus.model_fields) - {"kind"}
    assert fields == {"name", "role", "own_pots", "since", "pots", "is_for_all"}
    steward.clear_incidents(apart.state, "the engine has more memory")
    assert read_status(apart, "press").since is None
    assert read_status(apart, "", "steward").since is None


def test_the_time_outlives_the_curator(apart, monkeypatch):
    fail(apart, "board", monkeypatch)
    since = read_status(apart, "board").since
    apart.restart()
    assert read_status(apart, "board").since == since
    with pytest.raises(RefusedError, match="suspended"):
        apart.connect(apart.make_token(pots=("board",)), "board").sql(COUNT, epsilon="0.2")
    assert read_status(apart, "board").since == since
