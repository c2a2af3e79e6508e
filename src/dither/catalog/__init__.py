"""Public facts about a dataset, written by a person and never read off the data.

`load` reads the YAML and refuses what is wrong or undecided, with file and line; everything else of
dither reads the frozen `Catalog` that comes out. Format: docs/reference/catalog.md. The names that
read a file, write the stored form or explain a catalog load their modules when first asked for: the
kernel needs none of them.
"""

from typing import TYPE_CHECKING, Any

from dither.catalog.columns import (
    OTHER,
    Boolean,
    Bounded,
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
    OwnerColumn,
    OwnerReference,
    Person,
    Source,
    Table,
    Unit,
)

if TYPE_CHECKING:
    from dither.catalog.explain import UNPROTECTED, guarantee, horizon
    from dither.catalog.file.load import load, parse
    from dither.catalog.storage import catalog_hash, from_json, to_json

__all__ = [
    "OTHER",
    "UNPROTECTED",
    "Boolean",
    "Bounded",
    "Catalog",
    "Category",
    "Column",
    "Date",
    "Decimal",
    "FromPublic",
    "Id",
    "Integer",
    "Neighbours",
    "Nulls",
    "OwnerColumn",
    "OwnerReference",
    "Person",
    "Source",
    "Table",
    "Text",
    "Timestamp",
    "Undeclared",
    "Unit",
    "catalog_hash",
    "from_json",
    "guarantee",
    "horizon",
    "load",
    "parse",
    "to_json",
]


def __getattr__(name: str) -> Any:
    """Import a name that the kernel does not need, when it is asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'dither.catalog' has no attribute {name!r}")
    from dither.catalog import explain, storage
    from dither.catalog.file import load

    return getattr(next(m for m in (load, storage, explain) if hasattr(m, name)), name)
