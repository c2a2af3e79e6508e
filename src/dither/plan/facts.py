"""Facts of a version: what registration found in the *public* tables. Public, pinned, and stored
with the version.

Plans need what the catalog cannot say: how often a key occurs in a public table (a join multiplies
rows by it), which labels a public column holds (the keys of categories `{from: table.column}`), and
between which numbers its values lie, where that is less than its bounds. Questions may be grouped
by the texts of other public columns too, where they are few: those have no codes in the copy. They
also say by which rules answers of the version can have been priced.

>>> facts = Facts((("counties", ("county",), 1),), (("counties", "county", ("a", "b")),))
>>> facts.multiplicity("counties", ("county", "state")), facts.labels("counties", "county")
(1, ('a', 'b'))
>>> by_year = Facts((("prices", ("drug",), 9), ("prices", ("drug", "year"), 1)))
>>> by_year.multiplicity("prices", ("drug",), {"year": 2})
2
>>> Facts.from_json(facts.to_json()) == facts
True
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dither.canonical import digest
from dither.errors import RefusedError
from dither.rules import PrivacyRule

NO_VALUES: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class Facts:
    """Largest number of rows per value of a key, and the labels of columns, of pinned public
    tables."""

    multiplicities: tuple[tuple[str, tuple[str, ...], int], ...] = ()
    lists: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    texts: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    ranges: tuple[tuple[str, str, int, int], ...] = ()
    """Of numbers: the least and the largest value of a column, on its grid, nulls left out."""
    rules: int = 1
    """The newest rules of stability of the software that registered the version: no answer of it
    was ever sold under earlier ones."""

    def multiplicity(
        self, table: str, columns: tuple[str, ...], values: Mapping[str, int] = NO_VALUES
    ) -> int:
        """Return how many rows of a public table can share a value of all `columns`.

        It is the least over registered keys contained in them; RefusedError where there is none.
        `values` are other columns, without nulls, and how many values they have: a key may hold
        them too, and then counts once for each of their values.
        """
        among = {*columns, *values}
        multiplicities = [
            most * prod(values[column] for column in key if column not in columns)
            for name, key, most in self.multiplicities
            if name == table and set(key) <= among
        ]
        if not multiplicities:
            raise RefusedError(
                f"{table} cannot be joined by {', '.join(columns) or 'nothing'}: no multiplicity "
                f"is registered",
                rule=PrivacyRule.PUBLIC_FACTS,
            )
        return min(multiplicities)

    def find_range(self, table: str, column: str) -> tuple[int, int] | None:
        """The least and the largest value of a public number; None where they are not known."""
        for name, ranged, low, high in self.ranges:
            if (name, ranged) == (table, column):
                return low, high
        return None

    def has_labels(self, table: str, column: str) -> bool:
        return any((name, listed) == (table, column) for name, listed, _ in self.lists)

    def labels(self, table: str, column: str) -> tuple[str, ...]:
        """Return the labels of a public column in the order of their codes.

        Raises RefusedError where they are not registered.
        """
        if not self.has_labels(table, column):
            raise RefusedError(
                f"the labels of {table}.{column} are facts of a registered version",
                rule=PrivacyRule.PUBLIC_FACTS,
            )
        return {(name, listed): labels for name, listed, labels in self.lists}[table, column]

    def to_json(self) -> dict[str, Any]:
        """Write the document of the facts that a registered version stores; what the first versions
        did not have is named only where there is some."""
        document: dict[str, Any] = {
            "type": "facts",
            "v": 1,
            "multiplicities": [
                {"table": table, "key": list(key), "rows": rows}
                for table, key, rows in self.multiplicities
            ],
            "ranges": [
                {"table": table, "column": column, "low": low, "high": high}
                for table, column, low, high in self.ranges
            ],
            "rules": self.rules if self.rules > 1 else None,
        } | {
            name: [
                {"table": table, "column": column, "labels": list(labels)}
                for table, column, labels in listed
            ]
            for name, listed in (("lists", self.lists), ("texts", self.texts))
        }
        return {
            name: entries
            for name, entries in document.items()
            if entries or name in ("multiplicities", "lists")
        }

    @classmethod
    def from_json(cls, tree: dict[str, Any]) -> Facts:
        """Read stored facts. Raises RefusedError for any other version than 1.

        Newer rules than those of this software are refused too: it would sell answers by its own,
        and nobody would look for them there.
        """
        if tree == {"v": 1}:  # of versions before public tables
            return NO_FACTS
        if tree.get("type") != "facts" or tree.get("v") != 1 or tree.get("rules", 1) not in (1, 2):
            raise RefusedError(
                "not facts that this dither knows: a newer one stored them, upgrade this one",
                rule=PrivacyRule.PUBLIC_FACTS,
            )
        lists, texts = (
            tuple(
                (entry["table"], entry["column"], tuple(entry["labels"]))
                for entry in tree.get(name, ())
            )
            for name in ("lists", "texts")
        )
        multiplicities = tuple(
            (entry["table"], tuple(entry["key"]), int(entry["rows"]))
            for entry in tree["multiplicities"]
        )
        ranges = tuple(
            (entry["table"], entry["column"], int(entry["low"]), int(entry["high"]))
            for entry in tree.get("ranges", ())
        )
        return cls(multiplicities, lists, texts, ranges, tree.get("rules", 1))

    @cached_property
    def hash(self) -> str:
        """sha256 of the canonical JSON."""
        return digest(self.to_json())


NO_FACTS = Facts()


def load_facts(version: Path) -> Facts:
    """The facts in the folder of a version."""
    return Facts.from_json(json.loads((version / "facts.json").read_text(encoding="utf-8")))
