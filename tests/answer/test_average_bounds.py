"""Public bounds of averages: which columns have them, and that they hold on every table."""

from __future__ import annotations

from fractions import Fraction as F
from itertools import product

import pytest

from dither import connect
from dither.answer.average_bounds import find_average_bounds
from tests.datasets import clinic


@pytest.fixture(scope="module")
def con(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("heads")))
        file, state = clinic.register(tmp_path_factory.mktemp("b") / "c", [clinic.row("1", "1")])
        clinic.open_total(state)
        yield connect(file)


def bounds(con, expression, condition=""):
    recipe = con.bind(f"SELECT {expression} AS m FROM visits {condition}")
    (output,) = recipe.outputs
    return find_average_bounds(output.formula, recipe, con._kernel.version.analyses)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("AVG(cost)", (-10, 500)),
        ("AVG(age)", (0, 110)),
        ("AVG(score)", (-5, 5)),
        ("AVG(weight)", (0, 300)),
        ("AVG(2 * age)", (0, 220)),
        ("AVG(CASE WHEN urgent THEN 1 ELSE 0 END)", (0, 1)),
        ("SUM(score) / COUNT(score)", (-5, 5)),
    ],
)
def test_an_average_has_the_bounds_of_its_values(con, expression, expected):
    """From the catalog of the clinic."""
    assert bounds(con, expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "COUNT(*)",
        "SUM(cost)",
        "SUM(age) / COUNT(score)",
        "2 * AVG(age)",
        "MEDIAN(age)",
        "STDDEV(age)",
    ],
)
def test_other_columns_have_none(con, expression):
    """SUM(age) / COUNT(score) is no average: the scores may be fewer than the ages."""
    assert bounds(con, expression) is None


def test_a_sum_of_values_that_may_be_missing_over_all_rows_includes_zero(con):
    """SUM(score) over COUNT(*): rows without a score add 0 and count, so means shrink towards 0."""
    rows = [(None, *range(3, 14))] * 3
    means = {F(sum(v or 0 for v in values), 3) for values in product(*rows)}
    assert bounds(con, "SUM(score + 8) / COUNT(*)") == (min(means), max(means)) == (0, 13)


def test_a_filter_that_narrows_the_values_narrows_the_bounds(con):
    assert bounds(con, "AVG(age)", "WHERE age >= 18") == (18, 110)
