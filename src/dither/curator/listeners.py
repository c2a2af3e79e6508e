"""Where a curator listens: on a Unix socket, or for another host by mutual TLS."""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from dither.errors import DitherError
from dither.protocol.tls import TlsFiles, make_server_context

BACKLOG = 64
_CREDENTIALS = struct.Struct("3i")


class Listener(Protocol):
    """Accepts connections, and says which of them are served."""

    def accept(self) -> socket.socket:
        """The next connection; OSError once the listener is shut."""

    def is_allowed(self, connection: socket.socket) -> bool:
        """Whether a connection is served, as far as that costs no time."""

    def secure(self, connection: socket.socket) -> socket.socket:
        """The connection as calls use it; OSError for a peer that is not let in."""

    def shut(self) -> None:
        """Accept no more connections."""

    def close(self) -> None:
        """Remove what the listener left."""


class UnixListener:
    """A Unix socket. Only processes of the listed users are served.

    The kernel of the system says who is at the other end (SO_PEERCRED), not the peer.
    """

    def __init__(self, path: Path, users: frozenset[int]) -> None:
        self._path = path
        self.users = users
        self._socket = _bind(path, is_shared=users != {os.getuid()})

    def accept(self) -> socket.socket:
        """The next connection."""
        return self._socket.accept()[0]

    def is_allowed(self, connection: socket.socket) -> bool:
        """Whether the process at the other end is one of a listed user."""
        return read_peer_user(connection) in self.users

    def secure(self, connection: socket.socket) -> socket.socket:
        """The connection as it is: it does not leave the machine."""
        return connection

    def shut(self) -> None:
        """Wake who waits in `accept`."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Remove the socket."""
        self._socket.close()
        self._path.unlink(missing_ok=True)


class TlsListener:
    """A port for a gateway on another host, which must show a certificate of the authority."""

    def __init__(self, host: str, port: int, files: TlsFiles) -> None:
        self._context = make_server_context(files)
        try:
            self._socket = socket.create_server((host, port), backlog=BACKLOG)
        except OSError as error:
            raise DitherError(f"{host}:{port}: {error.strerror or error}") from None
        self.port = int(self._socket.getsockname()[1])

    def accept(self) -> socket.socket:
        """The next connection, before its handshake."""
        return self._socket.accept()[0]

    def is_allowed(self, connection: socket.socket) -> bool:
        """Every connection may try: the handshake decides."""
        return True

    def secure(self, connection: socket.socket) -> socket.socket:
        """The handshake; refused without a certificate of the authority."""
        return self._context.wrap_socket(connection, server_side=True)

    def shut(self) -> None:
        """Wake who waits in `accept`."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the port."""
        self._socket.close()


def read_peer_user(connection: socket.socket) -> int:
    """The user id of the process at the other end, by the system."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


def _bind(path: Path, is_shared: bool) -> socket.socket:
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
    listener.listen(BACKLOG)
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
