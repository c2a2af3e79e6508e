"""Single sign-on by OpenID Connect: authorization code with PKCE (RFC 6749, RFC 7636).

The gateway only carries: it sends people to the provider, trades the code for an ID token and hands
that to the curator, which verifies it by keys that were pinned. The nonce is the curator's. State
and code verifier wait in a cookie of the browser that began, so no other browser can finish.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import quote, unquote, urlencode

import httpx
from fastapi import Request, Response
from starlette.responses import RedirectResponse

from dither.console.curators import Curators
from dither.console.settings import SignOnSettings
from dither.console.visitors import read_cookie, read_next, set_cookie
from dither.errors import ParameterError
from dither.privacy.noise.source import fresh_bytes
from dither.protocol.act_messages import BeginSignOn, SessionOpened, SignOn, SignOnBegun
from dither.protocol.errors import ProtocolError, TokenError

SIGN_ON = "dither-sign-on"
SECONDS_FOR_A_SIGN_ON = 600
SECONDS_FOR_A_TOKEN = 20
MOST_REPLY = 100_000
MOST_COOKIE = 4_000
NOT_SIGNED_ON = "the sign-on did not succeed: begin again"


def begin_sign_on(request: Request, curators: Curators, next_path: str) -> Response:
    """Send a person to the provider, with a nonce of the curator."""
    settings = _read_settings(curators)
    nonce = curators.make_transport(None).call(BeginSignOn(), SignOnBegun).nonce
    state = fresh_bytes(16).hex()
    verifier = fresh_bytes(32).hex()
    terms = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": settings.redirect_uri,
        "scope": "openid",
        "state": state,
        "nonce": nonce,
        "code_challenge": write_challenge(verifier),
        "code_challenge_method": "S256",
    }
    mark = "&" if "?" in settings.authorization_endpoint else "?"
    link = f"{settings.authorization_endpoint}{mark}{urlencode(terms)}"
    response = RedirectResponse(link, 303)
    cookie = f"{state}.{verifier}.{quote(next_path[:1500], safe='')}"
    set_cookie(request, response, SIGN_ON, cookie, SECONDS_FOR_A_SIGN_ON)
    return response


def write_challenge(verifier: str) -> str:
    """The challenge of a code verifier: its SHA-256 in base64url (RFC 7636, section 4.2).

    >>> write_challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")
    'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
    """
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def finish_sign_on(
    request: Request, curators: Curators, code: str, state: str, issuer: str
) -> tuple[str, str]:
    """The session's token and the page to go to; TokenError where anything does not fit."""
    settings = _read_settings(curators)
    begun_state, verifier, next_path = _read_begun(request)
    is_ours = hmac.compare_digest(state.encode(), begun_state.encode())
    if not is_ours or not code or issuer not in ("", settings.issuer):
        raise TokenError(NOT_SIGNED_ON)
    id_token = trade_code(settings, code, verifier)
    try:
        call = SignOn(id_token=id_token)
    except ValueError:
        raise TokenError(NOT_SIGNED_ON) from None
    session = curators.make_transport(None).call(call, SessionOpened)
    return session.token, next_path


def _read_settings(curators: Curators) -> SignOnSettings:
    settings = curators.settings.sign_on
    if settings is None:
        raise ParameterError("single sign-on is not set up here: sign in by password or token")
    return settings


def _read_begun(request: Request) -> tuple[str, str, str]:
    """State, verifier and page of the sign-on that this browser began."""
    pieces = (read_cookie(request, SIGN_ON, MOST_COOKIE) or "").split(".", 2)
    if len(pieces) != 3 or not pieces[0]:
        raise TokenError(NOT_SIGNED_ON)
    return pieces[0], pieces[1], read_next(unquote(pieces[2]))


def trade_code(settings: SignOnSettings, code: str, verifier: str) -> str:
    """The ID token that the provider gives for a code. What it says is for the curator to judge."""
    terms = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": settings.redirect_uri,
        "code_verifier": verifier,
        "client_id": settings.client_id,
    }
    secret = settings.client_secret
    basic = None if secret is None else httpx.BasicAuth(quote(settings.client_id), quote(secret))
    try:
        with httpx.Client(timeout=SECONDS_FOR_A_TOKEN, auth=basic) as client:
            reply = client.post(settings.token_endpoint, data=terms)
        document = reply.json() if len(reply.content) <= MOST_REPLY else None
    except (httpx.HTTPError, ValueError):
        raise ProtocolError("the provider of single sign-on does not answer: try later") from None
    id_token = document.get("id_token") if isinstance(document, dict) else None
    if reply.status_code != 200 or not isinstance(id_token, str):
        raise TokenError(NOT_SIGNED_ON)
    return id_token
