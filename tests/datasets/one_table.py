"""A catalog of one table of people, up to its columns."""

HEAD = """\
dither: 1
dataset: edges
lineage: edges
population: edges
neighbours: add_remove
unit: {kind: person}
people: {who: {protected: true}}
source: {engine: csv, location: .}
tables:
  one:
    kind: private
    from: one.csv
    owner: {column: who}
    unique: []
    rows_per_unit: 9
    max_rows: 100
    columns:
      who: {type: id}
"""
