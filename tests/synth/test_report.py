"""The page about a synthetic table: sections, errors, and labels that mean nothing as markup."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from html.parser import HTMLParser

import numpy as np

from dither.synth.columns import SynthColumn
from dither.synth.estimate import Measurement
from dither.synth.fitted import FittedTable
from dither.synth.groupings import ValueGrouping, keep_all
from dither.synth.model import GraphicalModel
from dither.synth.steps import ReleasedStep
from dither.synth.synthetic import Synthetic

HOSTILE = "<script>alert(1)</script>"


def make_synthetic() -> Synthetic:
    """Three columns, of which the first two were measured as a pair."""
    labels = (HOSTILE, "b")
    columns = tuple(
        SynthColumn(name, "category", 2, False, 0, 1, 0, 1, Fraction(1), labels)
        for name in ("first", "second", "third")
    )
    potentials = {(0, 1): np.log([[4.0, 1.0], [1.0, 4.0]]), (2,): np.zeros(2)}
    model = GraphicalModel((2, 2, 2), 100.0, potentials)
    singles = tuple(model.find_marginal((a,)) for a in range(3))
    steps = (
        ReleasedStep("counts", ("third",), 2, 0.1, 3.0),
        ReleasedStep("choice", ("first", "second"), 3, 0.05, 0.0),
        ReleasedStep("counts", ("first", "second"), 4, 0.1, 2.0),
    )
    facts = {"table": "people", "dataset": "d", "version": 1, "method": "aim", "price": "epsilon 1"}
    measured = (Measurement((0, 1), model.find_marginal((0, 1)), np.full((2, 2), 4.0)),)
    fitted = FittedTable(model, (keep_all(2),) * 3, singles, measured, {(0, 2): 30.0})
    return Synthetic(columns, fitted, steps, facts)


class Tags(HTMLParser):
    """The tags and headings of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_has_every_section_and_no_script() -> None:
    page = make_synthetic().report()
    reader = Tags()
    reader.feed(page)
    assert "script" not in reader.tags and "svg" in reader.tags
    for title in (
        "What it is",
        "Columns",
        "Expected error",
        "What depends on what",
        "What was released",
        "What it may be used for",
        "What is private about it",
    ):
        assert title in reader.texts
    assert HOSTILE in reader.texts  # shown as text
    assert any("is no guarantee" in text for text in reader.texts)
    assert any("Strongest: first and second: 0.30" in text for text in reader.texts)


def test_errors_come_from_what_was_measured_and_are_unknown_elsewhere() -> None:
    """sqrt(2/pi) * 2 rows in each of 4 cells, half of it as a share of 100 rows."""
    errors = {error.columns: error.distance for error in make_synthetic().predict_errors()}
    pair = np.sqrt(2 / np.pi) * 2 * 4 / 200
    np.testing.assert_allclose(errors["first", "second"], pair)
    np.testing.assert_allclose(errors[("first",)], pair)
    np.testing.assert_allclose(errors[("third",)], np.sqrt(2 / np.pi) * 3 * 2 / 200)
    assert errors["first", "third"] is None and errors["second", "third"] is None
    page = make_synthetic().report()
    assert "2 pairs were not measured" in page
    bounds = {error.columns: error.at_most for error in make_synthetic().predict_errors()}
    assert bounds["first", "third"] == 0.15 and bounds["second", "third"] is None  # 30 of 200
    assert "first, third" in page and "15%" in page and "not known" in page
    assert "people: counts of the columns first, second, third. Noise alone" in page
    assert "people: counts of the pairs of columns first with second. Noise alone" in page


def test_the_error_of_a_count_adds_up_the_cells_that_enter_it() -> None:
    """Independent noise: one cell of four, two of them, one of the two of a single column, and half
    of a group of two alike values in a pair."""
    synthetic = make_synthetic()
    assert synthetic.count({"first": ["b"], "second": ["b"]}).error == 2.0
    np.testing.assert_allclose(synthetic.count({"first": ["b"]}).error, 2 * np.sqrt(2))
    assert synthetic.count({"third": ["b"]}).error == 3.0
    assert synthetic.count({"first": ["b"], "third": ["b"]}).error is None
    grouped = GraphicalModel((1, 2, 2), 100.0, {(0, 1): np.zeros((1, 2)), (2,): np.zeros(2)})
    groupings = (ValueGrouping((0, 0)), keep_all(2), keep_all(2))
    singles = (np.array([50.0, 50.0]),) * 3
    counts = Measurement((0, 1), np.full((1, 2), 50.0), np.full((1, 2), 4.0))
    wide = replace(synthetic, fitted=FittedTable(grouped, groupings, singles, (counts,)))
    assert wide.count({"first": ["b"], "second": ["b"]}).error == 1.0


def test_columns_that_noise_moves_much_are_named_as_such() -> None:
    """Twenty rows in each of 2 cells, sqrt(2/pi) of it on average: 16 of 100 rows."""
    synthetic = make_synthetic()
    steps = (replace(synthetic.released[0], error=20.0), *synthetic.released[1:])
    page = replace(synthetic, released=steps).report()
    assert "people: counts of single values of third (16%), where noise puts so many" in page
