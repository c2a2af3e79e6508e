"""Reads a stored catalog: the tree that `storage.to_json` wrote and whose hash the ledger holds.

Nothing is checked here. The kernel reads a tree after comparing its hash with the ledger's, which
vouches for every byte of it; everybody else reads by `storage.from_json`, which checks that the
same bytes would be written again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from dither.catalog import scalars
from dither.catalog.columns import (
    Boolean,
    Category,
    Column,
    Date,
    Decimal,
    FromPublic,
    Id,
    Integer,
    Nulls,
    Text,
    Timestamp,
    Undeclared,
)
from dither.catalog.model import (
    Catalog,
    Owner,
    OwnerColumn,
    OwnerReference,
    Person,
    Source,
    Table,
    Unit,
)
from dither.catalog.row_rules import RowRule

T = TypeVar("T")


def read_catalog(tree: dict[str, Any]) -> Catalog:
    """Build the catalog of a tree that `storage.to_json` wrote.

    The caller has checked that it is one.
    """
    return Catalog(
        dataset=tree["dataset"],
        lineage=tree["lineage"],
        population=tree["population"],
        neighbours=tree["neighbours"],
        unit=_read_unit(tree["unit"]),
        people=tuple(
            Person(person["name"], person["protected"], person.get("because"))
            for person in tree["people"]
        ),
        source=Source(
            **{**tree["source"], "null_texts": tuple(tree["source"].get("null_texts", ()))}
        ),
        tables=tuple(_read_table(table) for table in tree["tables"]),
    )


def _read_unit(tree: dict[str, Any]) -> Unit:
    if tree["kind"] != "person_window":
        return Unit(tree["kind"], one_row_is=tree.get("one_row_is"))
    return Unit(tree["kind"], tree["column"], tree["every"], _require(scalars.offset(tree["zone"])))


def _read_table(tree: dict[str, Any]) -> Table:
    """Build a table of its stored tree."""
    return Table(
        name=tree["name"],
        kind=tree["kind"],
        source_name=tree["from"],
        owner=_read_owner(tree["owner"]) if "owner" in tree else None,
        unique=tuple(tuple(key) for key in tree["unique"]),
        rows_per_unit=tree.get("rows_per_unit"),
        max_rows=tree.get("max_rows"),
        columns=tuple(_read_column(column) for column in tree["columns"]),
        source_columns=tuple(
            (column["name"], column["from"]) for column in tree["columns"] if "from" in column
        ),
        rules=tuple(RowRule(rule["rule"], rule["provenance"]) for rule in tree.get("rules", ())),
    )


def _read_owner(tree: dict[str, Any]) -> Owner:
    """Build the owner of a table: a column, or pairs (column here, column of the parent)."""
    if "column" in tree:
        return OwnerColumn(tree["column"])
    by = tree["by"]
    pairs = sorted(by.items()) if isinstance(by, dict) else [(by, by)]
    return OwnerReference(tree["references"], tuple(pairs))


def _read_column(tree: dict[str, Any]) -> Column:
    """Build a column of its stored tree, by its type. Raises ValueError for a type that is none."""
    name = tree["name"]
    match tree["type"]:
        case "id":
            return Id(name)
        case "text":
            return Text(name, _read_nulls(tree, str), tree["width"])
        case "category":
            return Category(name, _read_nulls(tree, str), _read_values(tree), tree.get("other"))
        case "boolean":
            return Boolean(name, _read_nulls(tree, int))
        case "integer":
            return Integer(*_read_bounded(tree, lambda value: value))
        case "date":
            return Date(*_read_bounded(tree, scalars.days))
        case "timestamp":
            offset = _require(scalars.offset(tree["zone"]))
            return Timestamp(
                *_read_bounded(tree, lambda text: scalars.seconds(text, offset)), offset
            )
        case "decimal":
            resolution = _require(scalars.number(tree["resolution"]))
            bounded = _read_bounded(tree, lambda text: _require(scalars.number(text)) / resolution)
            name, nulls, lower, upper, provenance = bounded
            return Decimal(
                name, nulls, lower * resolution, upper * resolution, resolution, provenance
            )
    raise ValueError


def _read_bounded(
    tree: dict[str, Any], read: Callable[[Any], Any]
) -> tuple[str, Nulls, Any, Any, str]:
    """Name, null rule, bounds as grid integers, and provenance."""
    lower, upper = (_require(read(text)) for text in tree["bounds"])
    nulls = _read_nulls(tree, lambda text: int(_require(read(text))))
    return tree["name"], nulls, lower, upper, tree["provenance"]


def _read_values(tree: dict[str, Any]) -> tuple[str, ...] | FromPublic | Undeclared:
    values = tree["values"]
    if values == "undeclared":
        return Undeclared(tree["width"])
    return FromPublic(*values["from"].split(".")) if isinstance(values, dict) else tuple(values)


def _read_nulls(tree: dict[str, Any], read: Callable[[Any], int | str]) -> Nulls:
    nulls = tree["nulls"]
    return Nulls("value", read(nulls["value"])) if isinstance(nulls, dict) else Nulls(nulls)


def _require(value: T | None) -> T:
    """The value that a reader returned.

    ValueError for None, its answer to a text that it cannot read.
    """
    if value is None:
        raise ValueError
    return value
