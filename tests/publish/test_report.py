"""The page: self-contained, escaped, honest; and the demonstration that writes it."""

from __future__ import annotations

import math
import re
from fractions import Fraction as F
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dither import RefusedError, connect, steward
from dither.cli.clinic import write_clinic
from dither.cli.main import app
from dither.pages.charts import ChartPoint, draw_dots, draw_meter, draw_signed_bar, format_number
from dither.plan.algebra import Cells, Count, Scan, Sum
from dither.publish.harms import FORBIDDEN, HARMS
from dither.publish.report import AnsweredQuestion, Paid, ReportPage, Staged, write_report
from dither.state import State
from dither.steward.stages import measure_stages, measure_truth
from tests.datasets import clinic

VOID = {"meta", "line", "circle", "rect", "br", "link", "img"}
POINTS = (
    ChartPoint("a", 10.0, 8.0, 12.0, 9.0),
    ChartPoint("<b>", -3.0, None, 1.0, None),
    ChartPoint("c", math.nan),
)


class Checker(HTMLParser):
    """Every tag closed in order, and no way out of the page."""

    def __init__(self):
        super().__init__()
        self.open, self.problems = [], []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if (
                name in ("src", "action")
                or (name == "href" and not value.startswith("#"))
                or name.startswith("on")
            ):
                self.problems.append((tag, name, value))
        if tag in ("script", "iframe", "link", "img", "object"):
            self.problems.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> out of order")


def checked(text: str) -> None:
    checker = Checker()
    checker.feed(text)
    assert checker.problems == [] and checker.open == []
    assert not re.search(r"https?://|@import|url\(", text)
    visible = re.sub(r"<[^>]*>", " ", text).lower()
    assert [word for word in FORBIDDEN if word in visible] == []


def report(**changes) -> ReportPage:
    whole = {
        "title": "T <script>", "lead": "l & l", "context": "dev", "meaning": ("m",),
        "questions": (
            AnsweredQuestion("q", "SELECT '<'", "p", "e", draw_dots(POINTS, "q"),
            (("", "a"), (("x", "<1>"),)), "l"),
        ),
        "staged": (Staged("s", ("clamps", "noise"), (("a", 10.0, (-1.0, 0.5), 9.5, 2.0),), "n"),),
        "paid": Paid("total", "rho", "0.1", "0.2", "0.4", (("r", 0.1),), "g", "no <more>"),
        "releases": (("1", "asks", "rho 1"),), "unprotected": ("u",), "hazards": ("h",),
    }  # fmt: skip
    return ReportPage(**(whole | changes))


def test_a_page_is_whole_escaped_and_fetches_nothing():
    text = write_report(report())
    checked(text)
    assert "T &lt;script&gt;" in text and "no &lt;more&gt;" in text and "&lt;b&gt;" in text


def test_empty_sections_are_left_out():
    text = write_report(report(questions=(), staged=(), paid=None, meaning=()))
    checked(text)
    assert "What was paid" not in text and "What was asked" not in text


def test_every_harm_of_the_matrix_is_shown_and_few_are_covered():
    text = write_report(report())
    for harm in HARMS:
        assert harm.harm in text
    assert {h.family for h in HARMS} == {"collection", "processing", "dissemination", "invasion"}
    assert [h.harm for h in HARMS if h.coverage == "bounded"] == ["disclosure by an answer"]


def test_dots_are_where_the_numbers_are():
    text = draw_dots(
        (ChartPoint("a", 50.0, 40.0, 60.0, 55.0), ChartPoint("b", 100.0, 90.0, 110.0)), "x"
    )
    places = [float(x) for x in re.findall(r"cx='([0-9.]+)%'", text)]
    assert places == pytest.approx([1 + 98 * 50 / 110, 1 + 98 * 100 / 110], abs=0.01)
    truth = float(re.search(r"class='truth' x1='([0-9.]+)%'", text)[1])
    assert truth == pytest.approx(1 + 98 * 55 / 110, abs=0.01)


@pytest.mark.parametrize(
    "points",
    [
        (),
        (ChartPoint("a", math.nan),),
        (ChartPoint("a", 0.0),),
        (ChartPoint("a", -5.0, -9.0, -1.0),),
    ],
)
def test_charts_of_nothing_zero_and_negatives(points):
    checked(f"<div>{draw_dots(points, 'x')}</div>")


def test_a_whisker_far_longer_than_all_answers_does_not_hide_them():
    text = draw_dots((ChartPoint("a", 10.0, 9.0, 11.0), ChartPoint("b", 1.0, -1e9, 1e9)), "x")
    places = [float(x) for x in re.findall(r"cx='([0-9.]+)%'", text)]
    assert abs(places[0] - places[1]) > 10


