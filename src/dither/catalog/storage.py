"""A catalog as canonical JSON, both ways, and its hash.

The stored form has the YAML's keys and meanings, with three differences: it starts with `type` and `v`; tables,
columns and people are lists with a `name`, since their order is a fact and JSON sorts keys; numbers are written
canonically. Lines and comments are not stored; two files that mean the same have the same hash.

Reading back checks keys, types and that the same bytes would be written again. The rules between the parts of a catalog
are checked once, when the YAML is read; the ledger holds the hash of the catalog that kept them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar, get_args

from dither import canonical
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
    Neighbours,
    Owner,
    OwnerColumn,
    OwnerReference,
    Person,
    Source,
    Table,
    Unit,
)
from dither.errors import CatalogError

VERSION = 1
T = TypeVar("T")
Kind: TypeAlias = type | tuple[str, ...]
"""What a stored value may be: of a type, or one of a few words; `object` where its own reader checks it."""
ReadGrid: TypeAlias = Callable[[Any], int | None]


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


def from_json(tree: Any) -> Catalog:
    """The catalog that `to_json` wrote; refuses what it would not write in the same bytes again."""
    if not isinstance(tree, dict) or tree.get("type") != "catalog" or tree.get("v") != VERSION:
        raise _error(f"not a stored catalog of version {VERSION}: it needs another dither")
    _check_fields(tree, "the catalog", _CATALOG_FIELDS)
    catalog = Catalog(
        dataset=tree["dataset"],
        lineage=tree["lineage"],
        population=tree["population"],
        neighbours=tree["neighbours"],
        unit=_read_unit(tree["unit"]),
        people=_read_named(tree["people"], "people", _read_person),
        source=_read_source(tree["source"]),
        tables=_read_named(tree["tables"], "tables", _read_table),
    )
    if canonical.dumps(to_json(catalog)) != canonical.dumps(tree):
        raise _error("the stored catalog is not as dither writes it: register again from the catalog file")
    return catalog


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


_CATALOG_FIELDS: dict[str, Kind] = {
    "type": str,
    "v": int,
    "dataset": str,
    "lineage": str,
    "population": str,
    "neighbours": get_args(Neighbours),
    "unit": dict,
    "people": list,
    "source": dict,
    "tables": list,
}
_BOUNDED: dict[str, Kind] = {"nulls": object, "bounds": list, "provenance": str}
_COLUMN_FIELDS: dict[str, dict[str, Kind]] = {
    "id": {},
    "boolean": {"nulls": object},
    "integer": _BOUNDED,
    "date": _BOUNDED,
    "timestamp": {**_BOUNDED, "zone": str},
    "decimal": {**_BOUNDED, "resolution": str},
    "text": {"nulls": object, "width": int},
    "category": {"nulls": object, "values": object, "other": ("keep", "drop")},
    "undeclared": {"nulls": object, "values": str, "width": int},
}


def _error(message: str) -> CatalogError:
    return CatalogError(message, file="<stored catalog>")


def _check_fields(tree: Any, what: str, kinds: dict[str, Kind]) -> None:
    """Refuses a mapping that lacks one of these keys, has another, or holds a value of another kind."""
    if not isinstance(tree, dict):
        raise _error(f"{what} must be a mapping, not a {type(tree).__name__}")
    for key, kind in kinds.items():
        if key not in tree:
            raise _error(f"{what}: {key} is missing")
        if isinstance(kind, tuple) and tree[key] not in kind:
            raise _error(f"{what}: {key} must be one of {', '.join(kind)}")
        if isinstance(kind, type) and kind is not object and type(tree[key]) is not kind:
            raise _error(f"{what}: {key}: a stored catalog holds no {type(tree[key]).__name__} here")
    unknown = sorted(set(tree) - set(kinds))
    if unknown:
        raise _error(f"{what}: unknown key {canonical.quote(unknown[0])}")


def _read_named(trees: Any, what: str, read: Callable[[dict[str, Any], str], T]) -> tuple[T, ...]:
    """A list of mappings with a name each; SQL tells names apart in any case, so they differ in more than case."""
    names = set()
    for tree in trees:
        if not isinstance(tree, dict) or type(tree.get("name")) is not str:
            raise _error(f"{what} are stored as a list of mappings with a name")
        if tree["name"].lower() in names:
            raise _error(f"{what}: the key '{tree['name']}' was given before")
        names.add(tree["name"].lower())
    return tuple(read(tree, f"{what}: {tree['name']}") for tree in trees)


def _read_unit(tree: dict[str, Any]) -> Unit:
    if tree.get("kind") != "person_window":
        _check_fields(tree, "unit", {"kind": ("person", "row")})
        return Unit(tree["kind"])
    windows = ("day", "week", "month", "year")
    _check_fields(tree, "unit", {"kind": str, "column": str, "every": windows, "zone": str})
    return Unit("person_window", tree["column"], tree["every"], _read_offset(tree["zone"], "unit"))


def _read_person(tree: dict[str, Any], what: str) -> Person:
    reason: dict[str, Kind] = {} if tree.get("protected") is True else {"because": str}
    _check_fields(tree, what, {"name": str, "protected": bool, **reason})
    return Person(tree["name"], tree["protected"], tree.get("because"))


def _read_source(tree: dict[str, Any]) -> Source:
    _check_fields(tree, "source", {"engine": ("csv", "parquet", "duckdb"), "location": str})
    return Source(tree["engine"], tree["location"])


def _read_table(tree: dict[str, Any], what: str) -> Table:
    kinds: dict[str, Kind] = {"name": str, "kind": ("private", "public"), "from": str, "unique": list, "columns": list}
    if tree.get("kind") == "private":
        kinds |= {"rows_per_unit": int, "max_rows": int}
    if "owner" in tree:
        kinds["owner"] = dict
    _check_fields(tree, what, kinds)
    return Table(
        name=tree["name"],
        kind=tree["kind"],
        source_name=tree["from"],
        owner=_read_owner(tree["owner"], what) if "owner" in tree else None,
        unique=tuple(_read_texts(key, f"{what}: unique") for key in tree["unique"]),
        rows_per_unit=tree.get("rows_per_unit"),
        max_rows=tree.get("max_rows"),
        columns=_read_named(tree["columns"], what, _read_column),
    )


def _read_owner(tree: dict[str, Any], what: str) -> Owner:
    if "column" in tree:
        _check_fields(tree, f"{what}: owner", {"column": str})
        return OwnerColumn(tree["column"])
    _check_fields(tree, f"{what}: owner", {"references": str, "by": object})
    pairs = sorted(tree["by"].items()) if isinstance(tree["by"], dict) else [(tree["by"], tree["by"])]
    _read_texts([name for pair in pairs for name in pair], f"{what}: owner: by")
    return OwnerReference(tree["references"], tuple(pairs))


def _read_texts(values: Any, what: str) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(type(value) is str for value in values):
        raise _error(f"{what} must be a list of texts")
    return tuple(values)


def _read_offset(text: str, what: str) -> int:
    offset = scalars.offset(text)
    if offset is None:
        raise _error(f"{what}: zone must be UTC or a fixed offset such as +01:00")
    return offset


def _read_column(tree: dict[str, Any], what: str) -> Column:
    kind = "undeclared" if tree.get("values") == "undeclared" else tree.get("type")
    if not isinstance(kind, str) or kind not in _COLUMN_FIELDS:
        raise _error(f"{what}: type must be one of {', '.join(_COLUMN_READERS)}")
    _check_fields(tree, what, {"name": str, "type": tuple(_COLUMN_READERS), **_COLUMN_FIELDS[kind]})
    return _COLUMN_READERS[tree["type"]](tree, what)


def _read_id(tree: dict[str, Any], what: str) -> Column:
    return Id(tree["name"])


def _read_boolean(tree: dict[str, Any], what: str) -> Column:
    return Boolean(tree["name"], _read_nulls(tree, what, lambda value: int(value) if type(value) is bool else None))


def _read_integer(tree: dict[str, Any], what: str) -> Column:
    return Integer(*_read_bounded(tree, what, lambda value: value if type(value) is int else None))


def _read_date(tree: dict[str, Any], what: str) -> Column:
    return Date(*_read_bounded(tree, what, _of_text(scalars.days)))


def _read_timestamp(tree: dict[str, Any], what: str) -> Column:
    offset = _read_offset(tree["zone"], what)
    read_grid = _of_text(lambda text: scalars.seconds(text, offset))
    return Timestamp(*_read_bounded(tree, what, read_grid), offset)


def _read_decimal(tree: dict[str, Any], what: str) -> Column:
    resolution = scalars.number(tree["resolution"])
    if not resolution:
        raise _error(f"{what}: resolution must be a number other than 0")

    def read_grid(text: str) -> int | None:
        number = scalars.number(text)
        return None if number is None or number % resolution else int(number / resolution)

    name, nulls, lower, upper, provenance = _read_bounded(tree, what, _of_text(read_grid))
    return Decimal(name, nulls, lower * resolution, upper * resolution, resolution, provenance)


def _of_text(read: Callable[[str], int | None]) -> ReadGrid:
    """A reader that takes nothing but text."""
    return lambda value: read(value) if type(value) is str else None


def _read_bounded(tree: dict[str, Any], what: str, read_grid: ReadGrid) -> tuple[str, Nulls, int, int, str]:
    """Name, null rule, bounds as grid integers, and provenance."""
    bounds = [read_grid(value) for value in tree["bounds"]]
    if len(bounds) != 2 or bounds[0] is None or bounds[1] is None:
        raise _error(f"{what}: bounds must be two values of the column's type")
    return tree["name"], _read_nulls(tree, what, read_grid), bounds[0], bounds[1], tree["provenance"]


def _read_text(tree: dict[str, Any], what: str) -> Column:
    return Text(tree["name"], _read_nulls(tree, what, _read_label), tree["width"])


def _read_category(tree: dict[str, Any], what: str) -> Column:
    values = tree["values"]
    domain: tuple[str, ...] | FromPublic | Undeclared
    if values == "undeclared":
        domain = Undeclared(tree["width"])
    elif isinstance(values, dict):
        _check_fields(values, f"{what}: values", {"from": str})
        table, _, column = values["from"].partition(".")
        domain = FromPublic(table, column)
    else:
        domain = _read_texts(values, f"{what}: values")
    return Category(tree["name"], _read_nulls(tree, what, _read_label), domain, tree.get("other"))


def _read_label(value: Any) -> str | None:
    return value if type(value) is str else None


def _read_nulls(tree: dict[str, Any], what: str, read: Callable[[Any], int | str | None]) -> Nulls:
    nulls = tree["nulls"]
    if nulls in ("keep", "drop"):
        return Nulls(nulls)
    _check_fields(nulls, f"{what}: nulls", {"value": object})
    value = read(nulls["value"])
    if value is None:
        raise _error(f"{what}: nulls: value must be of the column's type")
    return Nulls("value", value)


_COLUMN_READERS: dict[str, Callable[[dict[str, Any], str], Column]] = {
    "id": _read_id,
    "integer": _read_integer,
    "decimal": _read_decimal,
    "boolean": _read_boolean,
    "category": _read_category,
    "date": _read_date,
    "timestamp": _read_timestamp,
    "text": _read_text,
}
