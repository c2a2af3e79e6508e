"""Registration from and into PostgreSQL: source tables, the prepared copy, and grants."""
