"""A whole catalog for one table from a few decisions, with nothing read off the data.

Every line comes from what the steward said or from a public fact. Columns that the steward did not
name are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from dither.catalog.file.kinds import Kind, describe_column
from dither.catalog.file.names import make_column_names, make_label, write_scalar
from dither.catalog.model import Source


@dataclass(frozen=True)
class QuickDecisions:
    """What a steward decided about one table.

    `person` is the column that names the person; without one each row stands for itself, and
    `one_row_is_person` is the steward's word that no person is in two. `kinds` holds the columns by
    their names at the source, in the order in which they were named.
    """

    table: str
    source_name: str
    source: Source
    person: str | None
    one_row_is_person: bool
    rows_per_person: int
    max_rows: int
    kinds: tuple[tuple[str, Kind], ...]


def name_columns(decisions: QuickDecisions) -> dict[str, str]:
    """The name in questions of each column, by its name at the source."""
    person = () if decisions.person is None else (decisions.person,)
    sources = [*person, *(source for source, _ in decisions.kinds)]
    return dict(zip(sources, make_column_names(sources), strict=True))


def write_quick_catalog(decisions: QuickDecisions) -> str:
    """Write the catalog of these decisions as YAML."""
    label = make_label(decisions.table)
    names = name_columns(decisions)
    person = None if decisions.person is None else names[decisions.person]
    columns = [] if person is None else [(person, Kind("type: id", ""), str(decisions.person))]
    columns += [(names[source], kind, source) for source, kind in decisions.kinds]
    lines = [
        "dither: 1",
        f"dataset: {label}",
        f"lineage: {label}",
        f"population: {label}",
        "neighbours: add_remove",
        f"unit: {_write_unit(decisions)}",
        "people: {}" if person is None else f"people: {{{person}: {{protected: true}}}}",
        f"source: {_write_source(decisions.source)}",
        "tables:",
        f"  {label}:",
        "    kind: private",
        f"    from: {write_scalar(decisions.source_name)}",
        *([] if person is None else [f"    owner: {{column: {person}}}"]),
        "    unique: []",
        f"    rows_per_unit: {decisions.rows_per_person}",
        f"    max_rows: {decisions.max_rows}",
        "    columns:",
        *(f"      {name}: {describe_column(name, kind, source)}" for name, kind, source in columns),
    ]
    return "\n".join(lines) + "\n"


def _write_source(source: Source) -> str:
    """Write the source as YAML, with what is unusual about the CSV."""
    keys = [f"engine: {source.engine}", f"location: {write_scalar(source.location)}"]
    if source.delimiter != ",":
        shown = "tab" if source.delimiter == "\t" else source.delimiter
        keys.append(f"delimiter: {write_scalar(shown)}")
    if source.null_texts:
        keys.append(f"null_texts: [{', '.join(map(write_scalar, source.null_texts))}]")
    if source.trim:
        keys.append("trim: true")
    return f"{{{', '.join(keys)}}}"


def _write_unit(decisions: QuickDecisions) -> str:
    if decisions.person is not None:
        return "{kind: person}"
    return "{kind: row, one_row_is: person}" if decisions.one_row_is_person else "{kind: row}"
