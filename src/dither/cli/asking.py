"""Questions to a person at a terminal: each is answered by an option, or asked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

from rich.console import Console

from dither.errors import DitherError, ParameterError

T = TypeVar("T")


class DecisionReader:
    """Asks where there is a person to answer; where there is none, names the option that is
    missing."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.is_interactive = sys.stdin.isatty()

    def decide(
        self, option_value: str | None, option: str, question: str, read: Callable[[str], T]
    ) -> T:
        """Return the decision that an option gave, or that the person types.

        It is asked again while it cannot be read. Raises ParameterError where it is missing and
        nobody is here to ask.
        """
        if option_value is not None:
            return read(option_value)
        if not self.is_interactive:
            raise ParameterError(f"{option} is missing, and nobody is here to ask: {question}")
        while True:
            try:
                return read(self._read_line(question))
            except DitherError as error:
                self.console.print(f"  {error}", markup=False, highlight=False, soft_wrap=True)

    def _read_line(self, question: str) -> str:
        """Print a question and read a line; a terminal that was closed is an interrupt."""
        self.console.print(f"{question} ", end="", markup=False, highlight=False, soft_wrap=True)
        try:
            return input().strip()
        except EOFError:
            raise KeyboardInterrupt from None  # the terminal was closed


def read_yes_or_no(text: str) -> bool:
    """yes or no, in full or as a letter."""
    answers = {"yes": True, "y": True, "no": False, "n": False}
    if text.strip().lower() not in answers:
        raise ParameterError("answer yes or no")
    return answers[text.strip().lower()]
