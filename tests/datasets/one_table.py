"""Catalogs of one table of people, for tests of what a single column may hold."""

from __future__ import annotations

HEAD = """\
dither: 1
dataset: {name}
lineage: {name}
population: residents
neighbours: {neighbours}
unit: {{kind: person}}
people:
  {owner}: {{protected: true}}
source: {{engine: {engine}, location: .}}
tables:
  {name}:
    kind: private
    from: {name}.{engine}
    owner: {{column: {owner}}}
    unique: {unique}
    rows_per_unit: {rows_per_unit}
    max_rows: {max_rows}
    columns:
      {owner}: {{type: id}}
"""


def write_catalog(
    columns: dict[str, str],
    *,
    name: str = "one",
    owner: str = "who",
    engine: str = "csv",
    neighbours: str = "add_remove",
    unique: str = "[]",
    rows_per_unit: int = 9,
    max_rows: int = 100,
) -> str:
    """A catalog's text: the owner's id, then the columns, each with its declaration."""
    head = HEAD.format(
        name=name,
        owner=owner,
        engine=engine,
        neighbours=neighbours,
        unique=unique,
        rows_per_unit=rows_per_unit,
        max_rows=max_rows,
    )
    return head + "".join(f"      {column}: {kind}\n" for column, kind in columns.items())
