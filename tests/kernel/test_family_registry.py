"""The registry of families: names that never change, the old rules of choice, and one way to
release them all."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction as F

import numpy as np
import pytest

from dither import RefusedError
from dither.answer.split import find_family
from dither.laws import AdditiveErrorLaw, KeyErrorLaw, RankErrorLaw, find_error_law
from dither.plan.algebra import Cells, Count, Keys, Quantiles, Scan, Sum
from dither.privacy.charges.rules import Rule, charge
from dither.privacy.kernel import families
from dither.privacy.kernel.calibrate import loss_of
from dither.privacy.kernel.families import FAMILIES
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.mechanisms.protocol import SparseHistogram
from dither.privacy.noise import SystemSource
from tests.case_lists import mark_between
from tests.datasets.clinic import catalog
from tests.kernel.calibrating import calibrate

COUNT = Cells(Scan("visits"), ("ward",), (Count(),))
BOTH = Cells(Scan("visits"), ("ward",), (Count(), Sum("cost")))
MEDIAN = Quantiles(Scan("visits"), ("ward",), "age", (F(1, 2),))
QUARTILES = replace(MEDIAN, shares=(F(1, 4), F(1, 2), F(3, 4)))
WARDS = Keys(Scan("visits"), ("ward",))
OPEN = catalog(**{"values__[north, south], other__keep": "values: undeclared, width: 8"})
RULES = {
    "epsilon": Rule("approx", delta=F(1, 1000), delta_per_question=F(1, 10**6)),
    "rho": Rule("zcdp", delta_conversion=F(1, 10**6), delta_selection=F(1, 10**4)),
}
LAWS = {Cells: AdditiveErrorLaw, Keys: KeyErrorLaw, Quantiles: RankErrorLaw}


def test_the_names_in_requests_and_certificates_never_change() -> None:
    names = [
        "laplace",
        "gaussian",
        "box",
        "geometric_keys",
        "gaussian_keys",
        "permute_and_flip",
        "exponential",
        "unit_box",
        "threshold_keys",
        "permute_and_flip_by_rows",
        "exponential_by_rows",
        "linear_laplace",
        "linear_gaussian",
        "rounded_gaussian",
        "linear_rounded_gaussian",
        "scores_permute_and_flip",
        "scores_exponential",
        "vectors_rounded_gaussian",
        "joint_scores_permute_and_flip",
        "joint_scores_exponential",
        "adaptive_blocks",
        "gaussian_by_curve",
        "counted_keys",
    ]
    assert list(FAMILIES) == names
    assert all(family.name == name for name, family in FAMILIES.items())


@pytest.mark.parametrize(
    ("query", "noise", "adds_epsilons", "chosen"),
    [
        (COUNT, "laplace", False, "laplace"),
        (COUNT, "gaussian", False, "gaussian"),
        (COUNT, "box", True, "laplace"),
        (BOTH, "box", True, "box"),
        (BOTH, "laplace", True, "laplace"),
        (WARDS, "laplace", True, "geometric_keys"),
        (WARDS, "box", True, "geometric_keys"),
        (WARDS, "gaussian", False, "gaussian_keys"),
        (MEDIAN, "laplace", True, "permute_and_flip"),
        (MEDIAN, "laplace", False, "exponential"),
        (MEDIAN, "gaussian", True, "exponential"),
        (QUARTILES, "box", True, "exponential"),
    ],
)
def test_the_family_of_a_query_follows_from_the_noise_and_the_pots(
    query, noise, adds_epsilons, chosen
) -> None:
    assert find_family(query, noise, adds_epsilons) == chosen


def requests_of(name: str) -> list[Request]:
    """A request for every measure and every size of query that a family answers."""
    family = FAMILIES[name]
    queries = [query for query in (COUNT, BOTH, MEDIAN, QUARTILES, WARDS) if family.serves(query)]
    prices = {"epsilon": Price(epsilon=F(3, 2)), "rho": Price(rho=F(1, 5))}
    return [
        Request((Step(query, name, F(1)),), prices[m], "total")
        for query in queries
        for m in family.measures
    ]


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_costs_at_most_its_price_and_says_its_law(name: str) -> None:
    for request in requests_of(name):
        query = request.steps[0].query
        facts = OPEN if isinstance(query, Keys) else catalog()
        (step,) = calibrate(request, facts, delta=F(1, 10**6))
        assert charge(loss_of((step,)), RULES[request.price.name]).amount <= request.price.value
        assert isinstance(find_error_law(step.mechanism), LAWS[type(query)])
        assert step.mechanism.describe() and step.mechanism.describe_sensitivity()
        assert (step.mechanism.column_sensitivity() is None) == (type(query) is not Cells)


@pytest.mark.parametrize("name", mark_between(FAMILIES, step=3))
def test_every_family_answers_exact_integers_by_the_type_of_its_query(name: str) -> None:
    for request in requests_of(name):
        query = request.steps[0].query
        facts = OPEN if isinstance(query, Keys) else catalog()
        (step,) = calibrate(request, facts, delta=F(1, 10**6))
        if isinstance(query, Cells):
            given, size = np.full((5, len(query.columns)), 10**6), 5 * len(query.columns)
        elif isinstance(query, Keys):
            given, size = np.array([0, 10**6, 10**6]), 3
        else:
            given, size = (
                SparseHistogram([3, 40], [10**6, 10**6], step.points.count),
                len(query.shares),
            )
        answer = step.mechanism.release_exact(given, SystemSource())
        assert len(answer) == size and {type(number) for number in answer} == {int}
        if isinstance(query, Keys):
            assert answer[0] == 0 and min(answer[1:]) > 0  # 1 or, where they are released, counts


@pytest.mark.parametrize("name", ["laplas", "", "Cells", None, ["laplace"], "gaussian_keys"])
def test_a_family_that_is_not_registered_for_the_query_is_refused(name: object) -> None:
    with pytest.raises(RefusedError, match="no rule for Cells by"):
        calibrate(Request((Step(COUNT, name, F(1)),), Price(epsilon=F(1)), "total"), catalog())


def test_a_family_that_spends_more_than_its_share_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Planted bug: a builder that takes the price for half of it."""

    def build_too_little(terms):
        return families.build_laplace(replace(terms, share=2 * terms.share))

    monkeypatch.setitem(FAMILIES, "laplace", replace(FAMILIES["laplace"], build=build_too_little))
    with pytest.raises(AssertionError):
        test_every_family_costs_at_most_its_price_and_says_its_law("laplace")
