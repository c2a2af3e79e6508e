"""What one person moves in questions as people write them, against what a proof says it can be.

Each bound is argued in its line: a customer has 40 orders and 160 lines, and one row of `customer`.
"""

from __future__ import annotations

import pytest

from dither.catalog import parse
from dither.plan.algebra import Cells, Join, Keys, Scan
from dither.plan.analyse import FIRST_RULES, NEWEST_RULES
from dither.plan.analysed_query import Analyses
from dither.plan.facts import Facts
from dither.sql.bind import bind

CATALOG = parse(
    """\
dither: 1
dataset: shop
lineage: shop
population: shop
neighbours: add_remove
unit: {kind: person}
people:
  custkey: {protected: true}
source: {engine: csv, location: .}
tables:
  customer:
    kind: private
    from: customer.csv
    owner: {column: custkey}
    unique: [[custkey]]
    rows_per_unit: 1
    max_rows: 100000
    columns:
      custkey: {type: id}
      segment: {type: category, values: [a, b, c, d, e], other: drop, nulls: drop}
      nation:  {type: category, values: {from: nation.name}, other: keep, nulls: drop}
  orders:
    kind: private
    from: orders.csv
    owner: {column: custkey}
    unique: [[okey]]
    rows_per_unit: 40
    max_rows: 1000000
    columns:
      okey:     {type: id}
      custkey:  {type: id}
      day:      {type: date, bounds: [1992-01-01, 1998-12-31], nulls: drop, provenance: x}
      price:    {type: integer, bounds: [0, 600000], nulls: drop, provenance: x}
      priority: {type: category, values: [u, v, w], other: keep, nulls: keep}
      cost:     {type: integer, bounds: [0, 50], nulls: drop, provenance: x}
      rating:   {type: integer, bounds: [0, 10], nulls: keep, provenance: x}
  lineitem:
    kind: private
    from: lineitem.csv
    owner: {references: orders, by: okey}
    unique: [[okey, line]]
    rows_per_unit: 160
    max_rows: 10000000
    columns:
      okey: {type: id}
      line: {type: integer, bounds: [1, 7], nulls: drop, provenance: x}
      qty:  {type: integer, bounds: [0, 50], nulls: drop, provenance: x}
  nation:
    kind: public
    from: nation.csv
    unique: [[name]]
    columns:
      name:   {type: text, width: 20, nulls: drop}
      region: {type: category, values: [x, y], other: drop, nulls: drop}
"""
)
FACTS = Facts(
    (("nation", ("name",), 1), ("nation", ("region",), 3)), (("nation", "name", ("aa", "bb")),)
)
BY_DAY = "(SELECT day, COUNT(*) AS n, AVG(rating) AS r FROM orders GROUP BY day)"
CHAIN = "customer c JOIN orders o ON c.custkey = o.custkey JOIN lineitem l ON l.okey = o.okey"
BACKWARDS = "lineitem l JOIN orders o ON l.okey = o.okey JOIN customer c ON c.custkey = o.custkey"
LEFT_CHAIN = CHAIN.replace("JOIN", "LEFT JOIN")
BOUNDS = [
    # question, L1 by the newest rules, L1 by the rules of release 0.1
    (f"SELECT COUNT(*) FROM {CHAIN}", 160, 6400),
    (f"SELECT COUNT(*) FROM {BACKWARDS}", 160, 160),
    # a line each, or an order without lines, or a customer without orders
    (f"SELECT COUNT(*) FROM {LEFT_CHAIN}", 200, 6400),
    ("SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM lineitem l WHERE l.okey = o.okey)",
    40, 160),
    ("SELECT COUNT(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM lineitem l WHERE l.okey = "
     "o.okey)", 40, 200),
    ("SELECT COUNT(*) FROM orders o WHERE o.okey IN (SELECT l.okey FROM lineitem l WHERE qty > 9)",
    40, 160),
    # a comparison inside the owner adds no row either, and an order has one customer
    ("SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM orders p WHERE p.custkey = "
     "o.custkey AND p.price > o.price)", 40, 40),
    ("SELECT COUNT(*) FROM lineitem l WHERE NOT EXISTS (SELECT 1 FROM lineitem m WHERE m.okey = "
     "l.okey AND m.qty <> l.qty)", 160, 160),
    ("SELECT COUNT(*) FROM (SELECT okey, SUM(qty) AS q FROM lineitem GROUP BY okey)", 160, 160),
    ("SELECT SUM(n) FROM (SELECT okey, COUNT(*) AS n FROM lineitem GROUP BY okey)", 160, 160 * 160),
    # a customer has one segment, and one nation, whatever is joined
    ("SELECT segment, COUNT(DISTINCT o.custkey) AS n FROM customer c JOIN orders o ON c.custkey = "
     "o.custkey GROUP BY segment", 1, 5),
    ("SELECT region, COUNT(DISTINCT o.custkey) AS n FROM orders o JOIN customer c ON c.custkey = "
     "o.custkey JOIN nation ON nation = name GROUP BY region", 1, 2),
    # 40 rows of at most 2, 4, 4, 4, 10
    ("SELECT SUM(cost) FROM orders WHERE cost IN (1, 2)", 80, 2000),
    ("SELECT SUM(cost) FROM orders WHERE cost = 1 OR cost BETWEEN 2 AND 4", 160, 2000),
    ("SELECT SUM(CASE WHEN cost < 5 THEN cost END) FROM orders", 160, 2000),
    ("SELECT SUM(cost) FILTER (WHERE cost < 5) FROM orders", 160, 2000),
    ("SELECT SUM(cost) FROM orders WHERE cost <= rating", 400, 2000),
    ("SELECT SUM(cost) FROM orders WHERE NOT (cost > 4)", 160, 2000),
    # an average of ratings is at most 10, a share at most 1; both in millionths
    ("SELECT SUM(r) FROM (SELECT custkey, AVG(rating) AS r FROM orders GROUP BY custkey)",
    10 * 10**6, 400 * 10**6),
    ("SELECT SUM(r) FROM (SELECT custkey, COUNT(rating) / COUNT(*) AS r FROM orders GROUP BY "
     "custkey)", 10**6, 40 * 10**6),
    ("SELECT SUM(r) FROM (SELECT custkey, COUNT_IF(cost < 5) / COUNT(*) AS r FROM orders GROUP BY "
     "custkey)", 10**6, 40 * 10**6),
    # 40 orders lie in groups that count 40 together; 40 days come or go
    ("SELECT SUM(n) FROM (SELECT custkey, priority, COUNT(*) AS n FROM orders GROUP BY custkey, "
     "priority)", 40, 200),
    (f"SELECT SUM(n) FROM {BY_DAY}", 40, 80 * 10**6),
    (f"SELECT SUM(LEAST(n, 5)) FROM {BY_DAY}", 40, 400),
    # in steps of a half
    (f"SELECT SUM(LEAST(n, 5.5)) FROM {BY_DAY}", 80, 880),
    (f"SELECT COUNT(*) FROM {BY_DAY}", 40, 80),
    # what a filter on the counts lets in is a whole group: 80 rows of at most 1,000,000
    (f"SELECT SUM(n) FROM {BY_DAY} WHERE n > 5", 80 * 10**6, 80 * 10**6),
    # two labels are left
    ("SELECT priority, COUNT(DISTINCT custkey) AS n FROM orders WHERE priority IN ('u', 'v') "
     "GROUP BY priority", 2, 5),
]  # fmt: skip


