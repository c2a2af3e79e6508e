"""Runs a gateway: uvicorn without access log, since durations and paths tell of questions."""

from __future__ import annotations

from pathlib import Path

import uvicorn

from dither.gateway.app import make_app
from dither.gateway.http_protocol import ImpatientProtocol
from dither.remote.transport import SocketPool

SECONDS_TO_STOP = 60
MOST_REQUESTS = 200


def make_gateway(socket: Path, host: str, port: int) -> uvicorn.Server:
    """The HTTP server of a curator's socket. Requests under way are finished when it stops."""
    config = uvicorn.Config(
        make_app(SocketPool(socket)),
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
