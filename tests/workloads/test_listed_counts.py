"""Lists of counts in SQL with conditions of their own: sums of cells, planned together."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dither.errors import DitherError
from dither.plan.algebra import And, Cells, Compare, Count, Filter, IsNull, Not, Or, Scan
from dither.plan.domain import Domain
from dither.workloads.listed_counts import ListedProduct, find_truth, list_products
from tests.workloads.conftest import Survey

CONDITIONS: dict[str, Any] = {
    "age < 5": lambda s: s.age < 5,
    "age BETWEEN 2 AND 9 AND sex = 'f'": lambda s: (s.age >= 2) & (s.age <= 9) & (s.sex == 0),
    "sex IN ('f', 'm')": lambda s: s.age >= 0,
    "area IS NULL": lambda s: s.area == 3,
    "area <> 'north'": lambda s: (s.area != 0) & (s.area != 3),
    "NOT (age = 3 OR area = 'north')": lambda s: ~((s.age == 3) | (s.area == 0)) & (s.area != 3),
    "age > 2.5 AND area = 'east' OR sex = 'm'": lambda s: (
        (s.age > 2) & (s.area == 1) | (s.sex == 1)
    ),
}


def write(condition: str) -> str:
    return f"SELECT COUNT(*) AS n FROM survey WHERE {condition}"


@pytest.mark.parametrize("rule", ["pure", "zcdp"])
def test_every_condition_counts_what_it_says(survey: Survey, rule: str) -> None:
    """Against the true rows, at so high a price that the noise is below 1/2."""
    con = survey.connect(rule)
    questions = [*map(write, CONDITIONS), "SELECT COUNT(*) AS n FROM survey"]
    price: dict[str, Any] = {"epsilon": 2000} if rule == "pure" else {"rho": 20_000}
    asked = con.workload(questions, **price)
    preview = asked.preview()
    assert survey.read_spent() == 0 and preview.gap >= 1
    result = asked.answer()
    for text, count in zip(questions, [*CONDITIONS.values(), lambda s: s.age >= 0], strict=True):
        assert result.table(text)["n"].to_pylist() == pytest.approx([count(survey).sum()], abs=1)


def test_keys_and_conditions_go_together(survey: Survey) -> None:
    con = survey.connect("pure")
    by_area = "SELECT area, COUNT(*) AS n FROM survey WHERE age < 5 GROUP BY area"
    by_age = "SELECT age, sex, COUNT(*) AS n FROM survey WHERE age < 3 GROUP BY age, sex"
    result = con.workload([by_area, by_age], epsilon=3000).answer()
    rows = result.table(by_area).to_pylist()
    assert [row["area"] for row in rows] == ["north", "east", "south", None]
    for code, row in enumerate(rows):
        assert row["n"] == pytest.approx(((survey.area == code) & (survey.age < 5)).sum(), abs=1)
    table = result.table(by_age).to_pydict()
    assert table["age"] == [0, 0, 1, 1, 2, 2] and table["sex"] == ["f", "m"] * 3
    assert len(result.tables) == 2 and not result.biased


def test_errors_are_no_larger_than_those_of_the_counts_by_themselves(survey: Survey) -> None:
    """Nested conditions: planned together they err less than measured as they are."""
    con = survey.connect("zcdp")
    nested = [write(f"age < {bound}") for bound in range(1, 16)]
    preview = con.workload(nested, rho="0.1").preview()
    assert preview.strategy == "optimum by fixed point"
    assert any("the counts as they are" in reason for reason in preview.reasons)
    deviations = np.concatenate([preview.list_errors(row.product) for row in preview.products])
    assert preview.root_mean_squared_error == pytest.approx((deviations**2).mean() ** 0.5)
    alone = (2**2 * 15 / (2 * 0.1)) ** 0.5  # fifteen counts, two rows of a person
    assert preview.lower_bound <= preview.root_mean_squared_error < alone


def test_intervals_hold_at_a_small_price(survey: Survey) -> None:
    """Thirty counts of one release; each misses with 1e-11."""
    con = survey.connect("zcdp")
    bounds = range(1, 16)
    questions = [write(f"age < {bound} AND sex = '{sex}'") for bound in bounds for sex in "fm"]
    result = con.workload(questions, rho="0.01", confidence="0.99999999999").answer()
    for text, (bound, sex) in zip(
        questions, [(bound, sex) for bound in bounds for sex in (0, 1)], strict=True
    ):
        ((_, low, high),) = zip(*result.table(text).to_pydict().values(), strict=True)
        assert low <= ((survey.age < bound) & (survey.sex == sex)).sum() <= high


def test_they_are_answered_from_earlier_releases_and_certified(survey: Survey) -> None:
    from dither.workloads import identity

    con = survey.connect("pure")
    con.workload(identity("age", "sex"), table="survey", epsilon=1).answer()
    asked = con.workload([write("age < 5"), write("sex = 'f'")], epsilon="0.01")
    assert asked.preview().earlier is not None
    result = asked.answer()
    assert result.info["sources"] and survey.read_spent() == 1
    assert any("age < 5" in step for step in result.certificate()["body"]["post_processing"])


@pytest.mark.parametrize(
    "questions",
    [
        [write("age < 5"), write("age + 1 < 4")],
        [write("age < 5"), write("code < 7")],
        [write("age < 5"), "SELECT SUM(cost) AS n FROM survey"],
        [write("age < 5"), write("age < 5 GROUP BY sex HAVING COUNT(*) > 2")],
        [write("age < 5"), "SELECT COUNT(DISTINCT person) AS n FROM survey"],
        [write("age < 5"), write("age < 0")],
        [
            write("age < 5"),
            "SELECT age, cost, area, sex, COUNT(*) AS n FROM survey GROUP BY 1,2,3,4",
        ],
        ["SELECT COUNT(*) FROM nothing", write("age < 5")],
        [],
        [3, write("age < 5")],
    ],
    ids=range(10),
)
def test_bad_lists_are_refused_before_anything_is_spent(survey: Survey, questions: Any) -> None:
    con = survey.connect("pure")
    with pytest.raises(DitherError):
        con.workload(questions, epsilon=1).answer()
    assert survey.read_spent() == 0


def test_cells_are_chosen_by_three_values_of_truth() -> None:
    """NULL is unknown: neither the condition nor its opposite chooses it."""
    domains = {
        "a": Domain("number", True, 0, 2),
        "b": Domain("category", False, 0, 1, labels=("x", "y")),
    }
    codes = {name: axis.ravel() for name, axis in zip("ab", np.indices((4, 2)), strict=True)}
    high = Compare("a", ">", Fraction(0))
    named = Compare("b", "=", "x")
    for condition, expected in (
        (high, [0, 0, 1, 1, 1, 1, 0, 0]),
        (Not(high), [1, 1, 0, 0, 0, 0, 0, 0]),
        (IsNull("a"), [0, 0, 0, 0, 0, 0, 1, 1]),
        (Or((high, named)), [1, 0, 1, 1, 1, 1, 1, 0]),
        (Not(Or((high, named))), [0, 1, 0, 0, 0, 0, 0, 0]),
        (Not(And((high, named))), [1, 1, 0, 1, 0, 1, 0, 1]),
    ):
        is_true, _ = find_truth(condition, codes, domains, 8)
        assert is_true.astype(int).tolist() == expected
    query = Cells(Filter(Scan("t"), high), ("b",), (Count(),))
    (product,) = list_products([("q", query)], domains)
    assert isinstance(product, ListedProduct) and product.labels == (("x",), ("y",))
