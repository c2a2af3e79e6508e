"""The bodies of acts: which fields each has, and what may stand in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from dither.canonical import quote
from dither.errors import ParameterError
from dither.identity.principal import ROLES

MOST_POTS = 1_000
MOST_KEYS = 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_HOLDER = re.compile(rf"(user|group):{_NAME.pattern}")
_ID = re.compile(r"[0-9a-f]{8}")
_PUBLIC_KEY = re.compile(r"[0-9a-f]{64}")
_NONCE = re.compile(r"[0-9a-f]{32}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\+00:00")


def _is_match(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= 500 and value.isprintable()


def _is_text_or_null(value: Any) -> bool:
    return value is None or _is_text(value)


def _is_pots(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= MOST_POTS and all(map(_is_text, value))


def _is_keys(value: Any) -> bool:
    is_list = isinstance(value, list) and 1 <= len(value) <= MOST_KEYS
    return is_list and all(map(_is_public_jwk, value))


def _is_public_jwk(value: Any) -> bool:
    """A key of texts without a private member: `d` and `k` are what must not be here."""
    if not isinstance(value, dict) or not {"kty", "kid", "alg"} <= set(value):
        return False
    is_public = not {"d", "k", "p", "q"} & set(value)
    return is_public and all(isinstance(entry, str) for entry in value.values())


def _is_roles_act(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and value.get("act") in SIGNABLE_ROLE_ACTS)


SIGNABLE_ROLE_ACTS = ("user", "end-user", "grant", "end-grant")
"""Acts on roles that a steward's signature can do, at the steward's own dataset alone."""
_ACTS_ON_USERS = ("user", "end-user")


def check_signed_roles(dataset: str, body: Mapping[str, Any]) -> None:
    """Refuse an act on roles that goes beyond the dataset of the key that signed it.

    A user whom a steward makes is called NAME@DATASET: a plain name would narrow the tokens of that
    name at other datasets, and could be taken there for another person.
    """
    if body["act"] not in _ACTS_ON_USERS:
        if body.get("dataset") != dataset:
            raise ParameterError("a steward grants and ends grants at the dataset of the key alone")
        return
    own_name, _, of_dataset = str(body.get("name", "")).partition("@")
    if not own_name or of_dataset != dataset:
        raise ParameterError(
            f"a steward makes and ends users called NAME@{dataset}; others are made on the "
            "curator's machine"
        )


_is_name = _is_match(_NAME)
_is_id = _is_match(_ID)
_is_public_key = _is_match(_PUBLIC_KEY)
_RULES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (_is_name, "1 to 64 letters, digits, _ . @ or -"),
    "user": (_is_name, "the name of a user"),
    "group": (_is_name, "the name of a group"),
    "holder": (_is_match(_HOLDER), "user:NAME or group:NAME"),
    "dataset": (_is_text, "the name of a dataset"),
    "role": (lambda value: value in ROLES, "one of " + ", ".join(ROLES)),
    "pots": (_is_pots, "a list of names of pots"),
    "purpose": (_is_text, "a sentence of at most 500 characters: what for"),
    "expires": (_is_match(_TIME), "a time in UTC such as 2026-03-01T12:00:00+00:00"),
    "id": (_is_id, "8 hex digits"),
    "issuer": (_is_text_or_null, "the address of an issuer"),
    "subject": (_is_text_or_null, "the subject of an account, as its issuer writes it"),
    "audience": (_is_text, "the client id that the issuer knows this platform by"),
    "keys": (_is_keys, "1 to 16 public keys (JWK), each with kty, kid and alg"),
    "public_key": (_is_public_key, "64 hex digits"),
    "old": (_is_public_key, "64 hex digits"),
    "new": (_is_public_key, "64 hex digits"),
    "nonce": (_is_match(_NONCE), "32 hex digits"),
    "kind": (_is_text, "the name of a signed act"),
    "roles": (_is_roles_act, "an act on users or grants"),
}
_FIELDS: dict[str, tuple[str, ...]] = {
    "user": ("name", "issuer", "subject"),
    "end-user": ("name",),
    "group": ("name",),
    "end-group": ("name",),
    "join": ("group", "user"),
    "leave": ("group", "user"),
    "grant": ("id", "dataset", "holder", "role", "pots", "purpose", "expires"),
    "end-grant": ("id", "dataset"),
    "pin-key": ("name", "dataset", "public_key"),
    "end-key": ("dataset", "public_key"),
    "rotate-key": ("dataset", "old", "new"),
    "pin-issuer": ("issuer", "audience", "keys"),
    "end-issuer": ("issuer",),
    "token": ("id", "name", "dataset", "role", "pots", "expires"),
    "end-token": ("id",),
    "password": ("name",),
    "signed": ("kind", "dataset", "nonce", "roles"),
}


def check_body(body: Mapping[str, Any]) -> None:
    """Refuse a body that is no act, has other fields, or holds what no field may."""
    act = body.get("act")
    fields = _FIELDS.get(act) if isinstance(act, str) else None
    if fields is None:
        raise ParameterError("no act of a curator has this name: see docs/how-to/users-and-grants")
    if set(body) != {"act", *fields}:
        raise ParameterError(f"the act {act} has the fields {', '.join(fields)}, and no others")
    for name in fields:
        is_valid, meaning = _RULES[name]
        if not is_valid(body[name]):
            raise ParameterError(f"{name} is {meaning}, got {quote(body[name])}")
    if act == "pin-issuer" and not str(body["issuer"] or "").startswith("https://"):
        raise ParameterError("an issuer is an https address, as its tokens write it")
