"""A catalog as canonical JSON, both ways, and its hash.

The stored form has the YAML's keys and meanings, with three differences: it starts with `type` and
`v`; tables, columns and people are lists with a `name`, since their order is a fact and JSON sorts
keys; numbers are written canonically. Lines and comments are not stored; two files that mean the
same have the same hash.

Reading back checks keys, types and that the same bytes would be written again. The rules between
the parts of a catalog are checked once, when the YAML is read; the ledger holds the hash of the
catalog that kept them.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from dither import canonical
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
from dither.catalog.model import (
    Catalog,
    OwnerColumn,
    OwnerReference,
    Person,
    Source,
    Table,
    Unit,
)
from dither.catalog.scalar_texts import write_days, write_offset, write_seconds
from dither.catalog.stored import read_catalog
from dither.errors import CatalogError

VERSION = 1


def catalog_hash(catalog: Catalog) -> str:
    """sha256 of the canonical JSON: what the ledger keeps with a version."""
    return canonical.digest(to_json(catalog))


def to_json(catalog: Catalog) -> dict[str, Any]:
    """Write a catalog as a tree of dicts, lists, text, integers and booleans for
    `canonical.dumps`."""
    return {
        "type": "catalog",
        "v": VERSION,
        "dataset": catalog.dataset,
        "lineage": catalog.lineage,
        "population": catalog.population,
        "neighbours": catalog.neighbours,
        "unit": _write_unit(catalog.unit),
        "people": [_write_person(person) for person in catalog.people],
        "source": _write_source(catalog.source),
        "tables": [_write_table(table) for table in catalog.tables],
    }


def from_json(tree: Any) -> Catalog:
    """Read the catalog that `to_json` wrote.

    Raises CatalogError for what it would not write in the same bytes again.
    """
    if not isinstance(tree, dict) or tree.get("type") != "catalog" or tree.get("v") != VERSION:
        raise _error(f"not a stored catalog of version {VERSION}: it needs another dither")
    try:
        stored = canonical.dumps(tree)
    except TypeError:
        raise _error(
            "a stored catalog holds no float: register again from the catalog file"
        ) from None
    try:
        _check_people(tree["people"])
        for named in (
            tree["people"],
            tree["tables"],
            *(table["columns"] for table in tree["tables"]),
        ):
            _check_names(named)
        catalog = read_catalog(tree)
        is_as_written = _fits(catalog, Catalog) and canonical.dumps(to_json(catalog)) == stored
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, ZeroDivisionError):
        is_as_written = False
    if not is_as_written:
        raise _error(
            "the stored catalog is not as dither writes it: register again from the catalog file"
        )
    return catalog


def _write_unit(unit: Unit) -> dict[str, Any]:
    """Write the privacy unit, with only the keys that its kind has."""
    if unit.one_row_is is not None:
        return {"kind": unit.kind, "one_row_is": unit.one_row_is}
    if unit.offset_seconds is None:
        return {"kind": unit.kind}
    zone = write_offset(unit.offset_seconds)
    return {"kind": unit.kind, "column": unit.column, "every": unit.every, "zone": zone}


def _write_source(source: Source) -> dict[str, Any]:
    """Write the source.

    How CSV is written is stored only where it is not the usual form: old catalogs keep their bytes.
    """
    tree: dict[str, Any] = {"engine": source.engine, "location": source.location}
    usual = Source(source.engine, source.location)
    tree |= {
        key: getattr(source, key)
        for key in ("delimiter", "quote", "trim", "copy")
        if getattr(source, key) != getattr(usual, key)
    }
    return tree | ({"null_texts": list(source.null_texts)} if source.null_texts else {})


def _write_person(person: Person) -> dict[str, Any]:
    tree: dict[str, Any] = {"name": person.key, "protected": person.protected}
    return tree if person.because is None else {**tree, "because": person.because}


def _write_table(table: Table) -> dict[str, Any]:
    """Write a table with its owner, limits, keys and columns."""
    tree: dict[str, Any] = {"name": table.name, "kind": table.kind, "from": table.source_name}
    if isinstance(table.owner, OwnerColumn):
        tree["owner"] = {"column": table.owner.column}
    elif isinstance(table.owner, OwnerReference):
        tree["owner"] = {"references": table.owner.references, "by": _write_reference(table.owner)}
    if table.kind == "private":
        tree |= {"rows_per_unit": table.rows_per_unit, "max_rows": table.max_rows}
    tree["unique"] = [list(key) for key in table.unique]
    source_columns = dict(table.source_columns)
    tree["columns"] = [
        _write_column(column)
        | ({"from": source_columns[column.name]} if column.name in source_columns else {})
        for column in table.columns
    ]
    if table.rules:
        tree["rules"] = [{"rule": r.text, "provenance": r.provenance} for r in table.rules]
    return tree


def _write_reference(owner: OwnerReference) -> Any:
    """One shared name as the text that most people write."""
    one_name = len(owner.by) == 1 and owner.by[0][0] == owner.by[0][1]
    return owner.by[0][0] if one_name else dict(owner.by)


def _write_column(column: Column) -> dict[str, Any]:
    """Write one column: its type, its name and its keys, numbers as canonical text."""
    tree: dict[str, Any] = {"name": column.name, "type": column.type}
    if isinstance(column, Id):
        return tree
    tree["nulls"] = _write_nulls(column, column.nulls)
    if isinstance(column, (Integer, Date, Timestamp, Decimal)):
        tree["bounds"] = [
            _write_grid(column, column.lower_grid),
            _write_grid(column, column.upper_grid),
        ]
        tree["provenance"] = column.provenance
    if isinstance(column, Decimal):
        tree["resolution"] = canonical.fraction_text(column.resolution)
    if isinstance(column, Timestamp):
        tree["zone"] = write_offset(column.offset_seconds)
    if isinstance(column, Text):
        tree["width"] = column.width
    if isinstance(column, Category):
        tree |= _write_values(column)
    return tree


def _write_values(column: Category) -> dict[str, Any]:
    """Write where the labels of a category come from, and what happens to others."""
    if isinstance(column.values, Undeclared):
        return {"values": "undeclared", "width": column.values.width}
    if isinstance(column.values, FromPublic):
        values: Any = {"from": f"{column.values.table}.{column.values.column}"}
    else:
        values = list(column.values)
    return {"values": values, "other": column.other}


def _write_nulls(column: Column, nulls: Nulls) -> Any:
    """Write the null rule of a column; a replacement as the catalog writes that value."""
    if nulls.rule != "value":
        return nulls.rule
    return {
        "value": _write_grid(column, nulls.value) if isinstance(nulls.value, int) else nulls.value
    }


def _write_grid(column: Any, grid: int) -> Any:
    """Write a grid integer as the catalog writes that value."""
    if isinstance(column, Date):
        return write_days(grid)
    if isinstance(column, Timestamp):
        return write_seconds(grid, column.offset_seconds)
    if isinstance(column, Decimal):
        return canonical.fraction_text(grid * column.resolution)
    return grid if isinstance(column, Integer) else bool(grid)


def _error(message: str) -> CatalogError:
    return CatalogError(message, file="<stored catalog>")


def _check_people(people: list[dict[str, Any]]) -> None:
    for person in people:
        if not person["protected"] and "because" not in person:
            raise _error(f"people: {person['name']}: because is missing")


def _check_names(named: list[dict[str, Any]]) -> None:
    """Raise CatalogError unless names differ in more than case, which SQL does not tell apart."""
    names = set()
    for tree in named:
        if tree["name"].lower() in names:
            raise _error(f"the key '{tree['name']}' was given before")
        names.add(tree["name"].lower())


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value has the type that a dataclass states for it, and so on inside it."""
    inner = get_args(kind)
    if get_origin(kind) is Literal:
        return value in inner
    if get_origin(kind) is tuple:
        if type(value) is not tuple:
            return False
        kinds = inner[:1] * len(value) if inner[-1] is ... else inner
        return len(value) == len(kinds) and all(map(_fits, value, kinds))
    if inner:
        return any(_fits(value, one_of) for one_of in inner)
    if not is_dataclass(kind):
        return type(value) is kind
    hints = get_type_hints(kind)
    return type(value) is kind and all(
        _fits(getattr(value, attribute.name), hints[attribute.name]) for attribute in fields(kind)
    )
