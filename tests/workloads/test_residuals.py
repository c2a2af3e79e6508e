"""Marginals by residuals: errors, optimum and answers against explicit least squares."""

from __future__ import annotations

from itertools import combinations
from math import prod

import numpy as np
import pytest

from dither.plan.operator_norms import largest_norms
from dither.workloads.language import CountingWorkload, cube, identity, marginals, total
from dither.workloads.lines import Noise
from dither.workloads.measurement import MeasurementPlan, split_variance
from dither.workloads.residuals import (
    MarginalDomain,
    make_domain,
    make_residual,
    plan_direct,
    plan_residuals,
)
from tests.workloads import dense_workload

SIZES = {"a": 2, "b": 3, "c": 4}
NOISES: tuple[Noise, Noise] = ("laplace", "gaussian")
WORKLOADS = {
    "pairs": marginals(2, of=["a", "b", "c"]),
    "cube": cube(["a", "b", "c"], 3),
    "weighted": 5 * identity("c", "a") + identity("b") + total(),
}


def bind(workload: CountingWorkload, sizes: dict[str, int] = SIZES) -> MarginalDomain:
    domain = make_domain(workload.products, sizes)
    assert domain is not None
    return domain


def list_plans(domain: MarginalDomain, noise: Noise) -> list[MeasurementPlan]:
    return [plan_residuals(domain, noise), plan_direct(domain, noise)]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_predicted_variances_are_those_of_explicit_least_squares(name: str, noise: Noise) -> None:
    workload = WORKLOADS[name]
    for plan in list_plans(bind(workload), noise):
        variances = split_variance(plan.steps, noise)
        covariance = dense_workload.find_covariance(plan, variances, SIZES)
        for product in workload.products:
            matrix = dense_workload.write_product(product, SIZES)
            expected = np.diag(matrix @ covariance @ matrix.T)
            assert np.allclose(plan.predict(product, variances), expected, rtol=1e-6)
            assert plan.find_total(product, variances) == pytest.approx(expected.sum(), rel=1e-6)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("name", WORKLOADS)
def test_answers_are_those_of_explicit_least_squares_and_add_up(name: str, noise: Noise) -> None:
    workload = WORKLOADS[name]
    draws = np.random.default_rng(6)
    for plan in list_plans(bind(workload), noise):
        variances = split_variance(plan.steps, noise)
        values = [draws.normal(size=step.rows) for step in plan.steps]
        fitted = plan.fit(values, variances)
        covariance = dense_workload.find_covariance(plan, variances, SIZES)
        pulled = sum(
            dense_workload.write_step(step.operator, step.columns, SIZES).T @ measured / variance
            for step, measured, variance in zip(plan.steps, values, variances, strict=True)
        )
        cells = covariance @ np.asarray(pulled)
        for product in workload.products:
            matrix = dense_workload.write_product(product, SIZES)
            assert np.allclose(fitted.answer(product), matrix @ cells, atol=1e-8)


@pytest.mark.parametrize("name", WORKLOADS)
def test_residuals_reach_the_singular_value_bound_with_gaussian_noise(name: str) -> None:
    """The exact optimum (Xiao et al. 2023), against the singular values of the weighted matrix."""
    workload = WORKLOADS[name]
    domain = bind(workload)
    rows = [
        float(product.weight) ** 0.5 * dense_workload.write_product(product, SIZES)
        for product in workload.products
    ]
    bound = dense_workload.find_svd_bound(np.concatenate(rows))
    plan = plan_residuals(domain, "gaussian")
    variances = split_variance(plan.steps, "gaussian")
    error = sum(
        float(product.weight) * plan.find_total(product, variances) for product in workload.products
    )
    assert domain.find_bound() == pytest.approx(bound, rel=1e-9)
    assert error == pytest.approx(bound, rel=1e-9)


def test_a_residual_is_measured_as_integers_at_the_price_of_the_optimum() -> None:
    """Squared column norm prod n (n - 1): (n - 1) / n for each column after division by n."""
    for sizes in ((2,), (3, 4), (2, 5, 3)):
        steps = plan_residuals(
            bind(identity(*"abc"[: len(sizes)]), dict(zip("abc", sizes, strict=False))), "gaussian"
        ).steps
        widest = max(steps, key=lambda step: len(step.columns))
        assert largest_norms(widest.operator).l2_squared == prod(n * (n - 1) for n in sizes)
    assert make_residual(3).toeplitz == (2, -1, -1)


def test_no_shares_nearby_err_less_for_marginals_as_they_are() -> None:
    for noise in NOISES:
        plan = plan_direct(bind(WORKLOADS["pairs"]), noise)
        shares = np.array(list(plan.shares.values()))

        def score(tried: np.ndarray, noise: Noise = noise) -> float:
            power = 2 if noise == "laplace" else 1
            variances = 1 / (tried / tried.sum()) ** power
            direct = plan_direct(bind(WORKLOADS["pairs"]), noise)
            return sum(
                direct.find_total(product, variances) for product in WORKLOADS["pairs"].products
            )

        for position in range(len(shares)):
            for factor in (0.9, 1.1):
                moved = shares.copy()
                moved[position] *= factor
                assert score(moved) >= score(shares) * (1 - 1e-6)


def test_a_column_of_one_value_has_no_residual() -> None:
    domain = bind(marginals(2, of=["a", "b", "c"]), {"a": 1, "b": 3, "c": 2})
    subsets = plan_residuals(domain, "gaussian").shares
    assert all("a" not in subset for subset in subsets)
    measured = [np.zeros(step.rows) for step in plan_residuals(domain, "gaussian").steps]
    fitted = plan_residuals(domain, "gaussian").fit(measured, np.ones(len(measured)))
    assert all(len(fitted.answer(product)) for product in marginals(2, of=[*"abc"]).products)


def test_all_pairs_of_many_columns_are_planned_without_matrices() -> None:
    """Nine columns of 10^10 cells together: one residual for each set of at most two."""
    sizes = {f"c{number}": size for number, size in enumerate((85, 9, 100, 16, 17, 7, 15, 6, 5))}
    domain = bind(marginals(2, of=list(sizes)), sizes)
    plan = plan_residuals(domain, "gaussian")
    assert len(plan.shares) == 1 + 9 + len(list(combinations(sizes, 2)))
    assert sum(plan.shares.values()) == pytest.approx(1)
