"""One refusal: what, why, what to write instead, and the rule."""

from __future__ import annotations

from dataclasses import dataclass

from dither.rules import PrivacyRule


@dataclass(frozen=True)
class Refusal:
    """One row of the table.

    `without_owner` is what to write instead where each row is protected by itself, for rows of the
    table whose remedy names the owner's column.
    """

    what: str
    why: str
    instead: str
    rule: PrivacyRule
    example: str
    rewrite: str
    without_owner: str = ""

    @property
    def message(self) -> str:
        return self.write_message(self.instead)

    def write_message(self, remedy: str) -> str:
        """The message with a remedy in the names of the asker's tables."""
        return f"{self.what}: {self.why}. Instead: {remedy} {self.rule.label}"
