"""Public tables of any shape: joined, and generated for rehearsals."""

from __future__ import annotations

import pytest

from dither.catalog import parse
from dither.data.register.generated import write_generated
from dither.plan.algebra import Cells, Count, Join, Scan
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


@pytest.mark.parametrize("unique", ["[[level]]", "[[gold]]", "[[level, gold]]"])
def test_a_rehearsal_keeps_short_unique_keys_of_public_tables(tmp_path, unique):
    known = with_plans(unique)
    rows = {
        **hospital.raws(),
        "plans": [{"level": "1", "gold": "true"}, {"level": "2", "gold": "false"}],
    }
    with hospital.registered(rows, known) as both:
        write_generated(known, both.facts, tmp_path / "made.duckdb")
        assert (tmp_path / "made.duckdb").exists()
