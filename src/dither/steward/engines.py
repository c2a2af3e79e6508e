"""What a steward does at an engine that is a server: print the grants that a role needs."""

from __future__ import annotations

from dither.catalog import Catalog
from dither.data.register.postgres.grants import write_grants
from dither.errors import ParameterError


def write_postgres_grants(catalog: Catalog, role: str = "dither") -> str:
    """Write SQL for psql that makes a role which can register this catalog and be asked.

    Raises ParameterError where the catalog's source is no PostgreSQL database.
    """
    if catalog.source.engine != "postgres":
        raise ParameterError(
            f"the source of {catalog.dataset} has engine {catalog.source.engine}: write "
            "source: {engine: postgres, location: service=...} in the catalog first"
        )
    return write_grants(catalog, role)
