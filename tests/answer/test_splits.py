"""One price, split where it lowers the error most: against a numerical optimiser, and as the asker
says."""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
from scipy.optimize import minimize

from dither import ParameterError
from dither.answer.arrange import arrange_alone
from dither.answer.choose_mechanism import choose_mechanisms, list_families
from dither.answer.split import compute_demands, make_equal_steps, predict_error, weigh_steps
from dither.laws import find_error_law
from dither.plan.algebra import Keys
from dither.plan.norms import Sensitivity
from dither.privacy.kernel.request import Price
from dither.privacy.mechanisms import IntegerGaussian, IntegerLaplace
from dither.question.recipe import Output
from tests.answer import asked, handmade


def mechanisms(*largest, family=IntegerLaplace):
    return [family(F(1), Sensitivity.of(largest=each)) for each in largest]


RECIPE = handmade.by_ward(
    Output("n", handmade.COUNT, "value"),
    Output("cost", handmade.TOTAL, "value"),
    Output("mean", handmade.apply("divide", handmade.TOTAL, handmade.VALUES), "value"),
)


def best(demand, family):
    """The split that an optimiser finds for sum A_i / e_i^2 (Laplace) or sum A_i / r_i (Gaussian),
    total 1."""
    power = 2 if family == "laplace" else 1

    def loss(logs):
        shares = np.exp(logs) / np.exp(logs).sum()
        return sum(a / s**power for a, s in zip(demand, shares, strict=True))

    found = minimize(
        loss, np.zeros(len(demand)), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12}
    )
    return np.exp(found.x) / np.exp(found.x).sum()


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("weights", [{}, {"n": F(4)}, {"mean": F(1, 9), "cost": F(2)}])
def test_the_shares_are_those_of_the_least_loss(family, weights):
    kind = IntegerLaplace if family == "laplace" else IntegerGaussian
    wished = compute_demands(RECIPE, mechanisms(3, 150_000, 3, family=kind), family, weights)
    found = weigh_steps(RECIPE.queries, arrange_alone(RECIPE).shares, wished, family, weights)
    total = sum(step.weight for step in found)
    wanted = best(wished, family)
    assert [float(step.weight / total) for step in found] == pytest.approx(list(wanted), abs=2e-3)


def test_equal_demands_get_equal_shares_whatever_their_units():
    plain = handmade.by_ward()
    found = weigh_steps(
        plain.queries,
        arrange_alone(plain).shares,
        compute_demands(plain, mechanisms(3, 150_000, 3), "laplace", {}),
        "laplace",
        {},
    )
    assert len({step.weight for step in found}) == 1


def test_an_average_gives_to_sum_and_count_what_they_contribute():
    """SUM moves by 1500.00 and COUNT by 3, worth 500 each: equal. With a count worth 50 the sum
    takes the more."""
    mean = handmade.by_ward(
        Output("mean", handmade.apply("divide", handmade.TOTAL, handmade.VALUES), "value")
    )
    found = compute_demands(mean, mechanisms(3, 150_000, 3), "laplace", {})
    assert found[1] == pytest.approx(found[2])


def test_more_weight_means_less_error(tmp_path):
    with handmade.kernel(tmp_path, []) as kernel:
        plain = handmade.in_one_query(handmade.by_ward())
        box, some, more = (
            choose_mechanisms(
                kernel, kernel.view("total"), plain, Price(F(1)), "total", weights
            ).priced.steps
            for weights in ({}, {"n": F(100)}, {"n": F(800)})
        )
        assert [step.step.family for step in (*box, *more)] == [
            "box",
            "laplace",
            "laplace",
            "laplace",
        ]
        assert more[0].mechanism.scale < some[0].mechanism.scale
        assert more[1].mechanism.scale > some[1].mechanism.scale
        assert sum(step.mechanism.sensitivity.l1 / step.mechanism.scale for step in more) <= 1


def test_key_selection_takes_a_quarter(tmp_path):
    con = asked.connection(tmp_path / "c", rows=asked.few_rows(3))
    sql = "SELECT diagnosis, COUNT(*), SUM(cost) FROM visits GROUP BY diagnosis"
    steps = con.request(sql, epsilon=1).steps
    total = sum(step.weight for step in steps)
    keys = [step for step in steps if isinstance(step.query, Keys)]
    assert float(keys[0].weight / total) == pytest.approx(0.25, abs=1e-3)
    more = con.request(sql, epsilon=1, weights={"keys": 8}).steps
    assert more[steps.index(keys[0])].weight / sum(s.weight for s in more) > F(1, 3)


def test_the_family_is_the_one_with_less_error(tmp_path):
    """Few cells of one person: Laplace. Forty counts in one question: Gaussian, at the pot's
    delta."""
    con = asked.connection(tmp_path / "c", rows=asked.few_rows(3))
    assert {s.family for s in con.request("SELECT COUNT(*) FROM patients", epsilon=1).steps} == {
        "laplace"
    }
    many = ", ".join(f"COUNT_IF(age > {10 + i}) AS c{i}" for i in range(40))
    assert {s.family for s in con.request(f"SELECT {many} FROM patients", epsilon=1).steps} == {
        "gaussian_by_curve"
    }
    assert list_families(con._kernel.view("total"), Price(None, F(1))) == ["gaussian"]


def test_families_are_compared_by_the_same_measure():
    laplace = [IntegerLaplace.for_epsilon(1, Sensitivity.of(cells=100)) for _ in range(3)]
    gaussian = [IntegerGaussian.for_rho(F(1, 10), Sensitivity.of(cells=100)) for _ in range(3)]
    plain = handmade.by_ward()
    errors = [
        predict_error(
            compute_demands(plain, mechanisms, "laplace", {}),
            mechanisms,
            [find_error_law(mechanism) for mechanism in mechanisms],
        )
        for mechanisms in (gaussian, laplace)
    ]
    assert errors[0] < errors[1]


def test_weights_name_columns(tmp_path):
    con = asked.connection(tmp_path / "c", rows=asked.few_rows(3))
    for weights in ({"nothing": 1}, {"n": 0}, {"n": -1}, {3: 1}):
        with pytest.raises(ParameterError, match="weight"):
            con.preview("SELECT COUNT(*) AS n FROM visits", epsilon=1, weights=weights)


def test_the_first_pass_is_equal():
    assert {
        step.weight for step in make_equal_steps(RECIPE.queries, arrange_alone(RECIPE).shares)
    } == {F(1)}


def test_averages_share_the_sum_and_the_count_that_were_asked_for(tmp_path):
    con = asked.connection(tmp_path / "c", rows=asked.few_rows(3))
    asked_for = (
        "SELECT ward, COUNT(cost) AS n, SUM(cost) AS s, AVG(cost) AS m FROM visits GROUP BY ward"
    )
    (step,) = con.request(asked_for, epsilon=1).steps
    assert [type(column).__name__ for column in step.query.columns] == ["CountValues", "Sum"]
    assert len(con.request(asked_for, rho=1).steps) == 2
