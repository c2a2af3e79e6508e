"""A catalog as canonical JSON, both ways, and its hash.

The stored form has the YAML's keys and meanings, with three differences: it starts with `type` and `v`; tables,
columns and people are lists with a `name`, since their order is a fact and JSON sorts keys; numbers are written
canonically. It is read back through the same reader as the YAML, so a stored catalog obeys every rule of a written one.
Lines and comments are not stored; two files that mean the same have the same hash.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dither import canonical
from dither.catalog import scalars
from dither.catalog.columns import (
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
from dither.catalog.file.load import FORMAT, read_catalog
from dither.catalog.file.tree import Entry, Mapping, Node, Scalar, Sequence, mapping
from dither.catalog.model import Catalog, OwnerColumn, OwnerReference, Person, Table, Unit
from dither.errors import CatalogError

VERSION = 1
_NAMED_LISTS = ("people", "tables", "columns")


def catalog_hash(catalog: Catalog) -> str:
    """sha256 of the canonical JSON: what the ledger keeps with a version."""
    return canonical.digest(to_json(catalog))


def to_json(catalog: Catalog) -> dict[str, Any]:
    """A tree of dicts, lists, text, integers and booleans for `canonical.dumps`."""
    return {
        "type": "catalog",
        "v": VERSION,
        "dataset": catalog.dataset,
        "lineage": catalog.lineage,
        "population": catalog.population,
        "neighbours": catalog.neighbours,
        "unit": _unit(catalog.unit),
        "people": [_person(person) for person in catalog.people],
        "source": {"engine": catalog.source.engine, "location": catalog.source.location},
        "tables": [_table(table) for table in catalog.tables],
    }


def from_json(tree: dict[str, Any]) -> Catalog:
    """The catalog that `to_json` wrote."""
    file = "<stored catalog>"
    if not isinstance(tree, dict) or tree.get("type") != "catalog" or tree.get("v") != VERSION:
        raise CatalogError(f"not a stored catalog of version {VERSION}: it needs another dither", file=file)
    rest = {key: value for key, value in tree.items() if key not in ("type", "v")}
    root = _node({"dither": FORMAT, **rest}, file)
    assert isinstance(root, Mapping)
    return replace(read_catalog(root, file), file="<catalog>")


def _unit(unit: Unit) -> dict[str, Any]:
    if unit.offset_seconds is None:
        return {"kind": unit.kind}
    zone = scalars.offset_text(unit.offset_seconds)
    return {"kind": unit.kind, "column": unit.column, "every": unit.every, "zone": zone}


def _person(person: Person) -> dict[str, Any]:
    told: dict[str, Any] = {"name": person.key, "protected": person.protected}
    return told if person.because is None else {**told, "because": person.because}


def _table(table: Table) -> dict[str, Any]:
    told: dict[str, Any] = {"name": table.name, "kind": table.kind, "from": table.source_name}
    if isinstance(table.owner, OwnerColumn):
        told["owner"] = {"column": table.owner.column}
    elif isinstance(table.owner, OwnerReference):
        told["owner"] = {"references": table.owner.references, "by": _by(table.owner)}
    if table.kind == "private":
        told |= {"rows_per_unit": table.rows_per_unit, "max_rows": table.max_rows}
    told["unique"] = [list(key) for key in table.unique]
    told["columns"] = [_column(column) for column in table.columns]
    return told


def _by(owner: OwnerReference) -> Any:
    """One shared name as the text that most people write."""
    one_name = len(owner.by) == 1 and owner.by[0][0] == owner.by[0][1]
    return owner.by[0][0] if one_name else dict(owner.by)


def _column(column: Column) -> dict[str, Any]:
    told: dict[str, Any] = {"name": column.name, "type": column.type}
    if isinstance(column, Id):
        return told
    told["nulls"] = _nulls(column, column.nulls)
    if isinstance(column, (Integer, Date, Timestamp, Decimal)):
        told["bounds"] = [_grid_text(column, column.lower_grid), _grid_text(column, column.upper_grid)]
        told["provenance"] = column.provenance
    if isinstance(column, Decimal):
        told["resolution"] = canonical.fraction_text(column.resolution)
    if isinstance(column, Timestamp):
        told["zone"] = scalars.offset_text(column.offset_seconds)
    if isinstance(column, Text):
        told["width"] = column.width
    if isinstance(column, Category):
        told |= _values(column)
    return told


def _values(column: Category) -> dict[str, Any]:
    if isinstance(column.values, Undeclared):
        return {"values": "undeclared", "width": column.values.width}
    if isinstance(column.values, FromPublic):
        values: Any = {"from": f"{column.values.table}.{column.values.column}"}
    else:
        values = list(column.values)
    return {"values": values, "other": column.other}


def _nulls(column: Column, nulls: Nulls) -> Any:
    if nulls.rule != "value":
        return nulls.rule
    return {"value": _grid_text(column, nulls.value) if isinstance(nulls.value, int) else nulls.value}


def _grid_text(column: Any, grid: int) -> Any:
    """A grid integer as the catalog writes that value."""
    if isinstance(column, Date):
        return scalars.days_text(grid)
    if isinstance(column, Timestamp):
        return scalars.seconds_text(grid, column.offset_seconds)
    if isinstance(column, Decimal):
        return canonical.fraction_text(grid * column.resolution)
    return grid if isinstance(column, Integer) else bool(grid)


def _node(value: Any, file: str) -> Node:
    """JSON as the tree that the YAML reader makes, without lines."""
    if isinstance(value, bool):
        return Scalar("true" if value else "false", 0)
    if isinstance(value, (int, str)):
        return Scalar(str(value), 0)
    if isinstance(value, list):
        return Sequence(tuple(_node(item, file) for item in value), 0)
    if isinstance(value, dict):
        named = [(key, _by_name(item, file) if key in _NAMED_LISTS else item) for key, item in value.items()]
        nodes = [(key, item if isinstance(item, Mapping) else _node(item, file)) for key, item in named]
        return mapping([Entry(key, 0, node) for key, node in nodes], 0, file)
    raise CatalogError(f"a stored catalog holds no {type(value).__name__}", file=file)


def _by_name(items: Any, file: str) -> Mapping:
    """A list of named things as the mapping that a person writes."""
    if not isinstance(items, list) or not all(isinstance(item, dict) and "name" in item for item in items):
        raise CatalogError("people, tables and columns are stored as lists of things with a name", file=file)
    entries = []
    for item in items:
        rest = {key: value for key, value in item.items() if key != "name"}
        entries.append(Entry(str(item["name"]), 0, _node(rest, file)))
    return mapping(entries, 0, file)
