"""Every error that dither raises on purpose.

The message names the thing, the rule and the remedy, and never a row's content: whatever an analyst
can make dither say is an output, so an error raised after data has been read is always the one
constant `UnavailableError`.
"""

from __future__ import annotations

from dither.escape import escape_lines
from dither.rules import PrivacyRule


class DitherError(Exception):
    """Base of all errors of dither. A message may quote a question or a catalog: it is shown
    harmless."""

    def __str__(self) -> str:
        return escape_lines(super().__str__())


class ParameterError(DitherError, ValueError):
    """A parameter (epsilon, scale, sensitivity, neighbours, ...) is outside what a theorem
    covers."""


class CatalogError(DitherError):
    """The catalog is wrong or silent on something a person must decide; carries file and line."""

    def __init__(self, message: str, *, file: str = "<catalog>", line: int = 0) -> None:
        super().__init__(f"{file}:{line}: {message}")
        self.message = message
        self.file = file
        self.line = line


class QueryError(DitherError):
    """The question cannot be understood or has no rule; carries the place in its text."""

    def __init__(self, message: str, *, start: int = 0, end: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = end


class BudgetError(DitherError):
    """The pot cannot pay; nothing was spent."""


class RefusedError(DitherError):
    """A rule of the platform forbids it; carries the rule."""

    def __init__(self, message: str, *, rule: PrivacyRule) -> None:
        super().__init__(f"{message} {rule.label}")
        self.rule = rule


class UnavailableError(DitherError):
    """The one fixed response to any failure after a charge: the same text for every cause."""

    TEXT = "the answer is unavailable; the charge stays. Ask the data steward, who can see why."

    def __init__(self) -> None:
        super().__init__(self.TEXT)


class PrivacyWarning(UserWarning):
    """A parameter is allowed but promises little, such as a delta at or above 1 / number of
    people."""

    def __str__(self) -> str:
        return escape_lines(super().__str__())
