"""Tables in narrow and wide terminals, and in notebooks."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from dither import connect
from dither.pages.notebook import CELL_STYLE
from dither.publish.shown_table import ShownTable
from tests.case_lists import mark_between
from tests.datasets import clinic

TABLE = ShownTable(
    ("release", "asked", "paid"),
    (("4a3d1921f22cd34c", "count by ward", "1,000.5 … 2,000.5"), ("b" * 16, "sum", "7 … 8")),
    frozenset({2}),
)
QUESTION = "SELECT ward, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY ward"


def render(shown, width: int) -> str:
    page = io.StringIO()
    Console(file=page, width=width, color_system=None).print(shown)
    return page.getvalue()


@pytest.mark.parametrize("width", [24, 30, 50, 120])
def test_no_word_and_no_number_is_broken_where_it_fits(width):
    text = render(TABLE, width)
    assert max(map(len, text.splitlines())) <= width
    if width >= 30:
        assert "4a3d1921f22cd34c" in text and "1,000.5 … 2,000.5" in text


def test_wide_terminals_have_columns_and_narrow_ones_a_fact_a_line():
    assert any("release" in line and "paid" in line for line in render(TABLE, 120).splitlines())
    lines = render(TABLE, 40).splitlines()
    assert not any("release" in line and "paid" in line for line in lines)
    assert sum(line.startswith("release") for line in lines) == 2


def test_markup_in_a_cell_is_text():
    hostile = ShownTable(("[red]a",), (("<b>[/]\x1b[31m",),))
    assert "[red]a" in render(hostile, 80) and "\x1b" not in render(hostile, 80)
    assert "<b>" not in hostile.write_html() and "&lt;b&gt;" in hostile.write_html()


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """Everything that a connection shows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("heads")))
        file, state = clinic.register(tmp_path_factory.mktemp("s") / "c", [clinic.row("1", "1")])
        clinic.open_total(state)
        con = connect(file)
        yield {
            "answer": con.sql(QUESTION, epsilon=1),
            "preview": con.preview(QUESTION, epsilon=1),
            "explanation": con.explain(QUESTION, epsilon=1),
            "budget": con.budget(),
            "history": con.history(),
            "tables": con.tables,
            "description": con.describe("visits"),
        }


NAMES = ("answer", "preview", "explanation", "budget", "history", "tables", "description")


@pytest.mark.parametrize("name", mark_between(NAMES, step=3))
def test_at_fifty_columns_every_number_stays_whole(shown, name):
    text = render(shown[name], 50)
    assert max(map(len, text.splitlines())) <= 50
    assert not any(line.startswith(("┏┳", "┃┃")) for line in text.splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_shows_a_table_in_its_own_colours(shown, name):
    markup = shown[name]._repr_html_()
    assert "<table>" in markup and "<script" not in markup and "http" not in markup
    assert CELL_STYLE in markup


@pytest.mark.parametrize("name", NAMES)
def test_a_prompt_shows_the_same_as_print(shown, name):
    assert repr(shown[name]) == str(shown[name]) and "object at 0x" not in repr(shown[name])


def test_the_style_sets_no_colour_of_its_own():
    """Light and dark: colours come from the notebook around the cell."""
    assert not re.search(r"#[0-9a-f]{3}|\brgba?\(", CELL_STYLE)
    assert all("none" in part for part in CELL_STYLE.split("background:")[1:])
