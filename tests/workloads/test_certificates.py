"""Certificates of optimality: checked on the rounded integers, and false ones show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dither.errors import ParameterError
from dither.plan.operators import Identity, ToeplitzHankel
from dither.workloads import identity, prefixes
from dither.workloads.certificates import check_certificate, make_certificate
from dither.workloads.language import LineKind
from dither.workloads.line_strategies import choose_line
from tests.case_lists import mark_rest
from tests.workloads import dense_workload
from tests.workloads.conftest import Survey


@pytest.mark.parametrize("kind", mark_rest(["ranges", "prefixes"], quick=1))
@pytest.mark.parametrize("size", [16, 100])
def test_chosen_strategies_are_certified_within_a_thousandth(kind: LineKind, size: int) -> None:
    """The target of the design: 1.002 after rounding."""
    (chosen, *_) = choose_line({kind: 1.0}, size, "gaussian")
    checked = check_certificate(make_certificate(chosen.strategy.operator, ((kind, 1.0),)))
    assert 1 <= checked.gap <= 1.001
    assert checked.error == pytest.approx(chosen.score, rel=1e-6)


def test_error_and_bound_are_those_of_explicit_matrices() -> None:
    """Identity for all ranges on 4 cells: error 20 (the sum of all lengths), bound at v = 1 the
    singular values'."""
    certificate = make_certificate(Identity(4), (("ranges", 1.0),))
    checked = check_certificate(replace(certificate, dual=(1.0,) * 4))
    assert checked.error == pytest.approx(20)
    matrix = dense_workload.write_line("ranges", 4)
    assert checked.bound == pytest.approx(dense_workload.find_svd_bound(matrix))
    assert check_certificate(certificate).bound <= checked.error


def test_no_weights_can_certify_more_than_the_optimum() -> None:
    (chosen, *_) = choose_line({"ranges": 1.0}, 12, "gaussian")
    certificate = make_certificate(chosen.strategy.operator, (("ranges", 1.0),))
    draws = np.random.default_rng(5)
    for _ in range(200):
        weights = tuple(draws.exponential(size=12) + 1e-3)
        checked = check_certificate(replace(certificate, dual=weights))
        assert checked.gap >= 1


def test_a_changed_integer_changes_what_the_checker_finds() -> None:
    (chosen, *_) = choose_line({"ranges": 1.0}, 16, "gaussian")
    operator = chosen.strategy.operator
    assert isinstance(operator, ToeplitzHankel)
    heavier = (operator.weights[0] * 2, *operator.weights[1:])
    honest = check_certificate(make_certificate(operator, (("ranges", 1.0),)))
    changed = make_certificate(replace(operator, weights=heavier), (("ranges", 1.0),))
    assert check_certificate(changed).gap > 1.5 * honest.gap


@pytest.mark.parametrize("dual", [(1.0,) * 3, (0.0,) * 4, (float("nan"),) * 4, (-1.0,) * 4])
def test_wrong_weights_are_refused(dual: tuple[float, ...]) -> None:
    certificate = make_certificate(Identity(4), (("ranges", 1.0),))
    with pytest.raises(ParameterError):
        check_certificate(replace(certificate, dual=dual))


def test_certificates_travel_with_the_plan(survey: Survey) -> None:
    """By column, of the integers that will be measured; another checker computes them again."""
    con = survey.connect("zcdp")
    both = prefixes("age") * identity("sex")
    certificates = con.workload(both, table="survey", rho=1).preview().certificates
    assert list(certificates) == ["age", "sex"]
    assert all(1 <= check_certificate(made).gap < 1.002 for made in certificates.values())
    assert con.workload(identity("sex"), table="survey", rho=1).preview().certificates == {}
