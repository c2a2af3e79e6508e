"""A shop whose lines reach their customer by keys of two columns: lines, orders, customers."""

CATALOG = """\
dither: 1
dataset: shop
lineage: shop
population: customers
neighbours: add_remove
unit: {kind: person}
people: {c_key: {protected: true}}
source: {engine: csv, location: .}
tables:
  lines:
    kind: private
    from: lines.csv
    owner: {references: orders, by: {l_order: o_number, l_year: o_year}}
    unique: []
    rows_per_unit: 4
    max_rows: 99
    columns:
      l_order: {type: id}
      l_year:  {type: id}
      price:   {type: integer, bounds: [0, 9], nulls: keep, provenance: x}
  orders:
    kind: private
    from: orders.csv
    owner: {references: customers, by: {o_customer: c_key}}
    unique: [[o_number, o_year]]
    rows_per_unit: 3
    max_rows: 99
    columns:
      o_number:   {type: id}
      o_year:     {type: id}
      o_customer: {type: id}
      paid:       {type: boolean, nulls: keep}
  customers:
    kind: private
    from: customers.csv
    owner: {column: c_key}
    unique: [[c_key]]
    rows_per_unit: 1
    max_rows: 99
    columns:
      c_key: {type: id}
      vip:   {type: boolean, nulls: keep}
"""
