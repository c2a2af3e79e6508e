"""Makes an empty ledger.

It is complete and durable before its name exists, and never takes the place of another.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from dither.errors import RefusedError
from dither.privacy.ledger import tables
from dither.privacy.ledger.database import Database, Transaction
from dither.privacy.ledger.postgres import ABOUT, Postgres
from dither.privacy.ledger.sqlite import SQLite, sync_directory
from dither.rules import PrivacyRule


def create_schema(database: Database) -> None:
    """Create the tables of an empty ledger. Raises RefusedError where one lies already."""
    if isinstance(database, Postgres):
        _create_postgres(database)
    elif isinstance(database, SQLite):
        _create_sqlite(database.path)


def _create_sqlite(path: Path) -> None:
    """Make an empty ledger file; refuse where a file lies already.

    It is complete and durable before its name exists.
    """
    beside = path.with_name(f"{path.name}.new-{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside.unlink(missing_ok=True)
        os.close(os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        database = SQLite(beside)
        with database.transaction(write=True) as transaction:
            _create_tables(database, transaction)
            transaction.run(f"PRAGMA application_id={tables.APPLICATION_ID}")
            transaction.run(f"PRAGMA user_version={tables.SCHEMA_VERSION}")
        database.close()  # the last connection moves the log into the file and removes it
        os.link(beside, path)  # unlike rename, fails if another process was first
        sync_directory(path.parent)
    except OSError as error:
        if path.is_file():
            message = (
                f"{path} exists already: a ledger is never replaced, since what was "
                "spent stays spent"
            )
            raise RefusedError(message, rule=PrivacyRule.DURABLE) from None
        raise RefusedError(
            f"the ledger {path} cannot be created: {error.strerror}", rule=PrivacyRule.DURABLE
        ) from None
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


def _create_postgres(database: Postgres) -> None:
    """Create the tables of a ledger; refuse a database that has one already."""
    with database.transaction(write=True) as transaction:
        if transaction.scalar("SELECT to_regclass('entry')::text") is not None:
            message = (
                f"{database.label} holds a ledger already: it is never replaced, "
                "since what was spent stays spent"
            )
            raise RefusedError(message, rule=PrivacyRule.DURABLE)
        _create_tables(database, transaction)
        transaction.run(f"COMMENT ON TABLE entry IS '{ABOUT}'")


def _create_tables(database: Database, transaction: Transaction) -> None:
    """Create every table and index of a ledger."""
    for table in tables.TABLES:
        for statement in write_creation(table, database.types):
            transaction.run(statement)


def write_creation(table: tables.StoredTable, types: dict[tables.Type, str]) -> list[str]:
    """Write the statements that create a table, by a store's names of types."""
    columns = [f"{name} {types[kind]} NOT NULL" for name, kind in table.columns.items()]
    key = f"PRIMARY KEY ({', '.join(table.key)})"
    statements = [f"CREATE TABLE {table.name} ({', '.join([*columns, key])})"]
    if table.index is not None:
        name, indexed = table.index
        statements.append(f"CREATE INDEX {name} ON {table.name} ({', '.join(indexed)})")
    return statements
