"""Queries read back from the canonical JSON that the ledger keeps of every request.

`to_json` writes integers and fractions alike, and leaves out what is None; the declared types of
the fields say which is meant. Whoever uses a query that was read compares its hash: a text that
means another query than the one that was asked is found by that.

>>> from dither.plan.algebra import Cells, Count, Scan, to_json
>>> asked = Cells(Scan("visits"), ("sex",), (Count(),))
>>> read_query(to_json(asked)) == asked
True
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from dither.plan.algebra import Aggregate, Condition, Expression, Named, Plan, Query
from dither.plan.encodings import Feature
from dither.plan.operators import LinearOperator
from dither.plan.utilities import DistanceCandidate, Utility
from dither.plan.vector_functions import VectorFunction
from dither.stored import stored_keys, stored_name

_UNIONS = (
    Aggregate,
    Condition,
    Expression,
    Feature,
    LinearOperator,
    Plan,
    Query,
    Utility,
    VectorFunction,
)


@cache
def _list_nodes() -> dict[str, tuple[type, ...]]:
    """The classes of each stored name; two of different unions may share one."""
    nodes: dict[str, tuple[type, ...]] = {}
    for node in (Named, DistanceCandidate, *(cls for union in _UNIONS for cls in get_args(union))):
        nodes[stored_name(node)] = (*nodes.get(stored_name(node), ()), node)
    return nodes


@cache
def _read_hints(node: type) -> dict[str, Any]:
    return get_type_hints(node)


def read_query(tree: dict[str, Any]) -> Query:
    """The query of a stored dict; ValueError where it is none that this version knows."""
    try:
        return cast(Query, _read(tree, Query))
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise ValueError(f"no query that this version knows: {error}") from None


def _read(tree: Any, hint: Any) -> Any:
    """A value of the declared type."""
    choices = _list_choices(hint)
    if isinstance(tree, (str, bool)):
        return tree
    if isinstance(tree, list):
        return _read_tuple(tree, choices)
    if "number" in tree:
        number = Fraction(tree["number"])
        return int(number) if int in choices and number.denominator == 1 else number
    if "integers" in tree:
        return tuple(map(int, tree["integers"].split()))
    (node,) = [cls for cls in _list_nodes()[tree["type"]] if cls in choices]
    hints = _read_hints(node)
    members = {
        attribute: _read(tree[key], hints[attribute])
        for key, attribute in stored_keys(node).items()
        if key in tree
    }
    return node(**members)


def _list_choices(hint: Any) -> tuple[Any, ...]:
    """The types that a hint allows, None left out."""
    if get_origin(hint) in (Union, UnionType):
        return tuple(
            choice
            for member in get_args(hint)
            for choice in _list_choices(member)
            if choice is not NoneType
        )
    return (hint,)


def _read_tuple(tree: list[Any], choices: tuple[Any, ...]) -> tuple[Any, ...]:
    (kind,) = [choice for choice in choices if get_origin(choice) is tuple]
    members = get_args(kind)
    if len(members) == 2 and members[1] is Ellipsis:
        return tuple(_read(member, members[0]) for member in tree)
    return tuple(map(_read, tree, members))
