"""Frozen values as canonical JSON and back: what crosses a wire between a client and a curator.

A value is written under its stored name and keys (`dither.stored`), so that renaming a class or a
field changes no document. Integers stay integers; a fraction and a float say what they are,
exactly. Reading is strict: only the classes that the reader names, with exactly their keys, and in
every field a value of the declared type.

>>> from dataclasses import dataclass
>>> from dither.stored import stored
>>> @stored("share", part="part", of="of")
... @dataclass(frozen=True)
... class Share:
...     part: Fraction
...     of: tuple[str, ...]
>>> write(Share(Fraction(1, 3), ("a", "b")))
{'type': 'share', 'part': {'fraction': '1/3'}, 'of': ['a', 'b']}
>>> read(write(Share(Fraction(1, 3), ("a", "b"))), Share, (Share,))
Share(part=Fraction(1, 3), of=('a', 'b'))
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from dither.canonical import fraction_text, quote
from dither.errors import ParameterError
from dither.stored import stored_items, stored_keys, stored_name

T = TypeVar("T")
MOST_DIGITS = 1000
_FRACTION = re.compile(r"-?[0-9]+(/[0-9]+)?")


def write(value: Any) -> Any:
    """Write a value as a JSON tree.

    It may hold text, truth values, null, numbers, tuples, mappings, and stored classes.
    """
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Fraction):
        return {"fraction": fraction_text(value)}
    if isinstance(value, float):
        return {"float": repr(float(value))}  # a float of NumPy shows its type
    if isinstance(value, dict):
        return {"map": [[write(key), write(member)] for key, member in value.items()]}
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return [write(member) for member in value]
    return {
        "type": stored_name(type(value)),
        **{key: write(member) for key, member in stored_items(value)},
    }


def read(tree: Any, kind: type[T], types: Sequence[type]) -> T:
    """Read the value of type `kind` that `write` wrote.

    Raises ParameterError for anything else. `types` are all it may contain.
    """
    names = {stored_name(cls): cls for cls in types}
    try:
        value = _read(tree, names)
        _check(value, kind)
    except (TypeError, ValueError, KeyError, ZeroDivisionError, RecursionError) as error:
        raise ParameterError(
            f"this is no {stored_name(kind)} as dither writes it: {error}"
        ) from None
    return cast(T, value)


def _read(tree: Any, names: dict[str, type]) -> Any:
    """Read a value from its JSON tree; `names` maps the type names that are allowed to classes."""
    if tree is None or isinstance(tree, (str, bool, int)):
        return tree
    if isinstance(tree, list):
        return tuple(_read(member, names) for member in tree)
    if not isinstance(tree, dict):
        raise ValueError(f"a {type(tree).__name__}")
    if set(tree) == {"fraction"}:
        return _read_fraction(tree["fraction"])
    if set(tree) == {"float"}:
        return _read_float(tree["float"])
    if set(tree) == {"map"}:
        pairs = [(_read(key, names), _read(member, names)) for key, member in tree["map"]]
        members = dict(pairs)
        if len(members) != len(pairs):
            raise ValueError("a key twice")
        return members
    return _read_class(tree, names)


def _read_class(tree: dict[str, Any], names: dict[str, type]) -> Any:
    """Read a frozen value from a dict with its type name; refuse other keys and wrong types."""
    name = tree.get("type")
    if not isinstance(name, str) or name not in names:
        raise ValueError(f"an unknown type {quote(name)}")
    cls = names[name]
    keys = stored_keys(cls)
    if set(tree) != {"type", *keys}:
        raise ValueError(f"{name} has the keys {', '.join(keys)}")
    members = {attribute: _read(tree[key], names) for key, attribute in keys.items()}
    hints = _hints(cls)
    for attribute, member in members.items():
        _check(member, hints[attribute])
    return cls(**members)


def _read_fraction(text: Any) -> Fraction:
    """Read a fraction in the one spelling that `write` uses; ValueError for any other."""
    if not isinstance(text, str) or len(text) > MOST_DIGITS or not _FRACTION.fullmatch(text):
        raise ValueError("a fraction that is no text p/q, or too long")
    number = Fraction(text)
    if fraction_text(number) != text:
        raise ValueError(f"the fraction {quote(text)} in another spelling")
    return number


def _read_float(text: Any) -> float:
    """Read a float from its text; refuse every spelling but Python's own."""
    if not isinstance(text, str) or len(text) > MOST_DIGITS:
        raise ValueError("a float that is no text, or too long")
    number = float(text)
    if repr(number) != text:
        raise ValueError(f"the float {quote(text)} in another spelling")
    return number


@cache
def _hints(cls: type) -> dict[str, Any]:
    """Map every field that a constructor takes to its declared type."""
    hints = get_type_hints(cls)
    names = (
        cls._fields
        if hasattr(cls, "_fields")
        else [field.name for field in fields(cls) if field.init]
    )
    return {name: hints[name] for name in names}


def _check(value: Any, hint: Any) -> None:
    """TypeError unless the value has the declared type, `True` being no integer."""
    if not _fits(value, hint):
        raise TypeError(f"{type(value).__name__} where {getattr(hint, '__name__', hint)} belongs")


def _fits(value: Any, hint: Any) -> bool:
    """Say whether a value is of the type that an annotation states, without any conversion."""
    if hint is None or hint is NoneType:
        return value is None
    origin = get_origin(hint)
    arguments = get_args(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, member) for member in arguments)
    if origin is Literal:
        return any(type(value) is type(choice) and value == choice for choice in arguments)
    if origin is tuple:
        if type(value) is not tuple:
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(_fits(member, arguments[0]) for member in value)
        return len(value) == len(arguments) and all(map(_fits, value, arguments))
    if origin is dict:
        key, member = arguments
        return type(value) is dict and all(
            _fits(k, key) and _fits(v, member) for k, v in value.items()
        )
    return type(value) is hint
