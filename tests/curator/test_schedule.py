"""The schedule: questions start and answers leave at public times, and nothing shows before."""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from datetime import UTC, datetime
from math import exp, floor

import pytest

from dither import steward
from dither.curator import schedule as schedule_module
from dither.curator import service as service_module
from dither.curator.dataset import ServedDataset
from dither.curator.dataset_lock import DatasetLock
from dither.curator.modes import make_mode
from dither.curator.run import CuratorSettings, make_server
from dither.curator.schedule import (
    DELAY_SHARE,
    MOST_MISSES,
    MOST_WAITING,
    MOST_WAITING_OF_ONE,
    Schedule,
    count_slots,
    draw_delay,
    find_end,
    find_slot_length,
)
from dither.errors import BudgetError, DitherError, ParameterError, UnavailableError
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.ledger.misses import count_misses
from dither.protocol import act_messages, documents, messages
from dither.protocol.errors import AccessError, BusyError, TokenError
from dither.protocol.job_messages import FitTerms, RunJob
from tests.datasets.served_clinic import BY_WARD, COUNT, serving, start_server

START = 1_000_000_000.303
ADMITTED = 1_000_000_000.31
"""When a question that comes at the start is admitted."""


class FakeClock:
    """A clock that only sleeping and work move."""

    def __init__(self) -> None:
        self.seconds = START

    def time(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def clock(monkeypatch) -> FakeClock:
    fake = FakeClock()
    monkeypatch.setattr(schedule_module, "time", fake)
    return fake


class CountedMisses:
    """Misses as a ledger counts them, without one."""

    def __init__(self) -> None:
        self.misses = 0

    def count_misses(self) -> int:
        return self.misses

    def add_miss(self) -> None:
        self.misses += 1


@pytest.fixture
def log() -> CountedMisses:
    return CountedMisses()


@pytest.mark.parametrize("work_s", [0.001, 0.5, 2.399])
def test_an_answer_leaves_at_the_end_of_its_slot_however_long_it_took(clock, log, work_s):
    """Slots of 4 seconds: it starts at the next hundredth of a second, and leaves 4 seconds later.

    Work of the first 0.6 of a slot ends within it but for a delay past 20 means (e^-20).
    """
    schedule = Schedule(4, log)
    with schedule.hold_slot("alice"):
        assert clock.seconds == pytest.approx(ADMITTED, abs=1e-5)
        clock.seconds += work_s
    assert clock.seconds == pytest.approx(ADMITTED + 4, abs=1e-5) and schedule.misses == 0


def test_a_failure_takes_as_long_as_an_answer(clock, log):
    schedule = Schedule(4, log)
    with pytest.raises(UnavailableError), schedule.hold_slot("alice"):
        raise UnavailableError
    assert clock.seconds == pytest.approx(ADMITTED + 4, abs=1e-5)


def test_the_time_of_a_release_is_the_end_of_its_slot(clock, log):
    schedule = Schedule(4, log)
    times = set()
    with schedule.hold_slot("alice"):
        for _ in range(3):
            times.add(schedule.read_clock())
            clock.seconds += 0.7
    assert times == {"2001-09-09T01:46:44+00:00"}
    assert datetime.fromisoformat(times.pop()).timestamp() == floor(ADMITTED + 4)


@pytest.mark.parametrize("misses", [0, 3, 9, 10])
@pytest.mark.parametrize("slots", [1, 5])
def test_one_persons_work_changes_what_leaves_by_little_of_the_chance_of_a_miss(misses, slots):
    """By (e^(w/b) - 1) p at most, as docs/proofs/schedule.md has it: p is the chance of a miss.

    The law of the delay is cut into cells of equal probability, so p is exact up to one cell.
    """
    held = slots * find_slot_length(0.5, misses)
    mean = DELAY_SHARE * held
    delays = [-math.log((number + 0.5) / 20_000) for number in range(20_000)]
    for extra in (mean / 100, mean / 5):
        for share in (0, 0.6, 0.9, 0.97, 0.99, 0.9999, 1, 1.2):
            work = held * share
            ends = [find_end(0.5, misses, slots, work, delay) for delay in delays]
            moved = [find_end(0.5, misses, slots, work + extra, delay) for delay in delays]
            missed = sum(end != (misses, held) for end in ends) / 20_000
            differing = sum(a != b for a, b in zip(ends, moved, strict=True)) / 20_000
            assert differing <= (exp(extra / mean) - 1) * missed + 3 / 20_000


def test_without_the_delay_one_boundary_decides():
    """The planted bug: a question tuned to the boundary tells who is there."""
    assert find_end(0.5, 0, 1, 0.4999, 0) != find_end(0.5, 0, 1, 0.5001, 0)


def test_a_uniform_delay_would_tell_more_the_more_is_asked():
    """The planted bug of the first version: a chance of 0 without the person, w / d with them.

    An exponential delay has no such end: where one of the two can miss, both can.
    """
    work, extra = 0.375, 0.001
    uniform = [number / 1000 * 0.125 for number in range(1000)]
    assert not any(work + delay > 0.5 for delay in uniform)
    assert any(work + extra + delay > 0.5 for delay in uniform)
    mean = DELAY_SHARE * 0.5
    chances = [exp(-(0.5 - seconds) / mean) for seconds in (work, work + extra)]
    assert 1 < chances[1] / chances[0] == pytest.approx(exp(extra / mean))


def test_delays_are_exponential_and_drawn_anew():
    """4,000 draws: mean 1 and median ln 2, each within seven standard errors (1e-11)."""
    delays = sorted(draw_delay() for _ in range(4_000))
    assert min(delays) >= 0 and len(set(delays)) == 4_000
    assert sum(delays) / 4_000 == pytest.approx(1, abs=7 / 4_000**0.5)
    assert delays[2_000] == pytest.approx(math.log(2), abs=7 / 4_000**0.5)


def test_misses_and_ends_are_those_of_the_definition():
    """By hand: slots of 1 s and a mean delay of 0.02 s."""
    assert find_end(1, 0, 1, 0.6, 19.9) == (0, 1)
    assert find_end(1, 0, 1, 0.6, 20.1) == (1, 2)
    assert find_end(1, 0, 1, 2.5, 0) == (2, 4)
    assert find_end(1, 2, 1, 2.5, 0) == (2, 4)
    assert find_end(1, MOST_MISSES, 1, 1500, 0) == (MOST_MISSES, 2048)
    assert find_end(1, 1, 3, 5.9, 0) == (1, 6)


@pytest.mark.parametrize(
    ("work_s", "slots"), [(0, 1), (0.2, 1), (0.21, 2), (0.8, 2), (0.81, 3), (5.6, 10)]
)
def test_slots_hold_the_bound_and_twenty_mean_delays(work_s, slots):
    """Slots of 1 s: 0.4 s for all else, and both together are 0.6 of what is held."""
    assert count_slots(1, work_s) == slots
    assert 0.4 + work_s <= 0.6 * slots + 1e-9
    assert find_end(1, 0, slots, 0.4 + work_s, 19.99) == (0, slots)


def test_a_miss_doubles_the_slots_of_the_dataset_for_ever(clock, log):
    schedule = Schedule(4, log)
    with schedule.hold_slot("alice"):
        clock.seconds += 9  # neither within 4 nor within 8 seconds
    assert (schedule.misses, schedule.slot_s) == (2, 16)
    assert clock.seconds == pytest.approx(ADMITTED + 16, abs=1e-5)
    again = Schedule(4, log)
    assert (again.misses, again.slot_s) == (2, 16)


def test_a_job_leaves_after_so_many_slots_as_its_seconds_need(clock, log):
    """Whatever it needs: 0 or 7 of its 10 seconds. A question after it has one slot again."""
    schedule = Schedule(4, log)
    for work in (0, 7):
        with schedule.hold_slot("alice", seconds=10):
            start = clock.seconds
            clock.seconds += work
            told = datetime.fromisoformat(schedule.read_clock()).timestamp()
        assert clock.seconds == pytest.approx(start + 12, abs=1e-5) and schedule.misses == 0
        assert told == floor(clock.seconds)
    with schedule.hold_slot("alice"):
        start = clock.seconds
    assert clock.seconds == pytest.approx(start + 4, abs=1e-5)


def test_a_job_that_takes_longer_is_a_miss_like_any_other(clock, log):
    schedule = Schedule(4, log)
    with schedule.hold_slot("alice", seconds=10):
        start = clock.seconds
        clock.seconds += 13
    assert (schedule.misses, schedule.slot_s) == (1, 8)
    assert clock.seconds == pytest.approx(start + 24, abs=1e-5)
    with schedule.hold_slot("alice", seconds=10):
        start = clock.seconds
    assert clock.seconds == pytest.approx(start + 24, abs=1e-5)  # a miss lengthens jobs too


def test_the_time_of_a_late_release_is_the_end_of_the_longer_slot(clock, log):
    schedule = Schedule(4, log)
    with schedule.hold_slot("alice"):
        clock.seconds += 9
        told = schedule.read_clock()
    assert clock.seconds == pytest.approx(ADMITTED + 16, abs=1e-5)
    assert datetime.fromisoformat(told).timestamp() == floor(clock.seconds)


def test_misses_are_capped(clock, log):
    schedule = Schedule(1, log)
    for _ in range(3):
        with schedule.hold_slot("alice"):
            clock.seconds += 3000
    assert (schedule.misses, schedule.slot_s) == (MOST_MISSES, 1024)
    assert log.count_misses() == MOST_MISSES


def test_without_a_schedule_nothing_waits(clock, log):
    schedule = Schedule(0, log)
    with schedule.hold_slot("alice"):
        clock.seconds += 100
    with schedule.read_released():
        pass
    assert clock.seconds == START + 100 and schedule.misses == 0
    assert schedule.read_clock() == "2001-09-09T01:48:20+00:00"


def test_readers_leave_on_a_grid(clock, log):
    schedule = Schedule(4, log)
    with schedule.read_released():
        clock.seconds += 0.007
    assert clock.seconds == pytest.approx(1_000_000_000.35, abs=1e-6)


def test_a_certificate_states_the_schedule_and_its_misses(clock, log):
    schedule = Schedule(4, log)
    with schedule.hold_slot("alice"):
        clock.seconds += 5
    mode = make_mode(schedule, is_one_user=False)
    assert mode.name == "split"
    assert "slots of 8 seconds" in mode.not_promised[0] and "the 1 misses" in mode.not_promised[0]
    untimed = make_mode(Schedule(0, log), is_one_user=True)
    assert "could read the data" in untimed.not_promised[0]
    assert "no schedule" in untimed.not_promised[1]


def test_who_comes_when_too_many_wait_is_sent_away_for_free(log):
    schedule = Schedule(0, log)
    leave = threading.Event()

    def stay(asker: str) -> None:
        with schedule.hold_slot(asker):
            leave.wait(60)

    def start_asking(askers: list[str]) -> list[threading.Thread]:
        threads = [threading.Thread(target=stay, args=(asker,)) for asker in askers]
        waiting = len(schedule._tickets) + len(threads)
        for thread in threads:
            thread.start()
        while len(schedule._tickets) < waiting:
            time.sleep(0.001)
        return threads

    threads = start_asking(["alice"] * MOST_WAITING_OF_ONE)
    with (
        pytest.raises(BusyError, match=r"your questions.* nothing was charged"),
        schedule.hold_slot("alice"),
    ):
        pytest.fail("one too many of alice was admitted")
    names = [f"colleague {number}" for number in range(MOST_WAITING - MOST_WAITING_OF_ONE)]
    threads += start_asking(names)
    with pytest.raises(BusyError, match="too many questions wait"), schedule.hold_slot("bob"):
        pytest.fail("one too many was admitted")
    leave.set()
    for thread in threads:
        thread.join()
    with schedule.hold_slot("alice"):
        pass


def test_who_reads_sees_no_release_before_its_slot_ends(tmp_path, monkeypatch):
    """A question of 2 ms in a slot of 0.2 s: balances, history and stored answers wait for it.

    The order of events is checked, not their times: the reader's reply comes after the answer, or
    shows what was there before.
    """
    with serving(tmp_path, slot_s=0.2) as served:
        token = served.make_token()
        asker = served.connect(token)
        reader = served.connect(token)
        committed = threading.Event()
        commit = Kernel.commit

        def commit_and_tell(*arguments):
            commit(*arguments)
            committed.set()

        monkeypatch.setattr(Kernel, "commit", commit_and_tell)
        events: list[str] = []

        def ask() -> None:
            asker.sql(COUNT, epsilon=1)

        thread = threading.Thread(target=ask)
        dataset = served.server._service._datasets["clinic"]
        leave = dataset._schedule._leave

        def leave_and_tell() -> None:
            leave()
            events.append("slot ended")

        monkeypatch.setattr(dataset._schedule, "_leave", leave_and_tell)
        thread.start()
        assert committed.wait(60)  # it is in the ledger now, and its slot has not ended
        for read in (
            lambda: len(reader.history()) == 1,
            lambda: reader.budget().pots[0].spent == 1,
            lambda: reader.sql(COUNT, epsilon=1, dry_run=True).info["context"] == "dry_run",
            lambda: reader.preview(COUNT, epsilon=1).stored,
        ):
            assert read()
            events.append("seen")
        thread.join()
        assert events == ["slot ended", "seen", "seen", "seen", "seen"]


def test_answers_and_refusals_hold_a_slot_each_and_repeats_none(tmp_path, monkeypatch):
    """A repeat reads no data: it waits until no question holds the dataset, then for the grid."""
    with serving(tmp_path, slot_s=0.05) as served:
        dataset = served.server._service._datasets["clinic"]
        slots: list[float] = []
        schedule = dataset._schedule
        leave = schedule._leave
        monkeypatch.setattr(schedule, "_leave", lambda: (slots.append(schedule._start), leave()))
        con = served.connect()
        first = con.sql(BY_WARD, epsilon=1)
        assert con.sql(BY_WARD, epsilon=1).info["repeated"] and len(slots) == 1
        with pytest.raises(BudgetError):
            con.sql(COUNT, epsilon=100)
        assert len(set(slots)) == 2
        assert all(abs(start * 100 - round(start * 100)) < 1e-3 for start in slots)
        assert first.certificate()["body"]["mode"]["not_promised"][1].startswith("answers leave at")


def test_what_takes_long_to_price_is_refused_before_it_holds_a_slot(tmp_path, monkeypatch):
    """Else a refused request would be a free miss, and ten of them stop the dataset."""
    with serving(tmp_path, slot_s=0.2) as served:
        dataset = served.server._service._datasets["clinic"]
        con = served.connect()
        con.preview(COUNT, epsilon=1)
        price = dataset._price

        def price_slowly(*arguments):
            end = time.thread_time() + 0.3
            while time.thread_time() < end:
                pass
            return price(*arguments)

        monkeypatch.setattr(dataset, "_price", price_slowly)
        with pytest.raises(ParameterError, match="pricing this request alone"):
            con.sql(COUNT, epsilon=1)
        assert dataset._schedule.misses == 0 and served.read_spent() == 0


def test_a_miss_is_in_the_ledger_and_outlives_the_curators_own_file(tmp_path, monkeypatch):
    """Else whoever makes a curator fail over, or restores its file, would begin with no miss."""
    measure = Kernel.measure

    def measure_late(*arguments):
        values = measure(*arguments)
        time.sleep(0.3)
        return values

    monkeypatch.setattr(Kernel, "measure", measure_late)
    with serving(tmp_path, slot_s=0.2) as served:
        con = served.connect()
        con.sql(COUNT, epsilon=1)
        dataset = served.server._service._datasets["clinic"]
        misses = dataset._schedule.misses
        assert misses >= 1 and count_misses(dataset._curator.kernel.ledger) == misses
        served.server.stop()
        served.home = tmp_path / "another home"
        served.server = start_server(served.file, served.home, served.socket, 0.2)
        assert served.server._service._datasets["clinic"]._schedule.misses == misses
        assert steward.verify_ledger(served.state).ok


def test_misses_of_the_first_version_still_count(tmp_path):
    with serving(tmp_path) as served:
        database = sqlite3.connect(served.home / "curator.sqlite")
        with database:
            database.executemany("INSERT INTO miss VALUES (?)", [("clinic",), ("shop",)])
        database.close()
        served.restart()
        assert served.server._service._datasets["clinic"]._schedule.misses == 1


def test_a_dataset_has_one_curator_and_one_schedule(tmp_path):
    with serving(tmp_path) as served:
        path = served.socket.parent / "second"
        with pytest.raises(DitherError, match="another curator serves"):
            make_server(CuratorSettings((served.file,), path, tmp_path / "second home"))
        assert not path.exists()
        served.server.stop()
        served.server = start_server(served.file, served.home, served.socket)
        assert served.connect().sql(COUNT, epsilon=1)


def test_a_dataset_is_locked_before_a_curator_waits_for_earlier_slots(tmp_path, monkeypatch):
    """Else one that still ran could release more meanwhile, which the next would show too early."""
    with serving(tmp_path) as served:
        served.server.stop()

        def refuse_to_wait(dataset: ServedDataset, *, is_shared: bool) -> None:
            with pytest.raises(DitherError, match="another curator serves"):
                DatasetLock(dataset.limits.state.root)
            raise DitherError("it waits")

        with monkeypatch.context() as patched:
            patched.setattr(ServedDataset, "begin_epoch", refuse_to_wait)
            with pytest.raises(DitherError, match="it waits"):
                make_server(CuratorSettings((served.file,), served.socket, served.home))
        served.server = start_server(served.file, served.home, served.socket)  # it is free again


def test_calls_about_accounts_leave_on_a_grid_where_a_schedule_is_kept(tmp_path, monkeypatch):
    """A login takes longer the busier the curator is: so it leaves at whole seconds."""
    ticks = []
    monkeypatch.setattr(service_module, "await_tick", ticks.append)
    for slot_s, expected in ((0, []), (0.2, [0.05, 1.0, 0.05, 0.05])):
        with serving(tmp_path / str(slot_s), slot_s=slot_s) as served:
            transport = served.make_transport()
            transport.call(messages.ListDatasets(), messages.DatasetNames)
            with pytest.raises(TokenError):
                transport.call(
                    act_messages.LogIn(name="eve", password="x"), act_messages.SessionOpened
                )
            with pytest.raises(TokenError):
                served.make_transport("dither-unknown").call(
                    messages.ReadFacts(), messages.PublicFacts
                )
            with pytest.raises(AccessError):
                transport.call(act_messages.ReadHead(), act_messages.LimitHead)
            transport.call(messages.ReadFacts(), messages.PublicFacts)
        assert ticks == expected


def test_refusals_of_questions_and_broken_messages_leave_on_a_grid(tmp_path, monkeypatch):
    """What is refused at once tells how busy the curator is, as a reader at once would."""
    ticks = []
    with serving(tmp_path, slot_s=0.2) as served:
        con = served.connect()
        priced = con.request(COUNT, epsilon=1)
        sent = documents.write_request(priced).model_copy(update={"pot": "board"})
        call = messages.ReleaseRequest(request=sent, rules=2, key="0" * 64)
        fit = FitTerms(estimator="Ridge", parameters="{}", rows={}, columns=["age"])
        job = RunJob(pot="board", terms=fit, idempotency_key="a-key")
        monkeypatch.setattr(service_module, "await_tick", ticks.append)
        monkeypatch.setattr(schedule_module, "await_tick", ticks.append)
        transport = served.make_transport()
        for refused in (call, job):
            with pytest.raises(AccessError, match="not granted"):
                transport.call(refused, messages.ReleasedAnswer)
        assert ticks == [0.05, 0.05]
        reply = served.server._service.reply({"number": 1})
        assert reply["error"]["kind"] == "ProtocolError" and ticks == [0.05, 0.05, 0.05]


def test_a_curator_is_warm_before_its_first_question(tmp_path, monkeypatch):
    """It opens the copy and rehearses once at its start, and neither measures nor charges."""
    prepared = []
    prepare = Kernel.prepare

    def prepare_and_note(kernel, priced):
        prepared.append(priced.request.pot)
        return prepare(kernel, priced)

    monkeypatch.setattr(Kernel, "prepare", prepare_and_note)
    monkeypatch.setattr(Kernel, "measure", lambda *_: pytest.fail("registered rows were read"))
    for slot_s, pots in ((0, []), (0.2, ["total"])):
        with serving(tmp_path / str(slot_s), slot_s=slot_s) as served:
            dataset = served.server._service._datasets["clinic"]
            assert prepared == pots and served.read_spent() == 0
            assert (dataset._curator._rehearsals is None) == (slot_s == 0)
            assert dataset._curator.read_history("total").releases == ()


def test_who_takes_over_waits_until_the_slots_of_earlier_releases_have_ended(log):
    """A release was seen before its slot ended where another curator, or the same one started anew,
    had taken over meanwhile."""
    schedule = Schedule(0.5, log)
    ahead = datetime.fromtimestamp(math.floor(time.time()) + 1, UTC)
    schedule.await_slots([ahead.isoformat(), "2020-01-01T00:00:00+00:00"])
    assert time.time() >= ahead.timestamp() + 1
    Schedule(0, log).await_slots(["2100-01-01T00:00:00+00:00"])  # no schedule, no wait
