"""The socket of a curator: a thread for each connection, frames in order, peers checked.

Only processes of the listed users may connect: the kernel of the system says who is at the other
end (SO_PEERCRED), not the peer. A peer that sends no frame of this protocol is cut off. When the
curator stops, it takes no new call and waits for those under way.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from contextlib import suppress
from pathlib import Path

from dither.curator.service import CuratorService
from dither.errors import DitherError
from dither.protocol.errors import ProtocolError
from dither.protocol.frames import (
    MOST_CALL_BYTES,
    MOST_REPLY_BYTES,
    receive_frame,
    write_frame,
)

MOST_CONNECTIONS = 64
SECONDS_FOR_A_FRAME = 30
SECONDS_TO_STOP = 60
_CREDENTIALS = struct.Struct("3i")


class CuratorServer:
    """A curator's service on a Unix socket."""

    def __init__(self, service: CuratorService, path: Path, users: frozenset[int]) -> None:
        self._service = service
        self._users = users
        self._path = path
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._stopping = threading.Event()
        self._finished = threading.Event()
        self._connections: set[socket.socket] = set()
        self._calls_under_way = 0
        self._lock = threading.Lock()
        self._socket = _listen(path, is_shared=users != {os.getuid()})

    def serve(self) -> None:
        """Accept connections until `request_stop`, then finish what is under way."""
        while not self._stopping.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                break
            if not self._admit(connection):
                connection.close()
        self._finish()

    def _admit(self, connection: socket.socket) -> bool:
        """Whether a connection is served: a listed user's, and not one too many."""
        if read_peer_user(connection) not in self._users:
            return False
        if not self._slots.acquire(blocking=False):
            return False
        with self._lock:
            self._connections.add(connection)
        threading.Thread(target=self._converse, args=(connection,), daemon=True).start()
        return True

    def _converse(self, connection: socket.socket) -> None:
        """Answer the frames of one connection in order."""
        try:
            with connection:
                while not self._stopping.is_set() and self._answer_frame(connection):
                    pass
        except (OSError, DitherError):
            pass
        finally:
            with self._lock:
                self._connections.discard(connection)
            self._slots.release()

    def _answer_frame(self, connection: socket.socket) -> bool:
        """Answer the next frame; False where the stream has ended, or speaks something else."""
        connection.settimeout(None)
        if not connection.recv(1, socket.MSG_PEEK):
            return False
        connection.settimeout(SECONDS_FOR_A_FRAME)
        document = receive_frame(connection, MOST_CALL_BYTES)
        with self._lock:
            self._calls_under_way += 1
        try:
            connection.sendall(_write_reply(self._service.reply(document)))
        finally:
            with self._lock:
                self._calls_under_way -= 1
        return True

    def request_stop(self) -> None:
        """Take no more calls; `serve` then ends by itself. Signal handlers may call it."""
        self._stopping.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Stop, and wait until `serve` has ended in its own thread."""
        self.request_stop()
        self._finished.wait()

    def _finish(self) -> None:
        """Remove the socket, wait for calls under way, and close all connections."""
        self._socket.close()
        self._path.unlink(missing_ok=True)
        end = time.monotonic() + SECONDS_TO_STOP
        while self._calls_under_way and time.monotonic() < end:
            time.sleep(0.01)
        with self._lock:
            connections = tuple(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._finished.set()


def read_peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end, by the system."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


def _listen(path: Path, is_shared: bool) -> socket.socket:
    """A listening socket. One for other users can be reached by all, who are then checked."""
    if path.is_socket():
        _remove_stale_socket(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        raise DitherError(
            f"{path}: {error.strerror or error}: choose another path for the socket, with at most "
            "100 characters, in a folder of the curator"
        ) from None
    finally:
        os.umask(mask)
    if is_shared:
        path.chmod(0o666)
    listener.listen(MOST_CONNECTIONS)
    return listener


def _remove_stale_socket(path: Path) -> None:
    """Remove the socket that a killed curator left; refused where one still listens on it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink()
            return
    raise DitherError(f"{path}: another curator listens there: choose another path, or stop it")


def _write_reply(reply: dict[str, object]) -> bytes:
    """The frame of a reply; one that is too long becomes an error."""
    try:
        return write_frame(reply, MOST_REPLY_BYTES)
    except ProtocolError as error:
        problem = {"kind": "ProtocolError", "message": str(error)}
        document = {"rule": None, "start": None, "end": None} | problem
        return write_frame({**reply, "result": None, "error": document}, MOST_REPLY_BYTES)
