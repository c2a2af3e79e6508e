"""Surfaces: text of unknown origin, made harmless for the place where a person reads it.

Labels come from the data, names from the question, sentences from catalogs and pots. A terminal
obeys control characters, a browser and rich obey markup, a spreadsheet obeys formulas, matplotlib
obeys dollar signs. Tables for programs (`to_arrow`, `to_pandas`, JSON) keep the exact text.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

_JOINERS = "\u200c\u200d"
"""Characters of category Cf that spelling needs, in Persian, in Indic scripts and in emoji."""
_FORMULA = "=+-@\t\r\n\uff1d\uff0b\uff0d\uff20"
"""What a spreadsheet takes for the start of a formula; the last four are the wide forms."""
_SUSPECT = re.compile(r"[^\x20-\x7e]")
PLOT_TEXT: dict[str, Any] = {"parse_math": False, "usetex": False}
"""Properties of matplotlib texts that hold labels: neither formulas nor TeX."""


def escape_label(text: str) -> str:
    r"""A text on one line of a terminal: characters that hide, move or reverse others are spelt out.

    >>> print(escape_label("a\x1b[2J\u202eb\nc"))
    a\x1b[2J\u202eb\nc
    """
    return _SUSPECT.sub(_spell_label_character, text)


def escape_lines(text: str) -> str:
    r"""A text of several lines on a terminal: as a label, but line feeds and tabs stay.

    >>> print(escape_lines("SELECT 1\x1b[2J\nFROM t"))
    SELECT 1\x1b[2J
    FROM t
    """
    return _SUSPECT.sub(_spell_line_character, text)


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
    return _SUSPECT.sub(_spell_json_character, document)


def _is_hidden(character: str) -> bool:
    """Control and format characters (bidi marks among them), halves of characters, unusual spaces, unassigned codes."""
    return not character.isprintable() and character not in _JOINERS


def _spell_label_character(match: re.Match[str]) -> str:
    character = match.group()
    return _spell(character) if _is_hidden(character) else character


def _spell_line_character(match: re.Match[str]) -> str:
    character = match.group()
    return character if character in "\n\t" else _spell_label_character(match)


def _spell_json_character(match: re.Match[str]) -> str:
    character = match.group()
    if character in "\n\t" or not _is_hidden(character):
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _spell(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