def analyse_first(question: str, rules: int):
    recipe = bind(question, CATALOG, FACTS, rules=rules)
    return Analyses(CATALOG, FACTS, rules).analyse_query(recipe.queries[0])


@pytest.mark.parametrize(("question", "newest", "first"), BOUNDS, ids=[row[0] for row in BOUNDS])
def test_a_person_moves_an_answer_by_no_more_than_it_can(question, newest, first):
    query = analyse_first(question, NEWEST_RULES)
    assert isinstance(query.query, Cells)
    assert query.sensitivity.l1 == newest
    assert analyse_first(question, FIRST_RULES).sensitivity.l1 == first


def test_a_column_of_the_customer_is_one_key_of_a_selection():
    """A segment is chosen by its owners: a customer has one, however many orders are joined."""
    rows = Join(Scan("orders"), Scan("customer"), (), "inner")
    for rules, cells in ((NEWEST_RULES, 1), (FIRST_RULES, 5)):
        query = Analyses(CATALOG, FACTS, rules).analyse_query(Keys(rows, ("segment",)))
        assert query.reach.cells == cells


@pytest.mark.parametrize(
    ("question", "keys", "first"),
    [
        ("SELECT day, COUNT(*) AS n FROM orders WHERE day >= DATE '1998-12-01' GROUP BY day", 31,
        2557),
        ("SELECT FLOOR(price / 50000) * 50000 AS k, COUNT(*) AS n FROM orders GROUP BY k", 13,
        600_001),
        ("SELECT rating, COUNT(*) AS n FROM orders WHERE rating > 7 GROUP BY rating", 3, 12),
    ],
)  # fmt: skip
def test_a_group_by_lists_the_keys_that_are_possible(question, keys, first):
    assert analyse_first(question, NEWEST_RULES).cells == keys
    assert analyse_first(question, FIRST_RULES).cells == first


