"""The name of a source in PostgreSQL, by which registrations of the same tables are known."""

from __future__ import annotations

from dither.data.engines.postgres.session import connect, load_psycopg


def identify_database(location: str) -> str:
    """Name the tables that a location reaches, the same however the location is written.

    The name is made of the server's own identifier, the database and its first schema. It is the
    location where the server does not say. Raises ServerError where it cannot be reached.
    """
    library = load_psycopg()
    connection = connect(location)
    try:
        row = connection.execute(
            "SELECT system_identifier, current_database(), current_schema() FROM "
            "pg_control_system()"
        ).fetchone()
    except library.Error:
        return location
    finally:
        connection.close()
    return location if row is None else f"postgres:{row[0]}/{row[1]}/{row[2]}"
