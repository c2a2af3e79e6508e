"""What rich would show, as plain text: the same in a terminal, a file and a notebook."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from dither.surfaces import escape_lines

if TYPE_CHECKING:
    from rich.console import RenderableType


def render_text(renderable: RenderableType, width: int = 120) -> str:
    """Render something rich as text, without colours; a notebook is not written to beside."""
    from rich.console import Console

    page = io.StringIO()
    Console(
        file=page, width=width, force_terminal=False, force_jupyter=False, color_system=None
    ).print(renderable)
    return escape_lines(page.getvalue())  # what an object forgot
