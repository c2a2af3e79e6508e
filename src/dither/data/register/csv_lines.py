"""Lines, returns and quotes of a CSV file, counted in one pass over its bytes.

Every line is accounted for after reading, and a file without quotes may be read by all threads:
there a line feed ends a row whatever stands before it, so no thread has to guess whether its part
begins inside quotes (rule rows-read-apart).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

_CHUNK_BYTES = 1 << 17
"""A chunk is read several times, and one of this size stays in the cache of a processor."""


@dataclass(frozen=True)
class LineCounts:
    """What a file's bytes say about its lines."""

    lines: int
    """Lines, if carriage returns only end lines."""
    blank_lines: int
    lone_returns: int
    """Carriage returns without a line feed after them.

    To the engine one outside quotes ends a row. That row more could make up for a line that a quote
    had swallowed.
    """
    is_plain: bool
    """Whether no byte is a quote or a NUL."""

    def count_rows(self, fields: int) -> int:
        """How many lines after the header are rows or no CSV.

        A blank line is a row of one empty field, and no row of several.
        """
        return self.lines - 1 - (self.blank_lines if fields > 1 else 0)


def count_lines(path: Path, quote: str) -> LineCounts:
    """Count the lines of a file, whatever its size, in little memory."""
    lines = 0
    blank_lines = 0
    lone_returns = 0
    is_plain = True
    is_ended = True
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            chunk += file.read(1) if chunk.endswith(b"\r") else b""
            is_plain &= quote.encode() not in chunk and b"\0" not in chunk
            if b"\r" in chunk:
                lone_returns += chunk.count(b"\r") - chunk.count(b"\r\n")
                chunk = chunk.replace(b"\r", b"")
            if chunk:
                ends = np.frombuffer(chunk, np.uint8) == ord("\n")
                lines += int(np.count_nonzero(ends))
                blank_lines += int(np.count_nonzero(ends[1:] & ends[:-1]))
                blank_lines += is_ended and chunk.startswith(b"\n")
                is_ended = chunk.endswith(b"\n")
    return LineCounts(lines + (not is_ended), blank_lines, lone_returns, is_plain)
