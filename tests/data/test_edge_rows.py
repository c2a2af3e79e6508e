"""No row of the edge corpus makes an error, changes a shape or moves an answer by more than the
claim."""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path

import duckdb
import pytest

from dither.audit import naive
from dither.catalog import parse
from dither.data.measure import Measurer
from dither.data.register.registration import write_copy_and_facts
from dither.plan import algebra as a
from dither.plan.algebra import Call, Cells, Column, Count, CountUnits, Named, Scan, Sum, Value
from dither.plan.of_catalog import shape
from tests.case_lists import mark_between
from tests.datasets import hospital
from tests.function_examples import EXAMPLES
from tests.neighbours import check_claim, measured

EDGES = [
    "nan", "-nan", "inf", "-inf", "Infinity", "-0.0", "0", "5e-324", "2.2250738585072014e-308",
    "1e308", "-1e309",
    str(2**63 - 1), str(-(2**63)), str(2**64), str(2**127), "9" * 29, "9" * 31, "1" * 399,
    "0." + "0" * 390 + "1", "",
    None, " ", "x" * 100_000, "\x00", "\x7f", "é" * 50, "🤦🏼‍♂️" * 9, "\ufeff", "\u202e", "'; DROP",
    '"', '""', "null",
    "a,b", "a\tb", "a\tb", "\\", "%", "0001-01-01", "9999-12-31", "10000-01-01", "-0001-01-01",
    "2024-02-30",
    "2024-12-31T23:59:59.999999999+14:00", "2024-06-30 23:59:60", "1e-400", "0x1F", "1_000", "١٢",
    "true", "TRUE ",
]  # fmt: skip
X = Column("cost")
NAMED = a.Project(Scan("visits"), (Named("name", Call("label", (Column("county"),))),))
PANEL = [
    Cells(Scan("visits"), ("county", "urgent"), (Count(), Sum("cost"), CountUnits())),
    Cells(Scan("patients"), ("sex",), (Sum("salary"),)),
    Cells(Scan("items"), ("drug",), (Sum("qty"),)),
    Cells(
        a.Project(Scan("visits"), (Named("y", Call("divide", (X, Column("score")))),)),
        (),
        (Sum("y"),),
    ),
    Cells(
        a.Join(Scan("visits"), Scan("counties"), (("county", "county"),), "left"),
        ("region",),
        (Sum("beds"),),
    ),
    Cells(a.Join(NAMED, Scan("wards"), (("name", "county"),), "left"), ("level",), (Count(),)),
    Cells(
        a.Join(Scan("visits"), Scan("items"), (("visit", "visit"),), "inner"),
        ("drug",),
        (Sum("cost"),),
    ),
    Cells(a.LimitGroups(Scan("visits"), ("diag",), 1), (), (a.CountDistinct("diag"),)),
    Cells(a.PerUnit(Scan("visits"), ("day",), (Named("n", Count()),)), ("n",), (Count(),)),
    Cells(a.Filter(Scan("visits"), a.Compare("seen", ">", F(0))), ("score",), (Count(),)),
    Cells(
        a.Distinct(a.Project(Scan("visits"), (Named("note", Column("note")),)), False),
        (),
        (Count(),),
    ),
]
OTHERS = (
    [hospital.patient("p1"), hospital.patient("p2")],
    [hospital.visit("a", "p1"), hospital.visit("b", "p2")],
)


def spoilt(edge: str | None) -> hospital.Raws:
    """The victim's rows hold the edge value in every column, the unique key and the names of
    parents included."""
    columns = ("county", "diag", "score", "cost", "day", "seen", "note", "urgent")
    visits = [hospital.visit(key, "victim", **dict.fromkeys(columns, edge)) for key in (edge, "ok")]
    people = [
        hospital.patient("victim"),
        hospital.patient("victim", sex=edge, born=edge, salary=edge),
    ]
    items = [hospital.item(edge, edge, edge), hospital.item("ok", edge, edge)]
    return hospital.raws(OTHERS[0] + people, OTHERS[1] + visits, items)


@pytest.fixture(scope="module")
def without():
    with hospital.registered(hospital.raws(*OTHERS)) as both:
        yield both, [measured(both, query) for query in PANEL]


@pytest.mark.parametrize(
    "edge", mark_between(EDGES, step=7), ids=[ascii(edge)[:24] for edge in EDGES]
)
def test_an_edge_row_changes_no_shape_and_stays_within_the_claim(edge, without):
    before, cells = without
    with hospital.registered(spoilt(edge)) as both:
        assert both.facts == before.facts
        for query, old in zip(PANEL, cells, strict=True):
            new = measured(both, query)
            assert new.shape == old.shape == shape(query, both.catalog, both.facts)
            check_claim(query, old, new, both.catalog, both.facts)


