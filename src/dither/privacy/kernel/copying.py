"""A request rebuilt from its parts: the kernel trusts no object that a caller made.

Only nodes of exactly the known types, exact tuples and plain values are copied; anything else is
refused. What a caller wrote into an object, or made of a subclass, is left behind.
"""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import Any, cast, get_args

from dither.errors import RefusedError
from dither.plan.algebra import (
    Aggregate,
    BlockCounts,
    Condition,
    Expression,
    JointScores,
    Linear,
    Named,
    Plan,
    Query,
    Scores,
    UnitVectors,
)
from dither.plan.analyse import check_size
from dither.plan.blocks import check_block_request
from dither.plan.encodings import Feature
from dither.plan.network_functions import NetworkLayer
from dither.plan.operators import LinearOperator, check_operator
from dither.plan.scores import check_members
from dither.plan.tree_functions import ScoredTree
from dither.plan.utilities import DistanceCandidate, Utility, check_utility
from dither.plan.vector_functions import VectorFunction
from dither.plan.vectors import check_vector_request
from dither.privacy.kernel.request import Price, Request, Step
from dither.rules import PrivacyRule

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
_NODES = {DistanceCandidate, Named, NetworkLayer, Price, Request, ScoredTree, Step}.union(
    *map(get_args, _UNIONS)
)
_FIELDS = {node: tuple(field.name for field in fields(node)) for node in _NODES}
_PLAIN = frozenset({str, int, bool, type(None)})


def copy_request(request: Request) -> Request:
    """Rebuild a request from nothing but new nodes of our own types.

    Raises RefusedError where it holds an object of any other type, or is too large.
    """
    if type(request) is not Request or type(request.steps) is not tuple:
        raise RefusedError("a request of another type", rule=PrivacyRule.NO_RULE)
    for step in request.steps:
        _check_measured(getattr(step, "measured", None))
    try:
        return cast(Request, _copy(request, {}))
    except RecursionError:
        raise RefusedError(
            "a request that is nested too deeply", rule=PrivacyRule.BOUNDED_WORK
        ) from None


def _check_measured(query: Any) -> None:
    """Refuse a plan, operator or vector function of too many parts, before they are walked."""
    if isinstance(query, JointScores):
        check_members(query.members)
        for member in query.members:
            check_size(member.cells.plan)
        return
    check_size(cast(Any, getattr(query, "plan", None)))
    if isinstance(query, Linear):
        check_operator(query.operator)
    if isinstance(query, BlockCounts):
        check_block_request(query)
    if isinstance(query, Scores):
        check_utility(query.utility)
        query = query.cells
    if isinstance(query, UnitVectors):
        check_vector_request(query)


def _copy(value: Any, copies: dict[int, Any]) -> Any:
    """Copy a node and all below it.

    `copies` has what was copied before in this call: shared nodes stay shared.
    """
    if type(value) in _PLAIN or (type(value) is tuple and {*map(type, value)} == {int}):
        return value
    if type(value) is Fraction:
        return Fraction(int(value.numerator), int(value.denominator))
    if type(value) is not tuple and type(value) not in _FIELDS:
        raise RefusedError(f"a {type(value).__name__} in a request", rule=PrivacyRule.NO_RULE)
    if id(value) not in copies:
        is_tuple = type(value) is tuple
        members = value if is_tuple else [getattr(value, name) for name in _FIELDS[type(value)]]
        copied = tuple(_copy(member, copies) for member in members)
        copies[id(value)] = copied if is_tuple else type(value)(*copied)
    return copies[id(value)]
