"""Turns the formulas of a page into MathML when the site is built.

`pymdownx.arithmatex` marks `$...$` and `$$...$$`; this hook of MkDocs replaces what was marked. Browsers
show MathML by themselves, so a reader's browser runs no script and asks no other server.
"""

from __future__ import annotations

import html
import re
import unicodedata
from typing import Any

from latex2mathml.converter import convert

_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_LETTER = re.compile(r'<m([in]) mathvariant="(double-struck|bold|script)">(\w)</m[in]>')
_BLOCK = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)


def write_letter(match: re.Match[str]) -> str:
    """Returns a letter as its own character: browsers ignore the attribute that says how it is set."""
    kind = match[2].upper()
    sort = "DIGIT" if match[3].isdigit() else "CAPITAL" if match[3].isupper() else "SMALL"
    name = unicodedata.name(match[3]).split()[-1]
    try:
        character = unicodedata.lookup(f"MATHEMATICAL {kind} {sort} {name}")
    except KeyError:  # the oldest letters, such as the set of reals, have a name of their own
        character = unicodedata.lookup(f"{kind} {sort} {name}")
    return f"<m{match[1]}>{character}</m{match[1]}>"


def convert_formula(latex: str, display: str) -> str:
    """Returns the MathML of one formula, with its LaTeX as a tooltip; raises what cannot be read."""
    source = " ".join(html.unescape(latex).split())
    mathml = _LETTER.sub(write_letter, str(convert(source, display=display)))
    return mathml.replace("<math ", f'<math title="{html.escape(source)}" ', 1)


def render_formulas(page_html: str) -> str:
    """Replaces every marked formula in the HTML of a page by MathML."""
    with_blocks = _BLOCK.sub(lambda match: convert_formula(match[1], "block"), page_html)
    return _INLINE.sub(lambda match: convert_formula(match[1], "inline"), with_blocks)


def on_page_content(page_html: str, **_: Any) -> str:
    """Called by MkDocs for every page, after its Markdown was converted."""
    return render_formulas(page_html)
