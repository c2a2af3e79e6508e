"""A curator in a process of its own, for `dither serve`: started, awaited and ended with it."""

from __future__ import annotations

import socket as sockets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dither.errors import DitherError

SECONDS_TO_START = 120


def find_socket(home: Path) -> Path:
    """The socket of a curator's folder."""
    return home / "curator.sock"


@contextmanager
def running_curator(
    catalogs: list[Path], home: Path, slot: float, job_slot: float
) -> Iterator[Path]:
    """A curator in a process of its own; the socket, once it answers. It ends with this process."""
    path = find_socket(home)
    command = [sys.executable, "-c", "from dither.cli import main; main()", "curator"]
    command += [*map(str, catalogs), "--home", str(home), "--socket", str(path)]
    command += ["--slot", str(slot), "--job-slot", str(job_slot)]
    process = subprocess.Popen(
        [*command, "--stops-with-input"],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        await_answer(path, process)
        yield path
    finally:
        process.terminate()
        process.communicate()


def await_answer(path: Path, process: subprocess.Popen[bytes]) -> None:
    """Return when a curator answers on its socket; refused where it ended instead.

    That somebody listens is not enough: a curator that is not ready yet would still end the tokens
    that are made for it now, since it takes them for those of a command that was killed.
    """
    end = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < end:
        if process.poll() is not None:
            raise DitherError("the curator did not start: its message stands above")
        if is_answering(path, end - time.monotonic()):
            return
        time.sleep(0.05)
    raise DitherError("the curator did not start in time: run 'dither curator CATALOG' to see why")


def is_answering(path: Path, seconds: float) -> bool:
    """Whether a curator replies to a call: without a token it refuses, which is a reply."""
    from dither.protocol.errors import BusyError, TokenError
    from dither.protocol.messages import DatasetNames, ListDatasets
    from dither.remote.transport import SocketPool, SocketTransport, connect_to_socket

    def connect() -> sockets.socket:
        connection = connect_to_socket(path)
        connection.settimeout(seconds)
        return connection

    pool = SocketPool(connect)
    try:
        SocketTransport(pool, "", "").call(ListDatasets(), DatasetNames)
    except BusyError:
        return False
    except TokenError:
        return True
    finally:
        pool.close()
    return True
