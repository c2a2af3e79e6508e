"""Owners in a registered copy, which names nobody: two numbers from a keyed digest of the id."""

from __future__ import annotations

from hashlib import sha256

PRIME = 2**31 - 1
OWNERS = "concat(dither_a, ':', dither_b)"
"""SQL of the owner of a row, as `hash_owner` writes it."""


def hash_owner(owner: str, key: bytes) -> str:
    """The two numbers of an owner, by the words of docs/proofs/stability.md."""
    content = owner.encode()
    text = b"64:" + key.hex().encode() + str(len(content)).encode() + b":" + content
    digest = sha256(text).hexdigest()
    first, second = (int(digest[start : start + 8], 16) % (PRIME - 1) + 1 for start in (0, 8))
    return f"{first}:{second}"
