"""What a person sees while a strategy is chosen or answers are fitted: a line on the terminal.

Nothing is written where no terminal reads it. How long either takes follows from public sizes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rich.console import Console


def show_step(words: str, is_shown: bool) -> AbstractContextManager[Any]:
    """A moving sign beside these words until the step ends, on standard error."""
    return Console(stderr=True).status(words) if is_shown else nullcontext()
