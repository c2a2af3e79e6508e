"""Pinned rows of a public table in their own units, for what is computed from answers."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pyarrow as pa

from dither.catalog import Table
from dither.plan.domain import Domain, declared_domain
from dither.plan.facts import Facts

_EPOCH = datetime.datetime(1970, 1, 1)
_TYPES: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp": pa.timestamp("s"),
    "boolean": pa.bool_(),
}


def decode_public_rows(rows: pa.Table, table: Table, facts: Facts) -> pa.Table:
    """The rows with numbers, days, truth values and labels in place of integers and codes."""
    columns = {
        column.name: _decode_column(rows.column(column.name), declared_domain(column, table, facts))
        for column in table.columns
    }
    return pa.table(columns)


def _decode_column(values: Any, domain: Domain) -> pa.Array:
    if domain.kind in ("text", "id"):
        return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if domain.kind == "number" and domain.step == 1:
        return pa.array([None if value is None else int(value) for value in values.to_pylist()])
    decode = _choose_decoder(domain)
    decoded = [None if value is None else decode(int(value)) for value in values.to_pylist()]
    kind = _TYPES.get(domain.kind, pa.string() if domain.kind == "category" else pa.float64())
    return pa.array(decoded, kind)


def _choose_decoder(domain: Domain) -> Callable[[int], Any]:
    """What an integer of a column stands for."""
    if domain.kind == "category":
        labels = domain.labels
        return lambda code: labels[code] if 0 <= code < len(labels) else None
    if domain.kind == "date":
        return lambda days: (_EPOCH + datetime.timedelta(days=days)).date()
    if domain.kind == "timestamp":
        return lambda seconds: _EPOCH + datetime.timedelta(seconds=seconds + domain.offset)
    if domain.kind == "boolean":
        return bool
    step: Fraction = domain.step
    return lambda steps: float(steps * step)
