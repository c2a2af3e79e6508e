"""One refusal: what, why, what to write instead, and the rule."""

from __future__ import annotations

from dataclasses import dataclass

from dither.rules import PrivacyRule


@dataclass(frozen=True)
class Refusal:
    """One row of the table."""

    what: str
    why: str
    instead: str
    rule: PrivacyRule
    example: str
    rewrite: str

    @property
    def message(self) -> str:
        return f"{self.what}: {self.why}. Instead: {self.instead} {self.rule.label}"
