"""Functions of texts: at most `width` characters (code points), so that the work of one row is
bounded.

Upper and lower case change the 26 letters of ASCII only, and trimming removes spaces only: what
other characters do depends on the engine's version of Unicode, and two engines must agree.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb

from dither.plan.domain import Domain, number
from dither.plan.functions.table import Arguments, Function, NullRule, truth

MAX_WIDTH = 10_000
MOST_LIKE_STEPS = 4_000_000
"""The most steps of a LIKE pattern for one text: about ten milliseconds."""
MOST_LISTED = 1000
"""The longest list of texts among which the index of a text is looked up."""


def _text(width: int, nullable: bool, a: Arguments) -> Domain:
    if width > MAX_WIDTH:
        raise a.refuse(f"the text could have {width} characters, more than {MAX_WIDTH}")
    return Domain("text", nullable, width=width)


def _same(a: Arguments) -> Domain:
    a.expect("text")
    return _text(a.domains[0].width, a.domains[0].nullable, a)


def _length(a: Arguments) -> Domain:
    a.expect("text")
    longest = a.domains[0].width * (4 if a.function == "byte_length" else 1)
    return number(0, longest, Fraction(1), a.domains[0].nullable)


def _end(a: Arguments) -> Domain:
    """left and right: the first or last n characters."""
    a.expect("text", "number")
    return _text(min(a.domains[0].width, a.whole(1, 0, MAX_WIDTH)), a.domains[0].nullable, a)


def _substring(a: Arguments) -> Domain:
    """Compute the domain of SUBSTRING(text, start, length): a text that is no wider than is
    left."""
    a.expect("text", "number", "number")
    start = a.whole(1, 1, MAX_WIDTH)
    length = a.whole(2, 0, MAX_WIDTH)
    return _text(max(0, min(length, a.domains[0].width - start + 1)), a.domains[0].nullable, a)


def _search(a: Arguments) -> Domain:
    """Compute the domain of a search for a constant text: a position, or a truth value."""
    a.expect("text", "text")
    if not a.text(1):
        raise a.refuse("the text that is looked for is empty")
    if a.function == "position":
        return number(0, a.domains[0].width, Fraction(1), a.domains[0].nullable)
    return truth(a.domains[0].nullable)


def _replace(a: Arguments) -> Domain:
    """Compute the domain of REPLACE: as wide as if every piece of the text were replaced."""
    a.expect("text", "text", "text")
    old = a.text(1)
    new = a.text(2)
    width = a.domains[0].width
    if not old:
        raise a.refuse("the text that is replaced is empty")
    grown = width + (width // len(old)) * max(0, len(new) - len(old))
    return _text(grown, a.domains[0].nullable, a)


def _concat(a: Arguments) -> Domain:
    a.all_of("text", 2)
    return _text(sum(domain.width for domain in a.domains), a.any_null, a)


def _pad(a: Arguments) -> Domain:
    """Compute the domain of a text that is filled up to a constant width."""
    a.expect("text", "number", "text")
    if len(a.text(2)) != 1:
        raise a.refuse("the text to fill with is one character")
    return _text(a.whole(1, 0, MAX_WIDTH), a.domains[0].nullable, a)


def _split(a: Arguments) -> Domain:
    """Compute the domain of one piece of a text that is split at a separator."""
    a.expect("text", "text", "number")
    if not a.text(1):
        raise a.refuse("the separator is empty")
    a.whole(2, 1, MAX_WIDTH)
    return _text(a.domains[0].width, a.domains[0].nullable, a)


def _like(a: Arguments) -> Domain:
    """Compute the domain of LIKE: a truth value.

    Raises RefusedError for patterns that take long.
    """
    a.expect("text", "text")
    if "\\" in a.text(1) or a.text(1).count("%") > 8:
        raise a.refuse("the pattern has at most 8 % and no backslash")
    steps = count_like_steps(a.text(1), a.domains[0].width)
    if steps > MOST_LIKE_STEPS:
        raise a.refuse(
            f"this pattern could take {steps:,} steps for a text of {a.domains[0].width:,} "
            f"characters, and at most {MOST_LIKE_STEPS:,} are allowed: write fewer _ and %, or "
            "match a part of the text, such as LEFT(text, 100)"
        )
    return truth(a.domains[0].nullable)


def count_like_steps(pattern: str, width: int) -> int:
    """Bound how many characters are compared to match a pattern with a text of so many characters.

    Without _ every piece between two % is searched for once, from left to right. With _ the engine
    tries each piece at every position, counted in bytes (a character has at most 4), and for each
    of them the next piece at every later position.

    >>> count_like_steps("%ward%", 20), count_like_steps("a_c%", 20), count_like_steps("%a_c", 20)
    (80, 7, 567)
    """
    size = 4 * width
    if "_" not in pattern:
        return size
    first, *pieces = pattern.split("%")
    searched = [piece for piece in pieces if piece]
    longest = max(map(len, (first, *searched)))
    return comb(size + len(searched), len(searched)) * (4 + longest)


def _index_in(a: Arguments) -> Domain:
    """Compute the domain of a text's index among constant texts: null where it is none of them."""
    if not 2 <= len(a.domains) <= MOST_LISTED + 1:
        raise a.refuse(f"takes a text and 1 to {MOST_LISTED} others, got {len(a.domains)}")
    a.expect(*(("text",),) * len(a.domains))
    texts = [a.text(position) for position in range(1, len(a.domains))]
    if len(set(texts)) < len(texts):
        raise a.refuse("a text is listed twice")
    return number(0, len(texts) - 1, Fraction(1), True)


