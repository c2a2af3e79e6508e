"""Stored names: what a class and its fields are called in documents that must be read for ever.

Digests of plans, losses and protocols are keys of stored releases and of budgets that were spent.
If they were made of Python names, a renamed class would make an old answer unfindable, and its
question would be charged again. So every stored class says its own names, once; they never change,
whatever the class is called.

>>> from dataclasses import dataclass
>>> @stored("point", x="left", y="top")
... @dataclass(frozen=True)
... class Corner:
...     left: int
...     top: int
>>> stored_name(Corner), dict(stored_items(Corner(1, 2)))
('point', {'x': 1, 'y': 2})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

__all__ = ["stored", "stored_items", "stored_keys", "stored_name"]
T = TypeVar("T", bound=type)


def stored(name: str | None = None, /, **attributes: str) -> Callable[[T], T]:
    """Give a class its stored name, and each stored key the attribute that holds it.

    Keys of a base class are inherited. A dataclass must have a key for every field that its
    constructor takes, so that none is left out of a digest by accident.
    """

    def give(cls: T) -> T:
        keys = {**getattr(cls, "__stored_keys__", {}), **attributes}
        names = (
            {field.name for field in fields(cls) if field.init}
            if is_dataclass(cls)
            else set(keys.values())
        )
        if names != set(keys.values()):
            raise TypeError(
                f"{cls.__name__} has fields without a stored key: "
                f"{sorted(names ^ set(keys.values()))}"
            )
        cls.__stored_keys__ = keys  # type: ignore[attr-defined]
        if name is not None:
            cls.__stored_name__ = name  # type: ignore[attr-defined]
        return cls

    return give


def stored_name(cls: type) -> str:
    """The stored name of a class; TypeError where it, itself, was given none."""
    name = cls.__dict__.get("__stored_name__")
    if not isinstance(name, str):
        raise TypeError(f"{cls.__name__} has no stored name")
    return name


def stored_keys(cls: type) -> dict[str, str]:
    """The stored keys of a class, each with the attribute that holds it."""
    keys: dict[str, str] = cls.__dict__["__stored_keys__"]
    return keys


def stored_items(node: Any) -> Iterator[tuple[str, Any]]:
    """The stored keys of a value, with what they hold."""
    for key, attribute in stored_keys(type(node)).items():
        yield key, getattr(node, attribute)
