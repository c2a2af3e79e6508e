"""Cells that can hold anything, by conditions and public facts, against counting them."""

from __future__ import annotations

import pytest

from dither.answer.possible_cells import count_possible_cells
from dither.catalog import parse
from dither.plan.analyse import analyse
from dither.plan.facts import Facts
from dither.sql.bind import bind

CATALOG = parse("""\
dither: 1
dataset: shop
lineage: shop
population: shop
neighbours: add_remove
unit: {kind: person}
people:
  pid: {protected: true}
source: {engine: csv, location: .}
tables:
  sales:
    kind: private
    from: sales.csv
    owner: {column: pid}
    unique: []
    rows_per_unit: 9
    max_rows: 1000
    columns:
      pid: {type: id}
      shop: {type: integer, bounds: [1, 100], nulls: drop, provenance: the test}
      kind: {type: category, values: [a, b, c], other: drop, nulls: drop}
  shops:
    kind: public
    from: shops.csv
    unique: [[number]]
    columns:
      number: {type: integer, bounds: [1, 100], nulls: drop, provenance: the test}
      town: {type: integer, bounds: [1, 20], nulls: drop, provenance: the test}
      size: {type: integer, bounds: [1, 5], nulls: drop, provenance: the test}
  towns:
    kind: public
    from: towns.csv
    unique: [[town]]
    columns:
      town: {type: integer, bounds: [1, 20], nulls: drop, provenance: the test}
      region: {type: category, values: [n, e, s, w], other: drop, nulls: drop}
""")
FACTS = Facts(
    (
        ("shops", ("number",), 1),
        ("shops", ("town",), 7),
        ("shops", ("size",), 30),
        ("towns", ("town",), 1),
        ("towns", ("region",), 5),
    )
)
"""At most 7 shops in a town, and 5 towns in a region."""
JOINED = "sales JOIN shops ON shop = number JOIN towns ON shops.town = towns.town"


@pytest.mark.parametrize(
    ("rows", "keys", "cells"),
    [
        ("sales", "kind", 3),
        ("sales WHERE kind IN ('a', 'b')", "kind", 2),
        ("sales WHERE shop BETWEEN 3 AND 7", "shop", 5),
        (JOINED, "number", 100),
        (f"{JOINED} WHERE region = 'n'", "region", 1),
        (f"{JOINED} WHERE region = 'n'", "shops.town", 5),
        (f"{JOINED} WHERE region IN ('n', 'e')", "shops.town", 10),
        (f"{JOINED} WHERE region = 'n'", "number", 35),
        (f"{JOINED} WHERE region = 'n'", "shop", 35),
        (f"{JOINED} WHERE region = 'n'", "number, shops.town", 35),
        (f"{JOINED} WHERE region = 'n'", "number, kind", 105),
        (f"{JOINED} WHERE region = 'n'", "number, size", 35),
        (f"{JOINED} WHERE region = 'n' OR kind = 'a'", "number", 100),
        ("sales LEFT JOIN shops ON shop = number WHERE kind = 'a'", "size", 6),
    ],
)
def test_conditions_bound_the_cells_of_other_tables(rows, keys, cells):
    recipe = bind(f"SELECT {keys}, COUNT(*) AS n FROM {rows} GROUP BY {keys}", CATALOG, FACTS)
    query = recipe.queries[0]
    plan = analyse(query.plan, CATALOG, FACTS)
    assert count_possible_cells(plan, query.keys, FACTS) == cells
