"""What was done to a row, as bits of a number: one narrow column instead of many truth values."""

from __future__ import annotations

from collections.abc import Iterable

_BITS = 8


def pack_flags(rows: str, flags: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Write rows with some truth values packed; return it with the condition that each one is.

    Flags are never null. Rows with none of them set are told apart first, since most are such.

    >>> pack_flags("SELECT a, b FROM t", ["a", "b"])[1]["b"]
    'dither_flags_0 & 2 <> 0'
    """
    listed = list(flags)
    if not listed:
        return rows, {}
    columns = []
    conditions: dict[str, str] = {}
    for start in range(0, len(listed), _BITS):
        column = f"dither_flags_{start // _BITS}"
        packed = listed[start : start + _BITS]
        bits = [f"CAST({flag} AS UTINYINT) * {1 << bit}" for bit, flag in enumerate(packed)]
        is_any = " OR ".join(packed)
        number = f"CASE WHEN {is_any} THEN CAST({' + '.join(bits)} AS UTINYINT) ELSE 0 END"
        columns.append(f"CAST({number} AS UTINYINT) AS {column}")
        conditions |= {flag: f"{column} & {1 << bit} <> 0" for bit, flag in enumerate(packed)}
    left_out = ", ".join(listed)
    return f"SELECT * EXCLUDE ({left_out}), {', '.join(columns)} FROM ({rows})", conditions