def _label(a: Arguments) -> Domain:
    a.expect("category")
    return _text(max(map(len, a.domains[0].labels), default=0), a.domains[0].nullable, a)


def _parse(a: Arguments) -> Domain:
    """Compute the domain of a text that is read as a whole number between two constants.

    It is null where it cannot be read.
    """
    a.expect("text", "number", "number")
    low = a.whole(1, -(10**17), 10**17)
    high = a.whole(2, -(10**17), 10**17)
    if low > high:
        raise a.refuse("the lower bound is above the upper one")
    return number(low, high, Fraction(1), True)


_ANY: NullRule = "null if an argument is"
_NONE = "none needed"
FUNCTIONS: tuple[Function, ...] = (
    Function("lower", "a text", "A-Z as a-z", _ANY, _NONE, _same),
    Function("upper", "a text", "a-z as A-Z", _ANY, _NONE, _same),
    Function("trim", "a text", "it without spaces at both ends", _ANY, _NONE, _same),
    Function("ltrim", "a text", "it without spaces in front", _ANY, _NONE, _same),
    Function("rtrim", "a text", "it without spaces at the end", _ANY, _NONE, _same),
    Function("length", "a text", "how many characters", _ANY, _NONE, _length),
    Function("byte_length", "a text", "how many bytes of UTF-8", _ANY, _NONE, _length),
    Function("left", "a text, n (constant)", "its first n characters", _ANY, "constant n", _end),
    Function("right", "a text, n (constant)", "its last n characters", _ANY, "constant n", _end),
    Function(
        "substring",
        "a text, from, n (constants, from 1)",
        "n characters from there",
        _ANY,
        "constant places",
        _substring,
    ),
    Function(
        "starts_with", "a text, another (constant)", "whether it begins so", _ANY, _NONE, _search
    ),
    Function("ends_with", "a text, another (constant)", "whether it ends so", _ANY, _NONE, _search),
    Function("contains", "a text, another (constant)", "whether it occurs", _ANY, _NONE, _search),
    Function(
        "position",
        "a text, another (constant)",
        "where it first occurs, or 0",
        _ANY,
        _NONE,
        _search,
    ),
    Function(
        "replace",
        "a text, old, new (constants)",
        "new for every old, from the left",
        _ANY,
        "width from the constants",
        _replace,
    ),
    Function(
        "concat",
        "two or more texts",
        "one after the other",
        _ANY,
        "width from the arguments",
        _concat,
    ),
    Function(
        "lpad",
        "a text, n, a character (constants)",
        "n characters, filled or cut",
        _ANY,
        "one character to fill with",
        _pad,
    ),
    Function(
        "rpad",
        "a text, n, a character (constants)",
        "n characters, filled or cut",
        _ANY,
        "one character to fill with",
        _pad,
    ),
    Function(
        "split_part",
        "a text, separator, n (constants, n from 1)",
        "the n-th part, or an empty text",
        _ANY,
        "constant n",
        _split,
    ),
    Function(
        "like",
        "a text, a pattern (constant)",
        "whether it matches, % for any text and _ for one character",
        _ANY,
        "at most 8 %",
        _like,
    ),
    Function(
        "label", "a category", "its label as a text", _ANY, "the list holds every code", _label
    ),
    Function(
        "index_in",
        "a text, up to 1,000 others (constants)",
        "which of them it is, counted from 0; null if none",
        "null if it says so",
        "different texts",
        _index_in,
    ),
    Function(
        "parse_integer",
        "a text, lower and upper bound (constants)",
        "the whole number it shows (at most 18 digits), moved between the bounds; null if none",
        "null if it says so",
        "a regular expression, TRY_CAST",
        _parse,
    ),
)
