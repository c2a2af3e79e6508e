"""What a role needs to register and to be asked, as SQL for the owner of the database."""

from __future__ import annotations

from dither.catalog import Catalog
from dither.data.quoting import name
from dither.data.quoting import table as quote_table


def write_grants(catalog: Catalog, role: str) -> str:
    """Write the grants of a role that reads the declared columns and owns its own schemas.

    It reads no other column, writes into no table of others, and needs no membership. The text is
    for psql, which knows the database's name.
    """
    lines = [
        "-- to be run by the owner of the tables; the role reads these columns and no others",
        f"CREATE ROLE {name(role)} LOGIN;",
        f'GRANT CONNECT, CREATE ON DATABASE :"DBNAME" TO {name(role)};',
    ]
    targets = [quote_table(table.source_name) for table in catalog.tables]
    schemas = {target.rpartition(".")[0] or name("public") for target in targets}
    lines += [f"GRANT USAGE ON SCHEMA {schema} TO {name(role)};" for schema in sorted(schemas)]
    for table, target in zip(catalog.tables, targets, strict=True):
        sources = dict(table.source_columns)
        columns = ", ".join(name(sources.get(c.name, c.name)) for c in table.columns)
        lines.append(f"GRANT SELECT ({columns}) ON {target} TO {name(role)};")
    return "\n".join(lines)
