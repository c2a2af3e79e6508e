"""Errors between processes: a token that is not accepted, a curator that is busy."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

from dither.canonical import dumps
from dither.errors import DitherError


class AccessError(DitherError):
    """The role, the pots or the dataset of a token do not allow what was asked."""


class TokenError(AccessError):
    """The token is unknown, has expired or was revoked."""


class BusyError(DitherError):
    """Too much is under way, or nobody listens. Nothing was charged."""


class ProtocolError(DitherError):
    """A message that this version of the protocol does not have."""


class FaultError(DitherError):
    """The curator failed where it should not have; one sentence, whatever the cause."""

    TEXT = "the curator failed; con.history() says what was charged. Tell the data steward"

    def __init__(self, _: str = TEXT) -> None:
        super().__init__(self.TEXT)


def report_fault(error: Exception, request_id: str | None = None) -> None:
    """Log a fault on standard error as a line of JSON: its kind, where, and the request's id.

    No message, which may quote a row, and no time: how long after a request it failed may depend on
    rows. Who collects the lines notes when they came.
    """
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = {
        "event": "fault",
        "kind": type(error).__name__,
        "file": Path(frame.filename).name,
        "line": frame.lineno,
    }
    if request_id is not None:
        line["request"] = request_id
    print(dumps(line), file=sys.stderr, flush=True)  # noqa: T201
