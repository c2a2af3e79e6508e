"""Runs a gateway: uvicorn without access log, since durations and paths tell of questions."""

from __future__ import annotations

from pathlib import Path

import uvicorn

from dither.gateway.app import AddPages, make_app
from dither.gateway.http_protocol import ImpatientProtocol
from dither.protocol.tls import TlsFiles, make_client_context, read_host_and_port
from dither.remote.transport import SocketPool, connect_by_tls, connect_to_socket

SECONDS_TO_STOP = 60
MOST_REQUESTS = 200


def make_gateway(
    socket: Path, host: str, port: int, add_pages: AddPages | None = None
) -> uvicorn.Server:
    """The HTTP server of a curator's socket."""
    sockets = SocketPool(lambda: connect_to_socket(socket))
    return make_http_server(sockets, host, port, add_pages)


def make_tls_gateway(
    curator: str, files: TlsFiles, host: str, port: int, add_pages: AddPages | None = None
) -> uvicorn.Server:
    """The HTTP server of a curator at HOST:PORT of another machine."""
    curator_host, curator_port = read_host_and_port(curator)
    context = make_client_context(files)
    sockets = SocketPool(lambda: connect_by_tls(curator_host, curator_port, context))
    return make_http_server(sockets, host, port, add_pages)


def make_http_server(
    sockets: SocketPool, host: str, port: int, add_pages: AddPages | None = None
) -> uvicorn.Server:
    """The HTTP server of a curator. Requests under way are finished when it stops."""
    config = uvicorn.Config(
        make_app(sockets, add_pages),
        host=host,
        port=port,
        access_log=False,
        log_level="warning",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_REQUESTS,
        timeout_graceful_shutdown=SECONDS_TO_STOP,
        timeout_keep_alive=30,
        http=ImpatientProtocol,
        ws="none",
    )
    return uvicorn.Server(config)
