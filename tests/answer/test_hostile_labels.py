"""A label that one person wrote, and a name that an analyst chose, on every surface of an
answer."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import dither
from dither import steward
from dither.answer.plot import plot
from dither.catalog import guarantee, load
from dither.cli.main import app
from dither.errors import DitherError
from dither.local import dashboard, plots
from dither.local.direct import Direct
from dither.pages.charts import ChartPoint, draw_dots, draw_meter
from tests.case_lists import mark_between
from tests.datasets import clinic

matplotlib.use("Agg")
LABEL = "=evil\x1b[2J\u202e[bold]:warning:<script>$x_1$\x9b"
SHOWN = "=evil\\x1b[2J\\u202e[bold]:warning:<script>$x_1$\\x9b"
NAME = "n\x1b]0;x\x07[red]<i>$y$"
CATALOG = clinic.CATALOG.replace(
    "{type: category, values: [north, south], other: keep, nulls: keep}",
    "{type: category, values: undeclared, width: 80, nulls: drop}",
).replace("rows_per_unit: 3", "rows_per_unit: 1")
SQL = f'SELECT ward, COUNT(*) AS "{NAME}" FROM visits GROUP BY ward'


def is_harmless(text: str, kept: str = "\n") -> bool:
    hidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return all(c in kept or unicodedata.category(c) not in hidden for c in text)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory):
    """A dataset in which two hundred people have the hostile label, its connection and an
    answer."""
    folder = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder / "xdg"))
        yield make_answer(folder)


@pytest.fixture
def asked(made, monkeypatch: pytest.MonkeyPatch):
    """The same, with the home of its ledger's head."""
    monkeypatch.setenv("XDG_STATE_HOME", str(made[0].parent / "xdg"))
    return made


def make_answer(folder: Path):
    rows = [clinic.row(f"v{i}", f"p{i}", ward=LABEL) for i in range(200)]
    file, place = clinic.register(folder, rows, CATALOG)
    purpose = clinic.PURPOSE | {"question": f"How [bold]busy[/bold]? {NAME}"}
    steward.open_pot(
        place, load(file), "total", rule="zcdp", rho="20", ceiling="20", delta_conversion="1e-6",
        delta_selection="1e-4", purpose=purpose,
    )  # fmt: skip
    con = dither.connect(file)
    return file, con, con.sql(SQL, rho=5)


class TestResult:
    def test_tables_for_programs_are_exact(self, asked):
        _, _, result = asked
        assert result.to_arrow().column("ward").to_pylist() == [LABEL]
        assert list(result.to_pandas()["ward"]) == [LABEL]
        assert result.to_dict()["ward"] == [LABEL]
        assert NAME in result.to_dict()

    def test_print_and_repr_show_the_label_and_obey_nothing(self, asked):
        _, _, result = asked
        for text in (str(result), repr(result), result.explain()):
            assert is_harmless(text)
        assert SHOWN in str(result)

    def test_a_colourful_terminal_gets_colours_of_ours_alone(self, asked):
        _, con, result = asked
        for shown in (
            result,
            con.preview(SQL, rho=1),
            con.explain(SQL, rho=1),
            con.history(),
            con.budget(),
        ):
            page = io.StringIO()
            terminal = {"force_terminal": True, "color_system": "truecolor", "width": 250}
            Console(file=page, **terminal).print(shown)
            text = page.getvalue()
            assert "\x1b[2J" not in text and "\x1b]0" not in text and "\x9b" not in text
            assert "\u202e" not in text and "\u26a0" not in text  # the sign that :warning: names

    def test_notebooks_get_text(self, asked):
        _, con, result = asked
        shown = (
            result,
            con.preview(SQL, rho=1),
            con.explain(SQL, rho=1),
            con.history(),
            con.budget(),
        )
        for html in (each._repr_html_() for each in shown):
            assert is_harmless(html)
            assert "<script" not in html and "<i>" not in html
        assert "=evil\\x1b[2J\\u202e[bold]" in result._repr_html_()

    def test_a_plot_holds_no_formula(self, asked):
        _, _, result = asked
        axes = plot(result)
        texts = [*axes.get_yticklabels(), axes.xaxis.label]
        assert axes.get_yticklabels()[0].get_text() == SHOWN
        for text in texts:
            assert is_harmless(text.get_text())
            assert not text.get_parse_math() and not text.get_usetex()

    def test_the_opening_is_harmless_and_exact(self, asked, tmp_path):
        _, _, result = asked
        result.opening(tmp_path / "opening.json")
        text = (tmp_path / "opening.json").read_text(encoding="utf-8")
        assert is_harmless(text)
        assert json.loads(text)["columns"]["ward"] == [LABEL]


