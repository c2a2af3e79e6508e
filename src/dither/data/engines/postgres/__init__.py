"""PostgreSQL 16 or newer: the prepared copy in a schema of its own, in the database of the source.

`dialect.py` has its words, `session.py` connections, `engine.py` runs statements; registration is
in `register/postgres/`. psycopg is imported when a connection is opened, and not before.
"""
