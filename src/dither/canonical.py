"""Exact numbers and canonical JSON: one text for one meaning.

A number at the boundary (YAML, CLI, Python call) means its decimal text: `0.1` is one tenth, not
the binary float beside it, so ten questions at 0.1 fit a budget of 1 exactly. Inside there are only
integers and fractions. Canonical JSON is UTF-8 with sorted keys, no spaces and no floats; fractions
are written as "p/q".

>>> exact(0.1, "epsilon")
Fraction(1, 10)
>>> dumps({"b": Fraction(1, 10), "a": 2})
'{"a":2,"b":"1/10"}'
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

from dither.errors import ParameterError

Number = int | float | str | Decimal | Fraction

MOST_DIGITS = 1_000
"""Digits of a number that comes from outside, before and after its point together."""
MOST_EXPONENT = 1_000
"""The largest exponent, to either side: 1e-1000 is read, 1e-1001 is not."""
MOST_RATIO_DIGITS = 4_000
"""Digits of each side of p/q, and of a Fraction, which dither may have computed itself."""
MOST_FLOAT = 10**300
"""The largest number that is turned into a float; 1 / MOST_FLOAT is the smallest."""

_DECIMAL = re.compile(r"[+-]?([0-9_]*)(?:\.([0-9_]*))?(?:[eE]([+-]?[0-9_]+))?")
_RATIO = re.compile(r"[+-]?([0-9_]+)/([0-9_]+)")
_MOST_TEXT = 2 * MOST_RATIO_DIGITS + 100
_MOST_BITS = 20_000
_LIMIT = 10**MOST_DIGITS
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)
_RATIO_LIMIT = 10**MOST_RATIO_DIGITS


def exact(value: Number, name: str) -> Fraction:
    """The rational number that `value`'s decimal text denotes; refuses nan, infinities and
    everything else.

    Digits and exponent are bounded before any arithmetic: 1e-99999999 is a short text and an
    endless division.
    """
    if type(value) is Fraction and type(value.numerator) is int is type(value.denominator):
        return _check_ratio(value, name)
    if isinstance(value, bool):
        raise ParameterError(f"{name} must be a number, got {value}")
    if isinstance(value, int):
        if not -_LIMIT < value < _LIMIT:
            raise _too_long(name)
        return Fraction(int(value))
    if isinstance(value, Rational):  # its parts may be NumPy's integers, which overflow
        return _check_ratio(Fraction(int(value.numerator), int(value.denominator)), name)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ParameterError(f"{name} must be finite, got {value}")
        return Fraction(float.__repr__(value))
    if isinstance(value, Decimal):
        return _read_decimal(value, name)
    if isinstance(value, str):
        return _read_number(value, name)
    raise ParameterError(
        f"{name} must be an int, float, Fraction, Decimal or text, got {type(value).__name__}"
    )


def _check_ratio(value: Fraction, name: str) -> Fraction:
    if not -_RATIO_LIMIT < value.numerator < _RATIO_LIMIT or value.denominator >= _RATIO_LIMIT:
        raise _too_long(name)
    return value


def _read_decimal(value: Decimal, name: str) -> Fraction:
    """Turn a Decimal into a Fraction; refuse nan, infinity and too many digits."""
    if not value.is_finite():
        raise ParameterError(f"{name} must be finite, got {value}")
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if len(digits) > MOST_DIGITS or abs(exponent) > MOST_EXPONENT:
        raise _too_long(name)
    return Fraction(value)


def _read_number(text: str, name: str) -> Fraction:
    """Read a decimal or p/q as an exact Fraction; `name` names it in errors.

    Digits are counted in the text first: a short text such as 1e-99999999 takes long to convert.
    """
    if len(text) > _MOST_TEXT:
        raise _too_long(name)
    written = text.strip()
    ratio = _RATIO.fullmatch(written)
    decimal = _DECIMAL.fullmatch(written)
    if ratio and max(map(len, ratio.groups())) > MOST_RATIO_DIGITS:
        raise _too_long(name)
    if decimal and not _is_short(*decimal.groups()):
        raise _too_long(name)
    try:
        if ratio or decimal:
            return Fraction(written)
    except (ValueError, ZeroDivisionError):
        pass
    raise ParameterError(f"{name} must be a number such as 0.5 or 1/3, got {shorten(text)!r}")


def _is_short(whole: str, decimals: str | None, exponent: str | None) -> bool:
    """Whether a decimal's digits and exponent are within the limits."""
    size = (exponent or "").lstrip("+-0_")
    digits = len(whole.lstrip("0_")) + len(decimals or "")
    return (
        digits <= MOST_DIGITS
        and len(size) <= 9
        and int(size.replace("_", "") or 0) <= MOST_EXPONENT
    )


