"""The server of a curator: a thread for each connection, frames in order, peers checked.

A peer that sends no frame of this protocol is cut off. When the curator stops, it takes no new call
and waits for those under way.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress

from dither.curator.dataset_lock import DatasetLock
from dither.curator.listeners import Listener
from dither.curator.service import CuratorService
from dither.errors import DitherError
from dither.protocol.errors import ProtocolError
from dither.protocol.frames import (
    END_OF_STREAM,
    MOST_CALL_BYTES,
    MOST_REPLY_BYTES,
    receive_frame,
    write_frame,
)

MOST_CONNECTIONS = 96
"""More connections than questions may wait and a gateway may repeat: the rest is for readers."""
SECONDS_FOR_A_FRAME = 30
SECONDS_TO_STOP = 60
SECONDS_BETWEEN_TRIES = 0.2


class CuratorServer:
    """A curator's service before a listener."""

    def __init__(
        self, service: CuratorService, listener: Listener, locks: Iterable[DatasetLock] = ()
    ) -> None:
        self._service = service
        self._listener = listener
        self._locks = tuple(locks)
        self._slots = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._stopping = threading.Event()
        self._finished = threading.Event()
        self._connections: set[socket.socket] = set()
        self._calls_under_way = 0
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Accept connections until `request_stop`, then finish what is under way."""
        while not self._stopping.is_set():
            try:
                connection = self._listener.accept()
            except OSError:
                # No file is free for another connection, say: wait until somebody leaves.
                self._stopping.wait(SECONDS_BETWEEN_TRIES)
                continue
            if not self._admit(connection):
                connection.close()
        self._finish()

    def _admit(self, connection: socket.socket) -> bool:
        """Whether a connection is served: an allowed one, and not one too many."""
        if not self._listener.is_allowed(connection):
            return False
        if not self._slots.acquire(blocking=False):
            return False
        try:
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()
        except RuntimeError:
            # The system has no thread left: the turn of this connection is another one's.
            self._slots.release()
            return False
        return True

    def _converse(self, accepted: socket.socket) -> None:
        """Answer the frames of one connection in order."""
        connection = accepted
        try:
            connection.settimeout(SECONDS_FOR_A_FRAME)
            connection = self._listener.secure(accepted)
            with self._lock:
                self._connections.add(connection)
            while not self._stopping.is_set() and self._answer_frame(connection):
                pass
        except (OSError, DitherError):
            pass
        finally:
            connection.close()
            with self._lock:
                self._connections.discard(connection)
            self._slots.release()

    def _answer_frame(self, connection: socket.socket) -> bool:
        """Answer the next frame; False where the stream has ended, or speaks something else."""
        connection.settimeout(None)
        document = receive_frame(connection, MOST_CALL_BYTES, SECONDS_FOR_A_FRAME)
        if document is END_OF_STREAM:
            return False
        with self._lock:
            self._calls_under_way += 1
        try:
            connection.sendall(_write_reply(self._service.reply(document)))
        finally:
            with self._lock:
                self._calls_under_way -= 1
        return True

    def check_epochs(self) -> None:
        """Raise FencedError where another curator has taken a ledger over."""
        self._service.check_epochs()

    def request_stop(self) -> None:
        """Take no more calls; `serve` then ends by itself. Signal handlers may call it."""
        self._stopping.set()
        self._listener.shut()

    def stop(self) -> None:
        """Stop, and wait until `serve` has ended in its own thread."""
        self.request_stop()
        self._finished.wait()

    def _finish(self) -> None:
        """Remove the listener, wait for calls under way, and close all connections."""
        self._listener.close()
        end = time.monotonic() + SECONDS_TO_STOP
        while self._calls_under_way and time.monotonic() < end:
            time.sleep(0.01)
        with self._lock:
            connections = tuple(self._connections)
        for connection in connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for lock in self._locks:
            lock.release()
        self._finished.set()


def _write_reply(reply: dict[str, object]) -> bytes:
    """The frame of a reply; one that is too long becomes an error."""
    try:
        return write_frame(reply, MOST_REPLY_BYTES)
    except ProtocolError as error:
        problem = {"kind": "ProtocolError", "message": str(error)}
        document = {"rule": None, "start": None, "end": None} | problem
        return write_frame({**reply, "result": None, "error": document}, MOST_REPLY_BYTES)
