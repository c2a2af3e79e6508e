"""What is known of public tables: rows that a filter leaves, and numbers within a pinned range."""

from __future__ import annotations

import pytest

from dither.catalog import parse
from dither.data.register.public import list_keys
from dither.errors import RefusedError
from dither.plan import carry_degrees
from dither.plan.analyse import FIRST_RULES, NEWEST_RULES
from dither.plan.analysed_query import Analyses
from dither.plan.facts import Facts
from dither.sql.bind import bind
from tests.datasets import hospital
from tests.plan.small_neighbours import search_public_excess

CATALOG_TEXT = """\
dither: 1
dataset: s
lineage: s
population: s
neighbours: add_remove
unit: {kind: person}
people: {pid: {protected: true}}
source: {engine: csv, location: .}
tables:
  sales:
    kind: private
    from: sales.csv
    owner: {column: pid}
    unique: []
    rows_per_unit: 10
    max_rows: 100000
    columns:
      pid: {type: id}
      drug: {type: integer, bounds: [1, 50], nulls: drop, provenance: x}
  prices:
    kind: public
    from: prices.csv
    unique: [[drug, year]]
    columns:
      drug: {type: integer, bounds: [1, 50], nulls: drop, provenance: x}
      year: {type: integer, bounds: [2000, 2030], nulls: drop, provenance: x}
      kind: {type: category, values: [list, net, old], other: drop, nulls: keep}
      price: {type: integer, bounds: [0, 600], nulls: drop, provenance: x}
"""
CATALOG = parse(CATALOG_TEXT)
FACTS = Facts(
    (
        ("prices", ("drug",), 6),
        ("prices", ("year",), 50),
        ("prices", ("kind",), 100),
        ("prices", ("drug", "kind"), 2),
        ("prices", ("drug", "year"), 1),
    ),
    ranges=(("prices", "price", 1, 100),),
)
JOIN = "FROM sales s JOIN prices p ON s.drug = p.drug"
BOUNDS = [
    # question, L1 by the newest rules, by the rules of release 0.1
    (f"SELECT SUM(p.price) AS n {JOIN}", 10 * 6 * 100, 10 * 6 * 600),
    (f"SELECT COUNT(*) AS n {JOIN}", 60, 60),
    (f"SELECT COUNT(*) AS n {JOIN} AND p.year = 2020", 10, 60),
    (f"SELECT COUNT(*) AS n {JOIN} AND p.year IN (2020, 2021)", 20, 60),
    (f"SELECT COUNT(*) AS n {JOIN} AND p.kind = 'net'", 20, 60),
    (f"SELECT COUNT(*) AS n {JOIN} AND p.kind <> 'old'", 40, 60),
    # the facts count no rows in which the kind is null
    (f"SELECT COUNT(*) AS n {JOIN} AND p.kind IS NULL", 60, 60),
    ("SELECT COUNT(*) AS n FROM sales s JOIN (SELECT drug AS d FROM prices WHERE year = 2020) p "
     "ON s.drug = p.d", 10, 60),
    (f"SELECT COUNT(*) AS n {JOIN} WHERE p.year = 2020", 10, 60),
    (f"SELECT COUNT(*) AS n {JOIN} WHERE year IN (2020, 2021) AND s.drug > 3", 20, 60),
    (f"SELECT COUNT(*) AS n {JOIN} WHERE year = 2020 OR s.drug = 3", 60, 60),
    (f"SELECT COUNT(*) AS n {JOIN} WHERE p.year = s.drug + 2000", 60, 60),
    ("SELECT COUNT(*) AS n FROM sales s, prices p WHERE s.drug = p.drug AND p.kind = 'net'",
     20, 60),
    # rows without a match are kept, and WHERE is asked of them too
    ("SELECT COUNT(*) AS n FROM sales s LEFT JOIN prices p ON s.drug = p.drug WHERE year = 2020",
     60, 60),
    (f"SELECT COUNT(*) AS n {JOIN} RIGHT JOIN sales t ON s.pid = t.pid WHERE year = 2020",
     600, 600),
]  # fmt: skip


