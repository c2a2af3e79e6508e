"""Connections to PostgreSQL, with the settings on which the meaning of SQL depends."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from dither.errors import DitherError

if TYPE_CHECKING:
    import psycopg

OLDEST_VERSION = 16
"""Older servers want a name for every subquery."""
_SECONDS = re.compile("[1-9][0-9]{0,5}")
_SETTINGS = {
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "client_encoding": "UTF8",
    "lock_timeout": "20s",
}


class ServerError(DitherError):
    """The server cannot be reached, or is not one that can be used; quotes no row."""


def load_psycopg() -> Any:
    """Import psycopg, or say how to install it."""
    try:
        import psycopg
    except ImportError:
        raise ServerError(
            "the engine postgres needs psycopg: pip install 'dither[postgres]'"
        ) from None
    return psycopg


def check_location(location: str) -> str | None:
    """Say what is wrong with a source's location; None if it can be used. Connects to nothing.

    A catalog is public, so it holds no password.
    """
    library = load_psycopg()
    try:
        fields = library.conninfo.conninfo_to_dict(location)
    except library.Error:
        return "location must be a connection string of libpq, such as service=clinic"
    if "password" in fields or "sslpassword" in fields:
        return (
            "location holds a password, and a catalog is public: put it into a service file or a "
            "password file (~/.pgpass)"
        )
    return None


def connect(location: str) -> psycopg.Connection[Any]:
    """Open a connection, each statement its own transaction.

    Raises ServerError where the server is too old or its database is not UTF-8.
    """
    library = load_psycopg()
    if problem := check_location(location):
        raise ServerError(problem)
    try:
        connection: psycopg.Connection[Any] = library.connect(
            location, autocommit=True, connect_timeout=10, application_name="dither"
        )
        for setting, value in {**_SETTINGS, "statement_timeout": read_timeout()}.items():
            connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        encoding = connection.execute("SHOW server_encoding").fetchone()
    except library.Error:
        raise ServerError(
            "the PostgreSQL server of the source cannot be reached: check that it runs, the "
            "location in the catalog, and the password file"
        ) from None
    version = connection.info.server_version // 10_000
    if version < OLDEST_VERSION or encoding != ("UTF8",):
        connection.close()
        raise ServerError(
            f"the engine postgres needs PostgreSQL {OLDEST_VERSION} or newer and a database in "
            f"UTF8; this is {version} and {encoding[0] if encoding else 'unknown'}"
        )
    return connection


def read_timeout() -> str:
    """How long the server lets one statement run, in case its client is gone.

    It is an hour, or DITHER_STATEMENT_TIMEOUT seconds.
    """
    seconds = os.environ.get("DITHER_STATEMENT_TIMEOUT") or "3600"
    if not _SECONDS.fullmatch(seconds):
        raise DitherError(
            f"DITHER_STATEMENT_TIMEOUT must be whole seconds from 1 to 999999, got {seconds[:20]!r}"
        )
    return f"{seconds}s"
