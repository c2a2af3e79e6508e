"""Randomness: where every random bit of dither comes from."""

from __future__ import annotations

import os


def fresh_bytes(count: int) -> bytes:
    """`count` bytes from the operating system, never from a buffer that a snapshot or a fork could repeat."""
    return os.urandom(count)
