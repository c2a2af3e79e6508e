"""Pages from templates. Every text of unknown origin is made harmless at this one place.

Jinja escapes markup. Before it does, hidden characters (bidi marks, controls) are spelled out, as
on every other surface of dither.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from fastapi import Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from dither.console.static_files import write_static_link
from dither.escape import escape_lines
from dither.pages.html import Html
from dither.version import __version__

SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""No inline script or style, nothing from elsewhere, no frame around a page."""

REFERRER_POLICY = "same-origin"
"""Other sites learn no address. Under `no-referrer` a browser would call our origin null."""


@cache
def _make_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("dither.console"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["static"] = write_static_link
    environment.filters["moment"] = write_moment
    environment.globals["version"] = __version__
    return environment


def write_moment(text: str) -> str:
    """The time of a release as people write it.

    >>> write_moment("2026-11-16T15:59:48+00:00")
    '2026-11-16 15:59:48 UTC'
    """
    return text.replace("T", " ").replace("+00:00", " UTC")


def _harmless(value: Any) -> Any:
    """A value for a page: our own markup as it is, any other text without hidden characters."""
    if isinstance(value, Html):
        return Markup(str(value))
    if isinstance(value, str) and not isinstance(value, Markup):
        return escape_lines(value)
    return value


def write_page(template: str, status: int = 200, **values: Any) -> Response:
    """The page of a template."""
    text = _make_environment().get_template(template).render(values)
    headers = {"content-security-policy": SECURITY_POLICY, "referrer-policy": REFERRER_POLICY}
    return Response(text, status, headers, "text/html; charset=utf-8")
