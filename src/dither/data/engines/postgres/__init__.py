"""PostgreSQL 16 or newer: the prepared copy in a schema of its own, in the database of the source.

`dialect.py` has its words, `session.py` connections, `engine.py` runs statements, `source.py` reads
tables into registration, `copy.py` writes and drops the prepared copy, `grants.py` prints what a
role needs. psycopg is imported when a connection is opened, and not before.
"""
