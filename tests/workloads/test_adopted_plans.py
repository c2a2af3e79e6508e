"""A repeat stays free where another NumPy would round a strategy to other integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dither.plan.operators import Dense, ToeplitzHankel
from dither.workloads import identity, line_strategies, listed_counts, marginals, prefixes, ranges
from tests.workloads.conftest import Survey

SQL = [
    f"SELECT COUNT(*) AS n FROM survey WHERE age < {bound} AND sex = 'f'" for bound in (3, 7, 12)
]


def shift_dense(make: Callable[..., Dense]) -> Callable[..., Dense]:
    """One entry is rounded the other way."""

    def shifted(*terms: Any) -> Dense:
        ((first, *rest), *rows) = make(*terms).entries
        return Dense(((first + 1, *rest), *rows))

    return shifted


def shift_spectral(make: Callable[..., ToeplitzHankel]) -> Callable[..., ToeplitzHankel]:
    def shifted(*terms: Any) -> ToeplitzHankel:
        operator = make(*terms)
        first, *rest = operator.toeplitz
        return ToeplitzHankel((first + 1, *rest), operator.hankel, operator.weights)

    return shifted


@pytest.mark.parametrize(
    "workload",
    [
        ranges("age"),
        prefixes("age") * identity("sex"),
        ranges("cost") * ranges("age") + identity("cost"),
        marginals(2, of=["age", "sex", "area"]),
        SQL,
    ],
    ids=["ranges", "product", "plane", "marginals", "list"],
)
@pytest.mark.parametrize("rule", ["zcdp", "pure"])
def test_other_integers_are_the_same_question(
    survey: Survey, monkeypatch: pytest.MonkeyPatch, workload: Any, rule: str
) -> None:
    con = survey.connect(rule)
    table = {} if isinstance(workload, list) else {"table": "survey"}
    price: dict[str, Any] = {"rho": 1} if rule == "zcdp" else {"epsilon": 1}
    with monkeypatch.context() as patch:
        for name in ("make_dense_operator",):
            patch.setattr(line_strategies, name, shift_dense(getattr(line_strategies, name)))
        make = line_strategies.make_spectral_operator
        patch.setattr(line_strategies, "make_spectral_operator", shift_spectral(make))
        find = listed_counts.find_theta
        patch.setattr(listed_counts, "find_theta", lambda *terms: find(*terms) * 1.0001)
        patch.setattr(line_strategies, "find_theta", lambda *terms: find(*terms) * 1.0001)
        first = con.workload(workload, **table, **price).answer()
    spent = survey.read_spent()
    again = con.workload(workload, **table, **price)
    assert again.preview().stored
    result = again.answer()
    assert survey.read_spent() == spent and result.info["repeated"]
    for product in first.products:
        assert np.allclose(result.answer(product), first.answer(product))
        assert np.allclose(result.find_half_widths(product), first.find_half_widths(product))


def test_another_price_or_a_worse_strategy_is_another_question(survey: Survey) -> None:
    con = survey.connect("zcdp")
    con.workload(identity("age"), table="survey", rho=1).answer()
    dearer = con.workload(identity("age"), table="survey", rho=2)
    assert not dearer.preview().stored
    other = con.workload(ranges("age"), table="survey", rho=1)
    assert not other.preview().stored
