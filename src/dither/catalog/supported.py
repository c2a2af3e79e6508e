"""What the format can say and this version of dither cannot yet do, refused by name.

A list that later work deletes lines from. Nothing here is about privacy rules (`check.py` has those): a catalog that is
refused here is right, and early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dither.catalog.model import Catalog, OwnerReference
from dither.errors import CatalogError

Finding = tuple[str, int]


def refuse_unsupported(catalog: Catalog) -> None:
    """Raise CatalogError at the first thing in the catalog that is not supported yet."""
    for find, remedy in _NOT_YET:
        for thing, line in find(catalog):
            raise CatalogError(f"{thing} is not supported yet: {remedy}", file=catalog.file, line=line)


def _window_paths(catalog: Catalog) -> Iterator[Finding]:
    """A parent row lies in one window and its children in others: without it, rows of other units would go too."""
    for table in catalog.private_tables:
        if catalog.unit.kind == "person_window" and isinstance(table.owner, OwnerReference):
            yield f"table {table.name}: an owner in another table under windows", table.owner.line


_NOT_YET: tuple[tuple[Callable[[Catalog], Iterator[Finding]], str], ...] = (
    (_window_paths, "add the owner's column to this table at the source and use owner: {column: ...}"),
)
