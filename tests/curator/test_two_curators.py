"""Several curators of one ledger: one serves, another takes over, and no charge is made twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dither import steward
from dither.curator.leadership import Leadership
from dither.curator.run import CuratorSettings, make_server
from dither.errors import DitherError, RefusedError
from dither.identity import TokenStore
from dither.privacy.ledger.epochs import FencedError
from dither.privacy.ledger.misses import add_miss
from dither.privacy.ledger.takeover import take_over
from dither.protocol.errors import BusyError
from dither.remote.curator import RemoteCurator
from dither.remote.transport import SocketTransport
from dither.session import Connection
from dither.state import State
from tests.datasets import clinic
from tests.datasets.served_clinic import COUNT, ROWS, make_pool, serving
from tests.ledger.ledger_place import fresh_url
from tests.postgres_server import running_server

MAIN = "from dither.cli import main; main()"


@pytest.fixture
def served(tmp_path):
    with serving(tmp_path) as clinic_behind_a_socket:
        yield clinic_behind_a_socket


def find_ledger(served):
    return served.server._service._datasets["clinic"]._curator.kernel.ledger


def test_who_takes_over_goes_on_from_the_misses_of_then(served):
    dataset = served.server._service._datasets["clinic"]
    predecessor = steward.open_ledger(served.state)
    add_miss(predecessor)  # after this curator was made, before it takes over
    predecessor.close()
    dataset.begin_epoch(is_shared=True)
    assert dataset._schedule.misses == 1


def test_a_curator_that_was_taken_over_charges_nothing_and_sends_nothing(served):
    dataset = served.server._service._datasets["clinic"]
    dataset.begin_epoch(is_shared=True)
    con = served.connect()
    first = con.sql(COUNT, epsilon=1)
    assert not first.info["repeated"]
    successor = steward.open_ledger(served.state)
    take_over(successor, "south")
    spent = successor.pot("total").spent
    for question in ("SELECT COUNT(*) AS n FROM visits WHERE age > 3", COUNT):
        with pytest.raises(RefusedError, match="another curator"):
            con.sql(question, epsilon=1)
    with pytest.raises(RefusedError, match="another curator"):
        con.budget()
    assert successor.pot("total").spent == spent
    successor.close()


def test_a_takeover_within_a_release_keeps_the_charge_and_sends_nothing(served, monkeypatch):
    """The successor takes over while the data is read: an incident, and no second answer."""
    dataset = served.server._service._datasets["clinic"]
    dataset.begin_epoch(is_shared=True)
    kernel = dataset._curator.kernel
    con = served.connect()
    con.preview(COUNT, epsilon=1)
    measure = type(kernel).measure_with_retries

    def measure_late(self, *arguments):
        successor = steward.open_ledger(served.state)
        take_over(successor, "south")
        successor.close()
        return measure(self, *arguments)

    monkeypatch.setattr(type(kernel), "measure_with_retries", measure_late)
    with pytest.raises(DitherError):
        con.sql(COUNT, epsilon=1)
    ledger = steward.open_ledger(served.state)
    assert ledger.pot("total").spent == 1 and ledger.is_suspended("total")
    ledger.close()
    report = steward.verify_ledger(served.state, "")
    assert report.ok and report.releases == 0


def test_a_shared_ledger_is_served_by_those_who_say_so_alone(served):
    ledger = find_ledger(served)
    take_over(ledger, "north")
    served.server.stop()
    with pytest.raises(DitherError, match="--shared"):
        make_server(CuratorSettings((served.file,), served.socket, served.home))
    settings = CuratorSettings((served.file,), served.socket, served.home, takeover_after_s=1)
    make_server(settings)._finish()


def test_a_curator_that_shared_with_nobody_is_fenced_by_the_first_that_shares(served):
    """It was started alone and still runs; else both would answer, each by its own schedule."""
    con = served.connect()
    con.sql(COUNT, epsilon=1)
    successor = steward.open_ledger(served.state)
    take_over(successor, "south")
    for question in ("SELECT COUNT(*) AS n FROM visits WHERE age > 3", COUNT):
        with pytest.raises(RefusedError, match="another curator"):
            con.sql(question, epsilon=1)
    assert successor.pot("total").spent == 1
    successor.close()


def test_a_lease_of_a_curator_that_was_taken_over_takes_no_step(served):
    dataset = served.server._service._datasets["clinic"]
    dataset.begin_epoch(is_shared=True)
    from dither.plan.algebra import Cells, Count, Scan
    from dither.privacy.kernel.request import Price

    lease = dataset._curator.open_lease(Price(epsilon=1), "total")
    query = Cells(Scan("visits"), (), (Count(),))
    lease.release(query, epsilon="0.1")
    successor = steward.open_ledger(served.state)
    take_over(successor, "south")
    successor.close()
    with pytest.raises((FencedError, RefusedError)):
        lease.release(query, epsilon="0.1")


# -- signs of life


def test_who_sees_no_sign_of_life_takes_over_and_the_other_learns_of_it(tmp_path):
    head = tmp_path / "head"
    fenced = []
    leader = Leadership(head, patience_s=0.5)
    assert leader.await_silence()
    lost = []
    leader.begin(lambda: raise_fenced(fenced), lambda: lost.append(True))
    standby = Leadership(head, patience_s=0.5)
    stops = iter([False] * 20 + [True] * 1000)
    assert not standby.await_silence(lambda: next(stops))
    leader._ended.set()  # it is paused: no more signs
    assert standby.await_silence()
    standby.begin(lambda: None, lambda: None)
    fenced.append(True)
    leader._ended.clear()
    leader._write()  # paused in the act, it writes one sign over its successor's
    leader._renew(lambda: raise_fenced(fenced), lambda: lost.append(True))
    assert lost == [True]
    time.sleep(0.3)
    assert standby._is_ours()
    standby.end()
    assert Leadership(head, patience_s=600).await_silence()


def raise_fenced(fenced):
    if fenced:
        raise FencedError


def test_a_curator_that_is_cut_off_from_its_ledger_gives_no_signs(tmp_path):
    head = tmp_path / "head"

    def fail():
        raise RefusedError("the server cannot be reached")

    leader = Leadership(head, patience_s=0.3)
    leader.begin(fail, lambda: None)
    assert Leadership(head, patience_s=0.5).await_silence()
    leader._ended.set()


# -- two processes and PostgreSQL


class Host:
    """A curator with a state folder of its own: a copy, with the same key and ledger."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file = folder / name / "clinic.yaml"
        self.home = folder / f"{name} home"
        self.socket = folder / f"{name}.sock"
        self.said = folder / f"{name}.said"
        tokens = TokenStore(self.home)
        self.token = tokens.create_token("alice", "clinic", "analyst", ("total",), 1)[0]
        tokens.close()
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        words = ["curator", self.file, "--home", self.home, "--socket", self.socket, "--slot", "0"]
        words += ["--shared", "--takeover-after", "2"]
        with self.said.open("wb") as said:
            run = [sys.executable, "-c", MAIN, *map(str, words)]
            self.process = subprocess.Popen(run, stderr=said)

    def await_socket(self) -> None:
        end = time.monotonic() + 120
        while not self.socket.exists():
            assert time.monotonic() < end and self.process.poll() is None
            time.sleep(0.05)

    def connect(self) -> Connection:
        transport = SocketTransport(make_pool(self.socket), "clinic", self.token)
        return Connection(RemoteCurator(transport))

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


