"""Signing in and out: by password, by a token such as the administrator's, or by single sign-on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from dither.console.curators import Curators
from dither.console.page_route import PageRoute
from dither.console.rendering import write_page
from dither.console.sign_on import SIGN_ON, begin_sign_on, finish_sign_on
from dither.console.visitors import (
    MOST_TOKEN,
    SESSION,
    SentForm,
    drop_cookie,
    identify_visitor,
    read_next,
    set_cookie,
)
from dither.errors import DitherError
from dither.protocol import messages
from dither.protocol.act_messages import LoggedOut, LogIn, LogOut, SessionOpened
from dither.protocol.errors import BusyError, ProtocolError, TokenError

SESSION_ENDED = "Your session has ended: sign in again. Nothing was asked and nothing was spent."
NO_TOKEN = "this token is not accepted: it may be mistyped, expired or revoked"
Text = Annotated[str, Query(max_length=60_000)]


def make_login_router(curators: Curators) -> APIRouter:
    """The routes of sign-in and sign-out."""
    router = APIRouter(route_class=PageRoute, include_in_schema=False)

    def write_login(request: Request, next_path: str, message: str, status: int = 200) -> Response:
        return write_page(
            "login.html",
            status,
            visitor=identify_visitor(request),
            next_path=read_next(next_path),
            message=message,
            sign_on=curators.settings.sign_on,
        )

    @router.get("/login")
    def show_login(request: Request, next: Text = "/datasets", ended: str = "") -> Response:
        return write_login(request, next, SESSION_ENDED if ended else "")

    @router.post("/login")
    def log_in(request: Request, form: SentForm) -> Response:
        next_path = form.get("next", "")
        transport = curators.make_transport(None)
        try:
            call = LogIn(name=form.get("name", "")[:500], password=form.get("password", "")[:500])
            session = transport.call(call, SessionOpened)
        except (TokenError, BusyError) as refusal:
            return write_login(request, next_path, str(refusal), 403)
        except (ValueError, ProtocolError):
            return write_login(request, next_path, "type a name and a password", 400)
        return _enter(request, session.token, next_path)

    @router.post("/login/token")
    def log_in_by_token(request: Request, form: SentForm) -> Response:
        """Turn a token, such as that of the administrator's link, into a session's cookie."""
        token = form.get("token", "").strip()
        next_path = form.get("next", "")
        try:
            if not 0 < len(token) <= MOST_TOKEN or not token.isascii() or not token.isprintable():
                raise TokenError(NO_TOKEN)
            transport = curators.make_transport(token)
            transport.call(messages.ListDatasets(), messages.DatasetNames)
        except TokenError as refusal:
            return write_login(request, next_path, str(refusal), 403)
        return _enter(request, token, next_path)

    @router.post("/logout")
    def log_out(request: Request, form: SentForm) -> Response:
        """End the session at the curator. A token of a program is only forgotten here."""
        visitor = identify_visitor(request)
        response = RedirectResponse("/login", 303)
        drop_cookie(request, response, SESSION)
        if visitor.token is not None:
            try:
                curators.make_transport(visitor.token).call(LogOut(), LoggedOut)
            except DitherError:
                return response
        return response

    @router.get("/login/sign-on")
    def start_sign_on(request: Request, next: Text = "/datasets") -> Response:
        return begin_sign_on(request, curators, read_next(next))

    @router.get("/login/callback")
    def end_sign_on(
        request: Request, code: Text = "", state: Text = "", iss: str = "", error: str = ""
    ) -> Response:
        try:
            token, next_path = finish_sign_on(request, curators, code, state, iss)
        except TokenError as refusal:
            return write_login(request, "/datasets", str(refusal), 403)
        response = _enter(request, token, next_path)
        drop_cookie(request, response, SIGN_ON)
        return response

    return router


def _enter(request: Request, token: str, next_path: str) -> Response:
    response = RedirectResponse(read_next(next_path), 303)
    set_cookie(request, response, SESSION, token)
    return response
