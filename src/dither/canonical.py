"""Exact numbers and canonical JSON: one text for one meaning.

A number at the boundary (YAML, CLI, Python call) means its decimal text: `0.1` is one tenth, not the binary float
beside it, so ten questions at 0.1 fit a budget of 1 exactly. Inside there are only integers and fractions.
Canonical JSON is UTF-8 with sorted keys, no spaces and no floats; fractions are written as "p/q".

>>> exact(0.1, "epsilon")
Fraction(1, 10)
>>> dumps({"b": Fraction(1, 10), "a": 2})
'{"a":2,"b":"1/10"}'
"""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

from dither.errors import ParameterError

Number = int | float | str | Decimal | Fraction


def exact(value: Number, name: str) -> Fraction:
    """The rational number that `value`'s decimal text denotes; refuses nan, infinities and everything else."""
    if type(value) is Fraction and type(value.numerator) is int is type(value.denominator):
        return value
    if isinstance(value, bool):
        raise ParameterError(f"{name} must be a number, got {value}")
    if isinstance(value, Rational):  # its parts may be NumPy's integers, which overflow
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ParameterError(f"{name} must be finite, got {value}")
        return Fraction(float.__repr__(value))
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ParameterError(f"{name} must be finite, got {value}")
        return Fraction(value)
    if isinstance(value, str):
        try:
            return Fraction(value.strip())
        except (ValueError, ZeroDivisionError):
            raise ParameterError(f"{name} must be a number such as 0.5 or 1/3, got {value!r}") from None
    raise ParameterError(f"{name} must be an int, float, Fraction, Decimal or text, got {type(value).__name__}")


def positive(value: Number, name: str, remedy: str = "") -> Fraction:
    """`exact(value)`, refused unless above zero."""
    number = exact(value, name)
    if number <= 0:
        raise ParameterError(f"{name} must be positive, got {value}" + (f": {remedy}" if remedy else ""))
    return number


def fraction_text(value: Fraction) -> str:
    """The canonical "p/q" of a fraction, integers included ("3/1")."""
    return f"{value.numerator}/{value.denominator}"


def is_unicode(text: str) -> bool:
    """Whether a text has a UTF-8 form: no lone half of a surrogate pair."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        if not is_unicode(value):
            raise ParameterError(f"a text with a lone surrogate is no Unicode: {ascii(value)[:40]}")
        return value
    if isinstance(value, Fraction):
        return fraction_text(value)
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("canonical JSON has text keys only")
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    raise TypeError(f"canonical JSON holds no {type(value).__name__}: use integers, fractions, text, lists and dicts")


def dumps(value: Any) -> str:
    """Canonical JSON text of a tree of dicts, lists, text, integers, booleans, None and fractions."""
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """sha256 of the canonical JSON, in hex."""
    return hashlib.sha256(dumps(value).encode()).hexdigest()