@contextmanager
def two_hosts(folder: Path, url: str) -> Iterator[tuple[Host, Host]]:
    """North has registered; south has a copy of its state folder; both share the heads."""
    north = folder / "north"
    north.mkdir()
    (north / "clinic.yaml").write_text(clinic.CATALOG)
    clinic.write_csv(north / "visits.csv", ROWS)
    state = State.beside(north / "clinic.yaml")
    steward.register(north / "clinic.yaml", state=state, ledger_url=url)
    clinic.open_total(state, "100", "100")
    shutil.copytree(north, folder / "south")
    hosts = Host(folder, "north"), Host(folder, "south")
    try:
        yield hosts
    finally:
        for host in hosts:
            host.stop()


@pytest.mark.all
@pytest.mark.parametrize("fault", ["SIGSTOP", "SIGKILL"])
def test_a_standby_takes_over_and_nothing_is_charged_twice(tmp_path, monkeypatch, fault):
    """Paused past its patience, the leader wakes up beside its successor, and is refused."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "shared heads"))
    with running_server() as server, two_hosts(tmp_path, fresh_url(server)) as (north, south):
        north.start()
        north.await_socket()
        south.start()
        bought = north.connect().sql(COUNT, epsilon=1)
        time.sleep(4)
        assert not south.socket.exists(), "a standby serves nothing while the leader lives"
        os.kill(north.process.pid, getattr(signal, fault))
        south.await_socket()
        con = south.connect()
        again = con.sql(COUNT, epsilon=1)
        assert again.info["repeated"] and again.raw == bought.raw
        con.sql(COUNT, epsilon=2)
        if fault == "SIGSTOP":
            paused = north.connect
            os.kill(north.process.pid, signal.SIGCONT)
            with pytest.raises((RefusedError, BusyError)):
                paused().sql(COUNT, epsilon=3)
            north.process.wait(60)
            assert "another curator took over" in north.said.read_text()
        assert con.budget().pots[0].spent == 3
        report = steward.verify_ledger(State.beside(south.file), "")
        assert report.ok and report.releases == 2
