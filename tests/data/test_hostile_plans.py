"""Plans and sources made to break a claim, each as it once did: refused now, or within the
claim."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from dither import RefusedError
from dither.catalog import parse
from dither.data.measure import Measurer
from dither.data.register.registration import RegistrationError, write_copy_and_facts
from dither.plan.algebra import (
    Call,
    Cells,
    Column,
    Count,
    Join,
    LimitGroups,
    Named,
    PerUnit,
    Project,
    SampleUnits,
    Scan,
    UnionAll,
    Value,
)
from dither.plan.of_catalog import sensitivity
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.ledger.reports import Reports
from tests.datasets import clinic, hospital

CLINIC = clinic.catalog()


def test_a_plan_cannot_capture_the_names_of_the_lowering():
    """A column called dither_place switched the limit of groups off: claimed 1, measured 3."""
    per_ward = PerUnit(Scan("visits"), ("ward",), (Named("dither_place", Count()),))
    query = Cells(LimitGroups(per_ward, ("ward",), 1), ("ward",), (Count(),))
    with pytest.raises(RefusedError):
        sensitivity(query, CLINIC)


@pytest.mark.parametrize("name", ["AGE", "Age", "dither_e3", "dither_owner", "", "a b", 'x"y', "é"])
def test_new_columns_have_plain_names_that_differ_beyond_case(name):
    """Engines ignore case, so 'age' and 'AGE' are one column there and two here."""
    kept = (Named("age", Column("age")), Named(name, Column("score")))
    with pytest.raises(RefusedError):
        sensitivity(Cells(Project(Scan("visits"), kept), (), (Count(),)), CLINIC)


def test_columns_of_two_tables_that_differ_in_case_only_do_not_meet():
    """Grouping by qty read patients.Qty: an index error that only the victim's row caused."""
    text = hospital.CATALOG.replace("salary: {type", "Qty: {type")
    catalog = parse(text)
    with pytest.raises(RefusedError):
        sensitivity(
            Cells(Join(Scan("patients"), Scan("items"), (), "inner"), ("qty",), (Count(),)), catalog
        )


def test_the_null_of_a_public_list_meets_nobody():
    """It had the code of private 'other': one visit to 'nowhere' joined fifty public rows, claimed
    3."""
    catalog = parse(
        hospital.CATALOG.replace(
            "county: {type: text, width: 8, nulls: drop}",
            "county: {type: text, width: 8, nulls: keep}",
        )
    )

    def raws(victim: bool):
        visits = [hospital.visit("o1", "o")] + [
            hospital.visit("v1", "v", county="nowhere")
        ] * victim
        found = hospital.raws([hospital.patient("o"), hospital.patient("v")], visits, [])
        found["counties"] = [{"county": "ash", "region": "n", "beds": "1"}]
        found["counties"] += [{"county": None, "region": "s", "beds": str(i)} for i in range(50)]
        return found

    query = Cells(
        Join(Scan("visits"), Scan("counties"), (("county", "county"),), "inner"), (), (Count(),)
    )
    with (
        hospital.registered(raws(False), catalog) as one,
        hospital.registered(raws(True), catalog) as two,
    ):
        moved = abs(int((two.measurer.measure(query) - one.measurer.measure(query))[0, 0]))
        assert moved <= sensitivity(query, catalog, one.facts).l1


def test_work_per_unit_is_bounded():
    """Sixteen self-joins took 0.04 s without a person of three rows and 6.3 s with."""
    plan = Project(Scan("visits"), (Named("c0", Column("age")),))
    for i in range(1, 17):
        plan = Join(plan, Project(Scan("visits"), (Named(f"c{i}", Column("age")),)), (), "inner")
    hidden = PerUnit(plan, (), (Named("n", Count()),))
    for each in (plan, hidden):
        with pytest.raises(RefusedError, match="work is bounded"):
            sensitivity(Cells(each, (), (Count(),)), CLINIC)


ROWS = """\
dither: 1
dataset: two
lineage: two
population: events
neighbours: add_remove
unit: {kind: row}
people: {}
source: {engine: csv, location: .}
tables:
  t1: &x
"""
TABLE = """\
  {name}:
    kind: private
    from: {name}.csv
    unique: []
    rows_per_unit: 1
    max_rows: 1000
    columns:
      x: {{type: integer, bounds: [-5, 5], nulls: drop, provenance: form}}
"""


def row_unit(folder, first, second) -> Measurer:
    catalog = parse(
        ROWS.replace("  t1: &x\n", "") + TABLE.format(name="t1") + TABLE.format(name="t2")
    )
    folder.mkdir()
    for name, values in (("t1", first), ("t2", second)):
        (folder / f"{name}.csv").write_text("x\n" + "".join(f"{value}\n" for value in values))
    _, facts = write_copy_and_facts(
        catalog, folder, bytes(32), folder / "data.duckdb", folder / "spill", lambda _: None
    )
    return Measurer(folder / "data.duckdb", catalog, facts)


def test_equal_rows_of_two_tables_are_two_units(tmp_path):
    """Under row units they shared an owner: adding one row moved two cells, claimed one."""
    one, two = row_unit(tmp_path / "a", [3], []), row_unit(tmp_path / "b", [3], [3])
    query = Cells(
        PerUnit(UnionAll(Scan("t1"), Scan("t2")), (), (Named("n", Count()),)), ("n",), (Count(),)
    )
    moved = [abs(int(change)) for change in (two.measure(query) - one.measure(query)).ravel()]
    claim = sensitivity(query, one._analyses.catalog)
    assert sum(moved) <= claim.l1 and sum(map(bool, moved)) <= claim.l0


def test_blank_lines_of_a_one_column_file_do_not_hide_a_swallowed_row(tmp_path):
    catalog = parse(ROWS.replace("  t1: &x\n", "") + TABLE.format(name="t1"))
    (tmp_path / "t1.csv").write_text('x\n1\n"2\n3\n"\n\n\n4\n')
    with pytest.raises(RegistrationError, match="span several lines"):
        write_copy_and_facts(
            catalog, tmp_path, bytes(32), tmp_path / "d.duckdb", tmp_path / "spill", lambda _: None
        )


def test_a_sample_is_drawn_by_a_key_of_the_kernel(tmp_path):
    """Once it passed price and prepare, failed after reserve for want of a key, and suspended the
    dataset."""
    _, place = clinic.register(tmp_path, [])
    clinic.open_total(place)
    kernel = Kernel(place)
    query = Cells(SampleUnits(Scan("visits"), F(1, 2)), (), (Count(),))
    kernel.release(Request((Step(query, "laplace", F(1)),), Price(epsilon=F(1)), "total"))
    assert kernel.ledger.pot("total").spent == 1
    assert Reports.from_ledger(kernel.ledger).incidents_open() == ()


def test_a_computed_constant_cannot_stand_in_for_a_key():
    kept = (
        Named("k", Call("clamp", (Column("age"), Value("number", F(0)), Value("number", F(0))))),
        Named("K", Column("age")),
    )
    with pytest.raises(RefusedError):
        sensitivity(Cells(Project(Scan("visits"), kept), ("K",), (Count(),)), CLINIC)
