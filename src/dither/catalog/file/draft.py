"""A first draft of a catalog: names from the source's schema, and `???` where a person must decide.

>>> print(draft("clinic", "csv", "data", [("visits", "visits.csv", [("cost",
...     None)])]).splitlines()[0])
dither: 1
"""

from __future__ import annotations

from dither.catalog.file.decide import COLUMN_KEYS
from dither.catalog.file.names import make_column_names, make_label, write_scalar

Columns = list[tuple[str, str | None]]
_TYPES = {
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP_S": "timestamp",
    "TIMESTAMP_MS": "timestamp",
    "TIMESTAMP_NS": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
    "DOUBLE": "decimal",
    "FLOAT": "decimal",
    "DECIMAL": "decimal",
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), "integer"),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), "integer"),
}
_UNDECIDED = {"bounds": "[???, ???]"}


def draft(
    dataset: str,
    engine: str,
    location: str,
    tables: list[tuple[str, str, Columns]],
    *,
    trim: bool = False,
) -> str:
    """Write YAML that names what the source names and decides nothing. Values are never looked at.

    A column whose type the schema does not say has a commented menu below it: a line for each type
    with the keys that it needs.
    """
    options = ", trim: true" if trim else ""
    lines = [
        "dither: 1",
        f"dataset: {make_label(dataset)}",
        "lineage: ???            # the data that the budget follows",
        "population: ???         # the people the data is about",
        "neighbours: ???         # add_remove | replace",
        "unit: {kind: ???}       # person | row | person_window; {kind: row, one_row_is: person}",
        "people: ???             # every key of a person: {protected: true} | {protected: false, "
        "because: ...}; {} if none",
        f"source: {{engine: {engine}, location: {write_scalar(location)}{options}}}",
        "tables:",
    ]
    for name, source_name, columns in tables:
        lines += [
            f"  {make_label(name)}:",
            "    kind: ???           # private | public",
            f"    from: {write_scalar(source_name)}",
            "    owner: ???          # {column: c} | {references: table, by: key}; none if public",
            "    unique: ???         # such as [[visit_id]], or []",
            "    rows_per_unit: ???  # none if public",
            "    max_rows: ???       # none if public",
            "    columns:",
        ]
        names = make_column_names(source for source, _ in columns)
        for column, (source, kind) in zip(names, columns, strict=True):
            lines += _draft_column(column, source, kind)
    return "\n".join(lines) + "\n"


def write_source_name(column: str, source: str) -> str:
    """The key `from` of a column, where its name at the source is another."""
    return "" if column == source else f", from: {write_scalar(source)}"


def _draft_column(column: str, source: str, kind: str | None) -> list[str]:
    """Draft the lines of a column; with a menu of types where its type is not known."""
    from_source = write_source_name(column, source)
    known_type = _TYPES.get((kind or "").upper())
    if known_type is not None:
        return [f"      {column}: {{{_write_keys(known_type)}{from_source}}}"]
    menu = [f"      # {column}: {{{_write_keys(choice)}{from_source}}}" for choice in COLUMN_KEYS]
    return [f"      {column}: {{type: ???{from_source}}}", *menu]


def _write_keys(column_type: str) -> str:
    """Write the keys that a column of this type needs, with ??? for what is undecided."""
    if column_type == "category":
        return "type: category, values: undeclared, width: ???, nulls: ???"
    keys = [key for key in COLUMN_KEYS[column_type] if key not in ("type", "from")]
    written = [f"{key}: {_UNDECIDED.get(key, '???')}" for key in keys]
    return ", ".join([f"type: {column_type}", *written])
