"""A ledger in a PostgreSQL database: the same tables, each transaction durable before it returns.

Every writing transaction takes one advisory lock before it reads (READ COMMITTED, so it then sees
all that came before), which makes check and spend one step; readers see one snapshot. The server
must sync: `fsync` is checked and `synchronous_commit` set, since an answer whose charge is lost in
a power cut was never paid for.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from typing import Any

from dither.errors import DitherError, RefusedError
from dither.privacy.ledger import tables
from dither.privacy.ledger.database import Database, Transaction
from dither.rules import PrivacyRule

_LOCK = tables.APPLICATION_ID
# by the table that is found, not by the search_path that finds it: two paths to one ledger share
# its lock
_LOCK_OF = "coalesce(to_regclass('entry')::oid, hashtext(current_schema())::bit(32)::bigint::oid)"
_TAKE_LOCK = f"SELECT pg_advisory_xact_lock({_LOCK}, ({_LOCK_OF})::bigint::bit(32)::int4)"
_END_WRITERS = f"""
SELECT pg_terminate_backend(lock.pid)
FROM pg_locks lock JOIN pg_stat_activity session USING (pid)
WHERE lock.locktype = 'advisory' AND lock.objsubid = 2 AND session.datname = current_database()
  AND lock.database = session.datid AND lock.classid = {_LOCK} AND lock.objid = {_LOCK_OF}
  AND session.state_change < clock_timestamp() - make_interval(secs => %(seconds)s)