def test_small_parts():
    assert "less" in draw_signed_bar(-0.5) and "more" in draw_signed_bar(2.0)
    assert "width='50.00%'" in draw_signed_bar(2.0)
    assert ">cap</b>" in draw_meter([("a", 1.0)], 2.0, 4.0, "spent 1")
    assert "width:25.000%" in draw_meter([("a", 1.0)], 4.0, 4.0, "spent 1")
    assert format_number(-1234.0) == "−1,234"


class TestStages:
    """Stage by stage on a table that can be done by hand: three rows a person, costs clamped to
    [-10, 500]."""

    @pytest.fixture
    def place(self, tmp_path):
        (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
        rows = [clinic.row(f"v{i}", "p1", ward="north", cost="100") for i in range(5)]
        rows += [
            clinic.row("w1", "p2", ward="south", cost="9000"),
            clinic.row("w2", "p3", ward="south", cost=None),
        ]
        clinic.write_csv(tmp_path / "visits.csv", rows)
        return tmp_path

    def test_changes_are_those_of_the_hand(self, place):
        steward.register(place / "clinic.yaml", dev=True)
        query = Cells(Scan("visits"), ("ward",), (Count(), Sum("cost")))
        ((raw, clamped, limited),) = measure_stages(
            State(place / "clinic.dither"), place / "clinic.yaml", query
        )
        assert [stage.name for stage in (raw, clamped, limited)] == ["file", "clamps", "limits"]
        assert raw.cells[(), 0] == (5, 50000) and raw.cells[(), 1] == (2, 900000)
        assert clamped.cells[(), 0] == (5, 50000) and clamped.cells[(), 1] == (2, 50000)
        assert limited.cells[(), 0] == (3, 30000) and limited.cells[(), 1] == (2, 50000)

    def test_a_prod_lineage_has_neither_truth_nor_stages(self, place):
        done = steward.register(place / "clinic.yaml")
        state = State(place / "clinic.dither")
        steward.open_pot(
            state, done.catalog, "total", epsilon="2", ceiling="2", purpose=clinic.PURPOSE
        )
        query = Cells(Scan("visits"), ("ward",), (Count(),))
        with pytest.raises(RefusedError, match="dev datasets only"):
            measure_stages(state, place / "clinic.yaml", query)
        release = (
            connect(place / "clinic.yaml")
            .sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)
            ._release
        )
        with pytest.raises(RefusedError, match="dev datasets only"):
            measure_truth(state, release)


def test_the_demonstration_writes_a_page_that_holds_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["demo", "--people", "400"])
    assert ran.exit_code == 0, ran.exception
    for part in (
        "Protected:",
        "noise scale",
        "95% interval",
        "cannot pay",
        "the ledger verifies",
        "intact",
    ):
        assert part in ran.output
    text = Path("report.html").read_text()
    checked(text)
    assert text.count("<article>") == 14  # a dozen questions and two stories of error
    for part in (
        "cannot pay",
        "the whole certificate",
        "household of 4",
        "suppression",
        "dev dataset",
    ):
        assert part in text
    assert list(Path(tmp_path).iterdir()) == [Path(tmp_path) / "report.html"]


def test_the_invented_clinic_is_skewed_broken_and_correlated(tmp_path):
    import csv

    write_clinic(tmp_path, 3000)
    visits = list(csv.DictReader((tmp_path / "visits.csv").open()))
    patients = list(csv.DictReader((tmp_path / "patients.csv").open()))
    costs = [float(row["cost"]) for row in visits if row["cost"] not in ("", "n/a")]
    assert len(patients) == 3000 and max(costs) > 5000  # outliers beyond the tariff
    assert any(row["cost"] == "n/a" for row in visits) and any(
        row["smoker"] == "" for row in patients
    )
    often = {}
    for row in visits:
        often[row["patient_id"]] = often.get(row["patient_id"], 0) + 1
    assert max(often.values()) > 10  # far beyond the limit of five
    counties = sorted(
        (sum(row["county"] == name for row in patients) for name in ("ash", "oak")), reverse=True
    )
    assert counties[0] > 5 * counties[1]
    old = [
        often.get(row["patient_id"], 0)
        for row in patients
        if row["age"].isdigit() and 70 <= int(row["age"]) < 110
    ]
    young = [
        often.get(row["patient_id"], 0)
        for row in patients
        if row["age"].isdigit() and int(row["age"]) < 25
    ]
    assert F(sum(old), len(old)) > F(
        sum(young), len(young)
    )  # 2.3 against 0.9 on average, hundreds of people each
