"""Errors in a notebook: the message and the asker's own lines, without the frames of dither.

IPython asks an exception for `_render_traceback_` before it writes a traceback. The method is set
here and not in `errors.py`, which the kernel imports: how errors look is no part of what an auditor
has to read. Faults of dither (any other exception) keep their whole traceback.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from dither.errors import DitherError

_HOME = Path(__file__).parents[1]


def render_traceback(error: DitherError) -> list[str]:
    """Write the lines that a notebook shows for an error of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _is_ours(frame.filename)]
    lines = [f"{frame.filename}:{frame.lineno}: {frame.line or ''}".rstrip() for frame in own]
    return [*lines[-1:], f"{type(error).__name__}: {error}"]


def _is_ours(filename: str) -> bool:
    path = Path(filename)
    return path.is_relative_to(_HOME) or "IPython" in path.parts


def hide_frames() -> None:
    """Let notebooks show errors of ours by `render_traceback`."""
    DitherError._render_traceback_ = render_traceback  # type: ignore[attr-defined]
