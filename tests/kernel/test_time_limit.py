"""The engine's time limit strikes after the charge: one constant failure, and an incident (P1)."""

from __future__ import annotations

import threading
import time

import pytest

from dither.data.measure import Measurer
from dither.errors import UnavailableError
from dither.privacy.kernel.time_limit import TimeLimitError, limit_time
from tests.datasets.served_clinic import COUNT, serving

SLOW = "SELECT sum(a.range * b.range) FROM range(100000000) a, range(100000) b"


def test_a_statement_past_the_limit_keeps_its_charge_and_is_an_incident(tmp_path, monkeypatch):
    """It is stopped once, and not tried again: every try would take the limit anew."""
    tries = []

    def measure_slowly(self, *_):
        tries.append(1)
        return self.engine.connection.execute(SLOW).fetchall()

    with serving(tmp_path) as served:
        kernel = served.server._service._datasets["clinic"]._curator.kernel
        con = served.connect()
        con.sql(COUNT, epsilon=1)
        kernel.engine_limit_s = 0.2
        with monkeypatch.context() as patched:
            patched.setattr(Measurer, "measure", measure_slowly)
            with pytest.raises(UnavailableError) as failure:
                con.sql(COUNT, epsilon=2)
        assert str(failure.value) == UnavailableError.TEXT and len(tries) == 1
        assert served.read_spent() == 3 and kernel.ledger.is_suspended("total")


def test_all_tries_of_a_statement_have_one_limit(tmp_path, monkeypatch):
    """Every try had the whole limit once: three of them took 1.8 of the longest slots."""
    tries = []

    def fail_late(self, *_):
        tries.append(1)
        time.sleep(0.2)
        raise RuntimeError

    with serving(tmp_path) as served:
        kernel = served.server._service._datasets["clinic"]._curator.kernel
        kernel.engine_limit_s = 0.3
        with monkeypatch.context() as patched:
            patched.setattr(Measurer, "measure", fail_late)
            with pytest.raises(UnavailableError):
                served.connect().sql(COUNT, epsilon=2)
    assert len(tries) == 2


def test_a_limit_strikes_again_until_the_block_ends():
    """The first strike may come between two statements, where there is nothing to stop."""
    strikes = threading.Semaphore(0)
    noticed: list[bool] = []
    with pytest.raises(TimeLimitError), limit_time(0.01, strikes.release) as has_struck:
        noticed += [strikes.acquire(timeout=10) for _ in range(3)]
        noticed.append(has_struck())
    assert noticed == [True] * 4


def test_a_statement_within_the_limit_is_answered(tmp_path):
    with serving(tmp_path) as served:
        kernel = served.server._service._datasets["clinic"]._curator.kernel
        kernel.engine_limit_s = 60
        assert served.connect().sql(COUNT, epsilon=1).to_dict()["n"]


def test_a_curator_with_a_schedule_limits_the_engine_to_less_than_its_longest_slot(tmp_path):
    with serving(tmp_path, slot_s=0.01) as served:
        dataset = served.server._service._datasets["clinic"]
        assert 0 < dataset._curator.kernel.engine_limit_s < 0.75 * 0.01 * 2**10
