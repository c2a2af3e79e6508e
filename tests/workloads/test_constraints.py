"""Known totals, structural zeros, nonnegative and whole numbers, against explicit optima."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dither.errors import ParameterError, RefusedError
from dither.workloads import cube, identity, marginals, ranges
from dither.workloads.fit_constraints import (
    KnownTotals,
    StructuralZeros,
    expand_cells,
    keep_totals,
    make_nonnegative,
    round_to_integers,
    split_whole,
)
from dither.workloads.result import WorkloadResult
from tests.case_lists import mark_rest
from tests.workloads import dense_workload
from tests.workloads.conftest import Survey

SEX_AREA = cube(["sex", "area"], 2)
SOURCE = "a public register of invented people"


def ask(survey: Survey, rho: float = 0.05) -> WorkloadResult:
    return survey.connect("zcdp").workload(SEX_AREA, table="survey", rho=rho).answer()


def read_precision(result: WorkloadResult) -> np.ndarray:
    """The precision of all cells from explicit matrices."""
    sizes = result.offer.bound.sizes
    covariance = dense_workload.find_covariance(result.offer.plan, result.offer.variances, sizes)
    return np.linalg.inv(covariance)


def test_known_totals_are_kept_and_the_rest_is_constrained_least_squares(survey: Survey) -> None:
    """Against the solution of the Lagrange equations over all cells."""
    result = ask(survey)
    truth = survey.count("area")
    derived = result.keep_totals(KnownTotals(("area",), tuple(truth), SOURCE))
    precision = read_precision(result)
    estimate = expand_cells(result)[1].ravel()
    sums = dense_workload.write_product(identity("area").products[0], result.offer.bound.sizes)
    left = np.block([[precision, sums.T], [sums, np.zeros((4, 4))]])
    right = np.concatenate([precision @ estimate, truth])
    exact = np.linalg.solve(left, right)[: len(estimate)]
    assert np.allclose(expand_cells(derived)[1].ravel(), exact, atol=1e-6)
    conditional = np.linalg.inv(left)[: len(estimate), : len(estimate)]
    (pair,) = [product for product in result.products if len(product.columns) == 2]
    assert derived.find_half_widths(pair) / result.find_half_widths(pair) == pytest.approx(
        np.sqrt(np.diag(conditional) / np.diag(np.linalg.inv(precision))), rel=1e-6
    )
    assert not derived.biased
    assert any(note.startswith("unprotected: known totals") for note in derived.notes)
    certificate = derived.certificate()["body"]
    assert any(SOURCE in step for step in certificate["post_processing"])


@pytest.mark.parametrize("with_totals", mark_rest([False, True], quick=1))
def test_nonnegative_cells_are_the_constrained_optimum(survey: Survey, with_totals: bool) -> None:
    """Against a general solver (SLSQP) on the explicit quadratic form."""
    result = ask(survey, rho=0.0005)
    area = survey.count("area")
    known = KnownTotals(("area",), tuple(area), SOURCE) if with_totals else None
    zeros = StructuralZeros(("sex", "area"), (("f", "north"), ("m", None)), SOURCE)
    derived = make_nonnegative(result, zeros, known)
    cells = expand_cells(derived)[1]
    assert cells.min() >= 0 and cells[0, 0] == 0 and cells[1, 3] == 0
    precision = read_precision(result)
    precision /= np.abs(precision).max()
    estimate = expand_cells(result)[1].ravel()

    def find_error(flat: np.ndarray) -> float:
        return float((flat - estimate) @ precision @ (flat - estimate))

    bounds = [(0, 0 if position in (0, 7) else None) for position in range(8)]
    equal = [
        {"type": "eq", "fun": lambda flat, k=k: flat.reshape(2, 4)[:, k].sum() - area[k]}
        for k in range(4 if with_totals else 0)
    ]
    start = np.where([high == 0 for _, high in bounds], 0.0, np.maximum(estimate, 1.0))
    best = minimize(
        find_error, start, bounds=bounds, constraints=equal, options={"ftol": 1e-14, "maxiter": 500}
    )
    assert find_error(cells.ravel()) <= best.fun * (1 + 1e-6) + 1e-6
    assert derived.biased and "biased" in derived.notes[0] and SOURCE in derived.notes[0]
    if with_totals:
        assert np.allclose(cells.sum(axis=0), area, atol=1e-6)


def test_intervals_of_biased_results_are_those_of_the_unbiased_estimate(survey: Survey) -> None:
    result = ask(survey, rho=0.0005)
    derived = make_nonnegative(result)
    for name in ("count_low", "count_high"):
        before = result.table("sex", "area")[name].to_numpy()
        assert np.allclose(derived.table("sex", "area")[name].to_numpy(), before)
    assert derived.table("sex", "area")["count"].to_numpy().min() >= 0


@pytest.mark.all
def test_rounding_keeps_all_sums(survey: Survey) -> None:
    result = ask(survey, rho=0.001).nonnegative().rounded()
    tables = {product.columns: result.answer(product) for product in result.products}
    pair = tables["sex", "area"].reshape(2, 4)
    assert (pair == np.round(pair)).all() and pair.min() >= 0
    assert (pair.sum(axis=0) == tables["area",]).all()
    assert (pair.sum(axis=1) == tables["sex",]).all()
    assert pair.sum() == tables[()]


def test_parts_of_a_whole_are_near_and_sum_up() -> None:
    draws = np.random.default_rng(8)
    for _ in range(300):
        parts = draws.exponential(scale=2.0, size=draws.integers(1, 9))
        total = round(float(parts.sum()))
        whole = split_whole(total, parts)
        assert whole.sum() == total and whole.min() >= 0
        assert np.abs(whole - parts).max() <= 1
    assert split_whole(0, np.array([0.4, 0.3])).tolist() == [0, 0]
    assert split_whole(1, np.array([2.0, 3.0])).sum() == 1


def test_what_is_known_needs_a_source_and_must_fit(survey: Survey) -> None:
    """A total taken from the table is an exact release, so every fact names its source."""
    for source in ("", "census", "two words"):
        with pytest.raises(ParameterError, match="provenance"):
            KnownTotals(("sex",), (1, 2), source)
        with pytest.raises(ParameterError, match="provenance"):
            StructuralZeros(("sex",), (("f",),), source)
    result = ask(survey)
    with pytest.raises(ParameterError, match="3 known totals for 2 cells"):
        keep_totals(result, KnownTotals(("sex",), (1, 2, 3), SOURCE))
    with pytest.raises(ParameterError, match="name columns"):
        keep_totals(result, KnownTotals(("age",), (1,), SOURCE))
    with pytest.raises(ParameterError, match="declares no"):
        make_nonnegative(result, StructuralZeros(("sex",), (("x",),), SOURCE))
    with pytest.raises(ParameterError, match="nonnegative"):
        round_to_integers(result)


def test_products_of_ranges_are_made_nonnegative_too(survey: Survey) -> None:
    con = survey.connect("zcdp")
    result = con.workload(ranges("age") * identity("sex"), table="survey", rho=0.0005).answer()
    derived = make_nonnegative(result)
    assert expand_cells(derived)[1].min() >= 0 > expand_cells(result)[1].min()


def test_sums_are_not_made_nonnegative(survey: Survey) -> None:
    con = survey.connect("zcdp")
    asked = con.workload(identity("sex"), table="survey", aggregate="SUM(cost)", rho=1)
    with pytest.raises(ParameterError, match="counts"):
        asked.rehearse().nonnegative()


def test_too_many_cells_for_nonnegative_numbers_are_refused(survey: Survey) -> None:
    con = survey.connect("zcdp")
    wide = marginals(1, of=["age", "sex", "area", "code"])
    result = con.workload(wide, table="survey", rho=10).rehearse()
    with pytest.raises(RefusedError, match="25,600,000 cells"):
        make_nonnegative(result)


def test_children_of_a_geography_add_up_to_their_parents(survey: Survey) -> None:
    """Two areas in each of two halves; the other pairs stay empty."""
    halves = {"north": "f", "east": "f", "south": "m"}
    zeros = StructuralZeros.of_hierarchy("sex", "area", halves, "a map of the tests")
    assert zeros.keys == (("m", "north"), ("m", "east"), ("f", "south"))
    where = "(sex = 'f' AND area <> 'south') OR (sex = 'm' AND area = 'south')"
    workload = cube(["sex", "area", "age"], 3)
    asked = survey.connect("zcdp").workload(workload, table="survey", where=where, rho=0.01)
    whole = asked.answer().nonnegative(zeros).rounded()
    pairs = whole.table("sex", "area").to_pylist()
    for row in whole.table("sex").to_pylist():
        own = {pair["area"]: pair["count"] for pair in pairs if pair["sex"] == row["sex"]}
        assert sum(own.values()) == row["count"]
        assert all(own[area] == 0 for area, half in halves.items() if half != row["sex"])
