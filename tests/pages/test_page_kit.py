"""The page kit: markup is written at one place, and nothing gets into a page unescaped."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from dither.pages.charts import ChartPoint, draw_dots, draw_meter, draw_signed_bar
from dither.pages.html import Html, join, join_lines, write_details, write_element, write_list
from dither.pages.page import PageSection, write_card, write_page
from dither.pages.plots import Axis, ChartLine, draw_curves, draw_lengths
from dither.pages.tables import Cell, TableRow, write_facts, write_table

SOURCE = Path(__file__).parents[2] / "src" / "dither"
HOSTILE = "<script>'\"&\u202e"
PARTS = {
    "element": write_element("p", HOSTILE, title=HOSTILE),
    "list": write_list([HOSTILE]),
    "lines": join_lines([HOSTILE, HOSTILE]),
    "details": write_details(HOSTILE, HOSTILE),
    "card": write_card(HOSTILE, HOSTILE),
    "table": write_table([HOSTILE], [[HOSTILE], TableRow([Cell(HOSTILE, "bad")], [HOSTILE])]),
    "facts": write_facts([(HOSTILE, HOSTILE)]),
    "dots": draw_dots([ChartPoint(HOSTILE, 1.0, 0.0, 2.0, 1.5)], HOSTILE),
    "meter": draw_meter([(HOSTILE, 1.0)], 2.0, 3.0, HOSTILE),
    "curves": draw_curves(
        [ChartLine([(0.0, 1.0)], "shown")], Axis(HOSTILE, 1.0), Axis(HOSTILE, 1.0), HOSTILE
    ),
    "lengths": draw_lengths([(HOSTILE, 1.0, "claim")], 2.0, HOSTILE),
    "page": write_page(
        HOSTILE,
        [PageSection(HOSTILE, write_list([HOSTILE]), "a")],
        lead=write_element("p", HOSTILE),
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_no_part_lets_markup_through(name: str) -> None:
    text = PARTS[name]
    assert "<script" not in text and "\u202e" not in text
    assert "&lt;script&gt;&#x27;&quot;&amp;\\u202e" in text


def test_markup_is_lost_by_formatting_and_so_escaped() -> None:
    """An f-string or a sum is a plain text: a forgotten escape shows tags to the reader, and obeys
    none."""
    bold = write_element("b", "x")
    assert join([bold]) == "<b>x</b>" and isinstance(bold, Html)
    assert join([f"{bold}"]) == join([bold + ""]) == "&lt;b&gt;x&lt;/b&gt;"


def test_sections_without_a_body_are_left_out_and_those_with_an_anchor_are_linked() -> None:
    page = write_page(
        "t",
        [
            PageSection("kept", Html("x"), "k"),
            PageSection("empty", Html()),
            PageSection("y", Html("y")),
        ],
    )
    assert "<a href='#k'>kept</a>" in page and "<section id='k'>" in page
    assert "empty" not in page and page.count("<a ") == 1 and "<section><h2>y</h2>" in page


@pytest.mark.parametrize(
    "chart",
    [
        draw_dots([ChartPoint("a", 1.0, 0.0, 2.0)], "name"),
        draw_meter([("a", 1.0)], 2.0, 3.0, "spent 1"),
        draw_curves([], Axis("x", 1.0), Axis("y", 1.0), "note"),
        draw_lengths([("a", 1.0, "claim")], 2.0, "note"),
    ],
)
def test_every_chart_has_a_text_alternative(chart: Html) -> None:
    assert "role='img'" in chart and ("aria-label='" in chart or "<title>note</title>" in chart)


def test_a_bar_beside_its_number_is_hidden_from_those_who_listen() -> None:
    assert "aria-hidden='true'" in draw_signed_bar(0.5)


def test_tables_scroll_in_a_box_of_their_own() -> None:
    assert write_table(["a"], [["b"]]).startswith("<div class='wide'><table>")


def test_markup_is_written_in_the_page_kit_alone() -> None:
    """Other modules list sections; if one wrote a tag, it would have to remember escaping too."""
    files = [file for file in SOURCE.rglob("*.py") if file.parent.name != "pages"]
    assert len(files) > 300
    tags = [
        f"{file.relative_to(SOURCE)}:{node.lineno}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and re.search(r"</[a-z]|<br", str(node.value))
    ]
    assert tags == []
