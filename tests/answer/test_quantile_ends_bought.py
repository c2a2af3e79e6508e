"""Ends of quantiles are bought where a column can use them, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import pytest

from dither.answer.choose_mechanism import choose_mechanisms
from dither.answer.interval_notes import NO_INTERVAL
from dither.answer.quantile_intervals import Ends, add_quantile_ends, read_quantile_grids
from dither.privacy.kernel.request import Price
from dither.question.expressions import Noisy
from dither.question.recipe import Output
from tests.answer import asked, handmade
from tests.answer.handmade import apply, number
from tests.datasets import clinic

MEDIAN, NINTH, COUNT = map(Noisy, range(3))
LARGE = apply("gt", MEDIAN, number(30))
UNUSABLE = {
    "least of two": apply("least", MEDIAN, NINTH),
    "difference": apply("subtract", NINTH, MEDIAN),
    "product with a count": apply("multiply", MEDIAN, COUNT),
    "ratio to a count": apply("divide", MEDIAN, COUNT),
    "noisy power": apply("power", MEDIAN, COUNT),
    "chosen difference": apply(
        "case", apply("gt", COUNT, number(1)), apply("subtract", NINTH, MEDIAN)
    ),
}
USED = {
    "quantile": MEDIAN,
    "affine": apply("add", apply("multiply", number(-2), NINTH), number(5)),
    "square": apply("power", MEDIAN, number(2)),
    "rounded": apply("round", MEDIAN, number(-1)),
    "comparison": LARGE,
    "one of two": apply("case", apply("gt", COUNT, number(1)), MEDIAN, NINTH),
}


@pytest.fixture
def kernel(tmp_path):
    rows = [clinic.row(f"v{i}", f"p{i}", age=str(i % 90)) for i in range(50)]
    with handmade.kernel(tmp_path, rows) as opened:
        yield opened


def recipe_of(*formulas):
    outputs = tuple(Output(f"x{i}", formula, "value") for i, formula in enumerate(formulas))
    return replace(handmade.median(F(1, 2), F(9, 10)), outputs=outputs)


def price(kernel, recipe, ends):
    return choose_mechanisms(kernel, kernel.view("total"), recipe, Price(F(4)), "total", {}, ends)


def test_ends_that_no_column_can_use_are_not_bought(kernel):
    for name, formula in UNUSABLE.items():
        recipe = recipe_of(formula)
        bought = price(kernel, recipe, Ends(F(95, 100)))
        assert bought.bands.ends == (), name
        assert bought.priced.key == price(kernel, recipe, None).priced.key, name


def test_questions_that_use_ends_are_asked_as_before(kernel):
    for name, formula in USED.items():
        recipe = recipe_of(formula)
        bought = price(kernel, recipe, Ends(F(95, 100)))
        plain = read_quantile_grids(recipe, kernel.version.analyses)
        level = F(975, 1000) if name == "one of two" else F(95, 100)
        assert bought.recipe == add_quantile_ends(recipe, plain, Ends(level))[0], name
        assert bought.bands.ends, name


def test_a_lower_level_can_use_the_ends_of_two_quantiles(kernel):
    """At 90 % each of two needs 95 %, which is what is bought."""
    recipe = recipe_of(UNUSABLE["least of two"])
    assert price(kernel, recipe, Ends(F(9, 10))).bands.ends
    assert not price(kernel, recipe, Ends(F(91, 100))).bands.ends


SQL = {
    "LEAST(MEDIAN(age), QUANTILE(age, 0.9))": False,
    "QUANTILE(age, 0.9) - MEDIAN(age)": False,
    "MEDIAN(age) * COUNT(*)": False,
    "POWER(COUNT(*), COUNT(*))": False,
    "POWER(MEDIAN(age), 2)": True,
    "MEDIAN(age)": True,
}


def test_previews_and_results_say_the_same_of_intervals(tmp_path):
    con = asked.connection(tmp_path / "c", rows=asked.few_rows(40))
    for expression, has_ends in SQL.items():
        sql = f"SELECT {expression} AS m FROM patients"
        previewed = con.preview(sql, epsilon=1).column("m").notes
        result = con.sql(sql, epsilon=1)
        table = result.to_dict()
        assert (None not in (table["m_low"][0], table["m_high"][0])) == has_ends, expression
        notes = next(each.notes for each in result.columns if each.name == "m")
        assert (NO_INTERVAL in previewed) == (NO_INTERVAL in notes) == (not has_ends), expression
        assert any("two more private quantiles" in note for note in previewed) == has_ends, (
            expression
        )
