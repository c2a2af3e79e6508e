"""The steward's log: why a question failed after its charge. One JSON object a line, mode 0600.

It is the one file that may hold an engine's message, which may quote a row. No analyst reads it,
and a log that cannot be written changes nothing that an analyst sees.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

MOST_CAUSES = 8
MOST_CHARACTERS = 2000


def log_incident(
    path: Path,
    code: str,
    reserve: int,
    pot: str,
    error: BaseException | None = None,
) -> None:
    """Append an incident to the steward's log: its code, reserve and pot, time, error and causes.

    A log that cannot be written is passed over in silence.
    """
    with suppress(Exception):
        line = {
            "incident": code,
            "reserve": reserve,
            "pot": pot,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "causes": list(describe_causes(error)),
        }
        _append(path, json.dumps(line))  # ASCII: control characters of a message stay escaped


def describe_causes(error: BaseException | None) -> Iterator[dict[str, str]]:
    """Yield type and message of an error, of what it was raised from, and so on, up to MOST_CAUSES.

    >>> list(describe_causes(ValueError("a message")))
    [{'type': 'ValueError', 'message': 'a message'}]
    """
    for _ in range(MOST_CAUSES):
        if error is None:
            return
        yield {"type": type(error).__qualname__, "message": str(error)[:MOST_CHARACTERS]}
        error = error.__cause__ or error.__context__


def _append(path: Path, line: str) -> None:
    """Append one line to a file that only its owner may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with suppress(OSError):
            os.fchmod(descriptor, 0o600)
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)
