"""Routes that answer with pages, also where something is refused."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from dither.console.rendering import write_page
from dither.console.visitors import (
    SESSION,
    SignInNeededError,
    drop_cookie,
    identify_visitor,
    keep_visit,
)
from dither.errors import DitherError, ParameterError, RefusedError
from dither.protocol.errors import FaultError, TokenError, report_fault
from dither.protocol.problems import describe_error

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """A route whose refusals are pages. A session that ended leads to the sign-in page."""

    def get_route_handler(self) -> Handler:
        """The handler of FastAPI, with our answers to errors."""
        handle = super().get_route_handler()

        async def handle_page(request: Request) -> Response:
            response = await _answer(request, handle)
            keep_visit(request, response)
            return response

        return handle_page


async def _answer(request: Request, handle: Handler) -> Response:
    try:
        return await handle(request)
    except (SignInNeededError, TokenError):
        return _send_to_sign_in(request)
    except RequestValidationError:
        return write_error_page(request, ParameterError("this address is not complete"))
    except DitherError as error:
        return write_error_page(request, error)
    except HTTPException:
        raise
    except Exception as error:
        report_fault(error)
        return write_error_page(request, FaultError())


def _send_to_sign_in(request: Request) -> Response:
    """Lead to the sign-in page and back; a cookie that the curator no longer takes is dropped."""
    visitor = identify_visitor(request)
    address = request.url.path
    if request.method == "GET" and request.url.query:
        address += f"?{request.url.query}"
    terms = {"next": address if request.method == "GET" else "/datasets"}
    if visitor.token is not None:
        terms["ended"] = "1"
    link = f"/login?{urlencode(terms)}"
    is_live = "hx-request" in request.headers
    headers = {"hx-redirect": link} if is_live else {"location": link}
    response = Response(None, 200 if is_live else 303, headers)
    if visitor.token is not None:
        drop_cookie(request, response, SESSION)
    return response


def write_error_page(request: Request, error: DitherError) -> Response:
    """The page of a refusal: the message of the library, which names the remedy."""
    problem = describe_error(error, "")
    rule = error.rule if isinstance(error, RefusedError) else None
    return write_page(
        "error.html",
        problem.status,
        title=problem.title,
        message=str(error),
        rule=rule,
        visitor=identify_visitor(request),
    )
