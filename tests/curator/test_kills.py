"""A curator that is killed, or told to stop, in the middle of a release.

Nothing that was charged is forgotten, nothing leaves that was not charged, and an ask that is sent
again under its idempotency key costs once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dither import steward
from dither.errors import RefusedError
from dither.identity import AccessLog, TokenStore
from dither.protocol import messages
from dither.protocol.errors import BusyError
from dither.remote.transport import SocketTransport
from tests.case_lists import mark_rest
from tests.curator.test_curator import write_ask
from tests.datasets.served_clinic import (
    ServedClinic,
    make_pool,
    own_state_home,
    register_rich_clinic,
    start_server,
)

SCRIPT = Path(__file__).parent / "paused_curator.py"


class PausedCurator:
    """A curator in a child process, and an ask that waits at a step of its release."""

    def __init__(self, folder: Path, path: Path, step: str) -> None:
        self.file, self.state = register_rich_clinic(folder / "clinic", "10")
        self.home = folder / "home"
        self.path = path
        self.tokens = TokenStore(self.home)
        self.token = self.tokens.create_token("alice", "clinic", "analyst", ("total",), 1)[0]
        words = [str(SCRIPT), str(self.file), str(path), str(self.home), step]
        self.process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=dict(os.environ),
        )
        self.await_line()
        self.replies: list[object] = []
        self.call = write_ask(self.serve().connect(self.token), fresh=True, idempotency_key="k")
        self._asking = threading.Thread(target=self._ask)
        self._asking.start()
        self.await_line()

    def serve(self) -> ServedClinic:
        """The clinic behind whichever curator listens now."""
        return ServedClinic(self.file, self.state, self.home, self.path, self.tokens, None)

    def await_line(self) -> None:
        assert self.process.stdout.readline(), "the curator ended"

    def _ask(self) -> None:
        try:
            self.replies.append(self.ask())
        except Exception as error:
            self.replies.append(error)

    def ask(self) -> messages.ReleasedAnswer:
        transport = SocketTransport(make_pool(self.path), "clinic", self.token)
        return transport.call(self.call, messages.ReleasedAnswer)

    def end(self, number: int) -> object:
        """What the asker was told once the process has ended by a signal."""
        self.process.send_signal(number)
        if number == signal.SIGTERM:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        self.process.wait(60)
        self._asking.join(60)
        return self.replies[0]

    def read_spent(self):
        ledger = steward.open_ledger(self.state)
        try:
            return ledger.pot("total").spent
        finally:
            ledger.close()

    def list_accesses(self) -> list[tuple[str, str]]:
        log = AccessLog(self.home)
        try:
            return [(entry.act, entry.release) for entry in log.read_page("clinic", 0, 100)]
        finally:
            log.close()

    @contextmanager
    def restarting(self) -> Iterator[None]:
        """A new curator over what the old one left."""
        server = start_server(self.file, self.home, self.path)
        try:
            yield
        finally:
            server.stop()


@contextmanager
def pausing(folder: Path, step: str) -> Iterator[PausedCurator]:
    with own_state_home(folder), tempfile.TemporaryDirectory(prefix="dither") as short:
        paused = PausedCurator(folder, Path(short) / "s", step)
        try:
            yield paused
        finally:
            paused.process.kill()
            paused.process.wait()
            paused.tokens.close()


STEPS = {"measure": 1, "send": 1, "prepare": 0, "reserve": 0, "randomise": 1, "commit": 1}
"""What is charged where the curator is killed before a step, out of a price of 1."""


@pytest.mark.parametrize("step", mark_rest(STEPS, quick=1))
def test_a_curator_that_is_killed_in_a_release_keeps_the_charge_and_sells_it_once(tmp_path, step):
    with pausing(tmp_path, step) as paused:
        assert isinstance(paused.end(signal.SIGKILL), BusyError)
        assert paused.read_spent() == STEPS[step]
        assert paused.list_accesses() == []
        with paused.restarting():
            if step in ("measure", "randomise", "commit"):
                # the charge is lost with the process: an incident, until the steward clears it
                with pytest.raises(RefusedError, match="incident"):
                    paused.ask()
                with pytest.raises(RefusedError, match="incident"):
                    paused.ask()
            else:
                answer = paused.ask()
                assert answer.repeated == (step == "send")
                assert paused.ask().release_id == answer.release_id
                assert [release for _, release in paused.list_accesses()] == [answer.release_id] * 2
            assert paused.read_spent() == 1


@pytest.mark.parametrize("step", mark_rest(["measure", "reserve", "send"], quick=1))
def test_a_curator_that_is_told_to_stop_finishes_its_release(tmp_path, step):
    with pausing(tmp_path, step) as paused:
        answer = paused.end(signal.SIGTERM)
        assert isinstance(answer, messages.ReleasedAnswer) and not answer.repeated
        assert paused.process.returncode == 0 and paused.read_spent() == 1
        with paused.restarting():
            assert paused.ask().release_id == answer.release_id and paused.read_spent() == 1
