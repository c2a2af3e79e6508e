"""Products of strategies over several columns, against explicit matrices over all cells."""

from __future__ import annotations

import numpy as np
import pytest

from dither.errors import RefusedError
from dither.workloads.kronecker import bound_products, plan_kronecker
from dither.workloads.language import CountingWorkload, identity, prefixes, ranges, total
from dither.workloads.lines import Noise
from dither.workloads.measurement import split_variance
from tests.case_lists import mark_rest
from tests.workloads import dense_workload

SIZES = {"age": 5, "sex": 2, "area": 3}
WORKLOADS = {
    "a product": ranges("age") * identity("sex"),
    "a union": prefixes("age") * identity("area") + 4 * identity("sex") + total(),
    "other order": identity("area") * ranges("age"),
}


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("name", mark_rest(WORKLOADS, quick=1))
def test_variances_and_answers_are_those_of_explicit_least_squares(name: str, noise: Noise) -> None:
    workload: CountingWorkload = WORKLOADS[name]
    sizes = {column: SIZES[column] for column in workload.columns}
    plan = plan_kronecker(workload.products, workload.columns, sizes, noise)
    variances = split_variance(plan.steps, noise)
    covariance = dense_workload.find_covariance(plan, variances, sizes)
    (step,) = plan.steps
    matrix = dense_workload.write_step(step.operator, step.columns, sizes)
    measured = np.random.default_rng(7).normal(size=len(matrix))
    cells = np.linalg.lstsq(matrix, measured, rcond=None)[0]
    fitted = plan.fit([measured], variances)
    error = 0.0
    for product in workload.products:
        queries = dense_workload.write_product(product, sizes)
        expected = np.diag(queries @ covariance @ queries.T)
        error += float(product.weight) * expected.sum()
        assert np.allclose(plan.predict(product, variances), expected, rtol=1e-6)
        assert plan.find_total(product, variances) == pytest.approx(expected.sum(), rel=1e-6)
        assert np.allclose(fitted.answer(product), queries @ cells, atol=1e-7)
    assert error >= bound_products(workload.products, sizes) * (1 - 1e-9)


def test_the_bound_of_a_product_is_that_of_its_singular_values() -> None:
    workload = WORKLOADS["a product"]
    sizes = {column: SIZES[column] for column in workload.columns}
    matrix = dense_workload.write_product(workload.products[0], sizes)
    exact = dense_workload.find_svd_bound(matrix)
    assert bound_products(workload.products, sizes) == pytest.approx(exact, rel=1e-9)


def test_too_many_cells_are_refused_with_their_number() -> None:
    sizes = {"a": 2000, "b": 2000}
    workload = ranges("a") * identity("b")
    with pytest.raises(RefusedError, match="4,000,000 cells"):
        plan_kronecker(workload.products, workload.columns, sizes, "gaussian")
