"""The HTTP application: routes, problems, request ids, limits and the page of the API."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dither.errors import DitherError
from dither.gateway.api_page import write_api_page
from dither.gateway.bodies import HealthDocument
from dither.gateway.metrics import CONTENT_TYPE as METRICS_TYPE
from dither.gateway.metrics import CountedSockets
from dither.gateway.repeats import KeptAnswers, RepeatPath
from dither.gateway.routes import make_router
from dither.gateway.turns import TokenTurns
from dither.privacy.noise.source import fresh_bytes
from dither.protocol.errors import BusyError, FaultError, TokenError, report_fault
from dither.protocol.problems import (
    CONTENT_TYPE,
    Problem,
    describe_bad_body,
    describe_error,
    describe_status,
)
from dither.remote.transport import SocketPool
from dither.version import __version__

MOST_BODY_BYTES = 2**20
SECONDS_FOR_A_BODY = 30
MOST_THREADS = 72
"""How many requests are worked on at once: more than the questions that may wait at a curator, so
that readers and previews find a free thread."""
NO_TELEMETRY: Any = dict.fromkeys(
    ("tracing", "metrics", "logs", "operation_spans", "auto_configure"), False
)
"""Durations and numbers of requests under way tell of the data: nothing exports them."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.-]{1,64}")
# What a response has not set by itself. Only static files and pages of the console set any.
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"content-security-policy", b"default-src 'none'; style-src 'unsafe-inline'"),
)


AddPages = Callable[[FastAPI, SocketPool], None]


def make_app(sockets: SocketPool, add_pages: AddPages | None = None) -> FastAPI:
    """The application over the sockets of one curator.

    `add_pages` adds pages for people, such as those of the console, below the routes for programs.
    """
    app = FastAPI(
        title="dither",
        version=__version__,
        description="Questions about the population, with a proof about each person.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        telemetry=NO_TELEMETRY,
        lifespan=_provide_threads,
    )
    app.state.turns = TokenTurns()
    app.state.repeats = KeptAnswers()
    counted = CountedSockets(sockets)
    app.include_router(make_router(counted))
    _add_pages(app, counted, "/api")
    if add_pages is None:
        _add_api_page(app, "/")
    else:
        add_pages(app, counted)
    _add_problems(app)
    app.add_middleware(
        RepeatPath, sockets=counted, turns=app.state.turns, answers=app.state.repeats
    )
    app.add_middleware(RequestLimits)
    return app


@asynccontextmanager
async def _provide_threads(_: FastAPI) -> AsyncIterator[None]:
    """Let the application's event loop use MOST_THREADS threads."""
    current_default_thread_limiter().total_tokens = MOST_THREADS
    yield


def _add_pages(app: FastAPI, sockets: CountedSockets, api_path: str) -> None:
    @app.get("/healthz", response_model=HealthDocument)
    async def read_health() -> dict[str, str]:
        """Say that the gateway runs. The answer is the same whatever is under way."""
        return {"status": "ok"}

    @app.get("/metrics", include_in_schema=False)
    async def read_metrics() -> Response:
        return Response(sockets.write_metrics(), media_type=METRICS_TYPE)

    _add_api_page(app, api_path)


def _add_api_page(app: FastAPI, path: str) -> None:
    @app.get(path, include_in_schema=False)
    async def read_api_page() -> HTMLResponse:
        return HTMLResponse(write_api_page(app.openapi()))


def _add_problems(app: FastAPI) -> None:
    @app.exception_handler(DitherError)
    def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, DitherError)
        response = _write_problem(describe_error(error, _request_id(request)))
        if isinstance(error, TokenError):
            response.headers["www-authenticate"] = "Bearer"
        if isinstance(error, BusyError):
            response.headers["retry-after"] = "1"
        return response

    @app.exception_handler(RequestValidationError)
    def refuse_body(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        problems: Any = error.errors()
        return _write_problem(describe_bad_body(problems, _request_id(request)))

    @app.exception_handler(HTTPException)
    def refuse_path(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return _write_problem(
            describe_status(error.status_code, str(error.detail), _request_id(request))
        )


def _write_problem(problem: Problem) -> Response:
    content = problem.model_dump_json(exclude_none=True, ensure_ascii=True)
    return Response(content, status_code=problem.status, media_type=CONTENT_TYPE)


def _request_id(request: Request) -> str:
    return f"urn:dither:request:{request.scope['dither.request_id']}"


class RequestLimits:
    """Gives every request an id, bounds its body, and sets headers that keep answers private."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request of HTTP; other scopes pass through."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _read_request_id(scope)
        scope["dither.request_id"] = request_id

        is_started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal is_started
            is_started = True
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", []))
                own = {name.lower() for name, _ in headers}
                headers += [header for header in _HEADERS if header[0] not in own]
                message["headers"] = [*headers, (b"x-request-id", request_id.encode())]
            await send(message)

        instance = f"urn:dither:request:{request_id}"
        try:
            async with asyncio.timeout(SECONDS_FOR_A_BODY):
                body = await _receive_body(receive)
        except TimeoutError:
            problem = describe_status(408, "the body did not come in time", instance)
            await _write_problem(problem)(scope, receive, send_with_headers)
            return
        if body is None:
            text = f"a body has at most {MOST_BODY_BYTES:,} bytes"
            problem = describe_status(413, text, instance)
            await _write_problem(problem)(scope, receive, send_with_headers)
            return
        scope["dither.body"] = body
        try:
            await self._app(scope, _replay(body, receive), send_with_headers)
        except Exception as error:
            report_fault(error, request_id)
            if not is_started:
                problem = describe_error(FaultError(), instance)
                await _write_problem(problem)(scope, receive, send_with_headers)


def _read_request_id(scope: Scope) -> str:
    """The client's own id where it is short and plain, else a new one."""
    sent = dict(scope["headers"]).get(b"x-request-id", b"")
    return sent.decode() if _REQUEST_ID.fullmatch(sent) else fresh_bytes(8).hex()


async def _receive_body(receive: Receive) -> bytes | None:
    """The whole body; None where it is too long, or the client left before its end.

    Nothing is asked for a client who sent half a question: it would be charged for it.
    """
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > MOST_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A stream that gives the body once, and then what comes after it."""
    waiting = [body]

    async def receive_again() -> Message:
        if waiting:
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}
        return await receive()

    return receive_again
