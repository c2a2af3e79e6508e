"""Charts of results: by altair, else by matplotlib, else by our own HTML; all show the same."""

from __future__ import annotations

import json
import math
import sys
from types import SimpleNamespace

import pytest

from dither import connect
from dither.answer.plot import Bars, HtmlChart, make_bars, write_vega
from dither.pages.charts import ChartPoint
from tests.datasets import clinic

COUNTS = "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward"
LIMIT = "at most 3 rows per person"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("heads")))
        rows = [clinic.row(f"v{i}", f"p{i}") for i in range(9)]
        file, state = clinic.register(tmp_path_factory.mktemp("plot") / "clinic", rows)
        clinic.open_total(state)
        yield connect(file).sql(COUNTS, epsilon=1, dry_run=True)


@pytest.fixture
def without_libraries(monkeypatch):
    for name in ("altair", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def altair(monkeypatch):
    """A stand-in that keeps the document it is handed, as `altair.Chart.from_dict` would."""
    chart = SimpleNamespace(from_dict=lambda document: SimpleNamespace(document=document))
    monkeypatch.setitem(sys.modules, "altair", SimpleNamespace(Chart=chart))


class TestChoice:
    def test_altair_comes_first(self, result, altair):
        assert result.plot().document == write_vega(make_bars(result))

    def test_axes_that_are_given_are_drawn_on(self, result, altair):
        pyplot = pytest.importorskip("matplotlib.pyplot")
        figure, axes = pyplot.subplots()
        assert result.plot(ax=axes) is axes and len(axes.patches) == result.table.num_rows
        pyplot.close(figure)

    def test_matplotlib_comes_second(self, result, monkeypatch):
        pyplot = pytest.importorskip("matplotlib.pyplot")
        monkeypatch.setitem(sys.modules, "altair", None)
        axes = result.plot()
        assert len(axes.patches) == result.table.num_rows and LIMIT in axes.get_xlabel()
        pyplot.close(axes.figure)

    def test_our_own_needs_nothing(self, result, without_libraries, tmp_path):
        chart = result.plot()
        assert isinstance(chart, HtmlChart)
        assert chart._repr_html_().count("<circle") == result.table.num_rows
        assert LIMIT in chart.html and "95% intervals" in chart.html
        chart.save(tmp_path / "chart.html")
        assert chart.html in (tmp_path / "chart.html").read_text(encoding="utf-8")

    def test_a_grouped_answer_is_drawn_in_a_notebook(self, result, without_libraries):
        """By default, and without a library."""
        assert result._repr_html_().count("<circle") == result.table.num_rows


class TestVega:
    def test_every_row_has_its_value_and_interval(self, result):
        document = write_vega(make_bars(result))
        table = result.to_dict()
        rows = document["data"]["values"]
        for name, field in (("n", "value"), ("n_low", "low"), ("n_high", "high")):
            assert [row[field] for row in rows] == [float(number) for number in table[name]]
        assert [row["label"] for row in rows] == [str(ward) for ward in table["ward"]]

    def test_the_title_has_level_limit_and_rehearsal(self, result):
        titles = [
            layer["encoding"]["x"]["title"] for layer in write_vega(make_bars(result))["layer"]
        ]
        for lines in titles:
            assert lines[0] == "n (95% intervals)"
            assert any(LIMIT in line for line in lines)
            assert any("about nobody" in line for line in lines)

    def test_labels_are_data_and_nothing_else(self):
        """No label becomes a formula, the name of a field or a link."""
        hostile = "datum.x + 1; {{href}} $x$"
        bars = Bars("n", "n", (ChartPoint(hostile, 1.0, 0.0, 2.0),), ())
        document = write_vega(bars)
        assert hostile not in json.dumps(document["layer"])
        assert document["data"]["values"][0]["label"] == hostile

    def test_equal_labels_stay_apart_and_nulls_are_left_out(self):
        points = (
            ChartPoint("a", 1.0, None, 2.0),
            ChartPoint("a", 3.0, 2.0, None),
            ChartPoint("b", math.nan),
        )
        rows = write_vega(Bars("n", "n", points, ()))["data"]["values"]
        assert rows == [
            {"label": "a", "value": 1.0, "low": 1.0, "high": 2.0},
            {"label": "a (2)", "value": 3.0, "low": 2.0, "high": 3.0},
        ]
