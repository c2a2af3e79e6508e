"""Signed certificates for tests: of version 1, as earlier code wrote them, and of version 2."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dither.publish import seal

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw().hex()
VERSION_ONE = tuple(sorted((Path(__file__).parent / "version_one").glob("*.json")))
"""Written by the code of three earlier commits; the first two lack fields that came later."""


def sample_body() -> dict[str, Any]:
    """The body of a real certificate, with texts outside ASCII that have several Unicode forms."""
    body: dict[str, Any] = json.loads(
        (Path(__file__).parent / "version_one" / "with_values.json").read_text()
    )["body"]
    body["pots"]["total"]["purpose"]["recipient"] = "the board of Zürich, ﬁrst floor"
    body["release"]["sql"] += " HAVING ward <> 'Ångström'"
    return copy.deepcopy(body)


def sign_sample() -> dict[str, Any]:
    """A certificate of the version that is written now."""
    return seal.sign(sample_body(), KEY)


def list_fields(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Fields of a body by path, as version 1 defined them: an empty key at the top has no name."""
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            name = key.replace("\\", "\\\\").replace(".", "\\.")
            yield from list_fields(value, f"{path}.{name}" if path else name)
    else:
        yield path, tree


def digest_field(path: str, value: Any) -> str:
    """The digest of one field, written anew from the reference page."""
    return hashlib.sha256(write_canonical([path, value]).encode()).hexdigest()


def write_canonical(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def sign_version_one(body: dict[str, Any]) -> dict[str, Any]:
    """What the code of version 1 signed: the header alone, with one digest a field."""
    header = {
        "format": "dither certificate",
        "v": 1,
        "algorithm": "Ed25519",
        "public_key": PUBLIC,
        "digests": {path: digest_field(path, value) for path, value in list_fields(body)},
    }
    signature = KEY.sign(write_canonical(header).encode()).hex()
    return {"body": body, "header": header, "signature": signature}


def check_as_version_one_did(text: str) -> bool:
    """The check that was forged: pairs of path and value against the digests of a signed header."""
    certificate = json.loads(text)
    header = certificate["header"]
    fields = dict(list_fields(certificate["body"]))
    if set(fields) != set(header["digests"]):
        return False
    if any(digest_field(path, value) != header["digests"][path] for path, value in fields.items()):
        return False
    return is_signed(write_canonical(header), certificate["signature"])


def is_signed(text: str, signature: str) -> bool:
    try:
        KEY.public_key().verify(bytes.fromhex(signature), text.encode())
    except Exception:
        return False
    return True
