"""Static files of the console: scripts, one style sheet, an icon. Nothing comes from elsewhere.

Files of others are in `static/vendor`, as their packages hold them; `vendor.json` there has name,
version, licence and SHA-256 of each. They are sent compressed. Pages are not: the length of a
compressed page tells a listener whether a guess that he placed in it equals a secret in it.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from fastapi import Request, Response
from starlette.exceptions import HTTPException

_KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FOREVER = "public, max-age=31536000, immutable"


@dataclass(frozen=True)
class StaticFile:
    """A file with its compressed form; `tag` changes with its content."""

    content: bytes
    packed: bytes
    kind: str
    tag: str


@cache
def read_static_files() -> dict[str, StaticFile]:
    """All files that are served, by name."""
    root = resources.files("dither.console") / "static"
    entries = [*root.iterdir(), *(root / "vendor").iterdir()]
    return {
        entry.name: _read_file(entry.read_bytes(), entry.name)
        for entry in entries
        if entry.name.rpartition(".")[2] in _KINDS
    }


def _read_file(content: bytes, name: str) -> StaticFile:
    tag = hashlib.sha256(content).hexdigest()[:16]
    return StaticFile(content, gzip.compress(content, 9), _KINDS[name.rpartition(".")[2]], tag)


def write_static_link(name: str) -> str:
    """The address of a file, which names its content: it can be kept for ever."""
    return f"/static/{name}?v={read_static_files()[name].tag}"


def send_static_file(name: str, request: Request) -> Response:
    """A file, compressed where the browser takes it so."""
    file = read_static_files().get(name)
    if file is None:
        raise HTTPException(404, "there is no such file")
    headers = {"cache-control": _FOREVER, "vary": "accept-encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
        return Response(file.packed, media_type=file.kind, headers=headers)
    return Response(file.content, media_type=file.kind, headers=headers)
