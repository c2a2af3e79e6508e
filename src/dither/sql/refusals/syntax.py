"""Errors in the grammar of a question, in plain words: what is wrong, and the position of it.

The parser's own words name its classes and tokens. They are never shown: only the position and the
kind of the mistake are taken from it.
"""

from __future__ import annotations

import difflib
import re

from sqlglot.errors import ParseError

from dither.errors import QueryError
from dither.sql.refusals.refuse import refuse

_KEYWORDS = (
    "SELECT",
    "DISTINCT",
    "FROM",
    "JOIN",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT",
    "UNION",
    "BETWEEN",
    "LIKE",
    "WITH",
)
_UNFINISHED = ("SELECT", "FROM", "JOIN", "ON", "WHERE", "AND", "OR", "NOT", "BY", "HAVING", "LIKE")
_BEGINNINGS = ("SELECT", "WITH", "FROM", "EXPLAIN")
_WORD = re.compile(r"[A-Za-z_]+")
_EXPECTED = re.compile(r"Expect(?:ing|ed) ([()\]]|[A-Z]+)(?: |$)")
_QUOTES = (("--", "\n"), ("/*", "*/"), ("'", "'"), ('"', '"'))
"""What begins a comment or a quote, and what ends it."""
_LONGEST_WORD = 40


def describe_syntax_error(error: ParseError, sql: str) -> QueryError:
    """Make the error for what the parser could not read, with its position marked."""
    details = error.errors[0] if error.errors else {}
    word = str(details.get("highlight") or "")
    before = str(details.get("start_context") or "")
    after = str(details.get("end_context") or "")
    start = max(0, sql.find(before + word + after)) + len(before)
    reason = _describe_reason(str(details.get("description") or ""), word, after)
    misspelt = _find_misspelt_keyword(sql, start, word)
    if misspelt is not None and not _ends_with_keyword(sql):
        keyword, span = misspelt
        written = sql[span[0] : span[1]]
        return refuse(
            f"the question is not SQL: did you mean {keyword} in place of {written}?",
            sql,
            span=span,
        )
    return refuse(f"the question is not SQL: {reason}", sql, span=_choose_span(sql, start, word))


def describe_open_quote(sql: str) -> QueryError:
    """Make the error for a quote or a comment that never ends."""
    opening = _find_open_quote(sql)
    if opening is None:
        return describe_unreadable(sql)
    what = "this comment" if opening[1] - opening[0] == 2 else "this quote"
    return refuse(f"the question is not SQL: {what} is never closed", sql, span=opening)


def describe_unreadable(sql: str) -> QueryError:
    """Make the error for a text on which the parser gives up without a position."""
    return refuse(
        "the question cannot be read: write it as SELECT ... FROM ... without what only other "
        "engines have",
        sql,
        span=find_first_word(sql),
    )


def find_first_word(sql: str) -> tuple[int, int]:
    """Where the first word of a text begins and ends."""
    start = len(sql) - len(sql.lstrip())
    word = sql[start:].split(None, 1)[0]
    return start, start + min(len(word), _LONGEST_WORD)


def _describe_reason(description: str, word: str, after: str) -> str:
    """Describe the mistake in plain words; `word` is where the parser stopped."""
    is_last = not after.strip(" ;\n\t")
    direction = "after" if is_last else "before"
    if expected := _EXPECTED.match(description):
        return f"{expected.group(1)} is missing {direction} {word}"
    if description.startswith("The number of provided arguments"):
        return f"too many arguments before {word}"
    if description.startswith(("Required", "Expect")):
        return f"something is missing {direction} {word}"
    return f"{word} cannot stand here" if word else "it ends too early"


def _find_open_quote(sql: str) -> tuple[int, int] | None:
    """Find the span of the quote or comment that does not end, in one pass; None where all end."""
    position = 0
    while position < len(sql):
        for opening, closing in _QUOTES:
            if sql.startswith(opening, position):
                end = sql.find(closing, position + len(opening))
                if end < 0:
                    return None if opening == "--" else (position, position + len(opening))
                position = end + len(closing)
                break
        else:
            position += 1
    return None


def _find_misspelt_keyword(sql: str, start: int, word: str) -> tuple[str, tuple[int, int]] | None:
    """Find a keyword that the first word, the word at a position or the one before nearly is.

    Returns the keyword and the span of that word, or None.
    """
    first = find_first_word(sql)
    if keyword := _match_keyword(sql[first[0] : first[1]], _BEGINNINGS):
        return keyword, first
    words = [match for match in _WORD.finditer(sql) if match.start() < start]
    previous = words[-1].span() if words else (start, start)
    for span in (previous, (start, start + len(word))):
        if keyword := _match_keyword(sql[span[0] : span[1]], _KEYWORDS):
            return keyword, span
    return None


def _ends_with_keyword(sql: str) -> bool:
    """Whether a text ends with a keyword, as in `FROM visits WHERE`, and its rest is missing."""
    words = sql.rstrip(" ;\n\t").split()
    return len(words) > 1 and words[-1].upper() in _UNFINISHED


def _match_keyword(word: str, keywords: tuple[str, ...]) -> str | None:
    """Return the keyword that a word is a slip of; None where it is one, or is far from all."""
    heads = {keyword.split()[0]: keyword for keyword in keywords}
    word = word[:_LONGEST_WORD]
    if word.upper() in heads:
        return heads[word.upper()] if " " in heads[word.upper()] else None
    close = difflib.get_close_matches(word.upper(), heads, 1, 0.75)
    return heads[close[0]] if close else None


def _choose_span(sql: str, start: int, word: str) -> tuple[int, int]:
    """The word where the parser stopped; the first word where it names none."""
    return (start, start + len(word)) if word else find_first_word(sql)
