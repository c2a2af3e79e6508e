"""Signing and checking certificates: Ed25519, one digest a field.

The signature covers the header; the header holds a digest for each field of the body, so a check can say *which* field
was changed. Checking needs the public key alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dither.canonical import dumps
from dither.errors import ParameterError

FORMAT = "dither certificate"
_FIXED = {"format": FORMAT, "v": 1, "algorithm": "Ed25519"}
_HEADER = {*_FIXED, "digests", "public_key"}


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field of a body with its path; lists are one field.

    >>> list(leaves({"a": {"b": 1, "c": {}}, "d": [2]}))
    [('a.b', 1), ('a.c', {}), ('d', [2])]
    """
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from leaves(value, f"{path}.{_escaped(key)}" if path else _escaped(key))
    else:
        yield path, tree


def _escaped(key: str) -> str:
    return key.replace("\\", "\\\\").replace(".", "\\.")


def _digest(path: str, value: Any) -> str:
    return hashlib.sha256(dumps([path, value]).encode()).hexdigest()


def sign(body: dict[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """The certificate: body, header with one digest a field, and the signature over the header."""
    header = {
        "format": FORMAT,
        "v": 1,
        "algorithm": "Ed25519",
        "public_key": public_hex(key.public_key()),
        "digests": {path: _digest(path, value) for path, value in leaves(body)},
    }
    return {"body": body, "header": header, "signature": key.sign(dumps(header).encode()).hex()}


def public_hex(key: Ed25519PublicKey) -> str:
    """A public key as 64 hex digits."""
    return key.public_bytes_raw().hex()


def to_text(certificate: dict[str, Any]) -> str:
    """The certificate as a file: JSON, indented for people; its meaning does not depend on the spacing."""
    return json.dumps(certificate, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


@dataclass(frozen=True)
class Verdict:
    """What a check found. `known` says that the key was one the checker trusts, not just the one in the file."""

    key: str
    known: bool
    problems: tuple[str, ...]

    @property
    def intact(self) -> bool:
        return not self.problems


def check(text: str, trusted: Iterable[str] = ()) -> Verdict:
    """Check a certificate against public keys in hex. Every field that was changed, added or removed is named."""
    keys = [_key_hex(key) for key in trusted]
    try:
        found = parse(text)
        header, body, signature = found["header"], found["body"], found["signature"]
        digests = header["digests"]
        shape = set(found) == {"header", "body", "signature"} and set(header) == _HEADER
        if not (shape and isinstance(digests, dict) and isinstance(body, dict)):
            raise KeyError("shape")
    except (ValueError, KeyError, TypeError, RecursionError):
        return Verdict("", False, ("this is not a certificate of dither",))
    problems = [f"header.{name}: not {want!r}" for name, want in _FIXED.items() if header[name] != want]
    key = header["public_key"] if isinstance(header["public_key"], str) else ""
    if keys and key not in keys:
        problems.append("header.public_key: signed by another key than the one given")
    if not _signed(header, signature, key):
        problems.append("signature: does not match the header, so header or signature was changed")
    problems += _changed(body, digests)
    return Verdict(key, bool(keys) and key in keys, tuple(problems))


def _changed(body: dict[str, Any], digests: dict[str, Any]) -> list[str]:
    now = dict(leaves(body))
    problems = [f"{path}: was removed" for path in digests if path not in now]
    problems += [f"{path}: was added" for path in now if path not in digests]
    for path, value in now.items():
        if path in digests and _digest(path, value) != digests[path]:
            problems.append(f"{path}: was changed")
    return sorted(problems)


def _signed(header: dict[str, Any], signature: Any, key: str) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), dumps(header).encode())
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _key_hex(text: str) -> str:
    key = text.strip().lower()
    if len(key) != 64 or set(key) - set("0123456789abcdef"):
        raise ParameterError("a public key is 64 hex digits, as 'dither verify --show-key CATALOG' prints it")
    return key


def parse(text: str) -> Any:
    """JSON with each key once and no floats: two readers must not see two certificates."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) != len(pairs):
            raise ValueError("a key appears twice")
        return dict(pairs)

    def refuse(text: str) -> Any:
        raise ValueError(f"{text} is no canonical number")

    return json.loads(text, object_pairs_hook=once, parse_float=refuse, parse_constant=refuse)
