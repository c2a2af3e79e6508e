"""Surfaces: text of unknown origin, made harmless for the place where a person reads it.

Labels come from the data, names from the question, sentences from catalogs and pots. A terminal
obeys control characters, a browser and rich obey markup, a spreadsheet obeys formulas, matplotlib
obeys dollar signs. Tables for programs (`to_arrow`, `to_pandas`, JSON) keep the exact text.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

from dither.escape import SUSPECT, escape_lines, is_hidden, spell_character

if TYPE_CHECKING:
    from rich.text import Text

__all__ = [
    "PLOT_TEXT",
    "escape_csv",
    "escape_html",
    "escape_json",
    "escape_label",
    "escape_lines",
    "make_rich_cell",
    "make_rich_text",
]
_FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""What a spreadsheet takes for the start of a formula; the last four are the wide forms."""
PLOT_TEXT: dict[str, Any] = {"parse_math": False, "usetex": False}
"""Properties of matplotlib texts that hold labels: neither formulas nor TeX."""


def escape_label(text: str) -> str:
    r"""A text on one line of a terminal: characters that hide, move or reverse others are spelt
    out.

    >>> print(escape_label("a\x1b[2J\u202eb\nc"))
    a\x1b[2J\u202eb\nc
    """
    return SUSPECT.sub(spell_character, text)


def make_rich_text(text: str) -> Text:
    """A text for rich, in which neither markup nor the names of emoji mean anything."""
    from rich.text import Text

    return Text(escape_lines(text))


def make_rich_cell(text: str) -> Text:
    """A text for a cell of a rich table: on one line."""
    from rich.text import Text

    return Text(escape_label(text))


def escape_html(text: str) -> str:
    """A text inside an element or a quoted attribute of a page.

    >>> escape_html("<b>'x'")
    '&lt;b&gt;&#x27;x&#x27;'
    """
    return escape(escape_lines(text), quote=True)


def escape_csv(value: Any) -> Any:
    """A cell of a CSV file that a spreadsheet shows and does not compute; numbers stay numbers.

    >>> escape_csv("=1+1"), escape_csv(-5), escape_csv("north")
    ("'=1+1", -5, 'north')
    """
    if not isinstance(value, str):
        return value
    shown = escape_label(value)
    return f"'{shown}" if value.lstrip(" ")[:1] in tuple(_FORMULA) else shown


def escape_json(document: str) -> str:
    r"""A JSON document as text for a terminal; it is read back as the same values.

    >>> print(escape_json('{"label": "a\u202eb"}'))
    {"label": "a\u202eb"}
    """
    return SUSPECT.sub(_spell_json_character, document)


def _spell_json_character(match: re.Match[str]) -> str:
    """Spell out a hidden character as JSON escapes; return any other as it is."""
    character = match.group()
    if character in "\n\t" or not is_hidden(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
