"""Which mechanism chooses a median: permute-and-flip where epsilons are added up, else the
exponential mechanism."""

from __future__ import annotations

from fractions import Fraction as F

import pytest

from dither.privacy.mechanisms import FlippedQuantile, JointQuantiles, Quantile, QuantilesWithEnds
from tests.datasets.regional_clinic import Clinic

MEDIAN = "SELECT MEDIAN(age) AS m FROM patients"
BOTH = "SELECT QUANTILE(age, 0.25) AS q, MEDIAN(age) AS m FROM patients"
TERMS = {
    "pure": {"epsilon": 5},
    "approx": {"epsilon": 5, "rule": "approx", "delta_per_question": "1e-6", "delta": "1e-3"},
    "zcdp": {"rho": 1, "rule": "zcdp", "ceiling": 2, "delta_conversion": "1e-6"},
}


def chosen(con, sql: str, **how):
    result = con.sql(sql, epsilon="0.5", fresh=True, **how)
    mechanism = result._release.priced.steps[0].mechanism
    return mechanism.point if isinstance(mechanism, QuantilesWithEnds) else mechanism


@pytest.mark.parametrize(
    ("rule", "kind"), [("pure", FlippedQuantile), ("approx", FlippedQuantile), ("zcdp", Quantile)]
)
def test_one_median_by_the_rule_of_its_pot(clinic: Clinic, rule: str, kind: type) -> None:
    clinic.open(**TERMS[rule])
    con = clinic.connect()
    for intervals in (False, True):
        assert type(chosen(con, MEDIAN, quantile_intervals=intervals)) is kind
    assert type(chosen(con, BOTH, quantile_intervals=False)) is JointQuantiles


def test_a_pot_inside_one_that_adds_up_rho_keeps_the_bounded_range(clinic: Clinic) -> None:
    clinic.open(**TERMS["zcdp"])
    clinic.open("inner", inside="total", kind="purpose", epsilon=1, ceiling=1)
    assert type(chosen(clinic.connect("inner"), MEDIAN)) is Quantile


def test_the_charge_is_the_price(clinic: Clinic) -> None:
    clinic.open()
    chosen(clinic.connect(), MEDIAN, quantile_intervals=False)
    assert clinic.spent()["total"] == F(1, 2)
