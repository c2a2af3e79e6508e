"""Fifty analysts ask at once: none is sent away, and who reads still finds a thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from anyio.to_thread import current_default_thread_limiter

from dither.curator.schedule import MOST_WAITING, Schedule
from dither.curator.server import MOST_CONNECTIONS
from dither.gateway.app import MOST_THREADS, make_app
from dither.gateway.repeats import MOST_AT_ONCE
from dither.protocol.errors import BusyError
from dither.remote.transport import SocketPool
from tests.datasets.served_clinic import COUNT, running_gateway, serving

ANALYSTS = 50
FOR_READERS = 8


def refuse_to_connect():
    raise OSError


def test_waiting_questions_leave_threads_and_connections_to_readers():
    assert MOST_WAITING >= ANALYSTS
    assert MOST_THREADS >= MOST_WAITING + FOR_READERS
    assert MOST_CONNECTIONS >= MOST_THREADS + MOST_AT_ONCE + FOR_READERS


def test_the_gateway_has_the_threads_that_it_states():
    app = make_app(SocketPool(refuse_to_connect))

    async def count_threads() -> float:
        async with app.router.lifespan_context(app):
            return current_default_thread_limiter().total_tokens

    assert asyncio.run(count_threads()) == MOST_THREADS


class NoMisses:
    """A log of misses that stays empty."""

    def count_misses(self) -> int:
        return 0

    def add_miss(self) -> None:
        raise AssertionError("a miss")


@pytest.mark.parametrize("slot_s", [0, 0.001])
def test_as_many_questions_as_may_wait_are_never_refused_however_they_meet(slot_s):
    schedule = Schedule(slot_s, NoMisses())
    schedule._find_end = lambda now: (0, now)  # however late this machine is, no miss
    together = threading.Barrier(MOST_WAITING)

    def ask(number: int) -> int:
        together.wait()
        for _ in range(3):  # whoever is answered asks again at once
            with schedule.read_released():
                pass
            with schedule.hold_slot(f"analyst{number}"):
                pass
        return number

    with ThreadPoolExecutor(MOST_WAITING) as analysts:
        assert list(analysts.map(ask, range(MOST_WAITING))) == list(range(MOST_WAITING))


def test_one_question_more_than_may_wait_is_refused():
    schedule = Schedule(0, NoMisses())
    together = threading.Barrier(MOST_WAITING + 1)
    is_refused = threading.Event()

    def ask(number: int) -> bool:
        together.wait()
        try:
            with schedule.hold_slot(f"analyst{number}"):
                return not is_refused.wait(60)
        except BusyError:
            is_refused.set()
            return True

    with ThreadPoolExecutor(MOST_WAITING + 1) as analysts:
        assert sum(analysts.map(ask, range(MOST_WAITING + 1))) == 1


@pytest.mark.all
def test_fifty_analysts_who_ask_at_once_all_have_answers_and_repeats(tmp_path):
    with serving(tmp_path, "1000") as clinic, running_gateway(clinic.socket) as url:
        tokens = [clinic.make_token(f"analyst{number}") for number in range(ANALYSTS)]

        def ask(number: int) -> list[int]:
            headers = {"authorization": f"Bearer {tokens[number]}"}
            with httpx.Client(base_url=url, timeout=120, headers=headers) as client:
                bodies = [{"sql": COUNT, "epsilon": f"1/{100 + number}"} for _ in range(4)]
                path = "/api/v1/datasets/clinic/sql"
                return [client.post(path, json=body).status_code for body in bodies]

        with ThreadPoolExecutor(ANALYSTS) as analysts:
            statuses = [status for row in analysts.map(ask, range(ANALYSTS)) for status in row]
        assert statuses == [200] * 4 * ANALYSTS
