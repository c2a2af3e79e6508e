"""Labels are data: on no surface does a text that a person wrote do more than be read."""

from __future__ import annotations

import csv
import io
import json
import sys
import unicodedata

import matplotlib.figure
import pytest
from rich.console import Console
from rich.table import Table

from dither import escape, surfaces
from dither.errors import BudgetError, CatalogError, DitherError, PrivacyWarning, QueryError

HOSTILE = (
    *("\x1b[2J\x1b]0;owned\x07", "\x9b31m", "\x7f", "a\rb", "a\nb", "a\tb", "a\u2028b", "a\u0085b"),
    *("\u202eevil", "\u2066x\u2069", "\u200f", "\u061c", "\ufeff", "\xad", "\U000e0041", "\ud800"),
    *("[bold]x[/bold]", "[link=x]y[/link]", "[/]", "\\", ":warning:", "<script>alert(1)</script>"),
    *("=1+1", "+1", "-1", "@x", "\t=1", " =1", "$x$", "\\$x\\$", "%s {0}", "'\"&"),
)


def is_harmless(text: str) -> bool:
    """Whether every character is seen and stays where it is."""
    return all(unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for c in text)


@pytest.mark.parametrize("label", HOSTILE, ids=ascii)
class TestEverySurface:
    def test_a_label_stays_on_its_line(self, label):
        assert is_harmless(surfaces.escape_label(label))

    def test_lines_keep_line_feeds_and_tabs_alone(self, label):
        assert is_harmless(surfaces.escape_lines(label).replace("\n", "").replace("\t", ""))

    def test_rich_shows_the_label_itself(self, label):
        page = io.StringIO()
        table = Table("k", show_edge=False)
        table.add_row(surfaces.make_rich_cell(label))
        console = Console(file=page, width=300, force_terminal=True, color_system="truecolor")
        console.print(table)
        console.print(surfaces.make_rich_text(label), soft_wrap=True)
        *_, cell, _ = page.getvalue().split("\n", 3)[:4]
        assert cell.strip() == surfaces.escape_label(label).strip()

    def test_html_holds_no_markup(self, label):
        shown = surfaces.escape_html(label)
        assert not set("<>\"'") & set(shown)
        assert is_harmless(shown.replace("\n", "").replace("\t", ""))

    def test_a_spreadsheet_computes_nothing(self, label):
        cell = surfaces.escape_csv(label)
        assert is_harmless(cell)
        assert cell.lstrip(" ")[:1] not in ("=", "+", "-", "@")
        line = io.StringIO()
        csv.writer(line).writerow([cell, 1])
        assert next(csv.reader([line.getvalue()])) == [cell, "1"]

    def test_json_is_harmless_and_exact(self, label):
        document = json.dumps({"k": [label]}, ensure_ascii=False, indent=2)
        shown = surfaces.escape_json(document)
        assert is_harmless(shown.replace("\n", ""))
        assert json.loads(shown) == {"k": [label]}

    def test_matplotlib_draws_the_label_as_it_is(self, label):
        figure = matplotlib.figure.Figure()
        shown = surfaces.escape_label(label)
        text = figure.text(0, 0, shown, **surfaces.PLOT_TEXT)
        assert text._preprocess_math(shown) == (shown, False)

    @pytest.mark.parametrize(
        "kind", [DitherError, BudgetError, QueryError, CatalogError, PrivacyWarning]
    )
    def test_errors_that_quote_a_text_are_harmless_and_keep_it(self, label, kind):
        error = kind(f"no column {label}")
        assert is_harmless(str(error).replace("\n", "").replace("\t", ""))
        assert label in error.args[0]


def test_ordinary_texts_of_all_scripts_are_left_alone():
    """Among them joiners: Persian and Indic spelling, and families of emoji, need them."""
    texts = (
        "Zürich, 3. Bezirk",
        "می\u200cخواهم",
        "क्\u200dष",
        "👩\u200d👩\u200d👧",
        "a\\b [x] 5 < 6",
        "日本",
        "",
    )
    for text in texts:
        assert surfaces.escape_label(text) == text
        assert surfaces.escape_lines(f"{text}\n") == f"{text}\n"
        assert surfaces.escape_csv(text) == text
        assert surfaces.escape_json(json.dumps(text, ensure_ascii=False)) == json.dumps(
            text, ensure_ascii=False
        )


def test_every_hidden_character_is_spelt_and_no_other_but_joiners():
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if not is_harmless(character):
            is_spelt = escape.is_hidden(character)
            assert is_spelt != (character in "\u200c\u200d"), hex(code)