class TestCommandLine:
    @pytest.mark.parametrize("form", ["table", "csv", "json"])
    def test_no_format_lets_a_label_through(self, asked, form):
        file, _, _ = asked
        command = ["sql", str(file), SQL, "--rho", "5", "--yes", "--format", form]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert is_harmless(done.output, "\r\n" if form == "csv" else "\n")
        if form == "json":
            assert json.loads(done.output)["columns"]["ward"] == [LABEL]
        if form == "csv":
            head, row = csv.reader(io.StringIO(done.stdout))
            assert row[0] == f"'{SHOWN}"
            assert head[0] == "ward" and float(row[1])

    @pytest.mark.parametrize(
        "command",
        mark_between(
            ["preview", "budget show", "history", "catalog check", "ledger export"], step=2
        ),
    )
    @pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
    def test_what_the_question_and_the_pot_say_is_shown_harmless(self, asked, command, form):
        file, _, _ = asked
        question = [SQL, "--rho", "1"] if command == "preview" else []
        done = CliRunner().invoke(app, [*command.split(), str(file), *question, *form])
        assert done.exit_code == 0, done.output
        assert is_harmless(done.output)

    def test_the_text_of_a_pot_is_no_markup(self, asked):
        file, con, _ = asked
        done = CliRunner().invoke(app, ["budget", "show", str(file)])
        assert "[bold]busy[/bold]?" in " ".join(done.output.split())
        assert "[bold]busy[/bold]?" in " ".join(str(con.budget()).split())

    def test_a_report_is_harmless(self, asked, tmp_path):
        file, _, _ = asked
        page, statement = tmp_path / "report.html", tmp_path / "statement.md"
        assert CliRunner().invoke(app, ["report", str(file), "--to", str(page)]).exit_code == 0
        assert (
            CliRunner()
            .invoke(app, ["registry", "export", str(file), "--to", str(tmp_path)])
            .exit_code
            == 0
        )
        assert is_harmless(page.read_text()) and is_harmless(statement.read_text())

    def test_a_name_of_a_file_is_no_markup(self, asked, tmp_path):
        file, _, _ = asked
        page = tmp_path / "[bold]x.html"
        done = CliRunner().invoke(app, ["report", str(file), "--to", str(page)])
        assert done.exit_code == 0, done.output
        assert "[bold]x.html" in done.output.replace("\n", "")


def test_errors_quote_the_question_harmless(asked):
    _, con, _ = asked
    for sql in (
        f'SELECT COUNT(*) AS n FROM "{NAME}"',
        f'SELECT SUM("{NAME}") AS s FROM visits',
        f"SELECT '{LABEL}",
    ):
        with pytest.raises(DitherError) as raised:
            con.sql(sql, rho=1)
        assert is_harmless(str(raised.value))


def test_the_guarantee_of_a_catalog_is_harmless(asked, tmp_path):
    file, _, _ = asked
    unprotected = 'visit: {protected: false, because: "they \u202e know"}'
    text = file.read_text().replace("  patient: {pro", f"  {unprotected}\n  patient: {{pro")
    other = Path(tmp_path / "clinic.yaml")
    other.write_text(text)
    assert is_harmless(guarantee(load(other)))


def test_charts_and_dashboards_hold_no_markup():
    pages = [
        draw_dots([ChartPoint(LABEL, 3.0, 1.0, 5.0)], NAME),
        draw_meter([(LABEL, 0.5)], 1.0, 1.0, LABEL),
        dashboard.render(
            NAME, {LABEL: Direct(2, 2).estimate(np.array([60, 40]), 100).named([LABEL, "b"])}
        ),
    ]
    for page in pages:
        assert is_harmless(page)
        assert "<script" not in page and "<i>" not in page
    figure = plots.bars(Direct(2, 2).estimate(np.array([60, 40]), 100).named([LABEL, "b"]))
    assert SHOWN in [text.get_text() for text in figure.axes[0].get_xticklabels()]
