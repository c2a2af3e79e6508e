"""How calls reach a curator: frames on a Unix socket, or by mutual TLS to another host."""

from __future__ import annotations

import itertools
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from dither.protocol import documents, messages
from dither.protocol.errors import BusyError, ProtocolError
from dither.protocol.frames import (
    END_OF_STREAM,
    MOST_REPLY_BYTES,
    receive_frame,
    write_call,
)

MOST_IDLE = 48
"""Open connections that no call uses: fewer than a curator admits."""
SECONDS_TO_CONNECT = 10
Outcome = TypeVar("Outcome", bound=BaseModel)


class Transport(Protocol):
    """Sends one call about one dataset, and returns its result or raises its error."""

    def call(self, act: BaseModel, result: type[Outcome]) -> Outcome:
        """The result of a call, which must be of the given type."""


def read_reply(document: object, result: type[Outcome]) -> Outcome:
    """The result that a reply holds; its error is raised as the library raises it."""
    try:
        reply = messages.ReplyFrame.model_validate(document)
    except ValidationError:
        raise ProtocolError("the reply is not one of this protocol: update dither") from None
    if reply.error is not None:
        raise documents.read_error(reply.error)
    if not isinstance(reply.result, result):
        raise ProtocolError("the reply is one to another call")
    return reply.result


def connect_to_socket(path: Path) -> socket.socket:
    """A connection to a curator on this machine."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def connect_by_tls(host: str, port: int, context: ssl.SSLContext) -> socket.socket:
    """A connection to a curator on another host; both sides show their certificates."""
    plain = socket.create_connection((host, port), timeout=SECONDS_TO_CONNECT)
    try:
        connection = context.wrap_socket(plain, server_hostname=host)
        connection.settimeout(None)
    except OSError:
        plain.close()
        raise
    return connection


class SocketPool:
    """Persistent connections to a curator, each used by one call at a time."""

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._make_connection = connect
        self._idle: list[socket.socket] = []
        self._numbers = itertools.count(1)

    def exchange(self, frame: messages.CallFrame) -> object:
        """Send a call and receive its reply.

        A connection that the curator closed meanwhile is replaced before anything is sent on it. A
        call is never sent twice: whether the first was charged could not be told.
        """
        connection = self._take()
        try:
            connection.sendall(write_call(frame.model_dump()))
            document = receive_frame(connection, MOST_REPLY_BYTES)
        except OSError:
            connection.close()
            raise _unreachable() from None
        except BaseException:
            connection.close()
            raise
        if document is END_OF_STREAM:
            connection.close()
            raise _unreachable()
        if not isinstance(document, dict) or document.get("number") != frame.number:
            connection.close()
            raise ProtocolError("the reply is one to another call")
        self._put_back(connection)
        return document

    def next_number(self) -> int:
        """A number for the next call."""
        return next(self._numbers)

    def _take(self) -> socket.socket:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self._connect()
            if _is_open(connection):
                return connection
            connection.close()

    def _connect(self) -> socket.socket:
        try:
            return self._make_connection()
        except OSError:
            raise _unreachable() from None

    def _put_back(self, connection: socket.socket) -> None:
        if len(self._idle) < MOST_IDLE:
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """Close all connections that no call uses."""
        with suppress(IndexError):  # a call may take the last one meanwhile
            while True:
                connection = self._idle.pop()
                with suppress(OSError):
                    connection.close()


def _is_open(connection: socket.socket) -> bool:
    """Whether the other end neither closed the stream nor sent what nobody asked for."""
    connection.setblocking(False)
    try:
        connection.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        connection.setblocking(True)
        return True
    except OSError:
        return False
    return False


def _unreachable() -> BusyError:
    return BusyError(
        "the curator does not answer: it was stopped, or this process may not connect to it. What "
        "was charged is stored: ask again when it runs"
    )


class SocketTransport:
    """Calls about one dataset under one token, over a pool that several share."""

    def __init__(self, pool: SocketPool, dataset: str, token: str) -> None:
        self._pool = pool
        self._dataset = dataset
        self._token = token

    def call(self, act: BaseModel, result: type[Outcome]) -> Outcome:
        """The result of a call."""
        return read_reply(self.exchange(act), result)

    def exchange(self, act: BaseModel) -> object:
        """The document of the reply to a call."""
        try:
            frame = messages.CallFrame(
                number=self._pool.next_number(),
                token=self._token,
                dataset=self._dataset,
                call=act,  # type: ignore[arg-type]
            )
        except ValidationError:
            raise ProtocolError("not a call of this protocol") from None
        return self._pool.exchange(frame)
