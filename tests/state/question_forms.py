"""The forms of a question to a stored dataset: plain data that goes into `expected.json`.

A question is its pot, the arguments of the public call, and one of `sql`, `suggest` (what, of),
`built` (a table, then the methods of a question built step by step) and `request` (the stored form
of a query that no SQL makes).
"""

from __future__ import annotations

from typing import Any

from dither.plan.algebra import to_json

Question = dict[str, Any]


def ask(name: str, pot: str, sql: str, **terms: Any) -> Question:
    """A question in SQL."""
    return {"name": name, "pot": pot, "sql": " ".join(sql.split()), "terms": terms}


def suggest(name: str, pot: str, what: str, of: str, **terms: Any) -> Question:
    """A bound or limit to buy."""
    return {"name": name, "pot": pot, "suggest": [what, of], "terms": terms}


def build(name: str, pot: str, table: str, *steps: tuple[str, Any], **terms: Any) -> Question:
    """A question built step by step; `agg` takes aggregates as SQL text by name."""
    return {"name": name, "pot": pot, "built": [table, *map(list, steps)], "terms": terms}


def request(name: str, pot: str, query: Any) -> Question:
    """A query for Laplace noise at epsilon 1."""
    return {"name": name, "pot": pot, "request": to_json(query)}
