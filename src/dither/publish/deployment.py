"""The public facts of a deployment, gathered from catalog and ledger: what register entries and
statements rest on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dither.catalog import Catalog, Column, Id
from dither.catalog.explain import horizon
from dither.privacy.ledger import Incident, Pot
from dither.privacy.ledger.pot_tree import worst_case
from dither.privacy.ledger.reports import Record
from dither.publish.interpret import interpret_pot


@dataclass(frozen=True)
class Deployment:
    """The public facts of one dataset: catalog, pots, releases and incidents, never a value."""

    catalog: Catalog
    context: str
    pots: tuple[Pot, ...]
    releases: tuple[Record, ...]
    incidents: tuple[Incident, ...]
    population_notes: tuple[str, ...] = ()

    @property
    def total(self) -> Pot | None:
        """The pot of the whole dataset, None where none was opened."""
        return worst_case({pot.name: pot for pot in self.pots}) if self.pots else None

    def guarantee(self) -> tuple[Fraction, Fraction] | None:
        """(epsilon, delta) for everything that will ever be released, whatever is asked."""
        return None if self.total is None else self.total.rule.guarantee(self.total.ceiling)

    def meaning(self) -> tuple[str, ...]:
        """The guarantee of the total in words.

        For (person, window) units it is that over all declared windows.
        """
        if self.total is None:
            return ()
        return tuple(interpret_pot(self.total).lines(windows=horizon(self.catalog)))

    def mechanisms(self) -> tuple[str, ...]:
        """The kinds of loss that were released, sorted."""
        return tuple(
            sorted({kind for record in self.releases for kind in _list_kinds(record.loss)})
        )

    def first_release(self) -> str | None:
        """The day of the first release."""
        days = sorted(record.released_at[:10] for record in self.releases if record.released_at)
        return days[0] if days else None

    def unused_columns(self) -> tuple[str, ...]:
        """List columns of private tables that no released question named.

        Perhaps they need not be kept at all.
        """
        named = {
            text.lower()
            for record in self.releases
            for text in _list_texts(record.public.get("request"))
        }
        return tuple(
            f"{table.name}.{column.name}"
            for table in self.catalog.private_tables
            for column in table.columns
            if not isinstance(column, Id) and column.name.lower() not in named
        )

    def columns(self) -> Iterator[tuple[str, Column]]:
        """The columns of private tables, by table.column."""
        for table in self.catalog.private_tables:
            for column in table.columns:
                yield f"{table.name}.{column.name}", column


def _list_kinds(loss: dict[str, Any]) -> Iterator[str]:
    """List the types of the innermost losses of a stored loss."""
    inner_losses: Iterable[dict[str, Any]] = [
        *loss.get("losses", []),
        *([loss["loss"]] if "loss" in loss else []),
    ]
    if not inner_losses:
        yield str(loss["type"])
    for inner_loss in inner_losses:
        yield from _list_kinds(inner_loss)


def _list_texts(tree: Any) -> Iterator[str]:
    """List all texts in a tree of dicts and lists, without the keys."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for value in tree.values():
            yield from _list_texts(value)
    elif isinstance(tree, list):
        for value in tree:
            yield from _list_texts(value)
