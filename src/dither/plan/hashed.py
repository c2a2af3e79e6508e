"""Canonical JSON of plans and queries, and its hash: one text for one meaning."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Any

from dither.canonical import digest_plain
from dither.stored import stored_items, stored_name


class Hashed:
    """What plans and queries have in common: their canonical dict, and the hash of its JSON.

    Both are made once. Whoever reads the dict must not change it.
    """

    @cached_property
    def tree(self) -> dict[str, Any]:
        """The canonical dict, which contains the dicts of all plans below."""
        return _write(self)

    @cached_property
    def hash(self) -> str:
        """sha256 of the canonical JSON. `==` would confuse 1 and True; the hash does not."""
        return digest_plain(self.tree)


def to_json(node: Any) -> dict[str, Any]:
    """The canonical dict of a query, plan, expression, condition or aggregate."""
    return node.tree if isinstance(node, Hashed) else _write(node)


def _write(node: Any) -> dict[str, Any]:
    """Write a node as its canonical dict."""
    tree: dict[str, Any] = {"type": stored_name(type(node)), "v": 1}
    for key, value in stored_items(node):
        if value is not None:
            tree[key] = _value(value)
    return tree


def _value(value: Any) -> Any:
    """Write one field of a node for its canonical dict: numbers as texts, nodes as dicts."""
    if isinstance(value, (str, bool)):
        return value
    if isinstance(value, (int, Fraction)):  # apart from the text "1/2"
        return {"number": f"{value.numerator}/{value.denominator}"}
    if isinstance(value, tuple):
        if value and {*map(type, value)} == {int}:  # in one text: there may be many
            return {"integers": " ".join(map(str, value))}
        return [_value(member) for member in value]
    return to_json(value)


def plan_hash(node: Hashed) -> str:
    """sha256 of the canonical JSON of a plan or query."""
    return node.hash