@pytest.mark.parametrize(
    ("key", "labels"),
    [
        ("UPPER(segment)", ("A", "B", "C", "D", "E")),
        ("SUBSTR(segment, 1, 1)", ("a", "b", "c", "d", "e")),
        ("CASE WHEN segment IN ('a', 'b') THEN 'x' ELSE segment END", ("x", "c", "d", "e")),
        ("COALESCE(UPPER(priority), 'none')", ("U", "V", "W", "other", "none")),
        ("CASE WHEN priority IS NULL THEN 'no' WHEN priority <> 'u' THEN 'y' ELSE priority END",
         ("u", "y", "other", "no")),
    ],
)  # fmt: skip
def test_texts_made_of_labels_have_the_values_that_the_labels_give(key, labels):
    """What nobody listed stays `other`: its text is not known (P33 of the privacy rules)."""
    table = "customer" if "segment" in key else "orders"
    recipe = bind(f"SELECT {key} AS k, COUNT(*) AS n FROM {table} GROUP BY k", CATALOG, FACTS)
    assert recipe.keys[0].domain.labels == labels
    assert not recipe.keys[0].domain.nullable


def test_a_text_that_is_null_for_a_label_has_a_null_key():
    recipe = bind(
        "SELECT LOWER(priority) AS k, COUNT(*) AS n FROM orders GROUP BY k", CATALOG, FACTS
    )
    assert recipe.keys[0].domain.labels == ("u", "v", "w", "other")
    assert recipe.keys[0].domain.nullable


@pytest.mark.parametrize(
    ("key", "values", "nullable"),
    [
        ("DAYNAME(day)", 7, False),
        ("MONTHNAME(day)", 12, False),
        ("STRFTIME(day, '%Y')", 7, False),
        ("CASE cost % 2 WHEN 0 THEN 'even' WHEN 1 THEN 'odd' END", 2, False),
        ("CASE cost % 3 WHEN 0 THEN 'even' WHEN 1 THEN 'odd' END", 2, True),
        ("CASE rating % 2 WHEN 0 THEN 'even' WHEN 1 THEN 'odd' END", 2, True),
    ],
)
def test_a_case_that_names_all_values_has_no_null_key(key, values, nullable):
    """Days and costs are never null, ratings may be, and 2 is no remainder that is named."""
    recipe = bind(f"SELECT {key} AS k, COUNT(*) AS n FROM orders GROUP BY k", CATALOG, FACTS)
    domain = recipe.keys[0].domain
    assert (len(domain.labels), domain.nullable) == (values, nullable)


def test_moments_of_the_same_columns_are_released_once():
    """CORR(a, b), REGR_SLOPE(a, b) and COVAR_POP(b, a) read one count, two sums, two sums of
    squares and one sum of products."""
    question = (
        "SELECT CORR(cost, rating), REGR_SLOPE(cost, rating), COVAR_POP(rating, cost) FROM orders"
    )
    assert len(bind(question, CATALOG, FACTS).atoms) == 6
    assert len(bind(question, CATALOG, FACTS, rules=FIRST_RULES).atoms) == 8
