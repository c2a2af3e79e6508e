"""Registration ends at once when it is interrupted, and says what it left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

from dither import steward
from dither.data.register import connections, interruptible, registration
from dither.data.register.interruptible import run_interruptibly
from dither.state import State
from dither.steward import registration as steward_registration
from tests.datasets import clinic

ENDLESS = "SELECT sum(a.i * b.i) FROM range(100000000) a(i), range(100000000) b(i)"
"""Hours of work for the engine."""


def interrupt_soon() -> None:
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()


def test_an_interrupt_ends_a_statement_of_the_engine():
    with duckdb.connect() as connection:
        interrupt_soon()
        with pytest.raises(KeyboardInterrupt):
            run_interruptibly(lambda: connection.execute(ENDLESS).fetchall(), connection.interrupt)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_signal_that_another_thread_receives_ends_it_too():
    """Threads of the engine or of a library may be handed the signal in place of the caller."""
    with duckdb.connect() as connection:

        def receive_signal() -> None:
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

        threading.Timer(0.3, receive_signal).start()
        with pytest.raises(KeyboardInterrupt):
            run_interruptibly(lambda: connection.execute(ENDLESS).fetchall(), connection.interrupt)


def test_an_error_of_the_work_is_raised_to_the_caller():
    with pytest.raises(ZeroDivisionError):
        run_interruptibly(lambda: 1 // 0, lambda: None)


def test_an_interrupt_while_the_thread_starts_cancels_the_work(monkeypatch):
    """The system may begin the thread later, when nobody waits for it any more."""
    late = []
    ran = []

    class InterruptedThread(threading.Thread):
        def start(self):
            late.append(threading.Timer(0.05, self.run))
            late[0].start()
            raise KeyboardInterrupt

    monkeypatch.setattr(interruptible, "Thread", InterruptedThread)
    with pytest.raises(KeyboardInterrupt):
        run_interruptibly(lambda: ran.append("work"), lambda: ran.append("stop"))
    late[0].join(60)
    assert ran == []


def test_an_interrupted_registration_changes_nothing(tmp_path, monkeypatch):
    rows = [clinic.row(f"v{i}", f"p{i}") for i in range(5)]
    file, state = clinic.register(tmp_path, rows)
    before = sorted(path.relative_to(state.root) for path in state.root.rglob("*"))

    def work(registering, key):
        interrupt_soon()
        return registering.connection.execute(ENDLESS).fetchall()

    monkeypatch.setattr(registration, "_write_tables", work)
    with pytest.raises(KeyboardInterrupt, match="^stopped; nothing changed$"):
        steward.register(file, state=state)
    assert sorted(path.relative_to(state.root) for path in state.root.rglob("*")) == before
    assert steward.read_registered(state).version == 1


def test_an_interrupt_after_the_version_was_recorded_says_so(tmp_path, monkeypatch):
    log = steward_registration._log

    def press(*arguments):
        log(*arguments)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(steward_registration, "_log", press)
        with pytest.raises(KeyboardInterrupt, match="version 1 had been registered"):
            clinic.register(tmp_path, [clinic.row("v", "p")])
    state = State.beside(tmp_path / "clinic.yaml")
    assert steward.verify_ledger(state).ok and steward.read_registered(state).version == 1


def test_ctrl_c_in_the_command_exits_130_and_says_that_nothing_changed(tmp_path):
    """A real process and a real signal, once registration has begun to read."""
    (tmp_path / "clinic.yaml").write_text(clinic.CATALOG.replace("max_rows: 1000", "max_rows: 1e7"))
    row = ",".join(str(value) for value in clinic.row("v", "p").values())
    lines = ",".join(clinic.COLUMNS) + "\n" + f"{row}\n" * 1_500_000
    (tmp_path / "visits.csv").write_text(lines)
    command = [sys.executable, "-c", "from dither.cli import main; main()", "register"]
    process = subprocess.Popen(
        [*command, str(tmp_path / "clinic.yaml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    copy = tmp_path / "clinic.dither" / "versions" / "new" / "data.duckdb"
    wait_until_exists(copy, process)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert errors == "interrupted: stopped; nothing changed\n"
    assert list((tmp_path / "clinic.dither" / "versions").iterdir()) == []


def wait_until_exists(path: Path, process: subprocess.Popen[str]) -> None:
    event = threading.Event()
    while not path.exists():
        assert process.poll() is None, process.communicate()
        event.wait(0.02)


class Interrupted:
    """A connection whose second statement meets Ctrl-C, as the engine tells it."""

    def __init__(self) -> None:
        self.statements = 0
        self.is_closed = False

    def execute(self, _: str) -> None:
        self.statements += 1
        if self.statements == 2:
            raise RuntimeError("Query interrupted")

    def close(self) -> None:
        self.is_closed = True


def test_ctrl_c_while_the_engine_is_set_up_is_an_interrupt(tmp_path, monkeypatch):
    """It was once a fault of dither, and left the file open."""
    connection = Interrupted()
    monkeypatch.setattr(connections, "note_connection", lambda _: connection)
    with pytest.raises(KeyboardInterrupt):
        connections.open_for_registration(tmp_path / "data.duckdb", tmp_path)
    assert connection.is_closed
