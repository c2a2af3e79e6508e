"""The steps of a registration, as a steward sees them: their names in order, and how far one is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb

from dither.catalog import Catalog, OwnerReference, Table
from dither.data.register.owners import key_of
from dither.data.register.public import public_order

WRITING = "writing the copy"
COPYING = "copying to the server"


def list_stages(catalog: Catalog) -> list[str]:
    """List what registration will do, step by step."""
    steps = [step for table in public_order(catalog) for step in name_steps(catalog, table)]
    steps += [name_map_step(parent, key) for parent, key in list_owner_maps(catalog)]
    return [
        *steps,
        *(step for table in catalog.private_tables for step in name_steps(catalog, table)),
        WRITING,
        *([] if catalog.source.is_path else [COPYING]),
    ]


def name_steps(catalog: Catalog, table: Table) -> tuple[str, ...]:
    """Name the steps of one table: reading, repairing, and limiting or pinning its rows."""
    steps = (f"{table.name}: reading {table.source_name}", f"{table.name}: repairing values")
    if table.kind == "public":
        return (*steps, f"{table.name}: pinning the public table")
    if catalog.unit.kind == "row":
        return (*steps, f"{table.name}: limiting the rows")
    return (*steps, f"{table.name}: at most {table.rows_per_unit} rows per {catalog.unit.kind}")


def name_map_step(parent: Table, key: tuple[str, ...]) -> str:
    """Name the step that maps a key of a table to owners."""
    return f"{parent.name}: finding owners by {', '.join(key)}"


def list_owner_maps(catalog: Catalog) -> list[tuple[Table, tuple[str, ...]]]:
    """List (table, key) by which owners are found, from the tables nearest to the owner
    outwards."""
    parents = {}
    for table in catalog.private_tables:
        if isinstance(table.owner, OwnerReference):
            parents[table.owner.references, key_of(table.owner)] = catalog.table(
                table.owner.references
            )
    return sorted(
        ((parent, key) for (_, key), parent in parents.items()),
        key=lambda parent_and_key: len(catalog.owner_path(parent_and_key[0])),
    )


@contextmanager
def watch_progress(
    connection: duckdb.DuckDBPyConnection, share: Callable[[float], None] | None
) -> Iterator[None]:
    """Ask the engine ten times a second how far it is, if anybody wants to know."""
    if share is None:
        yield
        return
    over = threading.Event()

    def ask() -> None:
        while not over.wait(0.1):
            percent = connection.query_progress()
            if 0 <= percent <= 100:
                share(percent / 100)

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
