"""Signing and checking certificates: Ed25519 over the canonical bytes of the whole document.

Version 2, the one that is written, signs header and body together. The header also holds one digest
for each field of the body: they say *which* field was changed, and nothing rests on them. Version 1
signed the header alone, so there the digests are all that ties the body to the signature. It is
read, strictly, and no longer written (docs/proofs/certificates.md). Checking needs the public key
alone.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dither.canonical import dumps
from dither.errors import DitherError, ParameterError
from dither.publish.certificate_fields import escape_key, find_field_problems
from dither.strict_json import read_json
from dither.surfaces import escape_json

FORMAT = "dither certificate"
ALGORITHM = "Ed25519"
VERSION = 2
VERSIONS = (1, 2)
NOT_A_CERTIFICATE = "this is not a certificate of dither"
_HEADER = {"format", "v", "algorithm", "public_key", "digests"}
_DOCUMENT = {"header", "body", "signature"}


def list_leaves(tree: Any, path: str | None = None) -> Iterator[tuple[str, Any]]:
    """List every field of a body with its path, no two with the same. A list is one field.

    >>> list(list_leaves({"a": {"b": 1, "c": {}}, "d": [2]}))
    [('a.b', 1), ('a.c', {}), ('d', [2])]
    """
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            name = escape_key(key)
            yield from list_leaves(value, name if path is None else f"{path}.{name}")
    else:
        yield path or "", tree


def _hash_field(path: str, value: Any) -> str:
    return hashlib.sha256(dumps([path, value]).encode()).hexdigest()


def sign(body: dict[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """Sign a body.

    The certificate has body, header with one digest a field, and a signature over both.
    """
    public_key = public_hex(key.public_key())
    header = {
        "format": FORMAT,
        "v": VERSION,
        "algorithm": ALGORITHM,
        "public_key": public_key,
        "digests": {path: _hash_field(path, value) for path, value in list_leaves(body)},
    }
    signature = key.sign(_signed_text(header, body).encode()).hex()
    certificate = {"body": body, "header": header, "signature": signature}
    problems = check(write_certificate(certificate), [public_key]).problems
    if problems:
        raise DitherError(f"the certificate would not verify: {problems[0]}; please report it")
    return certificate


def _signed_text(header: dict[str, Any], body: dict[str, Any]) -> str:
    """What the signature covers: all of the document but itself; in version 1 the header alone."""
    return dumps(header) if header["v"] == 1 else dumps({"body": body, "header": header})


def public_hex(key: Ed25519PublicKey) -> str:
    """A public key as 64 hex digits."""
    return key.public_bytes_raw().hex()


def write_certificate(certificate: dict[str, Any]) -> str:
    """Write a certificate as text: JSON, indented for people. Spacing and escapes mean nothing."""
    return escape_json(json.dumps(certificate, indent=2, sort_keys=True, ensure_ascii=False)) + "\n"


@dataclass(frozen=True)
class SealVerdict:
    """The outcome of a check of a certificate.

    `has_known_key` says that the key was one the checker trusts, not just the one in the file.
    `body` is what was signed, read back from the very bytes that were checked; None unless all is
    as signed. Whoever shows a certificate shows this, and does not read the file again.
    """

    key: str
    has_known_key: bool
    problems: tuple[str, ...]
    body: dict[str, Any] | None = None

    @property
    def intact(self) -> bool:
        return not self.problems


def check(text: str, trusted: Iterable[str] = ()) -> SealVerdict:
    """Check a certificate against public keys in hex.

    Every field that was changed, added or removed is named. No text makes this raise or hang.
    """
    keys = [_key_hex(key) for key in trusted]
    try:
        header, body, signature = _read_document(text)
        changed = _find_changes(body, header["digests"])
    except ValueError:
        return SealVerdict("", False, (NOT_A_CERTIFICATE,))
    key = header["public_key"]
    problems = list(_find_header_problems(header, keys))
    if not _is_signed(_signed_text(header, body), signature, key):
        problems.append("signature: this document is not the one that was signed")
    problems += changed
    problems = problems or find_field_problems(body, header["v"])
    body_copy = None if problems else read_json(dumps(body))
    return SealVerdict(key if _is_hex(key, 64) else "", key in keys, tuple(problems), body_copy)


def _read_document(text: str) -> tuple[dict[str, Any], dict[str, Any], Any]:
    """Read header, body and signature.

    Raises ValueError where the text has not the shape of a certificate.
    """
    document = read_json(text)
    if not isinstance(document, dict) or set(document) != _DOCUMENT:
        raise ValueError("not header, body and signature")
    header = document["header"]
    body = document["body"]
    if not isinstance(header, dict) or set(header) != _HEADER:
        raise ValueError("not the header of a certificate")
    if not isinstance(header["digests"], dict):
        raise ValueError("not the digests of a certificate")
    if not isinstance(body, dict) or not body:
        raise ValueError("not the body of a certificate")
    return header, body, document["signature"]


def _find_header_problems(header: dict[str, Any], keys: list[str]) -> Iterator[str]:
    """List what is wrong with a certificate's header.

    `keys` are the public keys that the reader accepts; without any, every key is.
    """
    if header["format"] != FORMAT:
        yield f"header.format: not {FORMAT!r}"
    if header["algorithm"] != ALGORITHM:
        yield f"header.algorithm: not {ALGORITHM!r}"
    if type(header["v"]) is not int or header["v"] not in VERSIONS:
        yield "header.v: no version that is known here (1 or 2): check it with a newer dither"
    if not _is_hex(header["public_key"], 64):
        yield "header.public_key: not 64 hex digits"
    elif keys and header["public_key"] not in keys:
        yield "header.public_key: signed by another key than the one given"


def _find_changes(body: dict[str, Any], digests: dict[str, Any]) -> list[str]:
    """List fields that differ from their digests.

    Raises ValueError where two fields have one path: one could hide behind the other.
    """
    fields = list(list_leaves(body))
    values = dict(fields)
    if len(values) != len(fields) or "" in values:
        raise ValueError("a field has no path of its own")
    problems = [f"{path}: was removed" for path in digests if path not in values]
    problems += [f"{path}: was added" for path in values if path not in digests]
    problems += [
        f"{path}: was changed"
        for path, value in values.items()
        if path in digests and _hash_field(path, value) != digests[path]
    ]
    return sorted(problems)


def _is_signed(text: str, signature: Any, key: Any) -> bool:
    """Say whether `signature` over the text verifies with this public key; both are hex texts."""
    if not _is_hex(signature, 128) or not _is_hex(key, 64):
        return False
    try:
        public_key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public_key.verify(bytes.fromhex(signature), text.encode())
    except (InvalidSignature, ValueError):
        return False
    return True


def _is_hex(value: Any, digits: int) -> bool:
    """Whether a value is a text of so many hex digits, without capitals and spaces."""
    return isinstance(value, str) and re.fullmatch(f"[0-9a-f]{{{digits}}}", value) is not None


def _key_hex(text: str) -> str:
    """Return a public key as 64 lower-case hex digits, or refuse it."""
    key = text.strip().lower()
    if not _is_hex(key, 64):
        raise ParameterError(
            "a public key is 64 hex digits, as 'dither verify --show-key CATALOG' prints it"
        )
    return key
