"""Runs a gateway: uvicorn without access log, since durations and paths tell of questions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import uvicorn

from dither.gateway.app import AddPages, make_app
from dither.gateway.http_protocol import ImpatientProtocol
from dither.protocol.tls import TlsFiles, make_client_context, read_host_and_port
from dither.remote.failover import make_pool
from dither.remote.transport import SocketPool, connect_by_tls, connect_to_socket

SECONDS_TO_STOP = 60
MOST_REQUESTS = 200


def make_gateway(
    sockets: Path | Sequence[Path], host: str, port: int, add_pages: AddPages | None = None
) -> uvicorn.Server:
    """The HTTP server of a curator's socket, or of the one that answers of several."""
    paths = [sockets] if isinstance(sockets, Path) else sockets
    connectors = [partial(connect_to_socket, path) for path in paths]
    return make_http_server(make_pool(connectors), host, port, add_pages)


def make_tls_gateway(
    curators: str | Sequence[str],
    files: TlsFiles,
    host: str,
    port: int,
    add_pages: AddPages | None = None,
) -> uvicorn.Server:
    """The HTTP server of a curator at HOST:PORT of another machine, or of the one that answers."""
    context = make_client_context(files)
    addresses = [curators] if isinstance(curators, str) else curators
    connectors = [
        partial(connect_by_tls, *read_host_and_port(address), context) for address in addresses
    ]
    return make_http_server(make_pool(connectors), host, port, add_pages)


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