def _too_long(name: str) -> ParameterError:
    """Make the error for a number with too many digits."""
    return ParameterError(
        f"{name} has too many digits: a number from outside has at most {MOST_DIGITS:,} digits and "
        f"an exponent "
        f"within {MOST_EXPONENT:,}; round it, as in 0.5, 1e-9 or 1/3"
    )


def positive(value: Number, name: str, remedy: str = "") -> Fraction:
    """Read `value` as an exact number.

    Raises ParameterError, with the remedy, unless it is above zero.
    """
    number = exact(value, name)
    if number <= 0:
        raise ParameterError(
            f"{name} must be positive, got {number_text(number)}"
            + (f": {remedy}" if remedy else "")
        )
    return number


def number_text(value: Fraction) -> str:
    """Write a number of any size for a message: six digits, as people write it.

    >>> number_text(Fraction(1, 2)), number_text(Fraction(10) ** 400), number_text(-Fraction(1,
    ...     3 * 10**999))
    ('0.5', '1e+400', '-3.33333e-1000')
    """
    if not value or 1 <= abs(value) * MOST_FLOAT <= MOST_FLOAT**2:
        return f"{float(value):g}"
    bits = abs(value.numerator).bit_length() - value.denominator.bit_length()
    if abs(bits) > _MOST_BITS:
        return f"about {'-' if value < 0 else ''}2**{bits}"
    exponent = math.floor(bits * math.log10(2))
    lead = value / Fraction(10) ** exponent
    while abs(lead) >= 10:
        exponent += 1
        lead /= 10
    while abs(lead) < 1:
        exponent -= 1
        lead *= 10
    return f"{float(lead):g}e{exponent:+d}"


def decimal_text(value: Fraction, *, up: bool = False) -> str:
    """An amount as people read it: at most six digits, cut down or, with `up`, rounded up.

    Prices and what was spent are rounded up, and what is left is rounded down.

    >>> decimal_text(Fraction(163840, 273067), up=True), decimal_text(Fraction(1, 3))
    ('0.6', '0.333333')
    >>> decimal_text(Fraction(1, 10**9)), decimal_text(Fraction(20))
    ('1e-9', '20')
    """
    context = Context(prec=6, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize()
    if not value or abs(rounded) >= Decimal("0.0001"):
        return f"{rounded:f}"
    lead, _, exponent = f"{rounded:e}".partition("e")
    return f"{lead}e{int(exponent)}"


def quote(value: object) -> str:
    """Write a value from outside as a message quotes it: short, and in ASCII."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if -(10**30) < value < 10**30 else number_text(Fraction(value))
    if isinstance(value, Fraction):
        return number_text(value)
    try:
        return shorten(ascii(value))
    except ValueError:  # it holds an integer with too many digits to be written
        return f"a {type(value).__name__}"


def shorten(text: str, most: int = 40) -> str:
    """The start of a text that a message quotes."""
    return text if len(text) <= most else text[: most - 3] + "..."


def fraction_text(value: Fraction) -> str:
    """The canonical "p/q" of a fraction, integers included ("3/1")."""
    return f"{value.numerator}/{value.denominator}"


def is_unicode(text: str) -> bool:
    """Whether a text has a UTF-8 form: no lone half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _to_plain(value: Any) -> Any:
    """Turn a value into what JSON can hold: fractions become texts, tuples become lists."""
    if isinstance(value, str):
        if not value.isascii() and not is_unicode(value):
            raise ParameterError(f"a text with a lone surrogate is no Unicode: {ascii(value)[:40]}")
        return value
    if isinstance(value, dict):
        if not {str}.issuperset(map(type, value)):
            raise TypeError("canonical JSON has text keys only")
        return {key: _to_plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_plain(member) for member in value]
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, Fraction):
        return fraction_text(value)
    raise TypeError(
        f"canonical JSON holds no {type(value).__name__}: use integers, fractions, text, lists and "
        f"dicts"
    )


def dumps(value: Any) -> str:
    """Canonical JSON text of a tree of dicts, lists, text, integers, booleans, None and
    fractions."""
    return _ENCODER.encode(_to_plain(value))


def digest(value: Any) -> str:
    """sha256 of the canonical JSON, in hex."""
    return hashlib.sha256(dumps(value).encode()).hexdigest()


def digest_plain(tree: dict[str, Any]) -> str:
    """As `digest`, for a tree of dicts and lists of texts, integers, truth values and None alone.

    >>> digest_plain({"b": ["x", True]}) == digest({"b": ["x", True]})
    True
    """
    try:
        return hashlib.sha256(_ENCODER.encode(tree).encode()).hexdigest()
    except UnicodeEncodeError:  # a lone surrogate, of which `digest` makes an error for people
        return digest(tree)