def test_all_edge_rows_at_once_through_every_function():
    visits = [row for edge in EDGES for row in spoilt(edge)["visits"][2:]]
    people = [{**hospital.patient(f"v{i}")} for i in range(len(visits))]
    for i, row in enumerate(visits):
        row.update(person=f"v{i}", visit=f"k{i}")
    with hospital.registered(hospital.raws(people, visits)) as both:
        for calls in EXAMPLES.values():
            for call in calls:
                plan = a.Project(Scan("visits"), (Named("x", call),))
                assert both.rows(plan) == both.expected(plan), call


def test_lines_that_are_no_csv_and_bytes_that_are_no_text_are_dropped_and_counted(tmp_path):
    facts = hospital.catalog()
    for table in facts.tables:
        hospital.write_csv(
            tmp_path / table.source_name, table.column_names, hospital.raws(*OTHERS)[table.name]
        )
    with (tmp_path / "patients.csv").open("ab") as file:
        file.write(
            b"bad,\xff\xfe,1990-01-01,5\r\n"
            + b"too,few\r\n"
            + b"big,"
            + b"x" * 3_000_000
            + b",1990-01-01,5\r\n"
        )
        file.write(b"p9,f,1990-01-01,5\r\n")
    target = tmp_path / "data.duckdb"
    repairs, _ = write_copy_and_facts(
        facts, tmp_path, hospital.KEY, target, tmp_path / "spill", lambda _: None
    )
    counts = {each.table: dict(each.counts) for each in repairs}
    assert counts["patients"]["lines that could not be read"] == 3
    assert counts["patients"]["rows registered"] == 3


def test_one_person_who_owns_half_the_table_is_limited_like_everybody(tmp_path: Path):
    visits = [hospital.visit(f"v{i}", "whale", cost=str(i)) for i in range(300)]
    others = [hospital.visit(f"w{i}", f"p{i}") for i in range(300)]
    people = [hospital.patient("whale"), *(hospital.patient(f"p{i}") for i in range(300))]
    query = Cells(Scan("visits"), (), (Count(),))
    clamp = Value("number", F(2))
    per_person = a.PerUnit(Scan("visits"), (), (Named("n", Count()),))
    least = a.Project(per_person, (Named("n", Call("least", (Column("n"), clamp))),))
    with hospital.registered(hospital.raws(people, visits + others)) as both:
        assert both.measurer.measure(query).tolist() == [[303]]
        assert both.measurer.measure(Cells(least, (), (Sum("n"),))).tolist() == [[302]]


SINGLE = hospital.raws([hospital.patient("only")], [hospital.visit("v", "only")])


@pytest.mark.parametrize("rows", [hospital.raws(), SINGLE], ids=["empty", "single"])
def test_an_empty_table_and_one_of_a_single_row_have_the_shapes_of_any_other(rows, without):
    before, cells = without
    with hospital.registered(rows) as both:
        assert both.facts == before.facts
        for query, old in zip(PANEL, cells, strict=True):
            assert measured(both, query).shape == old.shape


def test_floats_and_times_of_a_typed_source_are_repaired_like_texts(tmp_path: Path):
    """nan, infinities, -0.0, subnormals and far dates as Parquet holds them: the same values as
    from their texts."""
    values = ["nan", "inf", "-inf", "-0.0", "5e-324", "1e308", "-1e308", "499.995", "0.005"]
    days = ["0001-01-01", "9999-12-31", "2024-02-29"]
    visits = [
        hospital.visit(
            f"v{i}", f"p{i}", cost=value, day=days[i % 3], seen=f"{days[i % 3]} 23:59:59"
        )
        for i, value in enumerate(values)
    ]
    people = [hospital.patient(f"p{i}") for i in range(len(values))]
    typed = {
        "cost": "DOUBLE",
        "day": "DATE",
        "seen": "TIMESTAMP",
        "score": "HUGEINT",
        "urgent": "BOOLEAN",
    }
    text = hospital.CATALOG.replace("engine: csv", "engine: parquet").replace(".csv", ".parquet")
    facts = parse(text)
    rows = hospital.raws(people, visits)
    for table in facts.tables:
        hospital.write_csv(tmp_path / "raw.csv", table.column_names, rows[table.name])
        columns = ", ".join(
            f"CAST({name} AS {typed.get(name, 'VARCHAR')}) AS {name}" for name in table.column_names
        )
        names = "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in table.column_names) + "}"
        duckdb.execute(
            f"COPY (SELECT {columns} FROM read_csv('{tmp_path}/raw.csv', header = true, columns = "
            f"{names}, "
            f"auto_detect = false, delim = ',', quote = '\"')) TO '{tmp_path}/{table.source_name}' "
            f"(FORMAT parquet)"
        )
    target = tmp_path / "data.duckdb"
    found = write_copy_and_facts(
        facts, tmp_path, hospital.KEY, target, tmp_path / "spill", lambda _: None
    )[1]
    measurer = Measurer(target, facts, found)
    both = hospital.Registered(facts, found, measurer, naive.register(rows, facts, hospital.KEY))
    assert both.rows(Scan("visits")) == both.expected(Scan("visits"))
    measurer.close()
