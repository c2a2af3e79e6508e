"""Pieces of catalog files that many test datasets share: the head, and the head of a table."""

from __future__ import annotations


def write_head(
    dataset: str,
    population: str,
    *people: str,
    unit: str = "{kind: person}",
    neighbours: str = "add_remove",
    location: str = ".",
) -> str:
    """Write the lines before the first table; `people` are lines such as `x: {protected: true}`."""
    lines = ["people:", *(f"  {person}" for person in people)] if people else ["people: {}"]
    return "\n".join(
        [
            "dither: 1",
            f"dataset: {dataset}",
            f"lineage: {dataset}",
            f"population: {population}",
            f"neighbours: {neighbours}",
            f"unit: {unit}",
            *lines,
            f"source: {{engine: csv, location: {location}}}",
            "tables:\n",
        ]
    )


def write_private_head(
    table: str, owner: str, rows_per_unit: int, *, unique: str = "[]", max_rows: int = 1000
) -> str:
    """Write the lines of a private table before its first column."""
    return (
        f"  {table}:\n    kind: private\n    from: {table}.csv\n    owner: {owner}\n"
        f"    unique: {unique}\n    rows_per_unit: {rows_per_unit}\n    max_rows: {max_rows}\n"
        "    columns:\n"
    )
