"""A first draft of a catalog: names from the source's schema, and `???` where a person must decide.

>>> print(draft("clinic", "csv", "data", [("visits", "visits.csv", [("cost",
...     None)])]).splitlines()[0])
dither: 1
"""

from __future__ import annotations

from dither.catalog import scalars

Columns = list[tuple[str, str | None]]
_TYPES = {
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "DOUBLE": "decimal",
    "FLOAT": "decimal",
    "DECIMAL": "decimal",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"), "integer"),
}
_KEYS = {
    None: "type: ???",
    "boolean": "type: boolean, nulls: ???",
    "date": "type: date, bounds: [???, ???], nulls: ???, provenance: ???",
    "timestamp": "type: timestamp, bounds: [???, ???], zone: ???, nulls: ???, provenance: ???",
    "decimal": "type: decimal, bounds: [???, ???], resolution: ???, nulls: ???, provenance: ???",
    "integer": "type: integer, bounds: [???, ???], nulls: ???, provenance: ???",
}


def draft(dataset: str, engine: str, location: str, tables: list[tuple[str, str, Columns]]) -> str:
    """YAML that names what the source names and decides nothing. Values are never looked at."""
    lines = [
        "dither: 1",
        f"dataset: {dataset}",
        "lineage: ???            # the data that the budget follows",
        "population: ???         # the people the data is about",
        "neighbours: ???         # add_remove | replace",
        "unit: {kind: ???}       # person | row | person_window",
        "people: ???             # every key of a person: {protected: true} | {protected: false, "
        "because: ...}",
        f"source: {{engine: {engine}, location: {location}}}",
        "tables:",
    ]
    for name, source_name, columns in tables:
        lines += [
            f"  {name}:",
            "    kind: ???           # private | public",
            f"    from: {source_name}",
            "    owner: ???          # {column: c} | {references: table, by: key}; none if public",
            "    unique: ???         # such as [[visit_id]], or []",
            "    rows_per_unit: ???  # none if public",
            "    max_rows: ???       # none if public",
            "    columns:",
        ]
        lines += [_draft_column(column, kind) for column, kind in columns]
    return "\n".join(lines) + "\n"


def _draft_column(name: str, kind: str | None) -> str:
    if not scalars.is_name(name):
        return (
            f"      # {name!r} is no name that SQL takes: rename it at the source, or leave it out"
        )
    return f"      {name}: {{{_KEYS[_TYPES.get((kind or '').upper())]}}}"
