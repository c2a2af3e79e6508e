"""Rules between the columns of one row: comparisons, structural zeros and dependencies.

A rule is a public fact with its source, never learned from the data. Registration drops rows that
break one, row by row, and synthetic tables meet them. A null breaks nothing.

>>> RowRule("ended >= begun", "the form").columns
('ended', 'begun')
>>> RowRule('never {"sex": "m", "pregnant": "true"}', "biology").columns
('sex', 'pregnant')
>>> RowRule('county follows zip {"1000": "ash"}', "post office").pairs
(('1000', 'ash'),)
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cached_property

_COMPARISON = re.compile(r"\s*(\w+)\s*(<=|>=|!=|=|<|>)\s*(\w+)\s*")
_NEVER = re.compile(r"never (\{.*\})", re.DOTALL)
_FOLLOWS = re.compile(r"(\w+) follows (\w+) (\{.*\})", re.DOTALL)
FORMS = (
    'a comparison such as \'ended >= begun\', \'never {"sex": "m", "pregnant": "true"}\', or '
    '\'county follows zip {"1000": "ash"}\''
)


@dataclass(frozen=True)
class RowRule:
    """What every row of a table meets, and how that is known."""

    text: str
    provenance: str
    line: int = field(default=0, compare=False, kw_only=True)

    @property
    def is_sound(self) -> bool:
        """Whether the text has one of the forms."""
        return bool(self._comparison or self.values or self.pairs)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it speaks of."""
        if self._comparison:
            return self._comparison[0], self._comparison[2]
        if self.pairs:
            match = _FOLLOWS.fullmatch(self.text)
            assert match is not None
            return match[1], match[2]
        return tuple(self.values)

    @property
    def operator(self) -> str | None:
        """The comparison of the first column with the second; None for the other forms."""
        return self._comparison[1] if self._comparison else None

    @cached_property
    def values(self) -> dict[str, str]:
        """The values that never stand together, by column; empty for the other forms."""
        match = _NEVER.fullmatch(self.text)
        values = _read_texts(match[1]) if match else {}
        return values if len(values) >= 2 else {}

    @cached_property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Values of the second column, each with the one that the first has beside it."""
        match = _FOLLOWS.fullmatch(self.text)
        return tuple(_read_texts(match[3]).items()) if match and match[1] != match[2] else ()

    @cached_property
    def _comparison(self) -> tuple[str, str, str] | None:
        match = _COMPARISON.fullmatch(self.text)
        return (match[1], match[2], match[3]) if match and match[1] != match[3] else None


def _read_texts(text: str) -> dict[str, str]:
    """A JSON object of texts; empty for everything else."""
    try:
        read = json.loads(text)
    except ValueError:
        return {}
    is_texts = isinstance(read, dict) and all(isinstance(value, str) for value in read.values())
    return read if is_texts else {}
