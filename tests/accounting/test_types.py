"""What type-checks: numbers of any kind for losses; not a curve as a stopping rule. Annotations,
and mypy (soak)."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import get_type_hints

import pytest

from dither import accounting as acc
from dither.accounting import curves, filters, odometers
from dither.accounting.bounds import Bounds
from dither.privacy.losses import Loss

RIGHT = """
from decimal import Decimal
from fractions import Fraction
from dither import accounting as acc
rule = acc.PureRule(Fraction(1))
state: acc.Spent = rule.empty().add(acc.charge(acc.Pure(Fraction(1)), rule))
meter: acc.Meter = acc.ZcdpOdometer(Fraction(1, 100)).add(acc.ZCDP(Fraction(1))).reading()
steps = acc.PoissonSampled(0.01, acc.Gaussian("1.1")) * 10_000
laplace = acc.Laplace(Decimal("2.5"), sensitivity=0.5)
whole: acc.Composed = acc.Gaussian(1) + laplace + acc.Approx(1, 1e-6) + steps
shuffled = acc.Shuffled(1, 10_000, theorem="FMT21")
mixed = acc.ZCDP("1/8") + acc.DiscreteGaussian(10, 1) + acc.RDP(8, 0.1) + shuffled
sigma: Fraction = acc.Gaussian(1).sigma
"""
WRONG = {
    "a reading is charged": "acc.charge(acc.epsilon(acc.Gaussian(Fraction(1)), 1e-6), rule)",
    "a reading is spent": "rule.empty().add(acc.epsilon(acc.Gaussian(Fraction(1)), 1e-6))",
    "a float is spent": "rule.empty().add(0.1)",
    "a reading is asked if it fits": "rule.empty().fits(acc.epsilon(acc.Gaussian(1), 1e-6))",
    "a cap is a curve": "acc.PureRule(acc.epsilon(acc.Gaussian(Fraction(1)), 1e-6))",
    "an odometer counts a float": "acc.ZcdpOdometer(Fraction(1, "
    "100)).add(acc.delta(acc.Pure(Fraction(1)), 1).upper)",
    "a guarantee of a curve": "acc.guarantee(acc.profile(acc.Gaussian(Fraction(1))))",
    "no noise": "acc.Gaussian(None)",
    "a list of noises": "acc.Gaussian([1, 2])",
    "a loss for a number": "acc.PoissonSampled(acc.Gaussian(1), 0.01)",
    "a parameter is a fraction": "text: str = acc.Gaussian(1).sigma",
}


def test_filters_are_annotated_to_take_losses_and_charges_alone():
    assert get_type_hints(filters.charge)["loss"] is Loss
    assert (
        get_type_hints(filters.Spent.add)["cost"]
        is get_type_hints(filters.Spent.fits)["cost"]
        is filters.Charge
    )
    for odometer in (odometers.ZcdpOdometer, odometers.RenyiOdometer):
        assert get_type_hints(odometer.add)["loss"] is Loss
    assert get_type_hints(curves.epsilon)["return"] is Bounds
    assert not issubclass(Bounds, (Loss, filters.Charge))


@pytest.mark.parametrize(
    "number", [2, 2.0, "2", Decimal(2), Fraction(2)], ids=lambda number: type(number).__name__
)
def test_what_the_types_allow_is_what_the_constructors_take(number):
    assert (
        acc.Gaussian(number).sigma
        == acc.Laplace(number).scale
        == acc.Pure(number).epsilon
        == Fraction(2)
    )
    assert type(acc.Gaussian(number).sigma) is Fraction


@pytest.mark.soak
def test_a_curve_used_as_a_stopping_rule_does_not_type_check(tmp_path):
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    lines = [line for line in RIGHT.splitlines() if line] + list(WRONG.values())
    program.write_text("\n".join(lines) + "\n")
    report, _, _ = api.run(
        [
            "--strict",
            "--follow-imports=silent",
            "--cache-dir",
            str(tmp_path / "cache"),
            str(program),
        ]
    )
    right = len(lines) - len(WRONG)
    found = {int(line.split(":")[1]) for line in report.splitlines() if ": error:" in line}
    assert found == set(range(right + 1, len(lines) + 1)), report