"""
ABOUT = f"dither ledger format {tables.SCHEMA_VERSION}"
_UNREACHABLE = "the PostgreSQL server cannot be reached; start it, or check the address"
_WAIT_MS = 20_000
_PARAMETER = re.compile(r":(\w+)")


@cache
def _write_parameters(statement: str) -> str:
    return _PARAMETER.sub(r"%(\1)s", statement)


def hide_password(address: str) -> str:
    """Write an address without its password, to be shown.

    >>> hide_password("postgresql://ann:secret@host/ledger?password=secret&sslmode=require")
    'postgresql://ann:***@host/ledger?password=***&sslmode=require'
    """
    without_login = re.sub(r"(://[^:/@?]*):.*@", r"\1:***@", address)
    return re.sub(r"(password=)[^&]*", r"\1***", without_login)


class Postgres(Database):
    """One schema of one database, by its URL.

    Such as postgresql://user@host/database?options=-csearch_path%3Dschema.
    """

    def __init__(self, url: str) -> None:
        """Keep the address of the database; nothing is opened yet."""
        try:
            import psycopg
        except ImportError:
            raise DitherError(
                "a ledger in PostgreSQL needs psycopg: pip install 'dither[postgres]'"
            ) from None
        self._psycopg: Any = psycopg
        self._address = "postgresql://" + url.partition("://")[2]
        self.errors = (psycopg.Error,)
        super().__init__(hide_password(self._address))

    types = {"number": "BIGINT", "text": "TEXT", "bytes": "BYTEA"}

    def write_parameters(self, statement: str) -> str:
        return _write_parameters(statement)

    def _connect(self) -> Any:
        """Open a connection whose commits are on disk when they return."""
        try:
            connection = self._psycopg.connect(self._address, autocommit=True, connect_timeout=10)
        except self._psycopg.Error as error:
            error.dither_unreachable = True
            raise
        connection.execute("SET synchronous_commit = on")
        connection.execute(f"SET lock_timeout = {_WAIT_MS}")
        # a kept plan, made while the ledger was short or for kinds of entries that are frequent,
        # would read the whole ledger for every answer
        connection.execute("SET enable_seqscan = off")
        connection.execute("SET plan_cache_mode = force_custom_plan")
        if connection.execute("SHOW fsync").fetchone()[0] != "on":
            connection.close()
            raise RefusedError(
                f"the server of {self.label} runs with fsync off", rule=PrivacyRule.DURABLE
            )
        return connection

    def _begin(self, raw: Any, write: bool) -> None:
        """Begin a transaction; a writer takes the ledger's lock, a reader a snapshot."""
        # said, since a server may have other defaults
        level = "READ COMMITTED" if write else "REPEATABLE READ READ ONLY"
        raw.execute(f"BEGIN ISOLATION LEVEL {level}")
        if write:
            raw.execute(_TAKE_LOCK)

    def _begun(self, write: bool) -> Any:
        """Begin a transaction; try once more where a pooled connection died with the server.

        Nothing was asked of it yet.
        """
        try:
            return super()._begun(write)
        except self._psycopg.OperationalError as error:
            if getattr(error, "dither_unreachable", False) or self._is_lock_timeout(error):
                raise
        self.pool.close()
        try:
            return super()._begun(write)
        except self._psycopg.OperationalError as error:
            if not self._is_lock_timeout(error):
                error.dither_unreachable = True
            raise

    def _is_lock_timeout(self, error: Exception) -> bool:
        return isinstance(error, self._psycopg.errors.LockNotAvailable)

    def _cause(self, error: Exception) -> str | None:
        """Say in plain words why the database failed, with a remedy; None if it is not known."""
        if getattr(error, "dither_unreachable", False):
            return _UNREACHABLE
        if self._is_lock_timeout(error):
            return "another process kept it locked for too long; try again"
        if isinstance(error, self._psycopg.errors.DiskFull):
            return "the disk is full; free some space"
        if isinstance(
            error,
            self._psycopg.errors.ReadOnlySqlTransaction
            | self._psycopg.errors.InsufficientPrivilege,
        ):
            return "the database is read-only for this user; the steward must allow writing"
        if isinstance(error, self._psycopg.errors.UndefinedTable):
            return "there is no ledger; check the address and its search_path"
        return None

    def check_schema(self, transaction: Transaction) -> str | None:
        """Return what is wrong with the tables, or None.

        Triggers, rules, views and tables of the same name in another schema could change
        what is read or written, so none of them may be there.
        """
        about = transaction.scalar("SELECT obj_description(to_regclass('entry'), 'pg_class')")
        if about is None or not about.startswith("dither ledger format "):
            return "the database holds no ledger of dither"
        if about != ABOUT:
            return (
                f"it is a {about}, this dither reads {tables.SCHEMA_VERSION}: use the "
                "dither that wrote it"
            )
        schema = "(SELECT relnamespace FROM pg_class WHERE oid = to_regclass('entry'))"
        names = ", ".join(f"'{name}'" for name in (table.name for table in tables.TABLES))
        alien = (
            f"SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgrelid IN "
            f"(SELECT oid FROM pg_class WHERE relnamespace = {schema}) "
            f"UNION ALL SELECT rulename FROM pg_rules WHERE schemaname::regnamespace = {schema} "
            f"UNION ALL SELECT relname FROM pg_class WHERE relnamespace = {schema} "
            f"AND relname IN ({names}) AND relkind <> 'r' "
            f"UNION ALL SELECT name FROM unnest(ARRAY[{names}]) AS name WHERE {schema} IS DISTINCT "
            f"FROM "
            "(SELECT relnamespace FROM pg_class WHERE oid = to_regclass(name))"
        )
        if (name := transaction.scalar(alien)) is not None:
            return (
                f"the ledger holds a trigger, rule, view or shadowed table, {name!r}, "
                "which dither never makes"
            )
        return None

    def end_writers(self, older_than_s: float) -> int:
        """End sessions that hold the ledger's lock or wait for it, and asked nothing for so long.

        Those that wait are ended too: a paused process may have several, and would hold the lock by
        the next one.
        """
        raw = self.pool.take()
        try:
            return int(raw.execute(_END_WRITERS, {"seconds": older_than_s}).rowcount)
        finally:
            self.pool.give_back(raw)

    def close(self) -> None:
        with suppress(*self.errors):
            super().close()
