"""Stability of a registered table. Proof: docs/proofs/stability.md#scan."""

from __future__ import annotations

from dither.catalog import Catalog
from dither.errors import RefusedError
from dither.plan.algebra import Scan
from dither.plan.stability.owned import Owned


def scan_rows(scan: Scan, catalog: Catalog) -> Owned:
    """A unit owns at most `rows_per_unit` rows: registration left the others out."""
    limit = catalog.table(scan.table).rows_per_unit
    if limit is None:
        raise RefusedError(f"{scan.table} has no limit of rows per unit", rule="a private table is limited")
    return Owned(limit)
