"""The mistake of stopping by a curve does not type-check: annotations, and mypy on programs, right and wrong (soak)."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from dither.privacy.accounting import curves, filters, odometers
from dither.privacy.accounting.bounds import Bounds
from dither.privacy.losses import Loss

RIGHT = """
from fractions import Fraction
from dither import accounting as acc
rule = acc.PureRule(Fraction(1))
state: acc.Spent = rule.empty().add(acc.charge(acc.Pure(Fraction(1)), rule))
meter: acc.Meter = acc.ZcdpOdometer(Fraction(1, 100)).add(acc.ZCDP(Fraction(1))).reading()
"""
WRONG = {
    "a reading is charged": "acc.charge(acc.epsilon(acc.Gaussian(Fraction(1)), 1e-6), rule)",
    "a reading is spent": "rule.empty().add(acc.epsilon(acc.Gaussian(Fraction(1)), 1e-6))",
    "a float is spent": "rule.empty().add(0.1)",
    "a reading is asked whether it fits": "rule.empty().fits(acc.epsilon(acc.Gaussian(Fraction(1)), 1e-6))",
    "a cap is a curve": "acc.PureRule(acc.epsilon(acc.Gaussian(Fraction(1)), 1e-6))",
    "an odometer counts a float": "acc.ZcdpOdometer(Fraction(1, 100)).add(acc.delta(acc.Pure(Fraction(1)), 1).upper)",
    "a guarantee of a curve": "acc.guarantee(acc.profile(acc.Gaussian(Fraction(1))))",
}


def test_filters_are_annotated_to_take_losses_and_charges_alone():
    assert get_type_hints(filters.charge)["loss"] is Loss
    assert get_type_hints(filters.Spent.add)["cost"] is get_type_hints(filters.Spent.fits)["cost"] is filters.Charge
    for odometer in (odometers.ZcdpOdometer, odometers.RenyiOdometer):
        assert get_type_hints(odometer.add)["loss"] is Loss
    assert get_type_hints(curves.epsilon)["return"] is Bounds
    assert not issubclass(Bounds, (Loss, filters.Charge))


@pytest.mark.soak
def test_a_curve_used_as_a_stopping_rule_does_not_type_check(tmp_path):
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    lines = [line for line in RIGHT.splitlines() if line] + list(WRONG.values())
    program.write_text("\n".join(lines) + "\n")
    report, _, _ = api.run(
        ["--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"), str(program)]
    )
    right = len(lines) - len(WRONG)
    found = {int(line.split(":")[1]) for line in report.splitlines() if ": error:" in line}
    assert found == set(range(right + 1, len(lines) + 1)), report
