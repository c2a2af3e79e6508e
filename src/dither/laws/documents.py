"""Error laws as canonical JSON, and back; numbers are exact.

They go to readers who have no mechanism.

>>> law_to_json(LaplaceErrorLaw(Fraction(1, 3)))
{'type': 'laplace_error', 'v': 1, 'scale': '1/3'}
>>> law_from_json({"type": "gaussian_error", "v": 1, "sigma": "3/1"})
GaussianErrorLaw(sigma=Fraction(3, 1))
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, get_type_hints, overload

from dither.canonical import exact, fraction_text, positive, quote
from dither.errors import ParameterError
from dither.laws.base import AdditiveErrorLaw, ErrorLaw, HasErrorTerms, HasNoiseTerms
from dither.laws.box import BoxErrorLaw
from dither.laws.gaussian import GaussianErrorLaw
from dither.laws.keys import KeyChanceLaw, KeyThresholdLaw
from dither.laws.laplace import LaplaceErrorLaw
from dither.laws.ranks import JointQuantileErrorLaw, QuantileErrorLaw, SelectionErrorLaw
from dither.laws.rounded_gaussian import RoundedGaussianErrorLaw
from dither.laws.shown_counts import ShownCountLaw
from dither.stored import stored_items, stored_keys, stored_name

LAWS: tuple[type[ErrorLaw], ...] = (
    LaplaceErrorLaw,
    GaussianErrorLaw,
    BoxErrorLaw,
    SelectionErrorLaw,
    QuantileErrorLaw,
    JointQuantileErrorLaw,
    KeyChanceLaw,
    KeyThresholdLaw,
    RoundedGaussianErrorLaw,
    ShownCountLaw,
)
"""Every law that a mechanism may name, and that is written and read; a new one gets a line here."""
_KINDS: dict[str, type[ErrorLaw]] = {stored_name(kind): kind for kind in LAWS}
_VERSION = 1
_MOST_NUMBERS = 1 << 20
"""Of a list: more than any law has."""


@overload
def find_error_law(mechanism: HasNoiseTerms, column: int = 0) -> AdditiveErrorLaw: ...


@overload
def find_error_law(mechanism: HasErrorTerms, column: int = 0) -> ErrorLaw: ...


def find_error_law(mechanism: HasErrorTerms, column: int = 0) -> ErrorLaw:
    """The law of the error of one number that a mechanism releases."""
    terms = mechanism.error_terms(column)
    return _KINDS[terms.law](**terms.numbers)


def law_to_json(law: ErrorLaw) -> dict[str, Any]:
    """The law as a tree of text, integers and lists, with its stored kind."""
    values = {key: _write(value) for key, value in stored_items(law)}
    return {"type": stored_name(type(law)), "v": _VERSION, **values}


def law_from_json(tree: Any) -> ErrorLaw:
    """Read the law that `law_to_json` wrote.

    Raises ParameterError for unknown kinds, versions, keys and numbers.
    """
    name = tree.get("type") if isinstance(tree, dict) else tree
    if not isinstance(tree, dict) or not isinstance(name, str) or name not in _KINDS:
        raise ParameterError(f"no error law of type {quote(name)}: it needs a newer dither")
    if type(tree.get("v")) is not int or tree["v"] != _VERSION:
        raise ParameterError(
            f"error law {name} version {quote(tree.get('v'))} needs a newer dither"
        )
    keys = stored_keys(_KINDS[name])
    if set(tree) != {*keys, "type", "v"}:
        raise ParameterError(
            f"error law {name} has the keys {sorted(keys)}, got {quote(sorted(map(str, tree)))}"
        )
    hints = get_type_hints(_KINDS[name])
    values = {
        attribute: _read(tree[key], hints[attribute], f"{name}.{key}")
        for key, attribute in keys.items()
    }
    return _KINDS[name](**values)


def _write(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_write(number) for number in value]
    return fraction_text(value) if isinstance(value, Fraction) else int(value)


def _read(value: Any, hint: Any, name: str) -> Any:
    """Read a number of the kind that the field declares.

    That is a positive fraction as text, a whole number, or a list of them; ParameterError for any
    other.
    """
    if hint is Fraction:
        if not isinstance(value, str):
            raise ParameterError(f"{name} must be a fraction written as 'p/q', got {quote(value)}")
        return positive(value, name)
    if hint is int:
        if type(value) is not int or value < 0:
            raise ParameterError(f"{name} must be a whole number from 0 on, got {quote(value)}")
        return int(exact(value, name))
    if not isinstance(value, list) or not 1 <= len(value) <= _MOST_NUMBERS:
        raise ParameterError(
            f"{name} must be a list of 1 to {_MOST_NUMBERS:,} numbers, got {quote(value)}"
        )
    return tuple(_read(number, hint.__args__[0], name) for number in value)
