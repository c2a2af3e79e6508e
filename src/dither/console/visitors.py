"""Who sits before the browser: cookies, forms, and tokens against forged forms.

The session cookie holds a token that the curator issued, which the curator verifies with every
call; the gateway keeps no session. Forms that change something carry a token that is the hash of
the cookie: another site can make a browser send the cookie, and can read neither.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, Request, Response

from dither.errors import DitherError, ParameterError
from dither.gateway.turns import TokenTurns
from dither.privacy.noise.source import fresh_bytes
from dither.protocol.errors import AccessError

SESSION = "dither-session"
VISIT = "dither-visit"
MOST_FIELDS = 100
MOST_TOKEN = 256
FORM_KIND = "application/x-www-form-urlencoded"
FORGED = "this form is not one of this page, or is out of date: go back, load the page, send again"


class SignInNeededError(DitherError):
    """A page that needs a session was opened without one."""


@dataclass(frozen=True)
class Visitor:
    """A browser: its session's token where it is signed in, and the token of its forms."""

    token: str | None
    form_token: str


Form = Mapping[str, str]


def is_secure(request: Request) -> bool:
    """Whether cookies are sent over TLS alone: always, but for a browser on this machine.

    The gateway speaks plain HTTP behind a proxy that ends TLS. A browser that came without TLS from
    elsewhere does not keep the cookie, and so cannot sign in.
    """
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    if host == "localhost":
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True


def _name_cookie(request: Request, name: str) -> str:
    """With the prefix `__Host-` no other host and no plain connection can set the cookie."""
    return f"__Host-{name}" if is_secure(request) else name


def set_cookie(
    request: Request, response: Response, name: str, value: str, seconds: int | None = None
) -> None:
    """Set a cookie that no script reads and no other site's form sends."""
    response.set_cookie(
        _name_cookie(request, name),
        value,
        max_age=seconds,
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="lax",
    )


def drop_cookie(request: Request, response: Response, name: str) -> None:
    """Make the browser forget a cookie."""
    set_cookie(request, response, name, "", 0)


def read_cookie(request: Request, name: str, longest: int = MOST_TOKEN) -> str | None:
    """A cookie of ours; None where there is none, or it is longer than ours are."""
    text = request.cookies.get(_name_cookie(request, name), "")
    return text if 0 < len(text) <= longest else None


def make_form_token(secret: str) -> str:
    """The token of the forms of a browser with this cookie."""
    return hashlib.sha256(f"dither form {secret}".encode()).hexdigest()


def identify_visitor(request: Request) -> Visitor:
    """The visitor of a request, signed in or not. A new one is given a cookie by `keep_visit`."""
    token = read_cookie(request, SESSION)
    secret = token or read_cookie(request, VISIT) or _new_visit(request)
    return Visitor(token, make_form_token(secret))


def _new_visit(request: Request) -> str:
    if not hasattr(request.state, "visit"):
        request.state.visit = fresh_bytes(16).hex()
    return str(request.state.visit)


def keep_visit(request: Request, response: Response) -> None:
    """Give a new visitor the cookie that the forms of this response belong to."""
    if hasattr(request.state, "visit"):
        set_cookie(request, response, VISIT, request.state.visit)


async def read_visitor(request: Request) -> AsyncIterator[Visitor]:
    """The visitor of a page that needs a session; one request more of its token is under way."""
    visitor = identify_visitor(request)
    if visitor.token is None:
        raise SignInNeededError("sign in first")
    turns: TokenTurns = request.app.state.turns
    with turns.take_turn(visitor.token):
        yield visitor


async def read_open_visitor(request: Request) -> AsyncIterator[Visitor]:
    """The visitor of a page that is open to all. Strangers share the turns of one token."""
    visitor = identify_visitor(request)
    turns: TokenTurns = request.app.state.turns
    with turns.take_turn(visitor.token or ""):
        yield visitor


async def read_form(request: Request) -> Form:
    """The fields of a form of ours; refused where another site may have sent it.

    Only plain forms are read: there is no way to send a file.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip() != FORM_KIND:
        raise ParameterError(f"a form is sent as {FORM_KIND}; files are not taken")
    check_origin(request)
    body = (await request.body()).decode("utf-8", "replace")
    try:
        fields = dict(parse_qsl(body, keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        raise ParameterError(f"a form has at most {MOST_FIELDS} fields") from None
    expected = identify_visitor(request).form_token
    sent = fields.pop("form_token", "") or request.headers.get("x-form-token", "")
    if not hmac.compare_digest(sent.encode(), expected.encode()):
        raise AccessError(FORGED)
    return fields


def check_origin(request: Request) -> None:
    """Refuse a form that a browser says was sent by a page of another site."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    host = request.headers.get("host", "")
    is_ours = origin is None or urlsplit(origin).netloc == host
    if site not in ("same-origin", "none") or not is_ours:
        raise AccessError(FORGED)


def is_direct(request: Request) -> bool:
    """Whether a person typed or opened an address, rather than followed a page of another site.

    A link that signs in by itself would else let another site sign people in as somebody whose
    history is then theirs to read.
    """
    return request.headers.get("sec-fetch-site", "none") in ("none", "same-origin")


def read_next(path: str) -> str:
    """Where to go after signing in: a page of this gateway and no other address.

    >>> read_next("/datasets/clinic"), read_next("//evil.example"), read_next("/\\\\evil.example")
    ('/datasets/clinic', '/datasets', '/datasets')
    """
    is_ours = path.startswith("/") and path[1:2] not in ("/", "\\") and path.isprintable()
    return path if is_ours and len(path) <= 60_000 else "/datasets"


SignedIn = Annotated[Visitor, Depends(read_visitor)]
OpenToAll = Annotated[Visitor, Depends(read_open_visitor)]
SentForm = Annotated[Form, Depends(read_form)]
