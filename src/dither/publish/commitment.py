"""A certificate tied to one table of numbers, without showing a number (rule no-fingerprints).

The certificate carries sha256(nonce ‖ table): 32 random bytes, then the released table as JSON with
sorted columns and no spaces. The nonce stays with the result. Whoever was given table and nonce can
check that the certificate is of these numbers (another table would be a collision); whoever has the
certificate alone learns nothing of them, since no table can be tried without the nonce. What is
committed to has left already: no data, and nothing that was not released.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from fractions import Fraction
from typing import Any

from dither.errors import DitherError
from dither.privacy.noise.source import fresh_bytes
from dither.strict_json import read_json

NONCE_BYTES = 32
MAX_VALUES = 256 * 2**20
"""Characters of a file of values: a table may be far longer than a certificate."""


def make_nonce() -> str:
    """Make 32 random bytes, in hex."""
    return fresh_bytes(NONCE_BYTES).hex()


def plain(value: Any) -> Any:
    """What JSON has no word for, as text.

    Fractions become p/q; times, dates and decimals are written as they print.
    """
    return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else str(value)


def commitment(columns: dict[str, list[Any]], nonce: str) -> str:
    """The commitment to a table; the same for the table and for what was read back from its JSON.

    >>> one = commitment({"n": [1, 2]}, "00" * 32)
    >>> one == commitment({"n": [1, 3]}, "00" * 32), one == commitment({"n": [1, 2]}, "01" * 32)
    (False, False)
    """
    table = json.dumps(
        columns, default=plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(bytes.fromhex(nonce) + table.encode()).hexdigest()


def opens(text: str, promised: str) -> bool:
    """Whether a file of values, as `Result.opening()` or `dither sql --json --certificate` wrote
    it, is the table.

    The columns are checked, all of them together; `info` beside them is for people and not covered.
    """
    try:
        read = read_json(text, max_characters=MAX_VALUES, allow_floats=True, allow_empty_keys=True)
        if not isinstance(read, dict) or not {"columns", "nonce"} <= set(read) <= {
            "columns",
            "nonce",
            "info",
        }:
            raise ValueError("shape")
        columns = read["columns"]
        nonce = read["nonce"]
        if not isinstance(columns, dict) or re.fullmatch("[0-9a-f]{64}", nonce) is None:
            raise ValueError("shape")
        opened = commitment(columns, nonce)
    except (ValueError, TypeError):
        raise DitherError(
            "a file of values holds columns and nonce, as a question with the options --json and "
            "--certificate prints it"
        ) from None
    return hmac.compare_digest(opened.encode(), promised.encode())
