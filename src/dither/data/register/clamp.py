"""Clamping in SQL, null for null on every engine."""

from __future__ import annotations


def clamp_sql(value: str, low: str, high: str) -> str:
    """Write the nearest value within bounds; `value` is a column name, so repeating it is free.

    The engine's `least` and `greatest` would skip a null, and take twice as long.
    """
    at_ends = f"WHEN {value} < {low} THEN {low} WHEN {value} > {high} THEN {high}"
    return f"CASE {at_ends} ELSE {value} END"