@pytest.mark.parametrize(("question", "newest", "first"), BOUNDS, ids=[row[0] for row in BOUNDS])
def test_filtered_public_rows_are_counted_by_the_values_that_are_left(question, newest, first):
    for rules, claimed in ((NEWEST_RULES, newest), (FIRST_RULES, first)):
        recipe = bind(question, CATALOG, FACTS, rules=rules)
        query = Analyses(CATALOG, FACTS, rules).analyse_query(recipe.queries[0])
        assert query.sensitivity.l1 == claimed


def test_facts_with_ranges_are_read_as_they_were_written():
    assert Facts.from_json(FACTS.to_json()) == FACTS
    assert "ranges" not in Facts(FACTS.multiplicities).to_json()


@pytest.mark.parametrize("seed", range(3))
def test_no_join_with_public_rows_moves_further_than_claimed(seed):
    assert search_public_excess(seed, 12)[0] is None


@pytest.mark.all
@pytest.mark.parametrize("seed", range(100, 140))
def test_no_join_of_many_moves_further_than_claimed(seed):
    assert search_public_excess(seed, 60)[0] is None


def find_planted() -> bool:
    return any(search_public_excess(seed, 12)[0] for seed in range(12))


def test_brute_force_finds_filtered_rows_that_are_counted_once(monkeypatch):
    """Planted: a filter leaves one value of each column that it reads, null or not."""
    monkeypatch.setattr(carry_degrees, "_count_present", lambda name, condition, columns: 1)
    assert find_planted()


def test_brute_force_finds_a_range_that_is_too_small(monkeypatch):
    find_range = Facts.find_range

    def find_less(self, table, column):
        ends = find_range(self, table, column)
        return ends and (min(ends), min(ends))

    monkeypatch.setattr(Facts, "find_range", find_less)
    assert find_planted()


def test_texts_take_no_place_of_other_columns_in_pairs():
    """A public table of eight numbers and three texts: all pairs of numbers, none with texts."""
    lines = [
        f"      n{i}: {{type: integer, bounds: [0, 9], nulls: drop, provenance: x}}"
        for i in range(8)
    ]
    lines += [f"      t{i}: {{type: text, width: 9, nulls: drop}}" for i in range(3)]
    head, _, _ = CATALOG_TEXT.partition("    unique: [[drug, year]]")
    table = parse(head + "    unique: []\n    columns:\n" + "\n".join(lines)).table("prices")
    pairs = [key for key in list_keys(table) if len(key) == 2]
    assert len(pairs) == 28 and all(name.startswith("n") for pair in pairs for name in pair)


def test_registration_counts_pairs_and_finds_the_ends_of_public_numbers():
    """The counties of the hospital's catalog, as they are pinned."""
    with hospital.registered(hospital.raws()) as registered:
        facts = registered.facts
    assert all(low <= high for _, _, low, high in facts.ranges)
    keys = {key for _, key, _ in facts.multiplicities}
    assert any(len(key) == 2 for key in keys)


def test_the_rules_of_a_version_are_stored_where_they_are_not_the_first():
    assert "rules" not in FACTS.to_json() and Facts.from_json(FACTS.to_json()).rules == FIRST_RULES
    facts = Facts(rules=NEWEST_RULES)
    assert Facts.from_json(facts.to_json()) == facts


def test_a_version_of_newer_rules_is_refused():
    """An older dither beside a newer one would sell answers that the newer one never looks for, or
    reads with less noise than they have."""
    for rules in (NEWEST_RULES + 1, 0, None, "2"):
        with pytest.raises(RefusedError, match="upgrade this one"):
            Facts.from_json({**Facts(rules=NEWEST_RULES).to_json(), "rules": rules})
