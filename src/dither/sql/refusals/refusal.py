"""One refusal: what, why, what to write instead, and the rule."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Refusal:
    """One row of the table."""

    what: str
    why: str
    instead: str
    rule: str
    example: str
    rewrite: str

    @property
    def message(self) -> str:
        return f"{self.what}: {self.why}. Instead: {self.instead} [rule: {self.rule}]"


OWNER = "no row meets another owner's row"
ONE = "every row has one owner"
ALLOW = "what has no rule is refused"
ORDER = "inside a person rows are a set"
