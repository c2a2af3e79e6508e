"""Public tables of any shape: joined, and generated for rehearsals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dither.catalog import parse
from dither.data.register import public
from dither.data.register.generated import write_generated
from dither.plan.algebra import Cells, Count, Join, Scan
from dither.plan.facts import Facts
from tests.case_lists import mark_rest
from tests.datasets import hospital

VISITS = Scan("visits")
PLANS = """\
  plans:
    kind: public
    from: plans.csv
    unique: {unique}
    columns:
      level: {{type: integer, bounds: [-5, 5], nulls: drop, provenance: list}}
      {more}
"""


def with_plans(unique: str = "[]", more: str = "gold: {type: boolean, nulls: drop}"):
    return parse(hospital.CATALOG + PLANS.format(unique=unique, more=more))


def test_a_public_table_with_undeclared_labels_can_be_joined():
    known = with_plans(more="kind: {type: category, values: undeclared, width: 4, nulls: keep}")
    rows = hospital.raws([hospital.patient("p")], [hospital.visit("v", "p", score="1")])
    with hospital.registered({**rows, "plans": [{"level": "1", "kind": "a"}]}, known) as both:
        query = Cells(Join(VISITS, Scan("plans"), (("score", "level"),), "inner"), (), (Count(),))
        both.measurer.prepare(query)
        assert both.measurer.measure(query).tolist() == [[1]]


@pytest.mark.parametrize("unique", mark_rest(["[[level]]", "[[gold]]", "[[level, gold]]"], quick=1))
def test_a_rehearsal_keeps_short_unique_keys_of_public_tables(tmp_path, unique):
    known = with_plans(unique)
    rows = {
        **hospital.raws(),
        "plans": [{"level": "1", "gold": "true"}, {"level": "2", "gold": "false"}],
    }
    with hospital.registered(rows, known) as both:
        write_generated(known, both.facts, tmp_path / "made.duckdb")
        assert (tmp_path / "made.duckdb").exists()


NAMED = "name: {type: text, width: 9, nulls: keep}"


def register_names(names: list[str | None]) -> Facts:
    rows = hospital.raws([hospital.patient("p")], [hospital.visit("v", "p", score="1")])
    plans = [{"level": "1", "name": name} for name in names]
    with hospital.registered({**rows, "plans": plans}, with_plans(more=NAMED)) as both:
        texts = tuple(entry for entry in both.facts.texts if entry[0] == "plans")
        return replace(both.facts, texts=texts)


def test_few_texts_of_a_public_column_are_facts_of_the_version(monkeypatch):
    """In order, each once, null among none; more than the limit are not listed, nor is `other`."""
    assert register_names(["b", "a", None, "b"]).texts == (("plans", "name", ("a", "b")),)
    assert register_names(["a", "other"]).texts == ()
    monkeypatch.setattr(public, "MOST_TEXTS", 2)
    assert register_names(["a", "b", "c"]).texts == ()


def test_facts_without_texts_are_written_as_before():
    """The digest of facts is in the ledger: those of earlier versions must not change."""
    facts = Facts((("plans", ("level",), 1),), (("plans", "name", ("a",)),))
    assert sorted(facts.to_json()) == ["lists", "multiplicities", "type", "v"]
    listed = Facts(facts.multiplicities, facts.lists, (("plans", "note", ("x", "y")),))
    assert Facts.from_json(listed.to_json()) == listed
    assert listed.hash != facts.hash


def test_a_rehearsal_has_the_texts_of_the_version(tmp_path):
    facts = register_names(["b", "a"])
    write_generated(with_plans(more=NAMED), facts, tmp_path / "copy.duckdb")
