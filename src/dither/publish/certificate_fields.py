"""The fields that the body of a certificate may have, and the kind of each.

A field that no version wrote is refused, so that nobody can be shown a line that dither does not
know. Version 1 had bodies without three of the fields; version 2 has them all. A field that is
added later is a new version.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

from dither.privacy.losses import Loss


@dataclass(frozen=True)
class MapOf:
    """An object whose keys are names (of pots, of columns), each with a value of one kind."""

    kind: Any


@dataclass(frozen=True)
class AnyOf:
    """A value of one of several kinds."""

    kinds: tuple[Any, ...]


LOSS = "loss"
_MISSING = ": is missing"
_NORMS = {"l0": str, "l1": str, "l2_squared": str, "linf": str}
_MECHANISM = {
    "mechanism": str,
    "family": str,
    "share": str,
    "answers": str,
    "loss": LOSS,
    "scale?": str,
    "sigma?": str,
    "tree_scale?": str,
    "sensitivity?": AnyOf(
        (
            _NORMS,
            {"rows": int, "sides": [int]},
            {"scores": int, "monotone": bool},
            {"l1": str},
        )
    ),
}
_BOUND = {
    "values?": AnyOf((str, [str])),
    "other?": str,
    "lower?": str,
    "upper?": str,
    "resolution?": str,
    "nulls?": str,
    "provenance": str,
}
_RULE = {
    "name": str,
    "delta?": str,
    "delta_per_question?": str,
    "delta_conversion?": str,
    "delta_selection?": str,
    "alpha?": str,
}
_POT = {
    "kind": str,
    "rule": _RULE,
    "measure": str,
    "paid": str,
    "paid_delta": str,
    "cumulative": str,
    "cap": str,
    "ceiling": str,
    "whatever_is_asked": {"epsilon": str, "delta": str},
    "purpose": {"question": str, "population": str, "recipient": str},
}
BODY: dict[str, Any] = {
    "release": {
        "id": str,
        "released_at": str,
        "repeated": bool,
        "sql": str,
        "request_hash": str,
        "plan_hash": str,
    },
    "dataset": {
        "name": str,
        "lineage": str,
        "population": str,
        "version": int,
        "catalog_hash": str,
    },
    "context": str,
    "mode": {"name": str, "not_promised": [str]},
    "guarantee": {
        "variant": str,
        "epsilon": str,
        "delta": str,
        "stated": str,
        "native": {"delta": str, "epsilon?": str, "rho?": str, "renyi?": str, "alpha?": str},
    },
    "unit": {"protects": str, "neighbours": str, "not_protected": [str], "over_all_windows": str},
    "mechanisms": [_MECHANISM],
    "bounds": MapOf(_BOUND),
    "limits": [str],
    "price": {"asked": str, "loss": LOSS, "charges": MapOf([str])},
    "pots": MapOf(_POT),
    "post_processing": [str],
    "values": {"commitment": str},
    "unprotected": [str],
    "incidents": [{"reserve": int, "code": str}],
    "software": {"dither": str, "losses": int},
}
ABSENT_IN_VERSION_ONE = ("values", "unit.over_all_windows", "price.charges")
"""What version 1 began to write after its first certificates."""


def find_field_problems(body: dict[str, Any], version: int) -> list[str]:
    """List the fields of a body that no certificate has, and those that it lacks.

    >>> find_field_problems({**dict.fromkeys(BODY), "badge": "verified"}, 2)[0]
    'badge: no field of a certificate'
    """
    optional = ABSENT_IN_VERSION_ONE if version == 1 else ()
    problems = _check(body, BODY, "")
    return [problem for problem in problems if problem.removesuffix(_MISSING) not in optional]


def _check(value: Any, kind: Any, path: str) -> Iterator[str]:
    """List the problems of a value that should be of this kind; `path` names the value.

    A kind is LOSS, AnyOf, a dict or MapOf (members), a list of one kind (elements), or a type.
    """
    if kind == LOSS:
        yield from _check_loss(value, path)
    elif isinstance(kind, AnyOf):
        if not any(not list(_check(value, choice, path)) for choice in kind.kinds):
            yield _say_kind(path)
    elif isinstance(kind, (dict, MapOf)):
        yield from _check_members(value, kind, path)
    elif isinstance(kind, list):
        yield from _check_items(value, kind[0], path)
    elif type(value) is not kind:  # True is an int for isinstance
        yield _say_kind(path)


def _check_members(value: Any, kind: dict[str, Any] | MapOf, path: str) -> Iterator[str]:
    """List the problems of a dict: unknown keys, wrong values, missing keys.

    A key of the kind that ends in "?" may be missing.
    """
    if not isinstance(value, dict):
        yield _say_kind(path)
        return
    kinds = _list_kinds(value, kind)
    for key in value:
        if key not in kinds:
            yield f"{_join(path, key)}: no field of a certificate"
    for key, member_kind in kinds.items():
        if key in value:
            yield from _check(value[key], member_kind, _join(path, key))
    if isinstance(kind, dict):
        missing = [key for key in kind if not key.endswith("?") and key not in value]
        yield from (f"{_join(path, key)}{_MISSING}" for key in missing)


def _list_kinds(value: dict[str, Any], kind: dict[str, Any] | MapOf) -> dict[str, Any]:
    if isinstance(kind, MapOf):
        return dict.fromkeys(value, kind.kind)
    return {key.removesuffix("?"): member_kind for key, member_kind in kind.items()}


def _check_items(value: Any, kind: Any, path: str) -> Iterator[str]:
    """List the problems of a list: those of its elements, by position."""
    if not isinstance(value, list):
        yield _say_kind(path)
        return
    for position, element in enumerate(value):
        yield from _check(element, kind, f"{path}[{position}]")


def _check_loss(value: Any, path: str) -> Iterator[str]:
    """Yield a problem where a loss has not the shape that this version knows.

    No arithmetic is done with its numbers.
    """
    names = _LOSS_FIELDS.get(str(value.get("type"))) if isinstance(value, dict) else None
    if names is None or set(value) != names | {"type", "v"}:
        yield f"{path}: no loss that this version of dither knows"
        return
    for name in sorted(names):
        member = value[name]
        if isinstance(member, dict):
            yield from _check_loss(member, _join(path, name))
        elif isinstance(member, list):
            for position, element in enumerate(member):
                yield from _check_loss(element, f"{_join(path, name)}[{position}]")
        elif type(member) not in (str, int):
            yield _say_kind(_join(path, name))


def _list_loss_types(base: type[Loss] = Loss) -> Iterator[type[Loss]]:
    for kind in base.__subclasses__():
        if "type" in vars(kind):
            yield kind
        yield from _list_loss_types(kind)


_LOSS_FIELDS = {
    kind.type: {loss_field.name for loss_field in fields(kind)} for kind in _list_loss_types()
}


def _join(path: str, key: str) -> str:
    return f"{path}.{escape_key(key)}" if path else escape_key(key)


def escape_key(key: str) -> str:
    """A key as it stands in a path: dots between keys are bare, dots inside them are not.

    >>> escape_key("visits.age")
    'visits\\\\.age'
    """
    return key.replace("\\", "\\\\").replace(".", "\\.")


def _say_kind(path: str) -> str:
    return f"{path}: not of the kind that it has in a certificate"
